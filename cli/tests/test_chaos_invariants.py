"""The invariants of a chaos run: silent on a good one, and red on each thing that can be wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from aalis_cli.chaos.errands import KINDS, Errand, script, word_of
from aalis_cli.chaos.evidence import Asked, Effect, Evidence, Session, Span
from aalis_cli.chaos.figures import percentile, resumes
from aalis_cli.chaos.invariants import violations
from aalis_cli.journals import Record
from aalis_contracts.contract import Contract
from aalis_contracts.events import TurnAfter
from aalis_contracts.journal import (
    Fact,
    InputPrepared,
    JournalEntry,
    ModelResponded,
    ModelStarted,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnPlanned,
    TurnReplying,
    TurnResumed,
    TurnStarted,
)
from aalis_contracts.messages import (
    FunctionCall,
    IncomingMessage,
    Message,
    OutgoingMessage,
    StreamFrame,
    ToolCall,
)
from aalis_contracts.models import ChatRequest, ChatResponse
from aalis_llm.script_rules import plan

SESSION, INPUT = "s", 7
TURN = f"{SESSION}.user:{INPUT}"
ERRAND = Errand("w", SESSION, KINDS["both"])
INCOMING = IncomingMessage(
    content=ERRAND.text, session_id=SESSION, platform="chaos", message_id=ERRAND.word
)
STAMP, RESTAMP = f"{TURN}.0.0", f"{TURN}.0.1"
CALLS = [
    ToolCall(id=name, function=FunctionCall(name=name, arguments="{}"))
    for name in ("stamp", "restamp")
]


def started(key: str, name: str, index: int) -> ToolStarted:
    return ToolStarted(iteration=0, index=index, key=key, name=name, args={}, at=10_000)


def finished(key: str, index: int, content: str) -> ToolFinished:
    return ToolFinished(iteration=0, index=index, key=key, content=content, at=11_000)


def entry(seq: int, writer: str, *facts: Fact) -> Record:
    body = JournalEntry(
        session_id=SESSION,
        lane="user",
        turn_id=TURN,
        covered_to=INPUT,
        carrier=INPUT,
        ended=isinstance(facts[-1], TurnEnded),
        facts=list(facts),
    )
    return Record(seq, body, seq, writer)


def response(*calls: ToolCall) -> ChatResponse:
    return ChatResponse(content="", finish_reason="stop", tool_calls=list(calls) or None)


def good() -> Evidence:
    """Return the evidence of one errand whose owner died once, and of which all went well."""
    session = Session(SESSION, inputs={INPUT: INCOMING})
    begun = TurnStarted(
        turn_id=TURN, from_seq=INPUT, to_seq=INPUT, inputs=[INPUT], owner="a-1.x", at=9_000
    )
    prepared = InputPrepared(input_seq=INPUT, message=INCOMING, metadata={}, arrived_at=1)
    session.journal = [
        entry(1, "a-1.x", begun),
        entry(
            2,
            "a-1.x",
            prepared,
            TurnPlanned(input_seq=INPUT),
            ModelStarted(iteration=0, attempt=1),
        ),
        entry(
            3,
            "a-1.x",
            ModelResponded(iteration=0, attempt=1, response=response(*CALLS), at=9_500),
            started(STAMP, "stamp", 0),
            started(RESTAMP, "restamp", 1),
        ),
        entry(4, "a-2.y", TurnResumed(turn_id=TURN, owner="a-2.y", delivery=2, at=10_900)),
        entry(5, "a-2.y", finished(STAMP, 0, "stamped w"), finished(RESTAMP, 1, "restamped w")),
        entry(6, "a-2.y", ModelStarted(iteration=1, attempt=1)),
        entry(
            7,
            "a-2.y",
            ModelResponded(iteration=1, attempt=1, response=response(), at=12_000),
            TurnReplying(outcome="replied", content="both w: done", at=12_000),
        ),
        entry(8, "a-2.y", TurnEnded(outcome="replied", at=12_000)),
    ]
    session.ends = [
        TurnAfter(
            turn_id=TURN,
            input_seq=INPUT,
            session_id=SESSION,
            lane="user",
            message=INCOMING,
            outcome="replied",
            metadata={},
        )
    ]
    session.sent = [sent()]
    session.rows = [
        Message(role="user", content="w", metadata={"messageId": "w"}, input_seq=INPUT, index=0),
        Message(role="assistant", content="", tool_calls=CALLS, input_seq=INPUT, index=1),
        Message(role="tool", content="1", tool_call_id="stamp", input_seq=INPUT, index=2),
        Message(role="tool", content="2", tool_call_id="restamp", input_seq=INPUT, index=3),
        Message(role="assistant", content="both w: done", input_seq=INPUT, index=4),
    ]
    session.frames = [
        frame(1, "both "),
        frame(2, "both"),
        frame(1_000_001, "both w", attempt=2),
        frame(2_000_000 - 1, done=True),
    ]
    return Evidence(
        errands=[ERRAND],
        sessions={SESSION: session},
        effects=[Effect("stamp", "w", STAMP), Effect("restamp", "w", RESTAMP)],
        delivered=[f"{TURN}.reply"],
        asked=[Asked("w", 0), Asked("w", 1)],
    )


def frame(
    seq: int, text: str | None = None, *, attempt: int = 1, done: bool = False
) -> StreamFrame:
    return StreamFrame(
        session_id=SESSION,
        platform="chaos",
        turn_id=TURN,
        seq=seq,
        iteration=1,
        attempt=attempt,
        content_delta=text,
        done=True if done else None,
    )


def sent(turn: str = TURN, name: str = "reply") -> OutgoingMessage:
    return OutgoingMessage(
        id=f"{turn}.{name}",
        content="both w: done",
        session_id=SESSION,
        platform="chaos",
        turn_id=turn,
        source="agent",
    )


def with_field(body: Contract, **changes: object) -> Any:
    return body.model_copy(update=changes)


def rules(evidence: Evidence) -> set[str]:
    return {one.rule for one in violations(evidence)}


def one(evidence: Evidence) -> Session:
    return evidence.sessions[SESSION]


def set_result(evidence: Evidence, content: str) -> None:
    one(evidence).journal[4] = entry(
        5, "a-2.y", finished(STAMP, 0, content), finished(RESTAMP, 1, "restamped w")
    )


def test_a_good_run_breaks_no_rule() -> None:
    assert violations(good()) == []


PLANTED: dict[str, tuple[Callable[[Evidence], object], set[str]]] = {
    "an input is gone": (lambda e: one(e).inputs.clear(), {"lost", "reordered reply"}),
    "an input is there twice": (
        lambda e: one(e).inputs.update({8: INCOMING}),
        {"duplicated input", "reordered input"},
    ),
    "no row": (lambda e: one(e).rows.pop(0), {"user row"}),
    "two rows": (lambda e: one(e).rows.insert(0, one(e).rows[0]), {"user row"}),
    "no end": (lambda e: one(e).ends.clear(), {"lost"}),
    "two ends": (lambda e: one(e).ends.append(one(e).ends[0]), {"told twice"}),
    "an error": (
        lambda e: one(e).ends.append(with_field(one(e).ends.pop(), outcome="error")),
        {"outcome"},
    ),
    "an abort that nobody asked for": (
        lambda e: one(e).ends.append(with_field(one(e).ends.pop(), outcome="aborted")),
        {"outcome"},
    ),
    "no reply": (lambda e: one(e).sent.clear(), {"lost reply"}),
    "two replies": (
        lambda e: (one(e).sent.append(sent(name="again")), e.delivered.append(f"{TURN}.again")),
        {"duplicated reply"},
    ),
    "another's reply": (
        lambda e: one(e).sent.append(with_field(one(e).sent.pop(), content="both v: x")),
        {"wrong reply", "garbled stream"},
    ),
    "not delivered": (lambda e: e.delivered.clear(), {"undelivered"}),
    "delivered twice": (lambda e: e.delivered.append(e.delivered[0]), {"delivered twice"}),
    "the reply is not kept": (lambda e: one(e).rows.pop(), {"reply row"}),
    "a stamp fell twice": (lambda e: e.effects.append(e.effects[0]), {"repeated effect"}),
    "a stamp that may fall twice did": (
        lambda e: e.effects.append(e.effects[1]),
        {"repeated effect"},
    ),
    "a stamp did not fall": (lambda e: e.effects.pop(0), {"lost effect"}),
    "a stamp of nobody": (
        lambda e: e.effects.append(Effect("stamp", "w", "k")),
        {"effect without a call"},
    ),
    "told as absent, and happened": (
        lambda e: (
            set_result(e, "The tool service is absent"),
            e.hosts_hit.append(Span(10.5, 10.6)),
        ),
        {"effect not told"},
    ),
    "told as unknown, and no host died": (
        lambda e: set_result(e, "the outcome is unknown"),
        {"effect not told"},
    ),
    "a call was left out": (
        lambda e: one(e).journal.__setitem__(2, entry(3, "a-1.x", started(STAMP, "stamp", 0))),
        {"calls", "effect without a call"},
    ),
    "asked once too often": (lambda e: e.asked.append(Asked("w", 1)), {"unrecorded model call"}),
    "a paid answer was asked for again": (
        lambda e: one(e).journal.insert(4, entry(4, "a-2.y", ModelStarted(iteration=0, attempt=2))),
        {"finished model call repeated"},
    ),
    "the dead owner wrote": (
        lambda e: one(e).journal.append(entry(9, "a-1.x", TurnEnded(outcome="replied", at=1))),
        {"stale write"},
    ),
    "a result without its call": (lambda e: one(e).rows.pop(1), {"torn group"}),
    "a call without its result": (lambda e: one(e).rows.pop(3), {"torn group"}),
    "the last call without its result": (
        lambda e: one(e).rows.__delitem__(slice(3, 5)),
        {"torn group", "reply row"},
    ),
    "a text is shown twice": (
        lambda e: one(e).frames.insert(3, frame(1_000_002, "both w", attempt=2)),
        {"garbled stream"},
    ),
    "a text has two ends": (
        lambda e: one(e).frames.append(frame(2_000_000 - 1, done=True)),
        {"garbled stream"},
    ),
    "a text goes on after its end": (
        lambda e: one(e).frames.append(frame(3_000_000, "")),
        {"garbled stream"},
    ),
    "a dead letter": (lambda e: e.dead.append("x"), {"dead letter"}),
    "a request that a strict provider refuses": (
        lambda e: e.asked.append(Asked("v", 0, ("first is not user",))),
        {"invalid model request"},
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_wrong_is_named(name: str) -> None:
    plant, expected = PLANTED[name]
    evidence = good()
    plant(evidence)
    found = rules(evidence)
    assert found
    assert found <= expected
    assert len(expected & found) >= 1


def test_replies_in_another_order_than_their_inputs_are_named() -> None:
    evidence = good()
    one(evidence).sent.insert(0, sent(f"{SESSION}.user:9"))
    assert "reordered reply" in rules(evidence)


def test_messages_in_another_order_than_they_were_said_are_named() -> None:
    evidence = good()
    later = Errand("v", SESSION, KINDS["talk"])
    evidence.errands.append(later)
    one(evidence).inputs = {6: with_field(INCOMING, message_id="v"), **one(evidence).inputs}
    assert "reordered input" in rules(evidence)


@pytest.mark.parametrize("content", ["the outcome is unknown", "stamped w"])
def test_where_a_host_died_an_effect_may_be_told_as_unknown(content: str) -> None:
    evidence = good()
    set_result(evidence, content)
    evidence.hosts_hit.append(Span(10.5, 10.6))
    assert rules(evidence) == set()


def test_where_a_host_died_what_is_safe_may_happen_again_and_nothing_else() -> None:
    evidence = good()
    evidence.hosts_hit.append(Span(10.5, 10.6))
    evidence.effects.append(evidence.effects[1])
    assert rules(evidence) == set()
    evidence.effects.append(evidence.effects[0])
    assert rules(evidence) == {"repeated effect"}


def test_an_aborted_errand_that_was_overtaken_has_no_reply_and_that_is_right() -> None:
    evidence = good()
    session = one(evidence)
    evidence.overtaken.add("w")
    session.ends[0] = with_field(session.ends[0], outcome="aborted")
    assert rules(evidence) == {"duplicated reply", "reply row"}
    session.sent.clear()
    session.rows.pop()
    assert rules(evidence) == set()


def test_the_time_to_a_turns_being_taken_up_counts_from_its_owners_last_death() -> None:
    deaths = {"a-1": [1.0, 10.0, 50.0], "a-2": [10.5]}
    found = resumes(good(), deaths)
    assert list(found) == [f"{TURN} by a-2.y"]
    assert found[f"{TURN} by a-2.y"] == pytest.approx(0.9)
    assert resumes(good(), {"a-2": [10.5]}) == {}


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([], 0.95, None), ([3.0], 0.95, 3.0), ([1.0, 2.0, 3.0, 4.0], 0.5, 2.0), ([5, 1, 4], 1.0, 5)],
)
def test_a_percentile_is_one_of_the_values(
    values: list[float], share: float, expected: float | None
) -> None:
    assert percentile(values, share) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_the_scripted_model_acts_on_the_newest_errand_and_answers_with_its_word(kind: str) -> None:
    errand = Errand("two", SESSION, KINDS[kind])
    other = Errand("one", SESSION, KINDS["stamp"])
    text = f"[u1]: {other.text}\n\n[u1]: {errand.text}"
    asked = ChatRequest(messages=[Message(role="user", content=text)])
    answered = plan(script(), "demo", asked)
    tools = [call.function.name for call in answered.calls]
    wanted = [call.tool for call in (errand.kind.rounds or ((),))[0]]
    assert tools == wanted
    assert all(
        '"two"' in c.function.arguments for c in answered.calls if "stamp" in c.function.name
    )
    assert tools or answered.content.startswith(errand.opening)
    assert word_of(text) == "two"


def test_evidence_is_not_changed_by_being_judged() -> None:
    evidence = good()
    before = copy.deepcopy(evidence)
    violations(evidence)
    assert evidence == before
