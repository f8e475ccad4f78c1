"""This is about telling the mesh what happened, and asking it before something is cleared.

No event decides whether a request succeeded: what is stored is stored, and a failed announcement
is a warning (SPEC EVT-13).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from aalis_contracts import subjects
from aalis_contracts.errors import Fault
from aalis_contracts.events import HistoryChanged, InboundArchived, MessagesDeleted, TodoUpdated
from aalis_contracts.hooks import MEMORY_CLEAR, MemoryClearData
from aalis_sdk.hooks import HookFailed, Hooks
from aalis_sdk.logs import Log
from aalis_sdk.mesh import Mesh, TooLarge
from aalis_sdk.registry import Registry

log = Log(__name__)

_PATIENCE_SECONDS: Final = 2.2
"""For the stream that keeps the event; whoever asked waits 5 s for his answer (RPC-1)."""


class MeshEvents:
    """`Events` on the mesh."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh

    async def archived(self, event: InboundArchived) -> None:
        """Tell, durably and once a row, that a message was saved (EVT-3)."""
        try:
            await self._store(event)
        except TooLarge:
            # Message and row together are larger than either: the files themselves can go.
            await _quietly("inbound:message:archived", self._store(_without_data(event)))
        except Exception as error:  # noqa: BLE001 - the row is saved, whatever this is
            log.warning("event not told", name="inbound:message:archived", reason=repr(error))

    async def history_changed(self, session_id: str) -> None:
        """Tell whoever shows a history to read it again."""
        subject = subjects.history_changed(session_id)
        body = HistoryChanged(session_id=session_id)
        await _quietly("history:changed", self._mesh.publish(subject, body))

    async def messages_deleted(self, event: MessagesDeleted) -> None:
        """Tell which rows are gone."""
        subject = subjects.messages_deleted(event.session_id)
        await _quietly("memory:messages-deleted", self._mesh.publish(subject, event))

    async def todo_updated(self, event: TodoUpdated) -> None:
        """Tell what the todo list is now."""
        subject = subjects.todo_updated(event.session_id)
        await _quietly("todo:updated", self._mesh.publish(subject, event))

    async def _store(self, event: InboundArchived) -> None:
        row = event.archived_message
        key = f"archived:{subjects.token(event.session_id)}:{row.input_seq}:{row.index}"
        subject = subjects.archived(event.session_id)
        await self._mesh.store(subject, event, key, patience=_PATIENCE_SECONDS)


class MeshClearing:
    """`Clearing` through the hook `memory:clear`."""

    def __init__(self, mesh: Mesh, registry: Registry) -> None:
        self._hooks = Hooks(mesh, registry)

    async def run(self, data: MemoryClearData) -> tuple[MemoryClearData, bool]:
        """Ask the interceptors in order; answer the data as they left it, and if none stopped."""
        try:
            chain = await self._hooks.run(MEMORY_CLEAR, data)
        except HookFailed as error:
            raise Fault(str(error)) from None
        return chain.data, chain.reached_end


async def _quietly(name: str, telling: Awaitable[None]) -> None:
    try:
        await telling
    except Exception as error:  # noqa: BLE001 - an event never affects flow
        log.warning("event not told", name=name, reason=repr(error))


def _without_data(event: InboundArchived) -> InboundArchived:
    attachments = [
        attachment.model_copy(update={"data": None})
        for attachment in event.incoming.attachments or []
    ]
    incoming = event.incoming.model_copy(update={"attachments": attachments})
    return event.model_copy(update={"incoming": incoming})
