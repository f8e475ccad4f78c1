"""What is sent to the Messages API (LLM-30 to LLM-33)."""

import json
from typing import Any

import pytest

from aalis_contracts.models import ChatRequest, ModelEntry
from aalis_llm.anthropic_body import image_block, request_body
from aalis_llm.settings import AnthropicSettings

MARK = {"cache_control": {"type": "ephemeral"}}
TOOL: dict[str, Any] = json.loads(
    '{"function": {"name": "f", "description": "d",'
    ' "parameters": {"type": "object", "properties": {}}}}'
)
CALL = {"id": "c", "function": {"name": "f", "arguments": '{"a":1}'}}
BLOCKS = [
    {"type": "thinking", "thinking": "t", "signature": "S"},
    {"type": "redacted_thinking", "data": "X"},
]
SETTINGS = AnthropicSettings(provider_id="anthropic", api_key="k")


def system(text: str, injector: str | None = None) -> dict[str, Any]:
    return {
        "role": "system",
        "content": text,
        "metadata": {"injector": injector} if injector else None,
    }


def user(text: str, injector: str | None = None) -> dict[str, Any]:
    return {**system(text, injector), "role": "user"}


def said(text: str | None = None, *calls: dict[str, Any], blocks: object = None) -> dict[str, Any]:
    data = {"provider": "anthropic", "model": "m", "blocks": blocks} if blocks else None
    return {
        "role": "assistant",
        "content": text,
        "toolCalls": list(calls) or None,
        "providerData": data,
    }


def result(text: str, **fields: object) -> dict[str, Any]:
    return {"role": "tool", "content": text, "toolCallId": "c", **fields}


def body(
    *messages: dict[str, Any],
    capabilities: tuple[str, ...] = ("chat", "streaming", "thinking"),
    **request: object,
) -> dict[str, Any]:
    entry = ModelEntry.from_object(
        {
            "providerId": "anthropic",
            "id": "m",
            "contextLength": 200_000,
            "capabilities": list(capabilities),
            "profile": "anthropic",
        }
    )
    asked = ChatRequest.from_object({"messages": list(messages) or [user("hi")], **request})
    return request_body(asked, entry, SETTINGS)


def marked(value: dict[str, Any]) -> list[str]:
    """Return the texts and names of everything that carries a cache mark, sorted."""
    found: list[str] = []

    def look(part: dict[str, Any]) -> None:
        if "cache_control" in part:
            found.append(str(part.get("text") or part.get("name")))

    json.loads(json.dumps(value), object_hook=look)
    return sorted(found)


def test_a_plain_question_has_just_what_it_needs() -> None:
    assert body() == {
        "model": "m",
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "stream": True,
        "temperature": 0.7,
    }
    assert body(temperature=0, maxTokens=9, capabilities=("chat",)) == {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "temperature": 0,
    }


def test_a_whole_turn_is_encoded() -> None:
    sent = body(
        system("persona"),
        system("knowledge"),
        user("q"),
        said("look", CALL, {**CALL, "id": "d"}, blocks=BLOCKS),
        result("r", images=["data:image/png;base64,AAAA"]),
        {**result('{"error":"no"}'), "toolCallId": "d"},
        user("next"),
        tools=[TOOL],
    )

    assert sent["tools"] == [
        {"name": "f", "description": "d", "input_schema": TOOL["function"]["parameters"], **MARK}
    ]
    assert [block["text"] for block in sent["system"]] == ["persona", "knowledge"]
    turns = sent["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert turns[1]["content"] == [
        *BLOCKS,
        {"type": "text", "text": "look"},
        {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
        {"type": "tool_use", "id": "d", "name": "f", "input": {"a": 1}},
    ]
    image = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    assert turns[2]["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "c",
            "content": [{"type": "text", "text": "r"}, {"type": "image", "source": image}],
        },
        {
            "type": "tool_result",
            "tool_use_id": "d",
            "content": [{"type": "text", "text": '{"error":"no"}'}],
            "is_error": True,
            **MARK,
        },
        {"type": "text", "text": "next"},
    ]


@pytest.mark.parametrize(
    "text",
    ['"error"', '{"a": "error"}', '{"error', "an error", '{"error":' * 300 + "1" + "}" * 300],
)
def test_only_an_error_object_is_an_error(text: str) -> None:
    sent = body(user("q"), said(None, CALL), result(text))

    assert "is_error" not in sent["messages"][-1]["content"][0]


def test_marks_stand_on_tools_stable_prefix_and_history_and_nowhere_else() -> None:
    sent = body(
        system("persona", "persona"),
        system("docs", "plugin/docs"),
        user("old"),
        said("answer"),
        user("[系统提示]\nnow 10:30", "persona/persona-volatile"),
        user("question"),
        said(None, CALL),
        result("r"),
        tools=[TOOL, {"function": {"name": "last"}}],
    )

    assert marked(sent) == ["answer", "docs", "last"]


