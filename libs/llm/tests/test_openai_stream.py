"""What OpenAI-compatible servers answer, read frame by frame (LLM-6 to LLM-8, LLM-22)."""

from typing import cast

import pytest

from aalis_contracts.models import ChatChunk, ChatResponse
from aalis_contracts.text import JsonObject
from aalis_llm.openai_stream import OpenAIStream, read_usage
from aalis_llm.port import ModelError
from aalis_llm.response import Collected

Frame = dict[str, object]


def delta(finish: str | None = None, **fields: object) -> Frame:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def read(frames: list[Frame], *, terminated: bool = True) -> ChatResponse:
    stream, collected = OpenAIStream("openai", "m"), Collected()
    for frame in frames:
        for chunk in stream.add(cast("JsonObject", frame)):
            collected.add(chunk)
    collected.add(stream.finish(terminated=terminated))
    return collected.response()


STOP = delta("stop")


def test_usage_comes_in_a_frame_without_choices() -> None:
    response = read(
        [
            {"choices": [], "prompt_filter_results": []},
            delta(content="Hi"),
            STOP,
            {"choices": [], "usage": {"prompt_tokens": 611, "completion_tokens": 13}},
        ]
    )

    assert response.content == "Hi"
    assert response.usage is not None
    assert (response.usage.prompt_tokens, response.usage.total_tokens) == (611, 624)


def test_usage_may_come_on_the_last_content_frame_in_a_choice_or_never() -> None:
    counts = {"prompt_tokens": 1, "completion_tokens": 2}
    in_frame = read([{**delta("stop", content="a"), "usage": counts}])
    in_choice = read([{"choices": [{"delta": {}, "finish_reason": "stop", "usage": counts}]}])

    assert in_frame.usage == in_choice.usage
    assert in_frame.usage is not None
    assert read([STOP]).usage is None


def test_the_last_reported_usage_wins() -> None:
    frames: list[Frame] = [
        {"usage": {"prompt_tokens": 1, "completion_tokens": n}, **delta(content="x")}
        for n in (1, 2)
    ]
    response = read([*frames, {"usage": None, **STOP}])

    assert response.usage is not None
    assert response.usage.completion_tokens == 2


@pytest.mark.parametrize(
    ("usage", "cached"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 1}, None),
        ({"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": None}, None),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 1,
                "prompt_tokens_details": {"cached_tokens": 0},
            },
            0,
        ),
        ({"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 8}, 8),
    ],
)
def test_cached_tokens_are_copied_only_when_reported(usage: Frame, cached: int | None) -> None:
    read_counts = read_usage(usage)

    assert read_counts is not None
    assert read_counts.cached_prompt_tokens == cached
    assert read_counts.prompt_tokens == 9


@pytest.mark.parametrize(
    "usage",
    [None, {}, [], "x", {"prompt_tokens": None}, {"prompt_tokens": True}, {"prompt_tokens": -1}],
)
def test_counts_that_are_no_counts_are_unknown(usage: object) -> None:
    assert read_usage(usage) is None


def test_reasoning_is_read_under_both_of_its_names() -> None:
    response = read([delta(reasoning_content="be"), delta(reasoning="cause"), STOP])

    assert response.reasoning_content == "because"
    assert response.content is None


def test_content_may_be_a_list_of_parts() -> None:
    parts = [{"type": "text", "text": "a"}]

    assert (
        read([delta(content=parts), delta(content=None), delta(refusal="no"), STOP]).content
        == "ano"
    )


def test_calls_come_whole_on_the_last_chunk_with_progress_before() -> None:
    stream = OpenAIStream("openai", "m")
    fragment = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    seen = list(stream.add(cast("JsonObject", delta(tool_calls=[fragment, None]))))
    list(stream.add(cast("JsonObject", delta("tool_calls"))))
    last = stream.finish(terminated=False)

    assert [chunk.tool_calls for chunk in seen] == [None]
    assert seen[0].tool_call_progress is not None
    assert last.tool_calls is not None
    assert last.finish_reason == "tool_calls"


