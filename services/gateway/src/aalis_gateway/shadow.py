"""This is about the shadow archive: what the agent does not hear is still kept (SPEC GW-7, ARC-5).

Memory answers before the message is acknowledged, so the rows stand in the order of arrival. When
memory is absent nobody waits for it: what is to be archived is owed, as a dead letter with its
reason, and paid in order once memory is back, by whichever replica sees it first. Until then what
follows is owed too.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from aalis_contracts import rpc, subjects
from aalis_contracts.contract import InvalidBody
from aalis_contracts.dead import REASON_HEADER, SUBJECT_HEADER
from aalis_contracts.errors import Fault
from aalis_contracts.messages import IncomingMessage
from aalis_sdk import topology
from aalis_sdk.logs import Log
from aalis_sdk.mesh import Absent, Remote, TooLarge
from aalis_sdk.serving import end

if TYPE_CHECKING:
    from aalis_contracts.contract import Contract
    from aalis_gateway.passage import Passage
    from aalis_sdk.mesh import Entry, Mesh

log = Log(__name__)
_TIMEOUT: Final = 2.0
_LOOK_EVERY: Final = 5.0
_REASON: Final = "memory was absent; archived as soon as it is back"
_OWED: Final = {
    subjects.ARCHIVE_INCOMING: (rpc.ArchiveIncoming, rpc.Archived),
    subjects.ARCHIVE_NOTICE: (rpc.ArchiveNotice, rpc.NoticeArchived),
}


class Shadow:
    """Archives what is kept from the agent."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self._owing = False
        self._payer: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to look for what is owed, also by replicas that are gone."""
        self._payer = asyncio.create_task(self._keep_paying())

    async def stop(self) -> None:
        """Leave the rest of the debt to the next who looks."""
        if self._payer is not None:
            await end(self._payer)

    async def keep(self, passage: Passage) -> None:
        """Archive one message; durable in memory's hands or as a debt when this returns."""
        request, body = _request(passage)
        if not self._owing:
            try:
                if await self._pay(request, body):
                    return
            except Remote as error:
                log.warning("memory refuses", session=passage.message.session_id, why=str(error))
                await self._owe(f"{request}.refused", body, passage.key, str(error))
                return
            log.warning("memory is absent; what it should archive is owed")
            self._owing = True
        await self._owe(request, body, passage.key, _REASON)

    async def _pay(self, request: str, body: Contract) -> bool:
        """Have memory keep it; False if memory is not there, `Remote` if it refuses for good."""
        answer = _OWED[request][1]
        try:
            await self._mesh.request(subjects.request(request), body, answer, _TIMEOUT)
        except Remote as error:
            if error.error.retryable:
                return False
            raise
        except (Absent, Fault):
            return False
        return True

    async def _owe(self, request: str, body: Contract, key: str, reason: str) -> None:
        headers = {REASON_HEADER: _ascii(reason), SUBJECT_HEADER: request}
        await self._mesh.store(subjects.dead(request), body, f"owed:{key}", headers=headers)

    async def _keep_paying(self) -> None:
        while True:
            with contextlib.suppress(Fault, Absent):
                await self._pay_all()
            await asyncio.sleep(_LOOK_EVERY)

    async def _pay_all(self) -> None:
        paid = 0
        for request in _OWED:
            subject = subjects.dead(request).name
            while (entry := await self._mesh.next(topology.DEAD, subject, 0)) is not None:
                self._owing = True
                if not await self._pay_entry(request, entry):
                    return
                await self._mesh.forget(topology.DEAD, entry.seq)
                paid += 1
        self._owing = False
        if paid:
            log.info("memory is back; what was owed is archived", count=paid)

    async def _pay_entry(self, request: str, entry: Entry) -> bool:
        try:
            return await self._pay(request, _OWED[request][0].from_json(entry.data))
        except (Remote, InvalidBody, TooLarge) as error:
            log.warning("memory refuses", seq=entry.seq, reason=str(error))
            headers = {REASON_HEADER: _ascii(str(error)), SUBJECT_HEADER: request}
            target = subjects.dead(f"{request}.refused")
            await self._mesh.store(target, entry.data, f"refused:{entry.seq}", headers=headers)
            return True


def _request(passage: Passage) -> tuple[str, Contract]:
    message = passage.message
    if message.notice_type:
        return subjects.ARCHIVE_NOTICE, _notice(message, passage.key)
    return subjects.ARCHIVE_INCOMING, rpc.ArchiveIncoming(
        incoming=message, idempotency_key=passage.key, timestamp=passage.time_ms
    )


def _notice(message: IncomingMessage, key: str) -> rpc.ArchiveNotice:
    return rpc.ArchiveNotice(
        session_id=message.session_id,
        notice_type=message.notice_type or "",
        content=message.content,
        idempotency_key=key,
        platform=message.platform,
        user_id=message.user_id,
        group_id=message.group_id,
        message_id=message.message_id,
        timestamp=message.timestamp,
        data=message.metadata,
    )


def _ascii(text: str) -> str:
    return " ".join(text.split())[:400].encode("ascii", "backslashreplace").decode()