def test_a_merged_user_turn_with_volatile_text_is_not_marked() -> None:
    sent = body(system("p"), user("old"), said("answer"), user("[系统提示]\nnow\n\nquestion"))

    assert marked(sent) == ["answer", "p"]


def test_without_a_history_only_what_stays_is_marked() -> None:
    sent = body(
        system("persona", "persona"),
        system("summary", "m/memory-summary"),
        system("recalled", "m/memory-vector"),
        system("now", "persona/persona-volatile"),
        user("question"),
    )

    assert marked(sent) == ["summary"]
    assert marked(body(system("now", "persona/persona-volatile"), user("q"))) == []


def test_a_delegation_without_a_user_message_ends_the_history_before_it() -> None:
    sent = body(
        system("p"), user("old"), said("answer"), user("[跨会话委派] x", "cross-session-delegation")
    )

    assert marked(sent) == ["answer", "p"]


def test_reasoning_blocks_are_never_marked() -> None:
    sent = body(user("old"), said(None, blocks=BLOCKS), user("question"))

    assert marked(sent) == []


def test_thinking_has_a_budget_below_the_limit_and_no_temperature() -> None:
    sent = body(think=True, maxTokens=8000)

    assert sent["thinking"] == {"type": "enabled", "budget_tokens": 4000}
    assert "temperature" not in sent
    assert body(think=True, maxTokens=1500)["thinking"]["budget_tokens"] == 1024
    assert body(think=True, maxTokens=99_000)["thinking"]["budget_tokens"] == 16_000


@pytest.mark.parametrize(
    "request_fields", [{"think": False}, {}, {"think": True, "maxTokens": 1024}]
)
def test_without_room_or_wish_there_is_no_thinking(request_fields: dict[str, Any]) -> None:
    sent = body(**request_fields)

    assert "thinking" not in sent
    assert "temperature" in sent


def test_a_model_that_cannot_think_is_not_asked_to() -> None:
    assert "thinking" not in body(capabilities=("chat",), think=True)


@pytest.mark.parametrize(
    ("turn", "thinks"),
    [
        ([user("q"), said(None, CALL, blocks=BLOCKS), result("r")], True),
        (
            [
                user("q"),
                said(None, CALL, blocks=BLOCKS),
                result("r"),
                said(None, CALL),
                result("r"),
            ],
            True,
        ),
        ([user("q"), said(None, CALL), result("r")], False),
        (
            [
                user("q"),
                said(None, CALL),
                result("r"),
                said(None, CALL, blocks=BLOCKS),
                result("r"),
            ],
            False,
        ),
        ([user("q"), said(None, CALL), result("r"), user("[系统提示]\nhint", "x")], False),
        ([user("q"), said(None, CALL), result("r"), said("done"), user("next")], True),
        ([user("q"), said(None, CALL), result("r"), user("next")], True),
    ],
)
def test_an_open_tool_turn_that_lost_its_reasoning_goes_on_without(
    turn: list[dict[str, Any]], *, thinks: bool
) -> None:
    assert ("thinking" in body(*turn, think=True, maxTokens=4000)) is thinks


@pytest.mark.parametrize(
    ("reference", "source"),
    [
        ("https://example.com/a.png", {"type": "url", "url": "https://example.com/a.png"}),
        (
            "data:image/webp;base64,QUJD",
            {"type": "base64", "media_type": "image/webp", "data": "QUJD"},
        ),
        (
            "data:image/png;name=a.png;base64,QUJD",
            {"type": "base64", "media_type": "image/png", "data": "QUJD"},
        ),
        ("data:;base64,QUJD", {"type": "base64", "media_type": "image/png", "data": "QUJD"}),
        (
            "data:image/svg+xml,%3Csvg/%3E",
            {"type": "base64", "media_type": "image/svg+xml", "data": "PHN2Zy8+"},
        ),
    ],
)
def test_images_are_base64_or_an_address(reference: str, source: object) -> None:
    assert image_block(reference) == {"type": "image", "source": source}


def test_arguments_that_are_no_object_become_an_empty_one() -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": "{"}}
    sent = body(user("q"), said(None, call), result("r"))

    assert sent["messages"][1]["content"][0]["input"] == {}


def test_an_open_turn_is_found_without_a_user_message_too() -> None:
    assert "thinking" not in body(said(None, CALL), result("r"), think=True, maxTokens=4000)
    assert "thinking" in body(said("a"), think=True, maxTokens=4000)


def test_a_list_of_injected_texts_alone_has_no_history() -> None:
    assert marked(body(system("p"), user("[系统提示]\nx", "x"))) == ["p"]
    assert marked(body(user("[系统提示]\nx", "x"))) == []


def test_a_data_url_without_data_is_left_out() -> None:
    assert image_block("data:nonsense") is None
    sent = body({**user("q"), "images": ["data:nonsense"]})

    assert sent["messages"][0]["content"] == [{"type": "text", "text": "q"}]
