"""This is about aborts: ending a session's running turns on somebody's word (AG-13 to AG-15).

It is recorded in the journal first, then signalled: an owner that does not hear the signal is
refused at its next append.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aalis_agent.lane import read_turn
from aalis_agent.ports import Journal, Lost, Recorded
from aalis_contracts.journal import TurnEnded

if TYPE_CHECKING:
    from collections.abc import Callable

    from aalis_agent.endings import Endings
    from aalis_agent.ports import Outbound
    from aalis_agent.steps import Turn


class Aborts:
    """Aborts running turns, wherever they run."""

    def __init__(
        self, journal: Journal, outbound: Outbound, endings: Endings, now: Callable[[], int]
    ) -> None:
        self._journal = journal
        self._outbound = outbound
        self._endings = endings
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
            turn = await read_turn(self._journal, found)
            if turn.replying is not None:
                return False
            try:
                await self._end(found, turn)
            except Lost:
                found = await self._journal.last(turn.session_id, turn.lane)
                continue
            return True
        return False

    async def _end(self, last: Recorded, turn: Turn) -> None:
        from dataclasses import replace  # noqa: PLC0415 - one caller

        fact = TurnEnded(outcome="aborted", at=self._now())
        start = last.entry.start_seq if last.entry.start_seq is not None else last.seq
        entry = last.entry.model_copy(update={"facts": [fact], "ended": True, "start_seq": start})
        seq = await self._journal.append(entry, last.seq, f"abort.{last.seq}")
        await self._outbound.abort(turn.session_id, turn.lane, turn.turn_id, "aborted")
        owed = await self._endings.complete(replace(turn, ended=fact))
        if owed:
            owing = entry.model_copy(
                update={"facts": [], "owed_from": entry.owed_from or start, "ended": True}
            )
            await self._journal.append(owing, seq, f"owing.{seq}")
