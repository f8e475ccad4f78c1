"""This is about lanes: who owns a lane's turn, and the one way in which that changes (DESIGN §5).

Whoever last appended to the lane's journal by compare-and-set owns it. There are no locks, leases
or clocks: a stale owner's next append is refused, and it stops. A delivery only says "look": what
is to be done stands in the journal and the mailbox.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from aalis_agent.fitting import shorter
from aalis_agent.ports import Journal, Lost, Recorded, TooLong, Waiting
from aalis_agent.steps import Turn, begin, fold
from aalis_contracts.journal import (
    Fact,
    InputPrepared,
    JournalEntry,
    TurnEnded,
    TurnResumed,
    TurnStarted,
)
from aalis_contracts.subjects import turn_id
from aalis_sdk.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Written = TypeVar("Written", bound=Recorded)
IDLE = "idle-trigger"
"""The source whose messages are never stored (SPEC AG-21)."""

MAX_INPUTS = 500
"""How many waiting inputs one turn covers; what is behind them wakes the next turn."""


class Forgotten(Exception):
    """The journal does not hold the beginning of this turn: it is longer than what is kept."""


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
        """What the turn amounts to with all facts, also those that are only noted."""
        self.carrier = carrier
        self.covered_to = covered_to
        self.start_seq = start_seq
        self.owed_from: int | None = None
        self.last_seq = 0
        self.taken_at = 0
        """The journal sequence at which it became ours: of two owners the later one counts."""
        self.waiting: dict[int, Waiting] = {}
        self.forgotten = False
        """Whether its turn began before anything that the journal still holds."""
        self._noted: list[Fact] = []
        self._durable = turn
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
            if not noted:
                return
            try:
                await self._write(noted)
            except TooLong:
                # What is not in the journal has not happened.
                self.turn = self._durable
                raise

    async def begin(self, fact: TurnStarted | TurnResumed) -> None:
        """Make the lane ours: the fact that says so is the first of ours."""
        if isinstance(fact, TurnStarted):
            await self._write([fact])
        else:
            await self.append(fact)
        self.taken_at = self.last_seq

    async def record(self) -> None:
        """Make durable what the lane owes, and nothing else."""
        await self._write_entry([])

    async def _write(self, facts: Sequence[Fact]) -> None:
        """Append facts, in as many entries as they need: each prefix of a turn is a turn."""
        try:
            await self._write_entry(facts)
        except TooLong:
            if len(facts) > 1:
                half = len(facts) // 2
                await self._write(facts[:half])
                await self._write(facts[half:])
            else:
                await self._write_shorter(facts[0])

    async def _write_shorter(self, fact: Fact) -> None:
        for form in shorter(fact):
            try:
                await self._write_entry([form])
            except TooLong:
                continue
            return
        raise TooLong(f"a fact {fact.type} of turn {self.turn.turn_id} does not fit")

    async def _write_entry(self, facts: Sequence[Fact]) -> None:
        entry = JournalEntry(
            session_id=self.turn.session_id,
            lane=self.turn.lane,
            turn_id=self.turn.turn_id,
            covered_to=self.covered_to,
            carrier=self.carrier,
            ended=self.turn.ended is not None and (not facts or _ends(facts[-1], self.turn)),
            start_seq=self.start_seq,
            owed_from=self.owed_from,
            facts=list(facts),
        )
        key = f"{self.turn.owner}.{self.last_seq}"
        for fact in facts:
            failpoint(f"agent.append.{fact.type}")
        self.last_seq = await self._journal.append(entry, self.last_seq, key)
        for fact in facts:
            failpoint(f"agent.appended.{fact.type}")
        self._durable = fold(self._durable, facts)
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
        try:
            if last is not None and last.entry.covered_to >= seq:
                if last.entry.carrier != seq:
                    return Covered()
                if last.entry.ended:
                    return Covered(await finished(journal, last))
                return await _resume(journal, last, owner, delivered, now())
            return await _take_new(journal, session_id, lane, last, seq, owner, now())
        except Lost:
            continue


async def finished(journal: Journal, last: Recorded) -> Turn | None:
    """Return the turn that the lane's newest entry belongs to; None if its beginning is gone."""
    try:
        return await read_turn(journal, last)
    except Forgotten:
        return None


async def _take_new(  # noqa: PLR0913, PLR0917 - as take
    journal: Journal,
    session_id: str,
    lane: str,
    last: Recorded | None,
    seq: int,
    owner: str,
    at: int,
) -> Lane | Covered:
    waiting = await journal.waiting(session_id, lane, last.entry.covered_to if last else 0)
    place = next((place for place, one in enumerate(waiting) if one.seq == seq), None)
    if place is None:
        # It is gone from the mailbox, or not readable: its own delivery has said so.
        return Covered()
    covered = waiting[: max(MAX_INPUTS, place + 1)]
    running = None
    if last is not None and not last.entry.ended:
        running = await finished(journal, last)
    taken = await _start(
        journal, session_id, lane, last, running, covered, carrier=seq, owner=owner, at=at
    )
    unprepared = running.unprepared if running is not None else []
    if unprepared:
        earlier = await journal.waiting(session_id, lane, unprepared[0] - 1)
        taken.waiting.update({one.seq: one for one in earlier if one.seq in unprepared})
    return taken


