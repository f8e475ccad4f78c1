"""This is about endings: delivering a promised reply, settling a stopped turn, announcing (§2.13).

Every effect carries a derived id, so the owner, its successor, and whoever aborts may all do the
same thing: done twice is done once. A turn is announced by whoever appended its last fact.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aalis_agent.lane import Forgotten, Lane, as_it_came, read_turn_at
from aalis_agent.ports import Journal, Memory, Outbound, Refused, Unavailable
from aalis_agent.reply import (
    SETTLED_BLOCK,
    done_frame,
    failure_message,
    frame_number,
    outgoing,
    rows,
    rows_of_aborted,
)
from aalis_agent.together import together
from aalis_contracts.events import ToolExecute, TurnAfter
from aalis_contracts.journal import InputPrepared, RowsSaved, TurnEnded, TurnPlanned
from aalis_contracts.subjects import turn_id
from aalis_contracts.tools import error_result
from aalis_sdk.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from aalis_agent.ports import Tools
    from aalis_agent.steps import Round, Turn
    from aalis_contracts.catalogue import Catalogue
    from aalis_contracts.messages import Message, Outcome
    from aalis_sdk.logs import Log

LAST_FRAME = 999_999


class Endings:
    """Ends turns, one's own and others'."""

    def __init__(  # noqa: PLR0913 - the ports an ending needs, by name
        self,
        *,
        journal: Journal,
        memory: Memory,
        outbound: Outbound,
        tools: Tools,
        texts: Catalogue,
        now: Callable[[], int],
        log: Log,
    ) -> None:
        self._journal = journal
        self._memory = memory
        self._outbound = outbound
        self._tools = tools
        self._texts = texts
        self._now = now
        self._log = log

    async def deliver(self, lane: Lane) -> None:
        """Do what `turn.replying` has promised, then end the turn (SPEC AG-56, AG-61)."""
        turn = lane.turn
        replying = turn.replying
        if replying is None:
            message = f"turn {turn.turn_id} has promised nothing"
            raise ValueError(message)
        owed = await self.save(turn, rows(turn))
        await self._say(turn)
        if owed or turn.owing:
            lane.owed_from = lane.owed_from or lane.start_seq
        elif turn.row_count > turn.saved_to:
            lane.note(RowsSaved(input_seq=turn.answered.input_seq, through_index=turn.row_count))
        await lane.append(TurnEnded(outcome=replying.outcome, at=self._now()))

    async def fail(self, lane: Lane, text: str, error: str) -> None:
        """End a turn in error: its whole groups stay, its inputs are told of (SPEC AG-63, AG-67).

        What it had not come to is noted as it came, so that no input is forgotten.
        """
        note_unprepared(lane)
        if lane.turn.plan is None and lane.turn.newest is not None:
            lane.note(TurnPlanned(input_seq=lane.turn.newest.input_seq))
        turn = lane.turn
        owed = _answers(turn) and await self.save(turn, rows(turn))
        if owed or turn.owing:
            lane.owed_from = lane.owed_from or lane.start_seq
        await lane.append(TurnEnded(outcome="error", text=text, error=error, at=self._now()))

    async def settle(self, lane: Lane, start_seq: int) -> None:
        """End the turn that this lane's turn has pre-empted (SPEC AG-11, AG-15, AG-68)."""
        turn = lane.turn
        try:
            earlier = await read_turn_at(self._journal, turn.session_id, turn.lane, start_seq)
        except Forgotten as error:
            self._log.warning("a pre-empted turn cannot be told of", reason=str(error))
            lane.note(TurnEnded(turn_id=f"@{start_seq}", outcome="aborted", at=self._now()))
            return
        if earlier.preempts is not None and not earlier.settled:
            await self.settle(lane, earlier.preempts)
        replying = earlier.replying
        outcome = replying.outcome if replying is not None else "aborted"
        ended = TurnEnded(turn_id=earlier.turn_id, outcome=outcome, at=self._now())
        if await self.complete(replace(earlier, ended=ended), SETTLED_BLOCK):
            lane.owed_from = lane.owed_from or start_seq
        failpoint("agent.settled")
        lane.note(ended)

    async def complete(self, turn: Turn, block: int | None = None) -> bool:
        """Do all that is due when a turn has ended; doing it again does nothing (AG-60 to AG-68).

        `block` is the block of frame numbers of one who ends another's turn. Returns True when
        memory did not take the turn's rows, so that they are owed.
        """
        ended = turn.ended
        if ended is None:
            message = f"turn {turn.turn_id} has not ended"
            raise ValueError(message)
        owed = turn.owing
        if turn.replying is None:
            await self._cancel_calls(turn)
        if ended.outcome == "aborted" and _answers(turn):
            owed = await self.save(turn, rows_of_aborted(turn, self._texts)) or owed
        elif block is not None and turn.replying is not None:
            # Its owner may have died anywhere in here.
            owed = await self.save(turn, rows(turn)) or owed
            await self._say(turn, block)
        await self._announce(turn, ended, block)
        return owed

    def leaves_rows(self, turn: Turn) -> bool:
        """Say whether an aborted turn leaves rows that memory has not confirmed."""
        kept = rows_of_aborted(turn, self._texts) if _answers(turn) else []
        return turn.owing or any((row.index or 0) > turn.saved_to for row in kept)

    async def save(self, turn: Turn, kept: list[Message]) -> bool:
        """Save rows that are not kept yet; True when memory does not answer and they are owed."""
        missing = [row for row in kept if (row.index or 0) > turn.saved_to]
        if not missing:
            return False
        failpoint("agent.rows.saving")
        try:
            await self._memory.save(turn.session_id, missing)
        except Unavailable:
            return True
        except Refused as error:
            # Asking again would be refused again, and would hold up whatever else is owed.
            self._log.warning("rows are not saved", turn=turn.turn_id, why=str(error))
        failpoint("agent.rows.saved")
        return False

    async def _announce(self, turn: Turn, ended: TurnEnded, block: int | None) -> None:
        """Tell everybody how each covered input ended, each once (SPEC AG-60 to AG-68)."""
        number = frame_number(turn.resumed if block is None else block, LAST_FRAME)
        answered = turn.plan.input_seq if turn.plan is not None else None
        await together(
            self._announce_answered(turn, prepared, ended, number)
            if seq == answered
            else self._announce_other(turn, prepared, number)
            for seq, prepared in turn.prepared.items()
        )

    async def _announce_answered(
        self, turn: Turn, prepared: InputPrepared, ended: TurnEnded, number: int
    ) -> None:
        outcome: Outcome = "error" if ended.outcome == "swallowed" else ended.outcome
        reply = turn.replying
        if reply is None:
            frame = done_frame(turn, prepared.message.platform, turn.answer_id, outcome, number)
            await self._outbound.last_frame(frame)
        if outcome == "error" and ended.text:
            await self._outbound.dispatch(failure_message(turn, ended.text))
        said = reply.content if reply is not None and outcome == "replied" else None
        await self._after(turn, prepared, outcome, said, ended.error)

    async def _announce_other(self, turn: Turn, prepared: InputPrepared, number: int) -> None:
        """Tell of an input that was covered but not answered, or that nobody was to see."""
        answer_id = turn_id(turn.session_id, turn.lane, prepared.input_seq)
        swallowed = prepared.swallowed_by is not None
        outcome = None if swallowed else "aborted"
        await self._outbound.last_frame(
            done_frame(turn, prepared.message.platform, answer_id, outcome, number)
        )
        if not swallowed:
            await self._after(turn, prepared, "aborted", None, None)

    async def _after(
        self,
        turn: Turn,
        prepared: InputPrepared,
        outcome: Outcome,
        reply: str | None,
        error: str | None,
    ) -> None:
        await self._outbound.turn_after(
            TurnAfter(
                turn_id=turn_id(turn.session_id, turn.lane, prepared.input_seq),
                input_seq=prepared.input_seq,
                session_id=turn.session_id,
                lane=turn.lane,
                message=prepared.message,
                reply=reply,
                outcome=outcome,
                metadata=prepared.metadata,
                error=error,
            )
        )

    async def _say(self, turn: Turn, block: int | None = None) -> None:
        """Publish the `done` frame, then the reply (SPEC STR-5)."""
        replying = turn.replying
        if replying is None:
            return
        platform = turn.answered.message.platform
        number = frame_number(turn.resumed if block is None else block, LAST_FRAME)
        await self._outbound.last_frame(
            done_frame(turn, platform, turn.answer_id, replying.outcome, number)
        )
        if replying.outcome == "replied":
            await self._outbound.dispatch(outgoing(turn))

    async def _cancel_calls(self, turn: Turn) -> None:
        """Tell the hosts that nobody waits any more, and everybody that these calls are over."""
        for one in turn.groups:
            for index in one.pending:
                await self._cancel_call(turn, one, index)

    async def _cancel_call(self, turn: Turn, one: Round, index: int) -> None:
        started = one.started.get(index)
        if started is None:
            return
        await self._tools.cancel(started.name, started.key, "aborted")
        over = ToolExecute(
            session_id=turn.session_id,
            platform=turn.answered.message.platform,
            turn_id=turn.answer_id,
            call_id=one.calls[index].id or started.key,
            tool_name=started.name,
            args=started.args,
            phase="end",
            result=error_result(self._texts.text("cancelled")).content,
        )
        await self._outbound.tool_event(over, started.key)


def note_unprepared(lane: Lane) -> None:
    """Note the inputs that the turn has not come to, as they came: their rows are owed."""
    waiting = (lane.waiting.get(seq) for seq in lane.turn.unprepared)
    lane.note(*(as_it_came(one) for one in waiting if one is not None))


def _answers(turn: Turn) -> bool:
    return turn.plan is not None and turn.plan.input_seq is not None
