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

from aalis_agent.lane import Covered, Lane, take
from aalis_agent.ports import HandBack, Lost, Unavailable
from aalis_agent.turn import TurnRunner
from aalis_contracts.contract import InvalidBody
from aalis_contracts.journal import InputPrepared, TurnEnded, TurnPlanned
from aalis_contracts.messages import IncomingMessage
from aalis_contracts.subjects import lane_of
from aalis_sdk import logs, tracing
from aalis_sdk.delivery import Delivery, Leave, Reject, Retry

if TYPE_CHECKING:
    from aalis_agent.debts import Debts
    from aalis_agent.parts import Parts
    from aalis_contracts.events import AgentAbort

AGENT = "aalis"


@dataclass(slots=True)
class Running:
    """A turn that runs in this process."""

    lane: Lane
    task: asyncio.Task[None]
    stopped: bool = False


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
        owner = f"{self._instance}.{uuid.uuid4().hex[:8]}"
        taken = await take(
            self._parts.journal,
            session_id,
            lane,
            delivery.seq,
            owner=owner,
            delivered=delivery.delivered,
            now=self._parts.now,
        )
        if isinstance(taken, Covered):
            if taken.finished is not None:
                await self._parts.endings.complete(taken.finished)
            return
        if taken.turn.preempts is not None:
            await self._pre_empt(taken)
        if delivery.delivered > self._max_deliver:
            await self._give_up(taken, delivery)
        await self._run(taken, delivery)

    async def _pre_empt(self, taken: Lane) -> None:
        """Tell the old owner to stop at once instead of at its next append (SPEC AG-11)."""
        turn = taken.turn
        here = self._running.get((turn.session_id, turn.lane))
        if here is not None:
            _stop(here)
        await self._parts.outbound.abort(turn.session_id, turn.lane, turn.turn_id, "preempted")

    async def aborted(self, event: AgentAbort) -> None:
        """Stop the lane's turn if it runs here and is not the one that the signal speaks for."""
        here = self._running.get((event.session_id, event.lane))
        if here is None:
            return
        newer = event.reason == "preempted" and here.lane.turn.turn_id == event.turn_id
        if not newer:
            _stop(here)

    async def _run(self, lane: Lane, delivery: Delivery) -> None:
        turn = lane.turn
        key = (turn.session_id, turn.lane)
        runner = TurnRunner(self._parts, self._debts, lane, lambda: self._leaving)
        task = asyncio.create_task(self._traced(runner, lane))
        running = Running(lane, task)
        self._running[key] = running
        try:
            await asyncio.shield(task)
        except Lost:
            await self._lost(lane)
        except HandBack:
            raise Retry("this process is leaving", 0.0) from None
        except Unavailable as error:
            raise Retry(str(error), 1.0) from None
        except asyncio.CancelledError:
            if not running.stopped:
                # The process is leaving and its grace is over: another replica goes on.
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                raise
            await asyncio.gather(task, return_exceptions=True)
            await self._lost(lane)
        finally:
            if self._running.get(key) is running:
                del self._running[key]
        if lane.owed_from is not None:
            self._debts.remember(turn.session_id, turn.lane)

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
        last = await self._parts.journal.last(turn.session_id, turn.lane)
        if last is None or last.entry.carrier != lane.carrier:
            return
        if not last.entry.ended:
            raise Leave("another replica has resumed this turn")

    async def _give_up(self, lane: Lane, delivery: Delivery) -> None:
        """End a turn that failed too often: the person is told once, the input is kept (AG-67)."""
        text = self._parts.texts.text("errorAnswer") + " " + self._parts.texts.text("turnGaveUp")
        why = f"given up after {delivery.delivered - 1} deliveries"
        _note_what_is_missing(lane)
        try:
            await lane.append(
                TurnEnded(outcome="error", text=text, error=why, at=self._parts.now())
            )
            await self._parts.endings.complete(lane.turn)
        except Lost:
            await self._lost(lane)
            return
        raise Reject(why, lane.turn.turn_id)


def _note_what_is_missing(lane: Lane) -> None:
    """Note the inputs as they came, and which one this turn was about: it is told that it failed."""
    for seq in lane.turn.inputs:
        waiting = lane.waiting.get(seq)
        if seq not in lane.turn.prepared and waiting is not None:
            lane.note(
                InputPrepared(
                    input_seq=seq,
                    message=waiting.incoming,
                    metadata=waiting.incoming.metadata or {},
                    owed=True,
                    arrived_at=waiting.arrived_at,
                )
            )
    if lane.turn.plan is None and lane.turn.prepared:
        lane.note(TurnPlanned(input_seq=max(lane.turn.prepared)))


def _stop(running: Running) -> None:
    running.stopped = True
    running.task.cancel()