def test_an_old_function_call_is_a_call() -> None:
    frames = [
        delta(function_call={"name": "f", "arguments": "{"}),
        delta(function_call={"arguments": "}"}),
    ]
    response = read([*frames, delta("function_call")])

    assert response.tool_calls is not None
    assert response.tool_calls[0].function.arguments == "{}"
    assert response.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("finish", "calls", "reason"),
    [
        ("stop", False, "stop"),
        ("stop", True, "tool_calls"),
        ("tool_calls", True, "tool_calls"),
        ("tool_calls", False, "stop"),
        ("length", True, "length"),
        ("max_tokens", False, "length"),
        ("content_filter", True, "content_filter"),
        ("eos", False, "stop"),
        (None, False, "stop"),
    ],
)
def test_finish_reasons_are_told_in_our_words(
    finish: str | None, reason: str, *, calls: bool
) -> None:
    fragment = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    response = read([delta(tool_calls=[fragment] if calls else None), delta(finish)])

    assert response.finish_reason == reason


BROKEN: list[tuple[list[Frame], bool, str]] = [
    ([delta(content="a")], False, "cut"),
    ([], False, "cut"),
    ([], True, "upstream"),
    ([{"choices": []}], True, "upstream"),
    ([{"choices": "x"}], True, "upstream"),
    ([delta("error", content="a")], True, "upstream"),
    ([delta("insufficient_system_resource")], True, "upstream"),
    ([{"error": {"message": "slow down", "code": "rate_limit_exceeded"}}], True, "rateLimit"),
    ([{"error": "maximum context length"}], True, "overflow"),
]


@pytest.mark.parametrize(("frames", "terminated", "kind"), BROKEN)
def test_an_answer_that_is_none_is_an_error(
    frames: list[Frame], kind: str, *, terminated: bool
) -> None:
    with pytest.raises(ModelError) as caught:
        read(frames, terminated=terminated)

    assert caught.value.kind == kind


def test_a_finished_answer_without_a_terminator_is_complete() -> None:
    assert read([delta(content="a"), STOP], terminated=False).content == "a"


def test_a_terminated_answer_without_a_finish_reason_is_complete() -> None:
    assert read([delta(content="a")], terminated=True).content == "a"


def test_a_whole_answer_is_read_by_the_same_rules() -> None:
    message = {
        "content": "a",
        "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}],
    }
    response = read([{"choices": [{"message": message, "finish_reason": "tool_calls"}]}])

    assert response.content == "a"
    assert response.tool_calls is not None


def test_a_text_so_far_beside_each_delta_is_not_read_twice() -> None:
    frame: Frame = {
        "choices": [{"delta": {}, "message": {"content": "all"}, "finish_reason": "stop"}]
    }

    assert read([delta(content="all"), frame]).content == "all"


def test_other_choices_and_plain_completions() -> None:
    second: Frame = {"choices": [{"index": 1, "delta": {"content": "no"}}]}

    assert read([second, {"choices": [{"text": "plain"}]}, STOP]).content == "plain"


def test_calls_with_extra_keys_say_who_wrote_them() -> None:
    fragment = {"id": "a", "extra_content": {"s": 1}, "function": {"name": "f", "arguments": "{}"}}
    response = read([delta(tool_calls=fragment), STOP])

    assert response.provider_data == {"provider": "openai", "model": "m"}


def test_a_choice_that_says_nothing_is_passed_over() -> None:
    assert read([{"choices": [{"index": 0, "text": None}]}, STOP]).content is None


def test_nothing_is_shown_of_an_empty_delta() -> None:
    stream = OpenAIStream("openai", "m")

    assert (
        list[ChatChunk](stream.add(cast("JsonObject", delta(content="", role="assistant")))) == []
    )
