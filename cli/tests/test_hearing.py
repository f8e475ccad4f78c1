"""What is heard in a session, and what of it belongs to our message."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aalis_cli.hearing import Hearing, ToolCallSeen
from aalis_contracts.contract import Contract
from aalis_contracts.events import (
    PhaseDone,
    TokenUsage,
    ToolExecute,
    TurnAfter,
    UsageBreakdown,
)
from aalis_contracts.messages import IncomingMessage, Outcome, OutgoingMessage, OutgoingSource

BREAKDOWN = UsageBreakdown(
    system=1,
    persona=1,
    memory_summary=0,
    memory_vector=0,
    skills=0,
    platform=0,
    subtask=0,
    system_other=0,
    history=2,
    tool_results=0,
    tool_defs=3,
    reserved_for_reply=4,
)


def ended(turn: str = "s.user:1", message: str = "m", outcome: Outcome = "replied") -> TurnAfter:
    incoming = IncomingMessage(content="hi", session_id="s", platform="cli", message_id=message)
    return TurnAfter(
        turn_id=turn,
        input_seq=1,
        session_id="s",
        lane="user",
        message=incoming,
        outcome=outcome,
        error="no model" if outcome == "error" else None,
    )


def said(
    turn: str | None = "s.user:1", source: OutgoingSource = "agent", text: str = "hello"
) -> OutgoingMessage:
    return OutgoingMessage(
        id=f"{turn}.{source}.{text}",
        content=text,
        session_id="s",
        platform="cli",
        turn_id=turn,
        source=source,
    )


def usage(iteration: int, turn: str = "s.user:1") -> TokenUsage:
    return TokenUsage(
        session_id="s",
        platform="cli",
        context_window=100,
        max_tokens=4,
        token_budget=90,
        used=6 + iteration,
        usage_ratio=0.06,
        breakdown=BREAKDOWN,
        turn_id=turn,
        iteration=iteration,
    )


def call(
    name: str, result: str | None = None, turn: str = "s.user:1", call_id: str = "c"
) -> ToolExecute:
    return ToolExecute(
        session_id="s",
        platform="cli",
        turn_id=turn,
        call_id=call_id,
        tool_name=name,
        args={"n": 1},
        phase="start" if result is None else "end",
        result=result,
    )


def phase(name: str, *, reached_end: bool) -> PhaseDone:
    return PhaseDone(
        session_id="s", phase=name, reached_end=reached_end, duration_ms=1, platform="cli"
    )


def heard(*events: Contract) -> Hearing:
    hearing = Hearing("m")
    for event in events:
        hearing.take(event)
    return hearing


TURN = (usage(0), call("look"), call("look", "found"), usage(1), said(), ended())


def test_a_turn_is_complete_when_its_end_and_its_reply_are_heard() -> None:
    hearing = heard(*TURN)

    assert hearing.complete
    answer = hearing.answer()
    assert answer.outcome == "replied"
    assert answer.reply == said()
    assert answer.turn_id == "s.user:1"
    assert answer.tool_calls == [ToolCallSeen("look", {"n": 1}, "found")]
    assert answer.usages == [usage(0), usage(1)]


@pytest.mark.parametrize("end_first", [True, False])
def test_neither_the_end_nor_the_reply_alone_completes_a_turn(end_first: bool) -> None:
    first, second = (ended(), said()) if end_first else (said(), ended())
    hearing = heard(first)

    assert not hearing.complete
    hearing.take(second)
    assert hearing.complete


@given(st.permutations([usage(0), call("x"), usage(1), said(), ended(), usage(0), said(), ended()]))
def test_subjects_may_be_heard_in_any_order_and_again(events: list[Contract]) -> None:
    # Within a subject the order stays: a call's end follows its start.
    start = events.index(call("x"))
    events[start:] = [call("look"), *events[start + 1 :], call("look", "found")]

    assert heard(*events).answer() == heard(*TURN).answer()


def test_what_others_cause_in_the_session_is_not_ours() -> None:
    other = "s.user:9"
    hearing = heard(
        usage(0, other),
        call("theirs", turn=other),
        said(other, text="to them"),
        ended(other, message="another"),
    )

    assert not hearing.complete
    assert not hearing.ending
    for event in TURN:
        hearing.take(event)
    assert hearing.answer().reply == said()
    assert [seen.name for seen in hearing.answer().tool_calls] == ["look"]


@pytest.mark.parametrize("outcome", ["silent", "aborted"])
def test_a_turn_without_a_reply_is_complete_at_its_end(outcome: Outcome) -> None:
    hearing = heard(ended(outcome=outcome))

    assert hearing.complete
    assert hearing.answer().outcome == outcome
    assert hearing.answer().reply is None


def test_a_failed_turn_waits_for_what_the_person_is_told() -> None:
    hearing = heard(ended(outcome="error"))

    assert not hearing.complete
    assert hearing.ending
    assert hearing.answer().error == "no model"
    hearing.take(said(source="system", text="[错误] no model"))
    assert hearing.complete
    assert hearing.answer().outcome == "error"


def test_a_reply_that_was_withheld_is_not_waited_for_for_ever() -> None:
    hearing = heard(ended())

    assert hearing.ending
    assert not hearing.complete
    assert hearing.answer().outcome == "replied"
    assert hearing.answer().reply is None


def test_the_answer_to_a_command_has_no_turn() -> None:
    hearing = heard(said(None, "command", "pong"))

    assert hearing.complete
    assert hearing.turn_id is None
    assert hearing.answer().reply == said(None, "command", "pong")


def test_a_message_that_a_phase_kept_is_answered_by_silence() -> None:
    hearing = heard(phase("inbound:confirm", reached_end=True))
    assert not hearing.ending

    hearing.take(phase("inbound:command", reached_end=False))
    assert hearing.ending
    assert not hearing.complete
    assert hearing.answer().outcome == "silent"


def test_the_phase_that_hands_a_message_to_the_agent_keeps_nothing() -> None:
    assert not heard(phase("inbound:dispatch", reached_end=False)).ending


def test_a_notice_of_the_system_is_no_answer() -> None:
    hearing = heard(said(None, "system", "no agent is there"))

    assert not hearing.complete
    assert [notice.content for notice in hearing.notices] == ["no agent is there"]


def test_calls_that_share_an_id_are_told_apart_by_their_order() -> None:
    hearing = heard(
        call("first"),
        call("first", "1"),
        call("second", call_id="c"),
        call("second", "2", call_id="c"),
        ended(outcome="silent"),
    )

    assert [(seen.name, seen.result) for seen in hearing.answer().tool_calls] == [
        ("first", "1"),
        ("second", "2"),
    ]


def test_parallel_calls_keep_the_order_in_which_they_began() -> None:
    starts = [call("t", call_id=one) for one in "abc"]
    for ends in itertools.permutations("abc"):
        hearing = heard(*starts, *(call("t", one, call_id=one) for one in ends))
        hearing.take(ended(outcome="silent"))
        assert [seen.result for seen in hearing.answer().tool_calls] == ["a", "b", "c"]


def test_a_call_that_never_ended_has_no_result() -> None:
    hearing = heard(call("slow"), ended(outcome="aborted"))

    assert hearing.answer().tool_calls == [ToolCallSeen("slow", {"n": 1}, None)]


def test_an_event_that_says_nothing_about_an_answer_is_passed_over() -> None:
    hearing = heard(IncomingMessage(content="", session_id="s", platform="cli"))

    assert not hearing.complete
    assert hearing.answer().outcome == "silent"
