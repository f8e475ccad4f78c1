"""Which messages are kept, and what of them (SPEC MEM-2, MEM-3)."""

from __future__ import annotations

from typing import Any

import pytest

from aalis_contracts.errors import InvalidRequest
from aalis_contracts.messages import Message
from aalis_memory.rows import drafts_of

CALLS = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]


def message(**fields: Any) -> Message:
    return Message.from_object({"inputSeq": 1, "index": 0, **fields})


@pytest.mark.parametrize(
    ("fields", "is_kept"),
    [
        ({"role": "user", "content": ""}, True),
        ({"role": "user", "content": None}, True),
        ({"role": "tool", "content": "", "toolCallId": "c"}, True),
        ({"role": "notice", "content": "", "kind": "event-marker"}, True),
        ({"role": "system", "content": "plain"}, True),
        ({"role": "system", "content": "ctx", "metadata": {"injector": "persona"}}, False),
        ({"role": "user", "content": "ctx", "metadata": {"injector": "a/b"}}, False),
        ({"role": "system", "content": "ctx", "metadata": {"injector": ""}}, True),
        ({"role": "assistant", "content": "hello"}, True),
        ({"role": "assistant", "content": " "}, True),
        ({"role": "assistant", "content": ""}, False),
        ({"role": "assistant", "content": None, "reasoningContent": "only thoughts"}, False),
        ({"role": "assistant", "content": None, "toolCalls": []}, False),
        ({"role": "assistant", "content": "", "toolCalls": CALLS}, True),
    ],
)
def test_only_history_is_kept(fields: dict[str, Any], is_kept: bool) -> None:
    assert bool(drafts_of([message(**fields)], None)) is is_kept


def test_ctx_033_what_was_injected_in_between_leaves_no_trace() -> None:
    # An injector's text was stored every turn, and doubled with each.
    rows: list[dict[str, Any]] = [
        {"role": "system", "content": "ctx: cluster A", "metadata": {"injector": "k8s"}},
        {"role": "user", "content": "pods?"},
        {"role": "assistant", "content": "3"},
        {"role": "system", "content": "ctx: cluster A", "metadata": {"injector": "k8s"}},
        {"role": "user", "content": "nodes?"},
    ]
    drafts = drafts_of([message(**row) for row in rows], None)
    assert [draft.message.content for draft in drafts] == ["pods?", "3", "nodes?"]


def test_ctx_036_and_039_an_answer_without_text_and_calls_is_not_kept() -> None:
    # Such a row made every later request invalid.
    rows: list[dict[str, Any]] = [
        {"role": "user", "content": "write big file"},
        {"role": "assistant", "content": [], "finishReason": "length"},
        {"role": "user", "content": "again"},
    ]
    drafts = drafts_of([message(**row) for row in rows], None)
    assert [draft.message.role for draft in drafts] == ["user", "user"]


def test_images_and_audios_are_left_out() -> None:
    original = message(role="user", content="look", images=["data:x"], audios=["a.ogg"])
    [draft] = drafts_of([original], None)
    assert draft.message == message(role="user", content="look")
    assert original.images == ["data:x"]


def test_a_row_without_an_input_carries_its_key() -> None:
    rows = [Message(role="notice", content="n"), message(role="user", content="hi")]
    drafts = drafts_of(rows, ["k", "ignored"])
    assert [draft.idempotency_key for draft in drafts] == ["k", None]


@pytest.mark.parametrize(
    ("fields", "keys", "complaint"),
    [
        ({}, None, "needs an idempotency key"),
        ({}, [None], "needs an idempotency key"),
        ({}, [""], "needs an idempotency key"),
        ({}, ["a", "b"], "2 idempotencyKeys for 1 messages"),
        ({"index": 1}, ["a"], "index without inputSeq"),
        ({"inputSeq": 1}, None, "inputSeq without index"),
        ({"inputSeq": -1, "index": 0}, None, "must not be negative"),
        ({"inputSeq": 1, "index": -1}, None, "must not be negative"),
    ],
)
def test_a_row_that_has_no_place_is_refused(
    fields: dict[str, Any], keys: list[str | None] | None, complaint: str
) -> None:
    bad = Message.from_object({"role": "user", "content": "hi", **fields})
    with pytest.raises(InvalidRequest, match=complaint):
        drafts_of([bad], keys)
