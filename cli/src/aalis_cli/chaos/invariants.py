"""This is about invariants: what must be true of a run, whoever died meanwhile. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from aalis_agent.lane import split_turns
from aalis_cli.chaos.errands import Errand
from aalis_cli.chaos.evidence import Evidence, Session
from aalis_cli.display import LiveText
from aalis_cli.journals import facts_of
from aalis_contracts.journal import (
    Fact,
    ModelResponded,
    ModelStarted,
    ToolFinished,
    ToolStarted,
    TurnPlanned,
    TurnResumed,
    TurnStarted,
)

_OTHERS = {"abort", "paid"}
"""Who may write into a journal beside the owner: whoever ends a turn, or pays what it owes."""


@dataclass(frozen=True)
class Violation:
    """What is not as it must be, and where."""

    rule: str
    session_id: str
    text: str


def violations(evidence: Evidence) -> list[Violation]:
    """Return everything that is not as it must be."""
    found: list[Violation] = []
    for session in evidence.sessions.values():
        errands = [one for one in evidence.errands if one.session_id == session.session_id]
        found += _of_session(evidence, session, errands)
    found += [Violation("dead letter", "", line) for line in evidence.dead]
    found += [
        Violation("invalid model request", "", f"{one.word}, iteration {one.iteration}: {wrong}")
        for one in evidence.asked
        for wrong in one.wrong
    ]
    return found


def _of_session(evidence: Evidence, session: Session, errands: list[Errand]) -> Iterator[Violation]:
    def broken(rule: str, text: str) -> Violation:
        return Violation(rule, session.session_id, text)

    for errand in errands:
        for rule, text in _of_errand(evidence, session, errand):
            yield broken(rule, f"{errand.word}: {text}")
    words = [message.message_id for message in session.inputs.values()]
    said = [errand.word for errand in errands]
    if [word for word in said if word in words] != [word for word in words if word in said]:
        yield broken("reordered input", f"said {said}, in the mailbox {words}")
    inputs = [_input_of(message.turn_id) for message in session.sent if message.source == "agent"]
    if inputs != sorted(inputs):
        yield broken("reordered reply", f"replies to inputs {inputs}")
    for text in _stale(session):
        yield broken("stale write", text)
    for text in _repeated_calls(session):
        yield broken("finished model call repeated", text)
    for text in _torn_groups(session):
        yield broken("torn group", text)
    for text in _garbled(session):
        yield broken("garbled stream", text)


def _of_errand(evidence: Evidence, session: Session, errand: Errand) -> Iterator[tuple[str, str]]:
    word = errand.word
    seqs = [seq for seq, one in session.inputs.items() if one.message_id == word]
    if len(seqs) != 1:
        yield ("lost" if not seqs else "duplicated input"), f"{len(seqs)} inputs"
        return
    rows = [row for row in session.rows if (row.metadata or {}).get("messageId") == word]
    if len(rows) != 1:
        yield "user row", f"{len(rows)} archived rows"
    ends = [end for end in session.ends if end.input_seq == seqs[0]]
    if len(ends) != 1:
        yield ("lost" if not ends else "told twice"), f"{len(ends)} agent.turn.after"
        return
    outcome = ends[0].outcome
    allowed = {"replied", "aborted"} if word in evidence.overtaken else {"replied"}
    if outcome not in allowed:
        yield "outcome", f"{outcome}: {ends[0].error}"
    if outcome in allowed:
        yield from _replies(evidence, session, errand, seqs[0], replied=outcome == "replied")
    if outcome == "replied":
        yield from _effects(evidence, session, errand, seqs[0])
    yield from _asked(evidence, session, errand)


def _replies(
    evidence: Evidence, session: Session, errand: Errand, seq: int, *, replied: bool
) -> Iterator[tuple[str, str]]:
    """See that what was answered was sent, delivered and stored once, and nothing else was."""
    sent = [message for message in session.sent if _input_of(message.turn_id) == seq]
    expected = 1 if replied else 0
    if len(sent) != expected:
        yield ("lost reply" if not sent else "duplicated reply"), f"{len(sent)} replies"
    for message in sent:
        if replied and not message.content.startswith(errand.opening):
            yield "wrong reply", message.content
        times = evidence.delivered.count(message.id)
        if times != 1:
            yield ("undelivered" if not times else "delivered twice"), f"{message.id}: {times}"
    saved = [
        row
        for row in session.rows
        if row.input_seq == seq and row.role == "assistant" and not row.tool_calls
    ]
    if len(saved) != expected:
        yield "reply row", f"{len(saved)} rows of the reply"


def _effects(
    evidence: Evidence, session: Session, errand: Errand, seq: int
) -> Iterator[tuple[str, str]]:
    """See that each call's effect happened once, or is told as unknown where its host died."""
    started, finished = _calls(session, seq)
    per_key = Counter(one.key for one in evidence.effects if one.word == errand.word)
    safe = {one.key for one in evidence.effects if one.tool == "restamp"}
    wanted = Counter(errand.kind.stamps)
    called = Counter(one.name for one in started.values() if one.name in wanted)
    if called != wanted:
        yield "calls", f"made {dict(called)}, wanted {dict(wanted)}"
    for key, begun in started.items():
        if begun.name not in wanted:
            continue
        done = finished.get(key)
        content = done.content if done is not None else "no result"
        span = (begun.at / 1000, (done.at if done is not None else begun.at) / 1000)
        host_hit = any(hit.meets(*span) for hit in evidence.hosts_hit)
        clear = content == f"{begun.name}ed {errand.word}"
        times = per_key.pop(key, 0)
        if times > 1 and not (key in safe and host_hit):
            yield "repeated effect", f"{key} happened {times} times"
        if clear and not times:
            yield "lost effect", f"{key} is told as done, and is not"
        absent = not times and "absent" in content
        if not clear and not (host_hit and ("unknown" in content or absent)):
            yield "effect not told", f"{key} happened {times} times, told: {content}"
    for key, times in per_key.items():
        yield "effect without a call", f"{key} happened {times} times"


