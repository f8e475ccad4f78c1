"""What holds for every history, whole or broken, and every budget."""

import copy
import json
from collections.abc import Sequence
from datetime import UTC

from hypothesis import given
from hypothesis import strategies as st

from aalis_agent.budgets import Budgets
from aalis_agent.draft import groups_of, latest_user
from aalis_agent.history import shown_history
from aalis_agent.prompt import ANCHORS, Contribution, assemble
from aalis_agent.shrinking import ARGUMENTS_LONG
from aalis_agent.tokens import HeuristicCounter, TiktokenCounter
from aalis_agent.trimming import Trimmed, trim, trim_to_budget
from aalis_agent.usage import break_down
from aalis_contracts.catalogue import Catalogue
from aalis_contracts.messages import FunctionCall, Message, ToolCall
from aalis_sdk.testing.properties import examples

TEXTS = Catalogue("zh")
COUNTER = HeuristicCounter()

short_texts = st.text(
    st.characters(codec="utf-8") | st.sampled_from("字 \n[]|…\ud83d\udc00😀"), max_size=30
)
sizes = st.sampled_from([0, 1, 50, 199, 200, 201, 420, 700, 1499, 1501, 2600])


@st.composite
def some_text(draw: st.DrawFn) -> str:
    seed = draw(short_texts) or "x"
    return (seed * 2600)[: draw(sizes)] if draw(st.booleans()) else seed


optional_texts = st.none() | some_text()
call_ids = st.sampled_from(["a", "b", "c", ""])


@st.composite
def arguments(draw: st.DrawFn) -> str:
    if draw(st.booleans()):
        return json.dumps({"q": draw(some_text()), "deep": [{"x": draw(some_text())}]})
    return draw(st.sampled_from(["", "{}", "[1]", "3", '{"q": ']) | some_text())


@st.composite
def callers(draw: st.DrawFn, ids: Sequence[str]) -> Message:
    calls = [
        ToolCall(id=i, function=FunctionCall(name="f", arguments=draw(arguments()))) for i in ids
    ]
    return Message(
        role="assistant",
        content=draw(optional_texts),
        tool_calls=calls,
        reasoning_content=draw(optional_texts),
    )


@st.composite
def groups(draw: st.DrawFn) -> list[Message]:
    ids = draw(st.lists(call_ids, min_size=1, max_size=3))
    results = [tool_result(i, draw(optional_texts)) for i in ids]
    return [draw(callers(ids)), *draw(st.permutations(results))]


@st.composite
def others(draw: st.DrawFn) -> Message:
    role = draw(st.sampled_from(["user", "user", "assistant", "system", "notice"]))
    injector = draw(st.sampled_from([None, "a/memory-summary", "persona-volatile"]))
    return Message(
        role=role,
        content=draw(optional_texts),
        reasoning_content=draw(optional_texts) if role == "assistant" else None,
        metadata={"injector": injector, "deep": [1]} if role == "system" else None,
    )


@st.composite
def valid_lists(draw: st.DrawFn) -> list[Message]:
    parts = st.one_of(groups(), others().map(lambda one: [one]))
    listed = [Message(role="system", content=draw(some_text()), metadata={"injector": "persona"})]
    for part in draw(st.lists(parts, max_size=9)):
        listed += part
    return listed


def tool_result(call_id: str | None, text: str | None) -> Message:
    return Message(role="tool", tool_call_id=call_id, content=text)


@st.composite
def broken_lists(draw: st.DrawFn) -> list[Message]:
    """Draw what aborts, crashes and imports leave: results lost, doubled, late, foreign, first."""
    lone_results = st.builds(tool_result, st.none() | call_ids, optional_texts)
    lone_callers = st.lists(call_ids, max_size=3).flatmap(callers)
    return draw(st.lists(st.one_of(others(), lone_results, lone_callers), max_size=14))


lists = valid_lists() | broken_lists()


def total(messages: Sequence[Message]) -> int:
    return sum(COUNTER.messages(messages))


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Message], int, int]:
    listed = draw(lists)
    return listed, draw(st.integers(0, total(listed) + 1)), draw(st.sampled_from([0, 1, 100, 4096]))


