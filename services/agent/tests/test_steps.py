"""Steps: what a turn's facts amount to, and what must happen next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aalis_agent.steps import (
    STRIKES,
    Ask,
    Conclude,
    Deliver,
    Done,
    End,
    Plan,
    Prepare,
    RunTools,
    Save,
    Settle,
    Step,
    Turn,
    begin,
    fold,
    next_step,
)
from aalis_contracts.journal import (
    Fact,
    InputPrepared,
    ModelResponded,
    ModelStarted,
    ReplyRetried,
    RowsSaved,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnPlanned,
    TurnReplying,
    TurnResumed,
    TurnStarted,
)
from aalis_contracts.messages import FunctionCall, IncomingMessage, ToolCall
from aalis_contracts.models import ChatResponse
from aalis_sdk.testing.properties import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

SAID = IncomingMessage(content="hello", session_id="s", platform="cli")


def started(*inputs: int, preempts: int | None = None) -> TurnStarted:
    return TurnStarted(
        turn_id=f"s.user:{inputs[-1]}",
        from_seq=inputs[0],
        to_seq=inputs[-1],
        inputs=list(inputs),
        preempts=preempts,
        owner="a",
        at=0,
    )


def prepared(seq: int, swallowed_by: str | None = None) -> InputPrepared:
    return InputPrepared(
        input_seq=seq, message=SAID, metadata={}, swallowed_by=swallowed_by, arrived_at=0
    )


def planned(seq: int | None = 1, limit: int = 30, unavailable: str | None = None) -> TurnPlanned:
    return TurnPlanned(input_seq=seq, max_iterations=limit, unavailable=unavailable)


def responded(iteration: int, calls: int = 0, content: str | None = None) -> ModelResponded:
    asked = [
        ToolCall(id=f"c{index}", function=FunctionCall(name="tool", arguments="{}"))
        for index in range(calls)
    ]
    response = ChatResponse(content=content, tool_calls=asked or None)
    return ModelResponded(iteration=iteration, attempt=1, response=response, at=0)


def sent(iteration: int, index: int) -> ToolStarted:
    key = f"{iteration}.{index}"
    return ToolStarted(iteration=iteration, index=index, key=key, name="tool", args={}, at=0)


def finished(iteration: int, index: int, *, refused: bool = False) -> ToolFinished:
    return ToolFinished(
        iteration=iteration,
        index=index,
        key=f"{iteration}.{index}",
        content="done",
        refused=True if refused else None,
        at=0,
    )


def saved(through: int) -> RowsSaved:
    return RowsSaved(input_seq=1, through_index=through)


def replying() -> TurnReplying:
    return TurnReplying(outcome="replied", content="hi", at=0)


def ended(turn_id: str | None = None) -> TurnEnded:
    return TurnEnded(turn_id=turn_id, outcome="replied", at=0)


def turn(*facts: Fact, first: TurnStarted | None = None) -> Turn:
    return fold(begin("s", "user", first or started(1)), facts)


ROUND: tuple[Fact, ...] = (responded(0, 2), sent(0, 0), sent(0, 1), finished(0, 0), finished(0, 1))
READY: tuple[Fact, ...] = (prepared(1), planned())


@pytest.mark.parametrize(
    ("facts", "step"),
    [
        ((), Prepare),
        ((prepared(1),), Plan),
        ((prepared(1), planned(None)), End),
        ((prepared(1), planned(unavailable="no model")), End),
        (READY, Ask),
        ((*READY, ModelStarted(iteration=0, attempt=1)), Ask),
        ((*READY, responded(0, content="hi")), Conclude),
        ((*READY, responded(0, 2)), RunTools),
        ((*READY, responded(0, 2), finished(0, 1)), RunTools),
        ((*READY, *ROUND), Save),
        ((*READY, *ROUND, saved(3)), Ask),
        ((*READY, *ROUND, saved(3), responded(1, content="hi")), Conclude),
        ((*READY, responded(0, content="hi"), ReplyRetried(attempt=1, feedback="f")), Ask),
        ((*READY, responded(0, content="hi"), replying()), Deliver),
        ((*READY, responded(0, content="hi"), replying(), ended()), Done),
        ((ended(),), Done),
    ],
)
def test_each_state_has_its_next_step(facts: Sequence[Fact], step: type[Step]) -> None:
    assert isinstance(next_step(turn(*facts)), step)


def test_a_turn_that_preempts_settles_the_other_first_and_once() -> None:
    first = started(2, preempts=7)
    assert next_step(turn(first=first)) == Settle(7)
    assert next_step(turn(ended("s.user:1"), first=first)) == Prepare(2)


def test_inputs_are_prepared_in_mailbox_order() -> None:
    first = started(1, 2, 3)
    assert next_step(turn(prepared(1), first=first)) == Prepare(2)
    assert next_step(turn(prepared(1), prepared(2, "p"), first=first)) == Prepare(3)


def test_an_attempt_that_died_is_counted() -> None:
    assert next_step(turn(*READY)) == Ask(0, 1, tools=True)
    again = turn(
        *READY,
        ModelStarted(iteration=0, attempt=1),
        TurnResumed(turn_id="s.user:1", owner="b", delivery=2, at=0),
    )
    assert next_step(again) == Ask(0, 2, tools=True)
    assert again.owner == "b"
    assert again.resumed == 1


def test_a_format_retry_asks_without_tools_and_its_calls_are_not_run() -> None:
    retried = turn(*READY, responded(0, content="x"), ReplyRetried(attempt=1, feedback="f"))
    assert next_step(retried) == Ask(1, 1, tools=False)
    assert isinstance(next_step(fold(retried, [responded(1, 2)])), Conclude)


def test_the_limit_ends_the_loop_and_drops_the_calls_it_forbids() -> None:
    facts: list[Fact] = [prepared(1), planned(limit=1), *ROUND, saved(3), responded(1, 1, "text")]
    reached = turn(*facts)
    assert reached.limit_reached
    assert isinstance(next_step(reached), Conclude)
    assert [one.iteration for one in reached.groups] == [0]


def test_three_rounds_in_a_row_without_an_executable_call_end_the_loop() -> None:
    facts: list[Fact] = list(READY)
    for iteration in range(STRIKES):
        facts += [responded(iteration, 1), finished(iteration, 0, refused=True)]
        if iteration < STRIKES - 1:
            facts.append(saved(2 * (iteration + 1)))
            assert not turn(*facts).limit_reached
    struck = turn(*facts)
    assert struck.limit_reached
    assert isinstance(next_step(struck), Conclude)
    assert len(struck.groups) == STRIKES - 1


def test_an_executed_call_between_refused_ones_breaks_the_row() -> None:
    facts: list[Fact] = list(READY)
    for iteration, refused in enumerate((True, True, False, True)):
        facts += [responded(iteration, 1), finished(iteration, 0, refused=refused)]
        facts.append(saved(2 * (iteration + 1)))
    assert not turn(*facts).limit_reached


def test_a_turn_that_answers_nothing_says_so() -> None:
    with pytest.raises(ValueError, match="answers no input"):
        _ = turn(prepared(1, "p"), planned(None)).answered


def _facts_for(step: Step, now: Turn, choose: st.DataObject) -> list[Fact]:  # noqa: C901, PLR0911 - a case a step
    """Answer a step as the world would, in one of its ways."""
    match step:
        case Settle():
            return [ended("s.user:0")]
        case Prepare(input_seq=seq):
            return [prepared(seq, choose.draw(st.sampled_from([None, "plugin"])))]
        case Plan():
            return [planned(1, choose.draw(st.integers(1, 4)))]
        case Ask(iteration=iteration, attempt=attempt):
            calls = choose.draw(st.integers(0, 3))
            begun = ModelStarted(iteration=iteration, attempt=attempt)
            return [begun, responded(iteration, calls, "text")]
        case RunTools(round=one):
            index = choose.draw(st.sampled_from(one.pending))
            refused = choose.draw(st.booleans())
            before: list[Fact] = [] if refused else [sent(one.iteration, index)]
            return [*before, finished(one.iteration, index, refused=refused)]
        case Save():
            return [saved(10**6)]
        case Conclude():
            if len(now.retries) < 2 and choose.draw(st.booleans()):
                return [ReplyRetried(attempt=1, feedback="f")]
            return [replying()]
        case Deliver():
            return [ended()]
        case End(outcome=outcome):
            return [TurnEnded(outcome=outcome, at=0)]
        case Done():
            return []


@examples(60)
@given(st.data())
def test_a_turn_ends_and_every_prefix_of_it_goes_on_to_the_same_step(choose: st.DataObject) -> None:
    first = started(1, 2, preempts=choose.draw(st.sampled_from([None, 5])))
    facts: list[Fact] = []
    steps: list[Step] = []
    now = begin("s", "user", first)
    for _ in range(200):
        step = next_step(now)
        if isinstance(step, Done):
            break
        steps.append(step)
        new = _facts_for(step, now, choose)
        facts += new
        now = fold(now, new)
    else:
        pytest.fail("the turn does not end")
    # Whoever folds the same facts anew stands at the same step, wherever the owner changed.
    for cut in range(len(facts) + 1):
        resumed = TurnResumed(turn_id=first.turn_id, owner="b", delivery=2, at=0)
        again = fold(begin("s", "user", first), [*facts[:cut], resumed])
        assert next_step(again) == next_step(fold(begin("s", "user", first), facts[:cut]))
        assert fold(again, facts[cut:]).ended == now.ended
    # Nothing whose result is a fact was asked for twice.
    asked = [step.iteration for step in steps if isinstance(step, Ask)]
    assert len(asked) == len(set(asked))
    prepared_inputs = [step.input_seq for step in steps if isinstance(step, Prepare)]
    assert prepared_inputs == [1, 2]
