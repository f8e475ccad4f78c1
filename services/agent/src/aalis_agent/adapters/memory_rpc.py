"""This is about memory over the mesh: what is absent is `Unavailable`, never an empty answer.

A row that is too long for one request is sent shorter: a debt that can never be paid would hold up
all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from aalis_agent.fitting import shorter
from aalis_agent.ports import Refused, Unavailable
from aalis_agent.presence import Presence
from aalis_contracts import subjects
from aalis_contracts.contract import Contract
from aalis_contracts.errors import Fault
from aalis_contracts.rpc import Archived, ArchiveIncoming, HistoryGet, MessageSave, RowKey, Rows
from aalis_sdk.logs import Log
from aalis_sdk.mesh import Absent, Remote, TooLarge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aalis_contracts.messages import IncomingMessage, Message
    from aalis_sdk.mesh import Mesh

Answer = TypeVar("Answer", bound=Contract)
log = Log(__name__)


class MeshMemory:
    """The memory port over requests."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self._presence = Presence(
            "memory", "turns go on without history, and rows are owed until it is back", log
        )

    async def archive(self, incoming: IncomingMessage, input_seq: int, said_at: int) -> Message:
        """Save what a person said; what attachments hold is left out where it does not fit."""
        for form in (incoming, *shorter(incoming)):
            request = ArchiveIncoming(
                incoming=form, input_seq=input_seq, timestamp=incoming.timestamp or said_at
            )
            try:
                return (await self._ask(subjects.ARCHIVE_INCOMING, request, Archived)).message
            except TooLarge:
                continue
        raise Refused("memory", f"input {input_seq} is too long")

    async def history(self, session_id: str, limit: int, before: int) -> list[Message]:
        """Return the newest rows below an input."""
        request = HistoryGet(
            session_id=session_id, limit=limit, before=RowKey(input_seq=before, index=0)
        )
        return (await self._ask(subjects.HISTORY_GET, request, Rows)).messages

    async def save(self, session_id: str, rows: Sequence[Message]) -> None:
        """Save rows in order, in as many requests as they need."""
        request = MessageSave(session_id=session_id, messages=list(rows))
        try:
            await self._ask(subjects.MESSAGE_SAVE, request, Rows)
        except TooLarge:
            if len(rows) > 1:
                half = len(rows) // 2
                await self.save(session_id, rows[:half])
                await self.save(session_id, rows[half:])
            else:
                await self._save_shorter(session_id, rows[0])

    async def _save_shorter(self, session_id: str, row: Message) -> None:
        for form in shorter(row):
            request = MessageSave(session_id=session_id, messages=[form])
            try:
                await self._ask(subjects.MESSAGE_SAVE, request, Rows)
            except TooLarge:
                continue
            return
        raise Refused("memory", f"row {row.input_seq}.{row.index} is too long")

    async def _ask(self, subject: str, request: Contract, answer: type[Answer]) -> Answer:
        try:
            reply = await self._mesh.request(subjects.request(subject), request, answer)
        except Remote as error:
            if error.error.retryable:
                self._presence.absent(str(error))
                raise Unavailable("memory", str(error)) from None
            raise Refused("memory", str(error)) from None
        except (Absent, Fault) as error:
            self._presence.absent(str(error))
            raise Unavailable("memory", str(error)) from None
        self._presence.present()
        return reply
