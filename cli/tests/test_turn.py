"""A turn's journal as a timeline: each fact a line, each change of hands another."""

from __future__ import annotations

import pytest

from aalis_cli.journals import Record
from aalis_cli.turn import timeline, told, turn_of
from aalis_contracts.journal import (
    Fact,
    InputPrepared,
    JournalEntry,
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
from aalis_contracts.messages import FunctionCall, IncomingMessage, ModelRef, ToolCall
from aalis_contracts.models import ChatResponse

BEGAN = 1_700_000_000_000


def record(seq: int, writer: str, turn: int, *facts: Fact, ended: bool = False) -> Record:
    body = JournalEntry(
        session_id="s",
        lane="user",
        turn_id=f"s.user:{turn}",
        covered_to=turn,
        carrier=turn,
        ended=ended,
        facts=list(facts),
    )
    return Record(seq, body, BEGAN + 250 * seq, writer)


def started(turn: int, owner: str, *inputs: int, preempts: int | None = None) -> TurnStarted:
    return TurnStarted(
        turn_id=f"s.user:{turn}",
        from_seq=inputs[0],
        to_seq=inputs[-1],
        inputs=list(inputs),
        preempts=preempts,
        owner=owner,
        at=0,
    )


FIRST = [
    record(1, "a-1.x", 5, started(5, "a-1.x", 5)),
    record(2, "a-1.x", 5, ModelStarted(iteration=0, attempt=1)),
    record(3, "a-2.y", 5, TurnResumed(turn_id="s.user:5", owner="a-2.y", delivery=2, at=0)),
]
SECOND = [
    record(4, "a-1.z", 7, started(7, "a-1.z", 6, 7, preempts=1)),
    record(5, "a-1.z", 7, TurnEnded(turn_id="s.user:5", outcome="aborted", at=0)),
    record(6, "a-1.z", 7, TurnEnded(outcome="replied", at=0), ended=True),
    record(7, "paid", 7, ended=True),
]


def test_a_timeline_says_who_had_the_turn_and_who_ended_it() -> None:
    assert timeline(*turn_of([*FIRST, *SECOND], 5)) == [
        "turn s.user:5",
        "  session s, lane user, began 2023-11-14 22:13:20Z",
        "  -- owned by a-1.x",
        "    0.000 s  turn.started  inputs 5",
        "    0.250 s  model.started  call 0, attempt 1",
        "  -- now in the hands of a-2.y",
        "    0.500 s  turn.resumed  at delivery 2",
        "  -- pre-empted by the turn s.user:7 of a-1.z",
        "    1.000 s  turn.ended  the turn s.user:5  aborted",
    ]


def test_any_input_that_a_turn_covers_leads_to_it() -> None:
    assert timeline(*turn_of([*FIRST, *SECOND], 6)) == [
        "turn s.user:7",
        "  session s, lane user, began 2023-11-14 22:13:21Z",
        "  -- owned by a-1.z",
        "    0.000 s  turn.started  inputs 6, 7  ends the turn begun at 1",
        "    0.250 s  turn.ended  the turn s.user:5  aborted",
        "    0.500 s  turn.ended  replied",
        "  -- now in the hands of whoever paid the rows it owed",
        "    0.750 s  nothing is owed",
    ]


def test_a_turn_that_still_runs_has_not_ended() -> None:
    assert timeline(FIRST)[-1] == "  -- it has not ended"
    assert turn_of(FIRST, 6) == ([], [])


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        (
            InputPrepared(
                input_seq=5,
                message=IncomingMessage(content="hi\nthere", session_id="s", platform="p"),
                metadata={},
                swallowed_by="filter",
                owed=True,
                arrived_at=0,
            ),
            "input.prepared  input 5  swallowed by filter  its row is owed  hi there",
        ),
        (
            TurnPlanned(input_seq=5, llm=ModelRef(provider="p", model="m")),
            "turn.planned  input 5 by p/m",
        ),
        (TurnPlanned(), "turn.planned  no input is left to answer"),
        (TurnPlanned(input_seq=5, unavailable="no model"), "turn.planned  no model"),
        (
            ModelResponded(
                iteration=1,
                attempt=1,
                response=ChatResponse(
                    content="x" * 200,
                    finish_reason="tool_calls",
                    tool_calls=[ToolCall(id="1", function=FunctionCall(name="t", arguments="{}"))],
                ),
                at=0,
            ),
            f"model.responded  call 1  asks for t  {'x' * 63}…",
        ),
        (
            ToolStarted(iteration=0, index=1, key="k", name="t", args={"a": 1}, at=0),
            'tool.started  t {"a": 1}  k',
        ),
        (
            ToolFinished(iteration=0, index=1, key="k", content="done", at=0),
            "tool.finished  call 0.1  done",
        ),
        (RowsSaved(input_seq=5, through_index=3, owed=True), "rows.saved  through 3  owed"),
        (ReplyRetried(attempt=1, feedback="again"), "reply.retried  attempt 1  again"),
        (TurnReplying(outcome="silent", content="", at=0), "turn.replying  silent"),
        (TurnEnded(outcome="error", error="why", at=0), "turn.ended  error  why"),
    ],
)
def test_a_fact_is_told_in_a_line(fact: Fact, expected: str) -> None:
    assert told(fact) == expected
