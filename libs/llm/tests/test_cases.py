"""Answers of providers that broke other agents (tests/data/context_cases.jsonl), and their kin."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from aalis_llm.anthropic_stream import AnthropicStream
from aalis_llm.openai_stream import OpenAIStream
from aalis_llm.port import ModelError
from aalis_llm.response import Collected
from aalis_sdk.testing.cases import case

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aalis_contracts.models import ChatResponse
    from aalis_contracts.text import JsonObject

Frame = dict[str, Any]


def read(frames: Sequence[Frame]) -> ChatResponse:
    stream, collected = OpenAIStream("openai", "m"), Collected()
    for frame in frames:
        for chunk in stream.add(cast("JsonObject", frame)):
            collected.add(chunk)
    collected.add(stream.finish(terminated=True))
    return collected.response()


def calls_of(frames: Sequence[Frame]) -> list[tuple[str, str, str]]:
    calls = read(frames).tool_calls or []
    return [(one.id, one.function.name, one.function.arguments) for one in calls]


def delta(*fragments: Frame, finish: str | None = None, **fields: Any) -> Frame:
    given = {**fields, "tool_calls": list(fragments)} if fragments else fields
    return {"choices": [{"index": 0, "delta": given, "finish_reason": finish}]}


def fragment(name: str | None = None, arguments: str = "{}", **fields: Any) -> Frame:
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    return {**fields, "function": function}


ENDED = delta(finish="tool_calls")


def test_ctx_125_calls_repeated_in_full_are_the_same_calls() -> None:
    frames = [delta(*chunk["tool_calls"]) for chunk in case("ctx-125")["chunks"]]

    assert calls_of([*frames, ENDED]) == [("t1", "f", "{}"), ("t2", "g", "{}")]


def test_ctx_128_a_new_id_without_an_index_is_a_new_call() -> None:
    assert calls_of(case("ctx-128")["chunks"]) == [("g1", "f", '{"a":1}'), ("g2", "f", '{"a":2}')]


def test_ctx_129_two_calls_of_one_delta_without_an_index_stay_two() -> None:
    assert calls_of(case("ctx-129")["chunks"]) == [("x1", "f", '{"n":1}'), ("x2", "g", '{"n":2}')]


def test_ctx_130_gaps_in_the_index_leave_no_empty_call() -> None:
    assert calls_of(case("ctx-130")["chunks"]) == [("p1", "f", "{}"), ("p3", "g", "{}")]


def test_ctx_132_frames_without_choices_are_read_for_their_usage() -> None:
    response = read(case("ctx-132")["chunks"])

    assert response.content == case("ctx-132")["expect_text"]
    assert response.usage is not None
    assert response.usage.prompt_tokens == case("ctx-132")["expect_prompt_tokens"]
    assert response.usage.total_tokens == 624


def test_ctx_075_tokens_written_to_and_read_from_a_cache_were_used() -> None:
    stream = AnthropicStream()
    start = {"type": "message_start", "message": {"usage": case("ctx-075")["usage"]}}
    list(stream.add(cast("JsonObject", start)))
    list(stream.add({"type": "message_stop"}))
    usage = stream.finish().usage

    assert usage is not None
    assert usage.prompt_tokens == case("ctx-075")["expect_used"]
    assert usage.cached_prompt_tokens == 0


def test_cached_tokens_that_the_prompt_contains_are_not_counted_twice() -> None:
    counts = {
        "prompt_tokens": 10_221,
        "completion_tokens": 40,
        "prompt_tokens_details": {"cached_tokens": 9_000},
    }
    usage = read([delta(content="x", finish="stop"), {"choices": [], "usage": counts}]).usage

    assert usage is not None
    assert (usage.prompt_tokens, usage.cached_prompt_tokens) == (10_221, 9_000)
    assert usage.total_tokens == 10_261


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        (
            [delta(fragment("f", '{"a":', index=0, id="a")), delta(fragment(None, "1}"))],
            [("a", "f", '{"a":1}')],
        ),
        (
            [
                delta(fragment("f", '{"a":', id="a")),
                delta(fragment(None, "1}", index=None)),
                delta(fragment("g", "{}", id="b")),
            ],
            [("a", "f", '{"a":1}'), ("b", "g", "{}")],
        ),
        (
            [delta(fragment("f", index=5, id="b"), fragment("g", index=2, id="a"))],
            [("a", "g", "{}"), ("b", "f", "{}")],
        ),
        (
            [
                delta(fragment("f", "", index=0, id="a")),
                delta(fragment(None, '{"a":', index=1, id="a")),
                delta(fragment(None, "1}", index=1, id="a")),
            ],
            [("a", "f", '{"a":1}')],
        ),
        (
            [delta({"index": 0, "id": "a"}, {"index": 1, "function": None}, fragment("g", id="b"))],
            [("b", "g", "{}")],
        ),
        ([delta(content="x", tool_calls=None), {"choices": [{"delta": None}]}], []),
        ([{"choices": None}, {}, {"choices": [None, 3]}, delta(content="x")], []),
    ],
    ids=[
        "continued without id and index",
        "continued with a null index",
        "out of order",
        "one id under two indexes",
        "nothing in it",
        "null calls and null deltas",
        "no choices at all",
    ],
)
def test_fragments_of_every_make_give_the_calls_that_were_meant(
    frames: list[Frame], expected: list[tuple[str, str, str]]
) -> None:
    assert calls_of([*frames, delta(finish="stop")]) == expected


@pytest.mark.parametrize("count", [float("inf"), float("nan"), -1, "12", None, True])
def test_counts_that_are_no_counts_are_no_usage(count: object) -> None:
    usage = {"prompt_tokens": count, "completion_tokens": count}

    assert read([delta(content="x", finish="stop"), {"usage": usage}]).usage is None


def test_a_stream_that_says_nothing_is_an_error_and_no_empty_answer() -> None:
    with pytest.raises(ModelError, match="no choice"):
        read([{"choices": []}, {"usage": {"prompt_tokens": 1}}])


def test_ctx_135_arguments_cut_short_arrive_as_they_are_whatever_the_finish_reason_says() -> None:
    ((_, name, arguments),) = calls_of(case("ctx-135")["chunks"])

    assert name == "f"
    with pytest.raises(json.JSONDecodeError):
        json.loads(arguments)
