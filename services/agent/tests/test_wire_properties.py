"""What holds from the store to the wire, for every history, whole or broken, and every budget.

History, base list, contributions, trimming and the provider's shape, one after the other, as a
turn runs them: whatever was stored, what a provider is sent obeys its rules and fits its window.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Final, get_args

from hypothesis import given
from hypothesis import strategies as st

from aalis_agent.budgets import Budgets, plan_budgets
from aalis_agent.history import shown_history
from aalis_agent.prompt import ANCHORS, Clock, Contribution, Turn, assemble, base_list
from aalis_agent.tokens import HeuristicCounter
from aalis_agent.trimming import Trimmed, trim
from aalis_contracts.catalogue import Catalogue
from aalis_contracts.messages import FunctionCall, IncomingMessage, Message, ToolCall
from aalis_contracts.models import ProfileName
from aalis_contracts.text import JsonObject, well_formed
from aalis_llm.shape import Shaped, shape
from aalis_llm.testing import broken_rules
from aalis_sdk.testing.properties import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

PROFILES: Final[tuple[ProfileName, ...]] = get_args(ProfileName)
TEXTS: Final = Catalogue("zh")
COUNTER: Final = HeuristicCounter()
PNG: Final = "data:image/png;base64,AAAA"
NOW: Final = 1_700_000_000_000

words = st.sampled_from(
    [
        "",
        " ",
        "\n",
        "hi",
        "字",
        "[x] y",
        "[系统通知] z",
        "👨‍👩‍👧",
        "\ud83d",
        "a\udc00b",
        "<|endoftext|>",
    ]
)
lengths = st.sampled_from([1, 1, 1, 40, 250, 1_600])


@st.composite
def some_text(draw: st.DrawFn) -> str:
    return (draw(words) * draw(lengths))[:2_000]


optional_texts = st.none() | some_text()
ids = st.sampled_from(["a", "b", "call_0", "call_0", "x:1", "", " ", "c" * 70])
names = st.sampled_from(["f", "f", "g", "", "  ", "a.b", "字", "x" * 70])
images = st.none() | st.none() | st.lists(st.sampled_from([PNG, "data/x.png"]), min_size=1)


@st.composite
def arguments(draw: st.DrawFn) -> str:
    whole = json.dumps({"q": draw(some_text()), "n": [draw(st.integers(0, 9))]})
    broken = ["", " ", "{}", "[]", "3", "null", '"x"', '{"a":', '{"a":NaN}', "{" * 300, "\ud83d"]
    return draw(st.just(whole) | st.sampled_from(broken))


@st.composite
def data(draw: st.DrawFn) -> JsonObject | None:
    """Draw what a provider may have left with a message; its prefix is never that of the wire."""
    if draw(st.booleans()):
        return None
    block: JsonObject = {"type": "thinking", "thinking": "why", "signature": "SIG"}
    written: JsonObject = {"provider": draw(st.sampled_from(["p", "other"])), "model": "m"}
    return {**written, "blocks": [block], "prefix": draw(st.sampled_from(["", "x"]))}


@st.composite
def said(draw: st.DrawFn, call_ids: Sequence[str] = ()) -> Message:
    calls = [
        ToolCall(id=one, function=FunctionCall(name=draw(names), arguments=draw(arguments())))
        for one in call_ids
    ]
    return Message(
        role="assistant",
        content=draw(optional_texts),
        tool_calls=calls or draw(st.sampled_from([None, None, []])),
        reasoning_content=draw(st.sampled_from([None, "", "why"]) | some_text()),
        provider_data=draw(data()),
    )


@st.composite
def answered(draw: st.DrawFn, call_id: str | None) -> Message:
    return Message(
        role="tool", tool_call_id=call_id, content=draw(optional_texts), images=draw(images)
    )


@st.composite
def others(draw: st.DrawFn) -> Message:
    role = draw(
        st.sampled_from(["user", "user", "user", "assistant", "system", "notice", "critic"])
    )
    kinds = [None, None, None, "event-marker", "cross-session-delegation", "poke"]
    injectors: list[JsonObject | None] = [
        None,
        None,
        None,
        {"injector": "x/y"},
        {"injector": ""},
        {"deep": [{"a": [1]}]},
    ]
    return Message(
        role=role,
        content=draw(optional_texts),
        kind=draw(st.sampled_from(kinds)),
        name=draw(st.sampled_from([None, "u1", "\ud83d"])),
        timestamp=draw(st.sampled_from([None, 0, NOW, 10**18])),
        images=draw(images),
        metadata=draw(st.sampled_from(injectors)),
    )


@st.composite
def groups(draw: st.DrawFn) -> list[Message]:
    """Draw a tool group: whole, permuted, or as an abort or an import has left it."""
    call_ids = draw(st.lists(ids, min_size=1, max_size=4))
    results = [draw(answered(one)) for one in call_ids]
    match draw(st.sampled_from(["whole", "whole", "permuted", "aborted", "doubled", "mixed"])):
        case "permuted":
            results = draw(st.permutations(results))
        case "aborted":
            results = results[: draw(st.integers(0, len(results) - 1))]
        case "doubled":
            results = [*results, draw(answered(call_ids[0]))]
        case "mixed":
            results.insert(draw(st.integers(0, len(results))), draw(others()))
        case _:
            pass
    return [draw(said(call_ids)), *results]


strays = (ids | st.none()).flatmap(answered).map(lambda one: [one])
histories = st.lists(
    groups() | others().map(lambda one: [one]) | said().map(lambda one: [one]) | strays,
    max_size=7,
).map(lambda parts: [message for part in parts for message in part])

contributions = st.lists(
    st.builds(
        Contribution,
        st.sampled_from(["a/memory-summary", "b/1", "b/2", "c/platform"]),
        st.sampled_from([*ANCHORS, "elsewhere"]),
        st.none() | some_text() | st.lists(some_text(), max_size=2),
    ),
    max_size=3,
    unique_by=lambda one: one.key,
)


@st.composite
def inputs(draw: st.DrawFn) -> IncomingMessage:
    return IncomingMessage(
        content=draw(some_text()),
        session_id="s",
        platform=draw(st.sampled_from(["cli", "qq"])),
        user_id=draw(st.sampled_from([None, "u1"])),
        source=draw(st.sampled_from([None, "proactive:from:other"])),
        trigger_type=draw(st.sampled_from([None, "direct", "proactive"])),
        session_type=draw(st.sampled_from([None, "group"])),
    )


@dataclass(frozen=True)
class Case:
    """What is stored, what is said now, what plugins add, and how much there is room for."""

    rows: list[Message]
    incoming: IncomingMessage
    added: list[Contribution]
    images: list[str]
    volatile: str

    def working_list(self) -> list[Message]:
        turn = Turn(
            incoming=self.incoming,
            said_at=NOW,
            clock=Clock(NOW, UTC),
            history=shown_history(self.rows, now=NOW, zone=UTC).messages,
            persona="You are Aalis.",
            volatile=self.volatile,
            images=self.images,
        )
        return assemble(base_list(turn, TEXTS), self.added).messages


cases = st.builds(
    Case,
    rows=histories,
    incoming=inputs(),
    added=contributions,
    images=st.sampled_from([[], [PNG]]),
    volatile=some_text(),
)


def sent(messages: Sequence[Message], profile: ProfileName, *, vision: bool = False) -> Shaped:
    return shape(messages, profile, vision=vision, provider_id="p", model="m", catalogue=TEXTS)


def fitted(messages: Sequence[Message], budgets: Budgets, tools: int = 0) -> Trimmed:
    return trim(messages, budgets, tools, COUNTER, TEXTS)


def tight(limit: int, memory: int = 4_096) -> Budgets:
    """Return budgets in which the hard limit is where trimming begins."""
    return Budgets(limit, 1, limit, limit, memory)


def total(messages: Sequence[Message]) -> int:
    return sum(COUNTER.messages(messages))


def as_objects(messages: Sequence[Message]) -> list[dict[str, object]]:
    return [message.model_dump() for message in messages]


@examples(120)
@given(cases, st.data())
def test_whatever_is_stored_a_provider_is_sent_what_it_takes_and_what_fits(
    case: Case, drawn: st.DataObject
) -> None:
    listed = case.working_list()
    budget = drawn.draw(st.integers(0, total(listed) + 1), label="budget")
    vision = drawn.draw(st.booleans(), label="vision")
    trimmed = fitted(listed, tight(budget))

    assert trimmed.overflow is not None or trimmed.used <= budget
    for profile in PROFILES:
        shaped = sent(trimmed.messages, profile, vision=vision)
        assert broken_rules(shaped.messages, profile, vision=vision) == []


@examples(80)
@given(histories, st.data())
def test_also_a_list_that_nobody_repaired_before_is_sent_in_shape(
    listed: list[Message], drawn: st.DataObject
) -> None:
    budget = drawn.draw(st.integers(0, total(listed) + 1), label="budget")
    vision = drawn.draw(st.booleans(), label="vision")
    trimmed = fitted(listed, tight(budget))

    for profile in PROFILES:
        once = sent(trimmed.messages, profile, vision=vision)
        assert broken_rules(once.messages, profile, vision=vision) == []
        again = sent(once.messages, profile, vision=vision)
        assert again.messages == once.messages
        assert again.repairs == {}


@examples(80)
@given(cases, st.data())
def test_nothing_is_changed_on_the_way_and_the_same_gives_the_same(
    case: Case, drawn: st.DataObject
) -> None:
    budget = tight(drawn.draw(st.integers(0, 4_000), label="budget"))
    before = copy.deepcopy(case), as_objects(case.rows)
    listed = case.working_list()
    listed_before = as_objects(listed)
    trimmed = fitted(listed, budget)
    trimmed_before = as_objects(trimmed.messages)
    shaped = [sent(trimmed.messages, profile) for profile in PROFILES]

    assert (case, as_objects(case.rows)) == before
    assert as_objects(listed) == listed_before
    assert as_objects(trimmed.messages) == trimmed_before
    twin = copy.deepcopy(case)
    again = fitted(twin.working_list(), budget)
    assert again == trimmed
    assert [sent(again.messages, profile) for profile in PROFILES] == shaped


@examples(80)
@given(cases, st.data())
def test_what_the_agent_builds_itself_needs_no_repair(case: Case, drawn: st.DataObject) -> None:
    listed = case.working_list()
    budget = drawn.draw(st.integers(0, total(listed) + 1), label="budget")
    trimmed = fitted(listed, tight(budget))

    for profile in PROFILES:
        repairs = sent(trimmed.messages, profile).repairs
        # Results stay in stored order, which the agent itself keeps that of the calls.
        assert set(repairs) <= {"resultMoved"}


@examples(80)
@given(cases, st.data())
def test_the_last_words_of_the_person_arrive_unless_they_alone_are_too_much(
    case: Case, drawn: st.DataObject
) -> None:
    listed = case.working_list()
    spoken = [one for one in listed if one.role == "user" and (one.content or "").strip()]
    budget = drawn.draw(st.integers(0, total(listed) + 1), label="budget")
    trimmed = fitted(listed, tight(budget))
    if not spoken or listed[-1] is not spoken[-1] or trimmed.shortened:
        return

    for profile in PROFILES:
        shown = sent(trimmed.messages, profile).messages
        assert any(well_formed(spoken[-1].content or "") in (one.content or "") for one in shown)


@examples(120)
@given(histories, st.none() | st.integers(1, 8_000), st.sampled_from([0.01, 0.5, 1.0]), st.data())
def test_a_call_never_asks_for_more_than_the_window_holds(
    listed: list[Message], most: int | None, ratio: float, drawn: st.DataObject
) -> None:
    tools = drawn.draw(st.sampled_from([0, 30, 900]), label="tools")
    used = total(listed) + tools
    window = drawn.draw(st.integers(1, 200) | st.integers(used + 1, used + 40), label="window")
    planned = plan_budgets(window, most, threshold_ratio=ratio, memory_budget=4_096)
    budgets = planned.lowered() if drawn.draw(st.booleans(), label="again") else planned
    trimmed = fitted(listed, budgets, tools)
    if trimmed.overflow is not None:
        assert trimmed.overflow.used > trimmed.overflow.limit
        return

    answer = budgets.outgoing_max_tokens(trimmed.used)
    assert trimmed.used <= budgets.hard_limit < window
    assert 1 <= answer <= planned.max_tokens
    assert trimmed.used + answer <= window


def test_every_budget_there_is_gives_a_list_in_shape_that_fits() -> None:
    calls = [ToolCall(id="a", function=FunctionCall(name="f", arguments='{"q":"字"}'))] * 2
    group = [
        Message(role="assistant", content="", tool_calls=calls, reasoning_content="why " * 60),
        Message(role="tool", tool_call_id="a", content="x" * 1_600),
        Message(role="tool", tool_call_id="a", content=None),
    ]
    listed = [
        Message(role="system", content="You are Aalis.", metadata={"injector": "persona"}),
        Message(role="system", content="m" * 700, metadata={"injector": "m/memory-summary"}),
        Message(role="user", content="one"),
        *group,
        Message(role="notice", content="poked"),
        Message(role="assistant", content="done"),
        Message(role="user", content="字" * 200),
        *group,
    ]
    whole = total(listed)
    for budget in range(whole + 2):
        trimmed = fitted(listed, tight(budget, memory=100))
        assert trimmed.overflow is not None or trimmed.used <= budget
        assert trimmed.overflow is None or budget < whole
        for profile in PROFILES:
            assert broken_rules(sent(trimmed.messages, profile).messages, profile) == []
