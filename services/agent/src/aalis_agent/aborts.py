"""This is about aborts: ending a session's running turns on somebody's word (AG-13 to AG-15).

It is recorded in the journal first, then signalled: an owner that does not hear the signal is
refused at its next append.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from aalis_agent.endings import note_unprepared
from aalis_agent.lane import Forgotten, find_waiting, hold, read_turn
from aalis_agent.ports import Journal, Lost, Recorded
from aalis_contracts.journal import TurnEnded
from aalis_sdk.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from aalis_agent.debts import Debts
    from aalis_agent.endings import Endings
    from aalis_agent.lane import Lane
    from aalis_agent.ports import Outbound


class Aborts:
    """Aborts running turns, wherever they run."""

    def __init__(
        self,
        journal: Journal,
        outbound: Outbound,
        endings: Endings,
        debts: Debts,
        now: Callable[[], int],
    ) -> None:
        self._journal = journal
        self._outbound = outbound
        self._endings = endings
        self._debts = debts
        self._now = now

    async def abort(self, session_id: str, lane: str | None = None) -> list[str]:
        """End the running turns of a session, or of one lane; return the lanes that had one."""
        ended: list[str] = []
        for last in await self._journal.lanes(session_id):
            name = last.entry.lane
            if (lane is None or name == lane) and await self._abort(last):
                ended.append(name)
        return ended

    async def _abort(self, last: Recorded) -> bool:
        """End one lane's turn; a turn that has promised its reply is past the commit point."""
        found: Recorded | None = last
        while found is not None and not found.entry.ended:
            try:
                turn = await read_turn(self._journal, found)
            except Forgotten:
                return False
            if turn.replying is not None:
                return False
            # An owner's name of its own: its append must not be taken for a repeat of the owner's.
            lane = hold(self._journal, found, replace(turn, owner="abort"))
            try:
                await self._end(lane)
            except Lost:
                found = await self._journal.last(turn.session_id, turn.lane)
                continue
            return True
        return False

    async def _end(self, lane: Lane) -> None:
        await find_waiting(self._journal, lane)
        note_unprepared(lane)
        owed_before = lane.owed_from
        if self._endings.leaves_rows(lane.turn):
            # Whoever comes next must know of rows that are not saved yet, should we die here.
            lane.owed_from = owed_before or lane.start_seq
        await lane.append(TurnEnded(outcome="aborted", at=self._now()))
        failpoint("agent.abort.recorded")
        turn = lane.turn
        await self._outbound.abort(turn.session_id, turn.lane, turn.turn_id, "aborted")
        failpoint("agent.abort.signalled")
        if await self._endings.complete(turn):
            self._debts.remember(turn.session_id, turn.lane)
        elif lane.owed_from != owed_before:
            lane.owed_from = owed_before
            with contextlib.suppress(Lost):
                await lane.record()