def to_budget(listed: Sequence[Message], budget: int, memory: int) -> Trimmed:
    return trim_to_budget(listed, budget, memory, COUNTER, TEXTS)


def to_limit(listed: Sequence[Message], limit: int, memory: int, tools: int = 0) -> Trimmed:
    budgets = Budgets(limit, 1, limit, limit, memory)
    return trim(listed, budgets, tools, COUNTER, TEXTS)


def as_json(messages: Sequence[Message]) -> str:
    return json.dumps([message.model_dump() for message in messages])


def stray_results(messages: Sequence[Message]) -> int:
    inside = {index for group in groups_of(messages) for index in group}
    return sum(one.role == "tool" and i not in inside for i, one in enumerate(messages))


@examples(60)
@given(cases())
def test_trimming_never_changes_its_input(case: tuple[list[Message], int, int]) -> None:
    listed, budget, memory = case
    before, before_json = copy.deepcopy(listed), as_json(listed)
    to_budget(listed, budget, memory)
    to_limit(listed, budget, memory)
    assert listed == before
    assert as_json(listed) == before_json


@examples(60)
@given(cases())
def test_trimming_gives_the_same_for_equal_input(case: tuple[list[Message], int, int]) -> None:
    listed, budget, memory = case
    again = [Message.model_validate(one.model_dump()) for one in listed]
    assert to_budget(listed, budget, memory) == to_budget(again, budget, memory)
    fresh = trim(again, Budgets(budget, 1, budget, budget, memory), 0, HeuristicCounter(), TEXTS)
    assert to_limit(listed, budget, memory) == fresh


@examples(60)
@given(cases())
def test_what_fits_is_a_fixed_point(case: tuple[list[Message], int, int]) -> None:
    listed, budget, memory = case
    for once, again in (
        (to_budget(listed, budget, memory), to_budget),
        (to_limit(listed, budget, memory), to_limit),
    ):
        if once.tokens <= budget:
            assert again(once.messages, budget, memory).messages == once.messages


@examples(60)
@given(cases())
def test_the_figures_are_those_of_the_lists(case: tuple[list[Message], int, int]) -> None:
    listed, budget, memory = case
    for result in (to_budget(listed, budget, memory), to_limit(listed, budget, memory)):
        assert result.costs == COUNTER.messages(result.messages)
        assert result.before == len(listed)
        assert result.before_tokens == total(listed)
        hints = [one.content == TEXTS.text("continuationHint") for one in result.messages]
        assert sum(hints) == result.hinted
        parts = break_down(result.messages, result.costs, 0, 1)
        assert parts.system + parts.history + parts.tool_results == result.used


@examples(60)
@given(cases())
def test_what_is_protected_stays(case: tuple[list[Message], int, int]) -> None:
    listed, budget, memory = case
    result = to_budget(listed, budget, memory)
    kept = [one for one in result.messages if one.content != TEXTS.text("continuationHint")]
    if not listed:
        assert kept == []
        return
    assert kept[0].role == listed[0].role
    assert kept[0].content == listed[0].content
    assert kept[-1].role == listed[-1].role
    latest, still = latest_user(listed), latest_user(kept)
    if latest is not None:
        assert still is not None
        assert kept[still] == listed[latest]
    group, group_now = groups_of(listed)[-1:], groups_of(kept)[-1:]
    if group:
        assert group_now
        before = [(listed[i].role, listed[i].tool_call_id) for i in group[0]]
        assert before == [(kept[i].role, kept[i].tool_call_id) for i in group_now[0]][: len(before)]
        assert kept[group_now[0].start].tool_calls == listed[group[0].start].tool_calls


@examples(60)
@given(valid_lists(), st.data())
def test_no_result_is_left_without_its_call(listed: list[Message], data: st.DataObject) -> None:
    budget = data.draw(st.integers(0, total(listed) + 1))
    for result in (to_budget(listed, budget, 100), to_limit(listed, budget, 100)):
        assert stray_results(result.messages) == 0
        for group in groups_of(result.messages):
            caller = result.messages[group.start]
            answered = [result.messages[index].tool_call_id for index in group[1:]]
            assert sorted(call.id for call in caller.tool_calls or ()) == sorted(map(str, answered))


