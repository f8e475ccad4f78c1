"""This is about everything a turn says to the world, over NATS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aalis_agent.presence import Presence
from aalis_contracts import subjects
from aalis_contracts.dead import MESSAGE_ID_HEADER, TURN_HEADER
from aalis_contracts.errors import Fault
from aalis_contracts.events import AgentAbort, TokenUsage, ToolExecute, TurnAfter
from aalis_contracts.rpc import DispatchReply
from aalis_sdk.logs import Log
from aalis_sdk.mesh import Absent, Remote, TooLarge

if TYPE_CHECKING:
    from aalis_contracts.messages import OutgoingMessage, StreamFrame
    from aalis_sdk.mesh import Mesh

log = Log(__name__)


class MeshOutbound:
    """The outbound port over NATS."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self._gateway = Presence("gateway", "replies are published directly", log)

    async def frame(self, frame: StreamFrame) -> None:
        """Publish a piece of text without waiting for anything."""
        subject = subjects.stream(frame.platform, frame.session_id)
        await self._mesh.publish_quietly(subject, frame)

    async def last_frame(self, frame: StreamFrame) -> None:
        """Publish a `done` frame and wait until it is stored, once per turn."""
        subject = subjects.stream(frame.platform, frame.session_id)
        await self._mesh.store(subject, frame, f"{frame.turn_id}.done")

    async def dispatch(self, message: OutgoingMessage) -> None:
        """Send through the gateway; without one, publish directly (SPEC AG-58)."""
        subject = subjects.request(subjects.OUTBOUND_DISPATCH)
        try:
            reply = await self._mesh.request(subject, message, DispatchReply)
        except (Absent, Remote, Fault) as error:
            self._gateway.absent(str(error))
            direct = subjects.outbound(message.platform, message.session_id)
            headers = {TURN_HEADER: message.turn_id} if message.turn_id else None
            try:
                await self._mesh.store(direct, message, message.id, headers=headers)
            except TooLarge as problem:
                log.error("reply is too large to send", reason=str(problem))
        except TooLarge as problem:
            log.error("reply is too large to send", reason=str(problem))
        else:
            self._gateway.present()
            if not reply.sent:
                log.info("reply was not sent", reason=reply.reason)

    async def usage(self, usage: TokenUsage) -> None:
        """Publish `token:usage` and go on (SPEC USE-1)."""
        await self._mesh.publish(subjects.token_usage(usage.session_id), usage)

    async def tool_event(self, event: ToolExecute) -> None:
        """Publish `tool:execute` and go on; its id makes a repeat harmless."""
        message_id = f"{event.turn_id}.{event.call_id}.{event.phase}"
        try:
            await self._mesh.publish(
                subjects.tool_execute(event.session_id), event, {MESSAGE_ID_HEADER: message_id}
            )
        except TooLarge as problem:
            log.warning("tool event is too large to publish", reason=str(problem))

    async def turn_after(self, event: TurnAfter) -> None:
        """Publish `agent:turn:after` and wait until it is stored, once per turn."""
        subject = subjects.turn_after(event.session_id)
        headers = {TURN_HEADER: event.turn_id}
        try:
            await self._mesh.store(subject, event, f"{event.turn_id}.after", headers=headers)
        except TooLarge as problem:
            log.error("turn event is too large to publish", reason=str(problem))

    async def abort(self, session_id: str, lane: str, turn_id: str, reason: str) -> None:
        """Tell a lane's old owner to stop."""
        kind = "preempted" if reason == "preempted" else "aborted"
        event = AgentAbort(session_id=session_id, lane=lane, turn_id=turn_id, reason=kind)
        await self._mesh.publish(subjects.abort(session_id, lane), event)
