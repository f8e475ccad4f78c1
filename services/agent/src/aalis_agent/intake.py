"""This is about intake: a delivery arrives, is taken up, kept alive, and given back or done.

A delivery of a mailbox message is a wake-up (DESIGN §5). Exactly one delivery carries a turn: its
redelivery means that the owner is dead or frozen, and resumes the turn; all others are done as
soon as some turn covers them.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aalis_agent.lane import Covered, Lane, finished, take
from aalis_agent.ports import HandBack, Lost, Unavailable
from aalis_agent.turn import TurnRunner
from aalis_contracts.contract import InvalidBody
from aalis_contracts.messages import IncomingMessage
from aalis_contracts.subjects import lane_of
from aalis_sdk import logs, tracing
from aalis_sdk.delivery import Delivery, Leave, Reject, Retry
from aalis_sdk.serving import end

if TYPE_CHECKING:
    from aalis_agent.debts import Debts
    from aalis_agent.parts import Parts
    from aalis_agent.steps import Turn
    from aalis_contracts.events import AgentAbort

AGENT = "aalis"
GIVEN_UP = "given up"
"""How the error of a turn begins whose input goes to DEAD."""


@dataclass(slots=True)
class Running:
    """A turn that runs in this process."""

    lane: Lane
    task: asyncio.Task[None]
    stopped: bool = False

    def stop(self) -> None:
        """End it: its lane has a new owner, or none any more."""
        self.stopped = True
        self.task.cancel()


class Intake:
    """Takes deliveries of mailbox messages and runs the turns they ask for."""

    def __init__(self, parts: Parts, debts: Debts, instance: str, max_deliver: int) -> None:
        self._parts = parts
        self._debts = debts
        self._instance = instance
        self._max_deliver = max_deliver
        self._running: dict[tuple[str, str], Running] = {}
        self._leaving = False

    @property
    def running(self) -> int:
        """How many turns run here."""
        return len(self._running)

    def leave(self) -> None:
        """From now on, hand turns back at their next step boundary."""
        self._leaving = True

    async def handle(self, delivery: Delivery) -> None:
        """Handle one delivery; returning acknowledges it."""
        session_id, lane = lane_of(delivery.subject)
        try:
            incoming = IncomingMessage.from_json(delivery.data)
        except InvalidBody as error:
            raise Reject(str(error)) from None
        if incoming.session_id != session_id:
            why = f"sessionId {incoming.session_id!r} is not the mailbox's {session_id!r}"
            raise Reject(why)
        with logs.bound(session=session_id, lane=lane):
            await self._handle(session_id, lane, delivery)

    async def _handle(self, session_id: str, lane: str, delivery: Delivery) -> None:
        here = self._running.get((session_id, lane))
        if here is not None and here.lane.carrier == delivery.seq and not here.stopped:
            # Our own sign of life was lost on the way: the turn goes on, both deliveries are one.
            await asyncio.wait({here.task})
            raise Leave("its turn runs in this process")
        taken = await take(
            self._parts.journal,
            session_id,
            lane,
            delivery.seq,
            owner=f"{self._instance}.{uuid.uuid4().hex[:8]}",
            delivered=delivery.delivered,
            now=self._parts.now,
        )
        if isinstance(taken, Covered):
            if taken.finished is not None:
                await self._complete(taken.finished)
            return
        if taken.turn.preempts is not None and not taken.turn.resumed:
            # Tell the old owner to stop at once instead of at its next append (SPEC AG-11).
            turn = taken.turn
            await self._parts.outbound.abort(session_id, lane, turn.turn_id, "preempted")
        try:
            if taken.forgotten or self._is_hopeless(taken):
                await self._give_up(taken)
            else:
                await self._run(taken)
        finally:
            if taken.owed_from is not None:
                self._debts.remember(session_id, lane)

    async def aborted(self, event: AgentAbort) -> None:
        """Stop the lane's turn if it runs here and the signal speaks of it (SPEC AG-14).

        Signals may be late: a turn that began after the one spoken of goes on.
        """
        here = self._running.get((event.session_id, event.lane))
        if here is None:
            return
        if event.reason == "aborted":
            meant = event.turn_id in {None, here.lane.turn.turn_id}
        else:
            meant = here.lane.covered_to < _input_of(event.turn_id)
        if meant:
            here.stop()

    async def _run(self, lane: Lane) -> None:
        turn = lane.turn
        key = (turn.session_id, turn.lane)
        earlier = self._running.get(key)
        if earlier is not None and earlier.lane.taken_at > lane.taken_at:
            # Two deliveries were taken up at once here, and the other one came second.
            await self._lost(lane)
            return
        if earlier is not None:
            earlier.stop()
        runner = TurnRunner(self._parts, self._debts, lane, lambda: self._leaving)
        running = Running(lane, asyncio.create_task(self._traced(runner, lane)))
        self._running[key] = running
        try:
            await asyncio.shield(running.task)
        except Lost:
            await self._lost(lane)
        except HandBack:
            raise Retry("this process is leaving", 0.0) from None
        except Unavailable as error:
            raise Retry(str(error), 1.0) from None
        except asyncio.CancelledError:
            # Either the turn was stopped, or the process is leaving and its grace is over: then
            # another replica goes on.
            await end(running.task)
            if not running.stopped:
                raise
            await self._lost(lane)
        finally:
            if self._running.get(key) is running:
                del self._running[key]

    async def _complete(self, turn: Turn) -> None:
        """Do what is due after the last fact of a turn, in case its owner died before it could."""
        if await self._parts.endings.complete(turn):
            self._debts.remember(turn.session_id, turn.lane)
        error = turn.ended.error if turn.ended is not None else None
        if error is not None and error.startswith(GIVEN_UP):
            raise Reject(error, turn.turn_id)

    async def _traced(self, runner: TurnRunner, lane: Lane) -> None:
        turn = lane.turn
        attributes = {
            tracing.OPERATION: "invoke_agent",
            tracing.AGENT_NAME: AGENT,
            tracing.CONVERSATION_ID: turn.session_id,
            tracing.TURN_ID: turn.turn_id,
        }
        with (
            logs.bound(turn=turn.turn_id),
            tracing.span(f"invoke_agent {AGENT}", attributes=attributes) as span,
        ):
            await runner.take_turn()
            if lane.turn.ended is not None:
                span.set_attribute(tracing.OUTCOME, lane.turn.ended.outcome)

    async def _lost(self, lane: Lane) -> None:
        """Find out who has the lane now: what is not ours is not touched (SPEC AG-17)."""
        turn = lane.turn
        lane.owed_from = None
        last = await self._parts.journal.last(turn.session_id, turn.lane)
        if last is None or last.entry.carrier != lane.carrier:
            return
        if not last.entry.ended:
            raise Leave("another replica has resumed this turn")
        # Somebody ended it in our place, and may have died before anybody was told: our delivery
        # is the last one that can see to it.
        ended = await finished(self._parts.journal, last)
        if ended is not None:
            await self._complete(ended)

    def _is_hopeless(self, lane: Lane) -> bool:
        """Say whether this turn has failed too often; what it has promised is always kept."""
        turn = lane.turn
        return turn.resumed >= self._max_deliver and turn.replying is None and turn.ended is None

    async def _give_up(self, lane: Lane) -> None:
        """End a turn that failed too often: the person is told once, the input is kept (AG-67)."""
        texts, endings = self._parts.texts, self._parts.endings
        why = f"{GIVEN_UP} after {self._max_deliver} deliveries"
        if lane.forgotten:
            why = f"{GIVEN_UP}: the journal does not hold the beginning of its turn any more"
        text = f"{texts.text('errorAnswer')} {texts.text('turnGaveUp')}"
        try:
            if lane.turn.preempts is not None and not lane.turn.settled:
                await endings.settle(lane, lane.turn.preempts)
            await endings.fail(lane, text, why)
        except Lost:
            await self._lost(lane)
            return
        await self._complete(lane.turn)


def _input_of(turn_id: str | None) -> int:
    """Return the input that a turn answers; 0 for what is no turn's id."""
    number = (turn_id or "").rpartition(":")[2]
    return int(number) if number.isdecimal() else 0
