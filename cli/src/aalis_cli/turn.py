"""This is about `aalis turn show ID`: a turn's journal as a timeline, and who owned it when."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from aalis_agent.lane import split_turns
from aalis_cli.failure import Failed
from aalis_cli.interrupts import Interrupts, run
from aalis_cli.journals import Record, journal_of
from aalis_cli.provision import server_url
from aalis_cli.stack import connected
from aalis_contracts import journal as facts
from aalis_contracts import subjects
from aalis_contracts.journal import TurnEnded, TurnStarted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aalis_cli.place import Place
    from aalis_contracts.journal import Fact

_LONGEST: Final = 100
_NOBODY: Final = {"abort": "whoever aborted it", "paid": "whoever paid the rows it owed"}


def show(place: Place, nats: str | None, turn_id: str, *, as_json: bool) -> int:
    """Print the turn that has this id, or that covered the input of this id."""
    tokens, _, number = turn_id.rpartition(":")
    if tokens.count(".") != 1 or not number.isdecimal():
        raise Failed(f"{turn_id!r} is no turn's id; one looks like SESSION.LANE:NUMBER", 2)

    async def story(_: Interrupts) -> int:
        mesh = await connected(server_url(place, nats))
        try:
            records = await journal_of(mesh, *subjects.lane_of(tokens))
        finally:
            await mesh.close()
        turn, later = turn_of(records, int(number))
        if not turn:
            raise Failed(f"no journal holds {turn_id}; it keeps turns for 7 days")
        lines = json_lines(turn) if as_json else timeline(turn, later)
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        return 0

    return run(story)


def turn_of(records: Sequence[Record], seq: int) -> tuple[list[Record], list[Record]]:
    """Return the newest turn that covers the input `seq`, and all that was written after it."""
    turns = split_turns(records)
    for number, turn in reversed(list(enumerate(turns))):
        first = turn[0].entry.facts[0]
        if isinstance(first, TurnStarted) and seq in first.inputs:
            return turn, [one for later in turns[number + 1 :] for one in later]
    return [], []


def timeline(turn: Sequence[Record], later: Sequence[Record] = ()) -> list[str]:
    """Return a line for each fact, and one for each time the turn changed hands.

    `later` is what the lane wrote after it: a turn that was pre-empted is ended by a later one.
    """
    began = turn[0].time_ms
    moment = datetime.fromtimestamp(began / 1000, UTC)
    entry = turn[0].entry
    lines = [
        f"turn {entry.turn_id}",
        f"  session {entry.session_id}, lane {entry.lane}, began {moment:%Y-%m-%d %H:%M:%S}Z",
    ]
    owner = ""
    for one in turn:
        if one.writer != owner:
            verb = "owned by" if not owner else "now in the hands of"
            lines.append(f"  -- {verb} {_NOBODY.get(one.writer, one.writer)}")
            owner = one.writer
        at = f"{(one.time_ms - began) / 1000:9.3f} s"
        lines += [f"{at}  {told(fact)}" for fact in one.entry.facts]
        if not one.entry.facts:
            owed = one.entry.owed_from
            lines.append(f"{at}  {'rows are owed' if owed is not None else 'nothing is owed'}")
    if not turn[-1].entry.ended:
        lines += _afterwards(turn, later)
    return lines


def _afterwards(turn: Sequence[Record], later: Sequence[Record]) -> list[str]:
    if not later:
        return ["  -- it has not ended"]
    first, name = later[0], turn[0].entry.turn_id
    lines = [f"  -- pre-empted by the turn {first.entry.turn_id} of {first.writer}"]
    for one in later:
        at = f"{(one.time_ms - turn[0].time_ms) / 1000:9.3f} s"
        ends = (fact for fact in one.entry.facts if isinstance(fact, TurnEnded))
        lines += [f"{at}  {told(fact)}" for fact in ends if fact.turn_id == name]
    return lines


def json_lines(turn: Iterable[Record]) -> list[str]:
    """Return each entry as an object on a line."""
    return [
        json.dumps(
            {
                "seq": one.seq,
                "time": one.time_ms,
                "owner": one.writer,
                **one.entry.to_object(),
            },
            ensure_ascii=False,
        )
        for one in turn
    ]


def told(fact: Fact) -> str:
    """Return a fact in a line."""
    words = [fact.type, *_details(fact)]
    return _short("  ".join(words))


def _details(fact: Fact) -> list[str]:  # noqa: PLR0911, C901, PLR0912 - one case a fact
    match fact:
        case facts.TurnStarted():
            ending = [f"ends the turn begun at {fact.preempts}"] if fact.preempts else []
            return [f"inputs {', '.join(str(seq) for seq in fact.inputs)}", *ending]
        case facts.TurnResumed():
            return [f"at delivery {fact.delivery}"]
        case facts.InputPrepared():
            swallowed = [f"swallowed by {fact.swallowed_by}"] if fact.swallowed_by else []
            owed = ["its row is owed"] if fact.owed else []
            return [f"input {fact.input_seq}", *swallowed, *owed, fact.message.content]
        case facts.TurnPlanned():
            if fact.input_seq is None:
                return ["no input is left to answer"]
            if fact.llm is None:
                return [fact.unavailable or "no model"]
            return [f"input {fact.input_seq} by {fact.llm.provider}/{fact.llm.model}"]
        case facts.ModelStarted():
            return [f"call {fact.iteration}, attempt {fact.attempt}"]
        case facts.ModelResponded():
            names = [call.function.name for call in fact.response.tool_calls or []]
            asks = [f"asks for {', '.join(names)}"] if names else []
            return [f"call {fact.iteration}", *asks, fact.response.content or ""]
        case facts.ToolStarted():
            return [f"{fact.name} {json.dumps(fact.args, ensure_ascii=False)}", fact.key]
        case facts.ToolFinished():
            return [f"call {fact.iteration}.{fact.index}", fact.content]
        case facts.RowsSaved():
            return [f"through {fact.through_index}", *(["owed"] if fact.owed else [])]
        case facts.ReplyRetried():
            return [f"attempt {fact.attempt}", fact.feedback]
        case facts.TurnReplying():
            return [fact.outcome, fact.content]
        case facts.TurnEnded():
            other = [f"the turn {fact.turn_id}"] if fact.turn_id is not None else []
            return [*other, fact.outcome, fact.error or ""]


def _short(text: str) -> str:
    line = " ".join(text.split("\n")).rstrip()
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