@examples(40)
@given(broken_lists(), st.data())
def test_a_broken_list_gets_no_more_broken(listed: list[Message], data: st.DataObject) -> None:
    budget = data.draw(st.integers(0, total(listed) + 1))
    result = to_budget(listed, budget, 100)
    assert stray_results(result.messages) <= stray_results(listed)


@examples(60)
@given(valid_lists(), st.integers(0, 300), st.data())
def test_a_call_is_made_within_the_limit_or_not_at_all(
    listed: list[Message], tools: int, data: st.DataObject
) -> None:
    limit = data.draw(st.integers(0, total(listed) + tools + 1))
    result = to_limit(listed, limit, 4096, tools)
    if result.overflow is None:
        assert result.used <= limit
    else:
        assert result.overflow.used > result.overflow.limit == limit
    for message in result.messages:
        for call in message.tool_calls or ():
            original = {c.function.arguments for one in listed for c in one.tool_calls or ()}
            text = call.function.arguments
            assert text in original or isinstance(json.loads(text), dict)
            assert text in original or len(text) <= 2 * ARGUMENTS_LONG


@examples(40)
@given(lists, st.data())
def test_the_order_of_what_stays_is_the_order_it_had(
    listed: list[Message], data: st.DataObject
) -> None:
    numbered = [one.model_copy(update={"index": number}) for number, one in enumerate(listed)]
    result = to_budget(numbered, data.draw(st.integers(0, total(listed) + 1)), 100)
    kept = [one.index for one in result.messages if one.index is not None]
    assert kept == sorted(set(kept))


@examples(25)
@given(lists)
def test_a_counter_reads_each_text_once(listed: list[Message]) -> None:
    counted: list[str] = []

    def encode(text: str) -> int:
        counted.append(text)
        return len(text)

    counter = TiktokenCounter(encode)
    budgets = Budgets(10**6, 1, 10**6, 10**6, 10**6)
    for _ in range(3):
        again = [Message.model_validate(one.model_dump()) for one in listed]
        trim(again, budgets, 0, counter, TEXTS)
    assert len(counted) == len(set(counted))


@examples(60)
@given(lists)
def test_history_is_whole_groups_and_a_fixed_point(listed: list[Message]) -> None:
    before = as_json(listed)
    history = shown_history(listed, now=0, zone=UTC)
    assert as_json(listed) == before
    assert stray_results(history.messages) == 0
    for group in groups_of(history.messages):
        caller = history.messages[group.start]
        answered = [history.messages[index].tool_call_id or "" for index in group[1:]]
        assert sorted(call.id for call in caller.tool_calls or ()) == sorted(answered)
    again = shown_history(history.messages, now=0, zone=UTC)
    assert again.messages == history.messages
    assert again.dropped == 0
    injected = sum(one.injector is not None for one in listed)
    assert len(history.messages) + history.dropped + injected == len(listed)


contributions = st.lists(
    st.builds(
        Contribution,
        st.sampled_from(["a/1", "b/1", "b/2", "persona", "c/1"]),
        st.sampled_from([*ANCHORS, "elsewhere"]),
        st.none() | short_texts | st.lists(short_texts, max_size=2),
    ),
    max_size=5,
    unique_by=lambda one: one.key,
)


@examples(60)
@given(lists, contributions)
def test_contributions_land_alike_in_any_order_and_once(
    listed: list[Message], added: list[Contribution]
) -> None:
    before = as_json(listed)
    assembled = assemble(listed, added)
    assert as_json(listed) == before
    assert assemble(listed, added[::-1]) == assembled
    assert [one for one in assembled.messages if any(one is old for old in listed)] == listed
    again = assemble(assembled.messages, added)
    hints = {one.key for one in added if one.anchor == "turn-hint"}
    dropped = not any(one.role == "user" for one in listed)
    assert again.messages == assembled.messages or (hints and dropped)