def _calls(session: Session, seq: int) -> tuple[dict[str, ToolStarted], dict[str, ToolFinished]]:
    started: dict[str, ToolStarted] = {}
    finished: dict[str, ToolFinished] = {}
    for fact in facts_of(session.journal):
        if isinstance(fact, ToolStarted) and _input_of(fact.key.rsplit(".", 2)[0]) == seq:
            started[fact.key] = fact
        if isinstance(fact, ToolFinished) and _input_of(fact.key.rsplit(".", 2)[0]) == seq:
            finished[fact.key] = fact
    return started, finished


def _asked(evidence: Evidence, session: Session, errand: Errand) -> Iterator[tuple[str, str]]:
    """See that the model is asked no more often than the journal says."""
    asked = Counter(one.iteration for one in evidence.asked if one.word == errand.word)
    noted: Counter[int] = Counter()
    for turn in split_turns(session.journal):
        facts = facts_of(turn)
        if _answers(facts, session, errand.word):
            noted.update(fact.iteration for fact in facts if isinstance(fact, ModelStarted))
    for iteration, times in asked.items():
        if times > noted[iteration]:
            yield (
                "unrecorded model call",
                f"{iteration}: asked {times}, recorded {noted[iteration]}",
            )


def _answers(facts: list[Fact], session: Session, word: str) -> bool:
    planned = next((fact for fact in facts if isinstance(fact, TurnPlanned)), None)
    found = session.inputs.get(planned.input_seq or 0) if planned is not None else None
    return found is not None and found.message_id == word


def _repeated_calls(session: Session) -> Iterator[str]:
    for turn in split_turns(session.journal):
        answered: set[int] = set()
        for fact in facts_of(turn):
            if isinstance(fact, ModelStarted) and fact.iteration in answered:
                yield f"{turn[0].entry.turn_id}: iteration {fact.iteration} is asked again"
            if isinstance(fact, ModelResponded):
                answered.add(fact.iteration)


def _stale(session: Session) -> Iterator[str]:
    """Only who took the lane over last may write into its journal."""
    owner = ""
    for one in session.journal:
        for fact in one.entry.facts:
            if isinstance(fact, TurnStarted | TurnResumed):
                owner = fact.owner
        if one.writer not in {owner, *_OTHERS}:
            yield f"entry {one.seq} is written by {one.writer}, owner is {owner}"


def _torn_groups(session: Session) -> Iterator[str]:
    """Each stored call has its result, in order, and no result stands alone."""
    waiting: list[str] = []
    for row in session.rows:
        if row.role == "tool":
            if not waiting or row.tool_call_id != waiting.pop(0):
                yield f"a result without its call at {row.input_seq}.{row.index}"
        elif waiting:
            yield f"calls without results before {row.input_seq}.{row.index}"
            waiting = []
        if row.tool_calls:
            waiting = [call.id for call in row.tool_calls]
    if waiting:
        yield "the last calls have no results"


def _garbled(session: Session) -> Iterator[str]:
    """See that a reader shows each text once, as far as it came, and one end after it."""
    replies = {message.turn_id: message.content for message in session.sent}
    for turn_id in dict.fromkeys(frame.turn_id for frame in session.frames):
        frames = [frame for frame in session.frames if frame.turn_id == turn_id]
        ends = [frame.seq for frame in frames if frame.done]
        if len(ends) > 1:
            yield f"{turn_id} has {len(ends)} last frames"
        if ends and max(frame.seq for frame in frames) > ends[0]:
            yield f"{turn_id} goes on after its last frame"
        shown = LiveText()
        for frame in frames:
            shown.take(frame)
        if turn_id in replies and shown.last not in replies[turn_id]:
            yield f"{turn_id} shows {shown.last!r} of {replies[turn_id]!r}"


def _input_of(turn_id: str | None) -> int:
    number = (turn_id or "").rpartition(":")[2]
    return int(number) if number.isdecimal() else 0
