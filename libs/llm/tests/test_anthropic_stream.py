"""What the Messages API answers, read event by event (LLM-8, LLM-34, LLM-35)."""

from typing import cast

import pytest

from aalis_contracts.models import ChatResponse
from aalis_contracts.text import JsonObject
from aalis_llm.anthropic_stream import AnthropicStream
from aalis_llm.port import ModelError
from aalis_llm.response import Collected

Event = dict[str, object]


def read(events: list[Event]) -> ChatResponse:
    stream, collected = AnthropicStream(), Collected()
    for event in events:
        for chunk in stream.add(cast("JsonObject", event)):
            collected.add(chunk)
    collected.add(stream.finish())
    return collected.response()


def start(index: int, **block: object) -> Event:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **fields: object) -> Event:
    return {
        "type": "content_block_delta",
        "index": index,
        "delta": {"type": f"{kind}_delta", **fields},
    }


def ended(reason: str | None, **usage: int) -> list[Event]:
    return [
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage},
        {"type": "message_stop"},
    ]


def test_thinking_text_and_calls_are_told_apart() -> None:
    response = read(
        [
            {"type": "message_start", "message": {"usage": {"input_tokens": 5}}},
            {"type": "ping"},
            start(0, type="thinking", thinking="", signature=""),
            delta(0, "thinking", thinking="be"),
            delta(0, "thinking", thinking="cause"),
            delta(0, "signature", signature="SIG"),
            delta(0, "signature", signature="=="),
            {"type": "content_block_stop", "index": 0},
            start(1, type="redacted_thinking", data="XYZ"),
            start(2, type="text", text="He"),
            delta(2, "text", text="llo"),
            start(3, type="tool_use", id="t1", name="f", input={}),
            delta(3, "input_json", partial_json='{"a"'),
            delta(3, "input_json", partial_json=":1}"),
            start(4, type="tool_use", id="t2", name="g", input={"b": 2}),
            start(5, type="invented_tomorrow"),
            delta(5, "invented", x=1),
            *ended("tool_use", output_tokens=7),
        ]
    )

    assert response.reasoning_content == "because"
    assert response.content == "Hello"
    assert response.provider_data == {
        "blocks": [
            {"type": "thinking", "thinking": "because", "signature": "SIG=="},
            {"type": "redacted_thinking", "data": "XYZ"},
        ]
    }
    assert [(c.id, c.function.name, c.function.arguments) for c in response.tool_calls or []] == [
        ("t1", "f", '{"a":1}'),
        ("t2", "g", '{"b":2}'),
    ]
    assert response.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("tool_use", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("new_reason", "stop"),
        (None, "stop"),
    ],
)
def test_stop_reasons_are_told_in_our_words(reason: str | None, told: str) -> None:
    assert read([start(0, type="text", text="a"), *ended(reason)]).finish_reason == told


def test_a_call_cut_by_the_limit_says_so() -> None:
    cut = [start(0, type="tool_use", id="t", name="f"), delta(0, "input_json", partial_json='{"a')]

    assert read([*cut, *ended("max_tokens")]).finish_reason == "length"


def test_prompt_tokens_are_the_sum_of_what_is_reported_apart() -> None:
    usage = {"input_tokens": 3, "cache_creation_input_tokens": 10218, "cache_read_input_tokens": 0}
    begun: Event = {"type": "message_start", "message": {"usage": {**usage, "output_tokens": 1}}}
    response = read([begun, *ended("end_turn", output_tokens=40)])

    assert response.usage is not None
    assert response.usage.prompt_tokens == 10221
    assert response.usage.total_tokens == 10261
    assert response.usage.cached_prompt_tokens == 0


def test_without_a_report_nothing_is_known() -> None:
    assert read(ended("end_turn")).usage is None
    assert read(ended("end_turn", output_tokens=1)).usage is not None


def test_a_whole_answer_is_one_event() -> None:
    response = read(
        [
            {
                "type": "message",
                "content": [
                    {"type": "thinking", "thinking": "t", "signature": "s"},
                    {"type": "text", "text": "a"},
                    {"type": "tool_use", "id": "t", "name": "f", "input": {}},
                ],
                "stop_reason": "tool_use",
                "usage": {"input_tokens": 1, "output_tokens": 2},
            }
        ]
    )

    assert (response.content, response.reasoning_content) == ("a", "t")
    assert response.tool_calls is not None
    assert response.provider_data is not None


@pytest.mark.parametrize(
    "blocks",
    [
        [start(0, type="thinking", thinking="t")],
        [delta(0, "thinking", thinking="t")],
        [start(0, type="thinking", thinking="\ud83d", signature="s")],
        [
            start(0, type="thinking", thinking="a", signature="s"),
            start(1, type="thinking", thinking="b"),
        ],
    ],
)
def test_reasoning_that_cannot_go_back_whole_is_not_kept_as_signed(blocks: list[Event]) -> None:
    response = read([*blocks, *ended("end_turn")])

    assert response.provider_data is None
    assert response.reasoning_content


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        ([start(0, type="text", text="a")], "cut"),
        ([], "cut"),
        ([{"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}], "upstream"),
        (
            [
                {
                    "type": "error",
                    "error": {"type": "invalid_request_error", "message": "prompt is too long"},
                }
            ],
            "overflow",
        ),
    ],
)
def test_an_answer_that_is_none_is_an_error(events: list[Event], kind: str) -> None:
    with pytest.raises(ModelError) as caught:
        read(events)

    assert caught.value.kind == kind


def test_a_stopped_answer_without_its_last_event_is_complete() -> None:
    assert read([start(0, type="text", text="a"), ended("end_turn")[0]]).content == "a"


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"type": 3},
        start(0),
        {"type": "content_block_delta"},
        delta(0, "text", text=None),
        delta(0, "signature", signature=None),
        {"type": "message_start", "message": {"usage": {"input_tokens": None, "x": True}}},
        {"type": "message_delta", "usage": [], "delta": None},
    ],
)
def test_odd_events_are_passed_over(event: Event) -> None:
    assert read([event, *ended("end_turn")]).content is None