async def _start(  # noqa: PLR0913 - as take
    journal: Journal,
    session_id: str,
    lane: str,
    last: Recorded | None,
    running: Turn | None,
    covered: list[Waiting],
    *,
    carrier: int,
    owner: str,
    at: int,
) -> Lane:
    """Append a new turn's first fact; it pre-empts `running` and takes over what that had left."""
    unprepared = running.unprepared if running is not None else []
    inputs = [*unprepared, *(one.seq for one in covered)]
    to_seq = covered[-1].seq
    started = TurnStarted(
        turn_id=turn_id(session_id, lane, to_seq),
        from_seq=inputs[0],
        to_seq=to_seq,
        inputs=inputs,
        preempts=start_of(last) if running is not None and last is not None else None,
        owner=owner,
        at=at,
    )
    covered_to = max(to_seq, last.entry.covered_to if last is not None else 0)
    taken = Lane(journal, begin(session_id, lane, started), None, carrier, covered_to)
    taken.owed_from = last.entry.owed_from if last is not None else None
    taken.last_seq = last.seq if last is not None else 0
    taken.waiting = {one.seq: one for one in covered}
    await taken.begin(started)
    return taken


async def _resume(
    journal: Journal, last: Recorded, owner: str, delivered: int, at: int
) -> Lane | Covered:
    entry = last.entry
    try:
        turn = await read_turn(journal, last)
    except Forgotten:
        # What it has done nobody knows any more, so it is not done again, only ended.
        mailbox = await journal.waiting(entry.session_id, entry.lane, entry.carrier - 1)
        if not mailbox or mailbox[0].seq != entry.carrier:
            return Covered()
        lane = await _start(
            journal,
            entry.session_id,
            entry.lane,
            last,
            None,
            mailbox[:1],
            carrier=entry.carrier,
            owner=owner,
            at=at,
        )
        lane.forgotten = True
        return lane
    lane = hold(journal, last, turn)
    resumed = TurnResumed(turn_id=entry.turn_id, owner=owner, delivery=delivered, at=at)
    await lane.begin(resumed)
    await find_waiting(journal, lane)
    return lane


def hold(journal: Journal, last: Recorded, turn: Turn) -> Lane:
    """Return the lane as its newest entry leaves it; ours only once we have appended to it."""
    entry = last.entry
    lane = Lane(journal, turn, start_of(last), entry.carrier, entry.covered_to)
    lane.owed_from = entry.owed_from
    lane.last_seq = last.seq
    return lane


async def find_waiting(journal: Journal, lane: Lane) -> None:
    """Read the messages of the inputs that the turn has not come to."""
    turn = lane.turn
    missing = turn.unprepared
    if missing:
        waiting = await journal.waiting(turn.session_id, turn.lane, missing[0] - 1)
        lane.waiting = {one.seq: one for one in waiting if one.seq in turn.inputs}


async def read_turn(journal: Journal, last: Recorded) -> Turn:
    """Fold the turn that the lane's newest entry belongs to; `Forgotten` without its beginning."""
    entry = last.entry
    records = await journal.read(entry.session_id, entry.lane, start_of(last))
    return fold_records([one for one in records if one.seq <= last.seq])


async def read_turn_at(journal: Journal, session_id: str, lane: str, start: int) -> Turn:
    """Fold the turn that began at the journal sequence `start`; `Forgotten` if it is gone."""
    turns = split_turns(await journal.read(session_id, lane, start))
    if not turns:
        raise Forgotten(f"nothing is left of the turn that began at {start}")
    return fold_records(turns[0])


def split_turns(records: Sequence[Written]) -> list[list[Written]]:
    """Split a lane's entries into turns: each begins with `turn.started`, alone in its entry.

    Entries before the first beginning belong to a turn that the journal no longer holds whole.
    """
    turns: list[list[Written]] = []
    for one in records:
        if one.entry.facts and isinstance(one.entry.facts[0], TurnStarted):
            turns.append([one])
        elif turns:
            turns[-1].append(one)
    return turns


def fold_records(records: Sequence[Recorded]) -> Turn:
    """Fold the entries of one turn, from its first on."""
    facts = [fact for one in records for fact in one.entry.facts]
    first = facts[0] if facts else None
    if not isinstance(first, TurnStarted):
        raise Forgotten("the journal does not hold the beginning of this turn")
    entry = records[0].entry
    return fold(begin(entry.session_id, entry.lane, first), facts[1:])


def start_of(last: Recorded) -> int:
    """Return the journal sequence at which the turn of this entry began."""
    return last.entry.start_seq if last.entry.start_seq is not None else last.seq


def _ends(fact: Fact, turn: Turn) -> bool:
    return isinstance(fact, TurnEnded) and fact.turn_id in {None, turn.turn_id}


def as_it_came(waiting: Waiting) -> InputPrepared:
    """Return an input that nobody has prepared, for a turn that ends before it came to it."""
    return InputPrepared(
        input_seq=waiting.seq,
        message=waiting.incoming,
        metadata=dict(waiting.incoming.metadata or {}),
        owed=True if waiting.incoming.source != IDLE else None,
        arrived_at=waiting.arrived_at,
    )
