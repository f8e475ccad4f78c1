"""This is about everything a turn says to the world, over NATS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aalis_agent.fitting import shorter
from aalis_agent.presence import Presence
from aalis_contracts import subjects
from aalis_contracts.dead import MESSAGE_ID_HEADER, TURN_HEADER
from aalis_contracts.errors import Fault
from aalis_contracts.events import AgentAbort, TokenUsage, ToolExecute, TurnAfter
from aalis_contracts.rpc import DispatchReply
from aalis_sdk.failpoints import failpoint
from aalis_sdk.logs import Log
from aalis_sdk.mesh import UNREACHABLE, Absent, Remote, TooLarge

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
        """Publish a piece of text without waiting for anything; losing one harms nothing."""
        subject = subjects.stream(frame.platform, frame.session_id)
        try:
            await self._mesh.publish_quietly(subject, frame)
        except (TooLarge, *UNREACHABLE) as error:
            log.debug("a frame is lost", reason=repr(error))

    async def last_frame(self, frame: StreamFrame) -> None:
        """Publish a `done` frame and wait until it is stored, once per turn."""
        subject = subjects.stream(frame.platform, frame.session_id)
        failpoint("agent.done.telling")
        await self._mesh.store(subject, frame, f"{frame.turn_id}.done")
        failpoint("agent.done.told")

    async def dispatch(self, message: OutgoingMessage) -> None:
        """Send through the gateway; without one, publish directly (SPEC AG-58).

        A message that does not fit goes out without its timeline: the text is what counts.
        """
        failpoint("agent.reply.sending")
        for form in (message, *shorter(message)):
            try:
                await self._dispatch(form)
            except TooLarge as problem:
                log.warning("a reply is shortened to be sent", reason=str(problem))
                continue
            failpoint("agent.reply.sent")
            return
        log.error("a reply cannot be sent", turn=message.turn_id)

    async def _dispatch(self, message: OutgoingMessage) -> None:
        subject = subjects.request(subjects.OUTBOUND_DISPATCH)
        try:
            reply = await self._mesh.request(subject, message, DispatchReply)
        except (Absent, Remote, Fault) as error:
            self._gateway.absent(str(error))
            direct = subjects.outbound(message.platform, message.session_id)
            headers = {TURN_HEADER: message.turn_id} if message.turn_id else None
            await self._mesh.store(direct, message, message.id, headers=headers)
        else:
            self._gateway.present()
            if not reply.sent:
                log.info("reply was not sent", reason=reply.reason)

    async def usage(self, usage: TokenUsage) -> None:
        """Publish `token:usage` and go on, whatever comes of it (SPEC USE-1)."""
        try:
            await self._mesh.publish(subjects.token_usage(usage.session_id), usage)
        except (TooLarge, *UNREACHABLE) as error:
            log.debug("a usage is lost", reason=repr(error))

    async def tool_event(self, event: ToolExecute, key: str) -> None:
        """Publish `tool:execute` and go on; its id makes a repeat harmless."""
        subject = subjects.tool_execute(event.session_id)
        headers = {MESSAGE_ID_HEADER: f"{key}.{event.phase}", TURN_HEADER: event.turn_id}
        for form in (event, *shorter(event)):
            try:
                await self._mesh.publish(subject, form, headers)
            except TooLarge:
                continue
            except UNREACHABLE as error:
                log.debug("a tool event is lost", reason=repr(error))
            return

    async def turn_after(self, event: TurnAfter) -> None:
        """Publish `agent:turn:after` and wait until it is stored, once per input."""
        subject = subjects.turn_after(event.session_id)
        headers = {TURN_HEADER: event.turn_id}
        failpoint("agent.after.telling")
        for form in (event, *shorter(event)):
            try:
                await self._mesh.store(subject, form, f"{event.turn_id}.after", headers=headers)
            except TooLarge:
                continue
            failpoint("agent.after.told")
            return
        log.error("the end of a turn cannot be told", turn=event.turn_id)

    async def abort(self, session_id: str, lane: str, turn_id: str, reason: str) -> None:
        """Tell a lane's old owner to stop."""
        kind = "preempted" if reason == "preempted" else "aborted"
        event = AgentAbort(session_id=session_id, lane=lane, turn_id=turn_id, reason=kind)
        try:
            await self._mesh.publish(subjects.abort(session_id, lane), event)
        except UNREACHABLE as error:
            # The old owner finds out at its next append.
            log.debug("an abort is not signalled", reason=repr(error))
