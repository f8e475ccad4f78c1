"""The kin of the cases in `test_cases`: the same kinds of damage, in other shapes.

A fix for one input would pass that file; these see that the kind is gone.
"""

from __future__ import annotations

import json
from datetime import UTC
from typing import Any, get_args

import pytest

from aalis_agent.budgets import Budgets
from aalis_agent.history import shown_history
from aalis_agent.tokens import HeuristicCounter, TiktokenCounter
from aalis_agent.trimming import trim
from aalis_contracts.catalogue import Catalogue
from aalis_contracts.messages import FunctionCall, Message, ToolCall
from aalis_contracts.models import ProfileName
from aalis_llm.shape import to_provider_messages
from aalis_llm.testing import broken_rules

from .test_cases import fitted, roles

PROFILES: tuple[ProfileName, ...] = get_args(ProfileName)
TEXTS = Catalogue("zh")


def user(text: str | None = "q", **more: Any) -> Message:
    return Message(role="user", content=text, **more)


def said(text: str | None = "", *ids: str, **more: Any) -> Message:
    calls = [ToolCall(id=one, function=FunctionCall(name="f", arguments="{}")) for one in ids]
    return Message(role="assistant", content=text, tool_calls=calls or None, **more)


def result(call_id: str | None, text: str | None = "r") -> Message:
    return Message(role="tool", tool_call_id=call_id, content=text)


def shown(*rows: Message) -> list[Message]:
    return shown_history(rows, now=0, zone=UTC).messages


# orphan_tool_result, parallel_group, abort_partial_batch, first_role


@pytest.mark.parametrize(
    ("rows", "left"),
    [
        ([result("a"), user()], "user"),
        ([user(), result("a"), said("", "a")], "user"),
        ([user(), said("", "a"), user("wait"), result("a")], "user user"),
        ([user(), said("", "a"), said("", "b"), result("a"), result("b")], "user"),
        ([user(), said("", "a", "b", "c"), result("a"), result("c")], "user"),
        ([user(), said("", "a", "b"), result("b"), result("a")], "user assistant tool tool"),
        ([user(), said("", "a"), result("a"), result("a")], "user assistant tool"),
        ([user(), said("", "a"), result(None)], "user"),
        ([user(), said("", "", ""), result(""), result(None)], "user assistant tool tool"),
        ([result("b"), said("", "c"), result("c"), user()], "assistant tool user"),
        ([user(), said("", "a")], "user"),
        ([user(), said("text", "a"), user("next")], "user user"),
    ],
)
def test_only_groups_with_all_their_results_are_loaded(rows: list[Message], left: str) -> None:
    loaded = shown(*rows)

    assert roles(loaded) == left.split()
    for profile in PROFILES:
        for listed in (rows, loaded):
            assert broken_rules(to_provider_messages(listed, profile), profile) == []


def test_a_group_cut_by_the_window_begins_nowhere() -> None:
    rows = [user("old"), said("", "a", "b"), result("a"), result("b"), said("done"), user("new")]
    for start in range(len(rows)):
        sent = to_provider_messages(shown(*rows[start:]), "strict")
        assert sent[0].role == "user"
        assert sent[-1].content == "new" or (sent[-1].content or "").endswith("new")
        assert broken_rules(sent, "strict") == []


# empty_content, content_null, unknown_block


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        {},
        0,
        False,
        float("nan"),
        [None, "", {"type": "text", "text": " "}],
        [{"type": "image"}],
        [{"type": "text", "text": None}],
        [[["deep"]]],
        {"type": "input_audio", "input_audio": {"data": "AAAA" * 10_000}},
    ],
    ids=repr,
)
@pytest.mark.parametrize("role", ["user", "assistant", "tool", "system"])
def test_contents_of_any_make_are_counted_and_sent(content: object, role: str) -> None:
    odd = Message.from_object({"role": role, "content": content, "toolCallId": "a"})
    listed = [user("first"), said("", "a"), odd, result("a"), user("last")]

    assert sum(HeuristicCounter().messages(listed)) < 400
    for profile in PROFILES:
        sent = to_provider_messages(listed, profile)
        assert broken_rules(sent, profile) == []
        assert (sent[-1].content or "").endswith("last")


# thinking_unsigned, thinking_modified


@pytest.mark.parametrize(
    ("parts", "text", "thought"),
    [
        ([{"type": "thinking", "thinking": "t", "signature": "s"}], "", "t"),
        ([{"type": "redacted_thinking", "data": "Z"}, {"type": "text", "text": "b"}], "b", None),
        ([{"type": "reasoning", "text": "r"}, "b", {"type": "thinking"}], "b", "r"),
        (["a", {"type": "thinking", "thinking": 3}], "a", None),
    ],
)
def test_thoughts_among_the_parts_of_an_answer_are_not_words(
    parts: list[Any], text: str, thought: str | None
) -> None:
    answer = Message.from_object({"role": "assistant", "content": parts})

    assert (answer.content, answer.reasoning_content) == (text, thought)
    for profile in ("openai", "anthropic", "strict"):
        sent = to_provider_messages([user(), answer, user("n")], profile)
        assert "t" not in [one.content for one in sent]
        assert all(one.reasoning_content is None for one in sent)


