"""This is about debts: rows that memory did not take are owed, not lost (SPEC AG-19).

The journal says from which turn on a lane owes rows. They are saved in order before the lane's
next turn loads its history, and without waiting for one as soon as memory is back.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from aalis_agent.lane import fold_records, split_turns
from aalis_agent.ports import Journal, Lost, Memory, Recorded, Refused, Unavailable
from aalis_agent.reply import rows, rows_of_aborted
from aalis_sdk.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aalis_agent.lane import Lane
    from aalis_agent.steps import Turn
    from aalis_contracts.catalogue import Catalogue
    from aalis_contracts.messages import IncomingMessage, Message
    from aalis_sdk.logs import Log

MOST_REMEMBERED = 500


class Debts:
    """Pays what lanes owe to memory."""

    def __init__(self, journal: Journal, memory: Memory, texts: Catalogue, log: Log) -> None:
        self._journal = journal
        self._memory = memory
        self._texts = texts
        self._log = log
        self._debtors: OrderedDict[tuple[str, str], None] = OrderedDict()

    async def pay(self, lane: Lane) -> None:
        """Pay before this lane's turn loads its history; if memory is still away, go on owing."""
        if lane.owed_from is None:
            return
        turn = lane.turn
        records = await self._journal.read(turn.session_id, turn.lane, lane.owed_from)
        try:
            await self._pay(turns_of(records, besides=turn.turn_id))
        except Unavailable:
            return
        lane.owed_from = None

    def remember(self, session_id: str, lane: str) -> None:
        """Remember that a lane owes rows; the ones remembered longest are forgotten first.

        What is forgotten here is still in the journal, and paid by the lane's next turn.
        """
        self._debtors[(session_id, lane)] = None
        self._debtors.move_to_end((session_id, lane))
        if len(self._debtors) > MOST_REMEMBERED:
            self._debtors.popitem(last=False)

    async def pay_all(self) -> None:
        """Try to pay every lane that is remembered to owe; stop when memory is still away."""
        for session_id, lane in list(self._debtors):
            try:
                await self._pay_outside_a_turn(session_id, lane)
            except Unavailable:
                return
            except Lost:
                pass
            self._debtors.pop((session_id, lane), None)

    async def _pay_outside_a_turn(self, session_id: str, lane: str) -> None:
        last = await self._journal.last(session_id, lane)
        if last is None or not last.entry.ended or last.entry.owed_from is None:
            return
        records = await self._journal.read(session_id, lane, last.entry.owed_from)
        await self._pay(turns_of(records))
        failpoint("agent.debt.paid")
        paid = last.entry.model_copy(
            update={"owed_from": None, "facts": [], "start_seq": last.entry.start_seq or last.seq}
        )
        await self._journal.append(paid, last.seq, f"paid.{last.seq}")

    async def _pay(self, turns: Sequence[Turn]) -> None:
        count = 0
        for turn in turns:
            for seq, prepared in sorted(turn.prepared.items()):
                if prepared.owed:
                    await self._archive(prepared.message, seq, prepared.arrived_at)
                    count += 1
            kept = owed_rows(turn, self._texts)
            if kept:
                await self._save(turn, kept)
                count += len(kept)
        self._log.info("owed rows are saved", rows=count, turns=len(turns))

    async def _archive(self, message: IncomingMessage, seq: int, arrived_at: int) -> None:
        try:
            await self._memory.archive(message, seq, arrived_at)
        except Refused as error:
            self._log.warning("an owed input is not archived", input=seq, why=str(error))

    async def _save(self, turn: Turn, kept: list[Message]) -> None:
        try:
            await self._memory.save(turn.session_id, kept)
        except Refused as error:
            self._log.warning("owed rows are not saved", turn=turn.turn_id, why=str(error))


def turns_of(records: Sequence[Recorded], besides: str | None = None) -> list[Turn]:
    """Fold a lane's entries into its turns, in order; what has lost its beginning is left out."""
    folded = (fold_records(entries) for entries in split_turns(records))
    return [turn for turn in folded if turn.turn_id != besides]


def owed_rows(turn: Turn, texts: Catalogue) -> list[Message]:
    """Return every row of a finished turn; one that neither replied nor ended was pre-empted."""
    if turn.plan is None or turn.plan.input_seq is None:
        return []
    aborted = turn.replying is None and (turn.ended is None or turn.ended.outcome == "aborted")
    return rows_of_aborted(turn, texts) if aborted else rows(turn)
