"""This is about endings: delivering a promised reply, settling a stopped turn, announcing (§2.13).

Every effect carries a derived id, so the owner, its successor, and whoever aborts may all do the
same thing: done twice is done once. A turn is announced by whoever appended its last fact.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from aalis_agent.lane import Lane, read_turn_at
from aalis_agent.ports import Journal, Memory, Outbound, Unavailable
from aalis_agent.reply import (
    SETTLED_BLOCK,
    done_frame,
    failure_message,
    frame_number,
    outgoing,
    rows,
    rows_of_aborted,
)
from aalis_contracts.events import TurnAfter
from aalis_contracts.journal import InputPrepared, RowsSaved, TurnEnded
from aalis_contracts.subjects import turn_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from aalis_agent.ports import Tools
    from aalis_agent.steps import Turn
    from aalis_contracts.catalogue import Catalogue
    from aalis_contracts.messages import Message, Outcome

LAST_FRAME = 999_999


class Endings:
    """Ends turns, one's own and others'."""

    def __init__(  # noqa: PLR0913 - the ports an ending needs
        self,
        journal: Journal,
        memory: Memory,
        outbound: Outbound,
        tools: Tools,
        texts: Catalogue,
        now: Callable[[], int],
    ) -> None:
        self._journal = journal
        self._memory = memory
        self._outbound = outbound
        self._tools = tools
        self._texts = texts
        self._now = now

    async def deliver(self, lane: Lane) -> None:
        """Do what `turn.replying` has promised, then end the turn (SPEC AG-56, AG-61)."""
        turn = lane.turn
        replying = turn.replying
        if replying is None:
            message = f"turn {turn.turn_id} has promised nothing"
            raise ValueError(message)
        owed = await self._save(turn, rows(turn))
        await self._say(turn)
        if owed or turn.owing:
            lane.owed_from = lane.owed_from or lane.start_seq
        elif turn.row_count > turn.saved_to:
            lane.note(RowsSaved(input_seq=turn.answered.input_seq, through_index=turn.row_count))
        await lane.append(TurnEnded(outcome=replying.outcome, at=self._now()))

    async def settle(self, lane: Lane, start_seq: int) -> None:
        """End the turn that this lane's turn has pre-empted (SPEC AG-11, AG-15, AG-68)."""
        turn = lane.turn
        earlier = await read_turn_at(self._journal, turn.session_id, turn.lane, start_seq)
        if earlier.preempts is not None and not earlier.settled:
            await self.settle(lane, earlier.preempts)
        ended, owed = await self.finish(earlier)
        if owed:
            lane.owed_from = lane.owed_from or start_seq
        lane.note(ended.model_copy(update={"turn_id": earlier.turn_id}))

    async def finish(self, turn: Turn) -> tuple[TurnEnded, bool]:
        """Complete or abort a turn that somebody else ran; return its end, and if rows are owed."""
        if turn.replying is not None:
            ended = TurnEnded(outcome=turn.replying.outcome, at=self._now())
        else:
            ended = TurnEnded(outcome="aborted", at=self._now())
        owed = await self.complete(replace(turn, ended=ended), SETTLED_BLOCK)
        return ended, owed

    async def complete(self, turn: Turn, block: int | None = None) -> bool:
        """Do all that is due when a turn has ended; doing it again does nothing (AG-60 to AG-68).

        Returns True when memory did not take the turn's rows, so that they are owed.
        """
        ended = turn.ended
        if ended is None:
            message = f"turn {turn.turn_id} has not ended"
            raise ValueError(message)
        owed = turn.owing
        if ended.outcome == "aborted":
            await self._cancel_calls(turn)
            if _planned(turn):
                owed = await self._save(turn, rows_of_aborted(turn, self._texts)) or owed
        elif block is not None and turn.replying is not None:
            # Its owner may have died anywhere in here.
            owed = await self._save(turn, rows(turn)) or owed
            await self._say(turn, block)
        await self.announce(turn, ended, block)
        return owed

    async def announce(self, turn: Turn, ended: TurnEnded, block: int | None = None) -> None:
        """Tell everybody how each covered input ended, each once (SPEC AG-60 to AG-68)."""
        number = frame_number(turn.resumed if block is None else block, LAST_FRAME)
        answered = turn.plan.input_seq if turn.plan is not None else None
        async with asyncio.TaskGroup() as group:
            for seq, prepared in turn.prepared.items():
                outcome = ended.outcome if seq == answered else "aborted"
                group.create_task(self._announce_one(turn, prepared, outcome, ended, number))

    async def _announce_one(
        self, turn: Turn, prepared: InputPrepared, outcome: str, ended: TurnEnded, number: int
    ) -> None:
        answer_id = turn_id(turn.session_id, turn.lane, prepared.input_seq)
        platform = prepared.message.platform
        answered = turn.plan is not None and turn.plan.input_seq == prepared.input_seq
        if prepared.swallowed_by is not None:
            frame = done_frame(turn, platform, answer_id, "swallowed", number)
            await self._outbound.last_frame(frame)
            return
        if not (answered and turn.replying is not None):
            await self._outbound.last_frame(
                done_frame(turn, platform, answer_id, outcome, number)
            )
        if answered and ended.outcome == "error" and ended.text:
            await self._outbound.dispatch(failure_message(turn, prepared.message, answer_id))
        await self._outbound.turn_after(
            TurnAfter(
                turn_id=answer_id,
                input_seq=prepared.input_seq,
                session_id=turn.session_id,
                lane=turn.lane,
                message=prepared.message,
                reply=_reply_of(turn) if answered and outcome == "replied" else None,
                outcome=_outcome(outcome),
                metadata=prepared.metadata,
                error=ended.error if answered else None,
            )
        )

    async def _say(self, turn: Turn, block: int | None = None) -> None:
        """Publish the `done` frame, then the reply (SPEC STR-5)."""
        replying = turn.replying
        if replying is None:
            return
        incoming = turn.answered.message
        number = frame_number(turn.resumed if block is None else block, LAST_FRAME)
        await self._outbound.last_frame(
            done_frame(
                turn,
                incoming.platform,
                turn.answer_id,
                replying.outcome,
                number,
                limit=bool(replying.tool_limit_reached),
            )
        )
        if replying.outcome == "replied":
            await self._outbound.dispatch(outgoing(turn))

    async def _save(self, turn: Turn, kept: list[Message]) -> bool:
        """Save rows that are not kept yet; True when memory does not answer and they are owed."""
        missing = [row for row in kept if (row.index or 0) > turn.saved_to]
        if not missing:
            return False
        try:
            await self._memory.save(turn.session_id, missing)
        except Unavailable:
            return True
        return False

    async def _cancel_calls(self, turn: Turn) -> None:
        for one in turn.groups:
            for index in one.pending:
                started = one.started.get(index)
                if started is not None:
                    await self._tools.cancel(started.name, started.key, "aborted")


def _planned(turn: Turn) -> bool:
    return turn.plan is not None and turn.plan.input_seq is not None


def _reply_of(turn: Turn) -> str | None:
    return turn.replying.content if turn.replying is not None else None


def _outcome(outcome: str) -> Outcome:
    match outcome:
        case "replied" | "silent" | "aborted" | "error":
            return outcome
        case _:
            return "error"
