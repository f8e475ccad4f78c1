"""This is about the way out: everything that is said to a person passes here (SPEC GW-8).

The chain `outbound:dispatch` sees it, may change or stop it, and then it is stored for its
platform's adapter, under an id derived from the message's own: sending twice is sending once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aalis_contracts import subjects
from aalis_contracts.errors import Fault
from aalis_contracts.hooks import OUTBOUND_DISPATCH, OutboundData
from aalis_contracts.messages import IncomingMessage, OutgoingMessage, OutgoingSource
from aalis_contracts.rpc import ArchiveOutgoing, DispatchReply, Rows
from aalis_gateway import identity
from aalis_sdk.failpoints import failpoint
from aalis_sdk.hooks import HookFailed
from aalis_sdk.logs import Log
from aalis_sdk.mesh import Absent, Remote, TooLarge

if TYPE_CHECKING:
    from aalis_sdk.hooks import Hooks
    from aalis_sdk.mesh import Mesh, Offer

log = Log(__name__)
_ARCHIVE_TIMEOUT = 2.0


class Outbound:
    """Sends messages to people."""

    def __init__(self, mesh: Mesh, hooks: Hooks) -> None:
        self._mesh = mesh
        self._hooks = hooks
        self._offer: Offer | None = None

    async def start(self) -> None:
        """Answer `gateway.outbound.dispatch`, shared with the other replicas."""
        self._offer = await self._mesh.respond(
            subjects.OUTBOUND_DISPATCH, OutgoingMessage, self.send
        )

    async def stop(self) -> None:
        """Leave new requests to other replicas; finish those that run."""
        if self._offer is not None:
            await self._offer.withdraw()

    async def send(self, message: OutgoingMessage) -> DispatchReply:
        """Run the chain and store the message; `sent` is false with a reason if it was stopped.

        An interceptor registered with `onFailure: fail` that fails stops it too: what it guards
        must not leave unseen. Raises `Fault` when nothing could be stored in time.
        """
        wanted = message
        if self._hooks.anyone(OUTBOUND_DISPATCH):
            try:
                chain = await self._hooks.run(
                    OUTBOUND_DISPATCH, OutboundData(message=message, metadata={})
                )
            except HookFailed as error:
                return _refused(message, str(error))
            if chain.stopped_by is not None:
                return _refused(message, f"stopped by {chain.stopped_by}")
            message = _sealed(wanted, chain.data.message)
        subject = subjects.outbound(message.platform, message.session_id)
        failpoint("gateway.sending")
        try:
            await self._mesh.store(subject, message, identity.header_id(message.id))
        except TooLarge as error:
            return _refused(message, str(error))
        failpoint("gateway.sent")
        await self._archive_attachments(message)
        return DispatchReply(sent=True)

    async def say(
        self, incoming: IncomingMessage, message_id: str, text: str, source: OutgoingSource
    ) -> DispatchReply:
        """Answer an incoming message, in its own session and on its own platform."""
        return await self.send(
            OutgoingMessage(
                id=message_id,
                content=text,
                session_id=incoming.session_id,
                platform=incoming.platform,
                source=source,
            )
        )

    async def _archive_attachments(self, message: OutgoingMessage) -> None:
        """Have a marker row kept for each attachment that was sent (SPEC ARC-6)."""
        attachments = [each for each in message.attachments or [] if not each.skip_archive]
        if not attachments:
            return
        request = ArchiveOutgoing(
            session_id=message.session_id, idempotency_key=message.id, attachments=attachments
        )
        subject = subjects.request(subjects.ARCHIVE_OUTGOING)
        try:
            await self._mesh.request(subject, request, Rows, _ARCHIVE_TIMEOUT)
        except (Absent, Remote, Fault, TooLarge) as error:
            log.warning(
                "sent attachments are not archived",
                session=message.session_id,
                id=message.id,
                reason=str(error),
            )


def _sealed(wanted: OutgoingMessage, patched: OutgoingMessage) -> OutgoingMessage:
    """Return the patched message with the id and address it had: a patch re-addresses nothing."""
    home = {"id": wanted.id, "session_id": wanted.session_id, "platform": wanted.platform}
    if all(getattr(patched, field) == value for field, value in home.items()):
        return patched
    log.warning("patch refused", fields=list(home), session=wanted.session_id, id=wanted.id)
    return patched.model_copy(update=home)


def _refused(message: OutgoingMessage, reason: str) -> DispatchReply:
    log.info("not sent", session=message.session_id, id=message.id, reason=reason)
    return DispatchReply(sent=False, reason=reason)
