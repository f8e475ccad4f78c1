"""This is about lanes: who owns a lane's turn, and the one way in which that changes (DESIGN §5).

Whoever last appended to the lane's journal by compare-and-set owns it. There are no locks, leases
or clocks: a stale owner's next append is refused, and it stops. A delivery only says "look": what
is to be done stands in the journal and the mailbox.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aalis_agent.ports import Journal, Lost, Recorded, Waiting
from aalis_agent.steps import Turn, begin, fold
from aalis_contracts.journal import Fact, JournalEntry, TurnResumed, TurnStarted
from aalis_contracts.subjects import turn_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_INPUTS = 500
"""How many waiting inputs one turn covers; what is behind them wakes the next turn."""


@dataclass(frozen=True, slots=True)
class Covered:
    """Somebody else's delivery carries this input, or it is done: nothing to do but acknowledge.

    `finished` holds the turn when it has ended and this very delivery carried it: it may have
    died between its last fact and its announcement.
    """

    finished: Turn | None = None


class Lane:
    """A lane that this process owns, with the turn it runs there."""

    def __init__(
        self, journal: Journal, turn: Turn, start_seq: int | None, carrier: int, covered_to: int
    ) -> None:
        self._journal = journal
        self.turn = turn
        self.carrier = carrier
        self.covered_to = covered_to
        self.start_seq = start_seq
        self.owed_from: int | None = None
        self.last_seq = 0
        self.waiting: dict[int, Waiting] = {}
        self._noted: list[Fact] = []
        self._appending = asyncio.Lock()

    def note(self, *facts: Fact) -> None:
        """Take facts that may travel with the next append: losing them costs a repeated step."""
        self.turn = fold(self.turn, facts)
        self._noted += facts

    async def append(self, *facts: Fact) -> None:
        """Make facts durable, together with the noted ones; `Lost` if the lane has a new owner."""
        async with self._appending:
            self.note(*facts)
            noted, self._noted = self._noted, []
            if noted:
                await self._write(noted)

    async def _write(self, facts: Sequence[Fact]) -> None:
        entry = JournalEntry(
            session_id=self.turn.session_id,
            lane=self.turn.lane,
            turn_id=self.turn.turn_id,
            covered_to=self.covered_to,
            carrier=self.carrier,
            ended=self.turn.ended is not None,
            start_seq=self.start_seq,
            owed_from=self.owed_from,
            facts=list(facts),
        )
        key = f"{self.turn.owner}.{self.last_seq}"
        self.last_seq = await self._journal.append(entry, self.last_seq, key)
        if self.start_seq is None:
            self.start_seq = self.last_seq


async def take(  # noqa: PLR0913 - what a delivery says, and who we are
    journal: Journal,
    session_id: str,
    lane: str,
    seq: int,
    *,
    owner: str,
    delivered: int,
    now: Callable[[], int],
) -> Lane | Covered:
    """Take up what the delivery of the input `seq` asks for (DESIGN §5, steps 1, 2 and 5).

    An input that a turn covers already is left to it, unless this very delivery carries that
    turn: then its owner is dead or frozen, and the turn is resumed here. Otherwise a new turn
    takes over the lane, covering all that waits; appending its first fact pre-empts a running one.
    """
    while True:
        last = await journal.last(session_id, lane)
        if last is not None and last.entry.covered_to >= seq:
            if last.entry.carrier != seq:
                return Covered()
            if last.entry.ended:
                return Covered(await read_turn(journal, last))
            try:
                return await _resume(journal, last, owner, delivered, now())
            except Lost:
                continue
        waiting = await journal.waiting(
            session_id, lane, last.entry.covered_to if last is not None else 0
        )
        if all(one.seq < seq for one in waiting):
            return Covered()
        try:
            return await _take_over(
                journal, session_id, lane, last, waiting, seq, owner=owner, at=now()
            )
        except Lost:
            continue


async def _take_over(  # noqa: PLR0913 - as take
    journal: Journal,
    session_id: str,
    lane: str,
    last: Recorded | None,
    waiting: list[Waiting],
    seq: int,
    *,
    owner: str,
    at: int,
) -> Lane:
    covered = waiting[:MAX_INPUTS]
    if all(one.seq != seq for one in covered):
        covered = waiting
    running = await _running(journal, last)
    unprepared = [] if running is None else _unprepared(running)
    inputs = [*unprepared, *(one.seq for one in covered)]
    to_seq = covered[-1].seq
    started = TurnStarted(
        turn_id=turn_id(session_id, lane, to_seq),
        from_seq=inputs[0],
        to_seq=to_seq,
        inputs=inputs,
        preempts=_start_of(last) if running is not None else None,
        owner=owner,
        at=at,
    )
    taken = Lane(journal, begin(session_id, lane, started), None, seq, to_seq)
    taken.owed_from = last.entry.owed_from if last is not None else None
    taken.last_seq = last.seq if last is not None else 0
    taken.waiting = {one.seq: one for one in covered}
    await taken._write([started])  # noqa: SLF001 - the first fact is what makes it ours
    if unprepared:
        earlier = await journal.waiting(session_id, lane, unprepared[0] - 1)
        taken.waiting.update({one.seq: one for one in earlier if one.seq in unprepared})
    return taken


async def _resume(
    journal: Journal, last: Recorded, owner: str, delivered: int, at: int
) -> Lane:
    turn = await read_turn(journal, last)
    entry = last.entry
    lane = Lane(journal, turn, _start_of(last), entry.carrier, entry.covered_to)
    lane.owed_from = entry.owed_from
    lane.last_seq = last.seq
    resumed = TurnResumed(turn_id=entry.turn_id, owner=owner, delivery=delivered, at=at)
    await lane.append(resumed)
    missing = [seq for seq in turn.inputs if seq not in turn.prepared]
    if missing:
        waiting = await journal.waiting(turn.session_id, turn.lane, missing[0] - 1)
        lane.waiting = {one.seq: one for one in waiting if one.seq in turn.inputs}
    return lane


async def read_turn(journal: Journal, last: Recorded) -> Turn:
    """Fold the turn that the lane's newest entry belongs to."""
    entry = last.entry
    start = _start_of(last)
    records = await journal.read(entry.session_id, entry.lane, start)
    return fold_records([one for one in records if one.seq <= last.seq])


async def read_turn_at(journal: Journal, session_id: str, lane: str, start: int) -> Turn:
    """Fold the turn that began at the journal sequence `start`."""
    records = await journal.read(session_id, lane, start)
    turn = records[0].entry.turn_id if records else ""
    return fold_records([one for one in records if one.entry.turn_id == turn])


def fold_records(records: Sequence[Recorded]) -> Turn:
    """Fold journal entries of one turn, from its first on."""
    facts = [fact for one in records for fact in one.entry.facts]
    first = facts[0] if facts else None
    if not isinstance(first, TurnStarted):
        message = "the journal holds no beginning of this turn; it is older than its retention"
        raise ValueError(message)  # noqa: TRY004 - a fault of the data, not of the caller's types
    entry = records[0].entry
    return fold(begin(entry.session_id, entry.lane, first), facts[1:])


async def _running(journal: Journal, last: Recorded | None) -> Turn | None:
    if last is None or last.entry.ended:
        return None
    return await read_turn(journal, last)


def _unprepared(turn: Turn) -> list[int]:
    """Return the inputs that a pre-empted turn had not come to; its successor takes them over."""
    return [seq for seq in turn.inputs if seq not in turn.prepared]


def _start_of(last: Recorded | None) -> int:
    if last is None:
        return 0
    return last.entry.start_seq if last.entry.start_seq is not None else last.seq
