"""Hooks: their names, their data, and what an interceptor may answer (SPEC §1.6)."""

from __future__ import annotations

import json
import re

import pytest

from aalis_contracts.contract import Contract, InvalidBody
from aalis_contracts.examples import EXAMPLES, example
from aalis_contracts.hooks import (
    HOOKS,
    HookReply,
    HookRequest,
    LlmBeforeData,
    PromptBlocks,
    ToolBeforeData,
    json_object,
)
from aalis_contracts.messages import Message
from aalis_contracts.subjects import ROUTES

TABLE = {
    "inbound:confirm": "message metadata",
    "inbound:command": "message metadata",
    "inbound:flow": "message metadata",
    "inbound:trigger": "message metadata",
    "inbound:dispatch": "message metadata",
    "outbound:dispatch": "message metadata",
    "agent:input:before": "message metadata",
    "agent:llm:before": "messages tools",
    "agent:llm:after": "response",
    "agent:tool:before": "name args result",
    "agent:tool:after": "name args result",
    "agent:reply:before": (
        "content archiveContent visibleContent retryRequested retryFeedback maxRetries"
    ),
    "memory:clear": "scope sessionId types results",
}


def test_the_fields_that_may_be_patched_are_those_of_the_specification() -> None:
    assert {hook: " ".join(sorted(fields)) for hook, (_, fields) in HOOKS.items()} == {
        hook: " ".join(sorted(fields.split())) for hook, fields in TABLE.items()
    }


@pytest.mark.parametrize("hook", sorted(HOOKS))
def test_every_field_that_may_be_patched_is_a_field_of_the_data(hook: str) -> None:
    cls, fields = HOOKS[hook]
    assert fields <= {field.alias for field in cls.model_fields.values()}


def test_every_hook_has_a_subject_and_every_subject_of_a_plugin_has_a_hook() -> None:
    routed = {
        re.sub(r"\.\{plugin\}$", "", route.template).replace(".", ":")
        for route in ROUTES
        if route.body == "HookRequest"
    }
    assert routed == HOOKS.keys()


@pytest.mark.parametrize("hook", sorted(HOOKS))
def test_data_travels_by_value_and_reads_back_as_what_it_was(hook: str) -> None:
    cls: type[Contract] = HOOKS[hook][0]
    data = EXAMPLES[cls.__name__]
    request = HookRequest.from_json(HookRequest(hook=hook, data=json_object(data)).to_json())
    assert cls.from_object(request.data) == data


def test_data_of_a_hook_is_the_object_that_would_be_written() -> None:
    data = example(LlmBeforeData).model_copy(
        update={"messages": [Message(role="user", metadata={"a": None, "b": [float("inf")]})]}
    )
    assert json_object(data) == json.loads(data.to_json())


def test_a_stopping_patch_of_a_tool_may_carry_a_result() -> None:
    data = example(ToolBeforeData).to_object() | {"result": "denied"}
    assert ToolBeforeData.from_object(data).result == "denied"


@pytest.mark.parametrize("body", [b"{}", b'{"action":"go"}', b'{"action":"next","patch":[]}'])
def test_an_answer_that_is_neither_next_nor_stop_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidBody):
        HookReply.from_json(body)


def test_a_patch_keeps_its_nulls() -> None:
    body = b'{"action":"next","patch":{"metadata":{"a":null},"result":null}}'
    assert HookReply.from_json(body).to_json() == body


@pytest.mark.parametrize(
    ("body", "blocks"),
    [
        (b"{}", None),
        (b'{"blocks":null}', None),
        (b'{"blocks":"a"}', "a"),
        (b'{"blocks":["b","a"]}', ["b", "a"]),
    ],
)
def test_blocks_are_a_text_or_texts_in_order_or_nothing(
    body: bytes, blocks: str | list[str] | None
) -> None:
    assert PromptBlocks.from_json(body).blocks == blocks