def test_a_thought_that_is_told_apart_already_stays_as_it_is() -> None:
    parts = [{"type": "thinking", "thinking": "old"}, {"type": "text", "text": "b"}]
    answer = Message.from_object(
        {"role": "assistant", "content": parts, "reasoningContent": "as stored"}
    )

    assert (answer.content, answer.reasoning_content) == ("b", "as stored")


# over_trim, trim_slow


@pytest.mark.parametrize("limit", [300, 1_000, 2_500])
def test_trimming_small_messages_leaves_most_of_the_budget_used(limit: int) -> None:
    listed = [Message(role="system", content="s"), user("big task")]
    for number in range(60):
        listed += [said("", f"n{number}"), result(f"n{number}", "data " * 12)]
    listed.append(user("and now?"))
    trimmed = fitted(listed, limit)

    assert 0.85 * limit <= trimmed.used <= limit


def test_a_thousand_groups_are_counted_a_constant_number_of_times() -> None:
    counted: list[int] = []

    def encode(text: str) -> int:
        counted.append(len(text))
        return len(text) // 4 + 1

    listed = [user("start")]
    for number in range(1_000):
        listed += [said("", f"c{number}", f"d{number}"), result(f"c{number}", f"{number} " * 800)]
        listed.append(result(f"d{number}", "ok"))
    budgets = Budgets(20_000, 1, 16_000, 16_000, 4_096)
    trimmed = trim(listed, budgets, 0, TiktokenCounter(encode), TEXTS)

    assert trimmed.used <= 16_000
    given = sum(len(one.content or "") for one in listed)
    assert sum(counted) <= 1.5 * given


# irreducible_last_group, fixed_parts_exceed, zero_messages, aggregate_results


def called(arguments: str) -> Message:
    call = ToolCall(id="a", function=FunctionCall(name="f", arguments=arguments))
    return Message(role="assistant", content="", tool_calls=[call])


@pytest.mark.parametrize(
    "tail",
    [
        [said("", "a"), result("a", "x" * 400_000)],
        [said("", "a"), result("a", json.dumps({"error": "e" * 400_000}))],
        [said("", *map(str, range(30))), *(result(str(n), "x" * 1_499) for n in range(30))],
        [called(json.dumps({"text": "lorem " * 40_000})), result("a", "saved")],
        [called(json.dumps({"rows": [{"t": "字" * 300}] * 20})), result("a", "x" * 9_000)],
        [called('{"cut": "' + "y" * 90_000), result("a", "refused")],
        [said("", "a", reasoning_content="hm " * 90_000), result("a")],
        [said("", "a"), result("a"), user("字" * 90_000)],
        [said("", "a"), result("a"), user("[图片: " + "desc " * 20_000 + "| ref:x] 看看")],
    ],
    ids=[
        "one result",
        "one error",
        "many results",
        "one argument",
        "many arguments",
        "broken arguments",
        "reasoning",
        "the person",
        "a description",
    ],
)
def test_whatever_is_too_big_in_the_last_group_gives_way(tail: list[Message]) -> None:
    listed = [Message(role="system", content="s"), user("store this"), *tail]
    trimmed = fitted(listed, 6_500)

    assert trimmed.overflow is None
    assert trimmed.used <= 6_500
    assert roles(trimmed.messages)[-len(tail) :] == roles(tail)
    for one in trimmed.messages:
        for call in one.tool_calls or ():
            assert isinstance(json.loads(call.function.arguments), dict)
    for profile in PROFILES:
        assert broken_rules(to_provider_messages(trimmed.messages, profile), profile) == []


@pytest.mark.parametrize("tools", [0, 5_000])
def test_what_cannot_be_made_smaller_is_named_with_its_size(tools: int) -> None:
    listed = [Message(role="system", content="rule " * 30_000), user("hi")]
    trimmed = trim(listed, Budgets(8_000, 1, 8_000, 8_000, 0), tools, HeuristicCounter(), TEXTS)

    assert trimmed.overflow is not None
    assert trimmed.overflow.system > trimmed.overflow.limit == 8_000
    assert trimmed.overflow.tools == tools
    assert roles(trimmed.messages) == ["system", "user"]


# reminder_before_result, mid_system


@pytest.mark.parametrize("profile", PROFILES)
def test_hints_between_calls_and_results_follow_the_run_in_order(profile: ProfileName) -> None:
    hints = [Message(role="system", content=f"[h{number}]") for number in range(3)]
    listed = [user(), said("", "a", "b"), hints[0], result("a"), hints[1], result("b"), hints[2]]
    sent = to_provider_messages(listed, profile)

    assert broken_rules(sent, profile) == []
    assert roles(sent)[1:4] == ["assistant", "tool", "tool"]
    told = "".join(one.content or "" for one in sent[4:])
    assert told.index("[h0]") < told.index("[h1]") < told.index("[h2]")


# special_tokens


def test_special_tokens_are_text_that_arrives_unchanged() -> None:
    text = "compare <|endoftext|> with <|im_start|>user and <|fim_prefix|>"
    trimmed = fitted([user("x" * 4_000), said("ok"), user(text)], 60)

    for profile in PROFILES:
        assert text in (to_provider_messages(trimmed.messages, profile)[-1].content or "")
