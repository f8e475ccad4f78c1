"""This is about fakes: events that are only noted down, and a `memory:clear` nobody intercepts.

They ship with the product, for its tests and for whoever embeds the handlers without a mesh.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from aalis_contracts.contract import Contract
from aalis_contracts.events import HistoryChanged, InboundArchived, MessagesDeleted, TodoUpdated
from aalis_contracts.hooks import MemoryClearData


@dataclass
class NotedEvents:
    """`Events` that keeps what it was told, in order."""

    told: list[Contract] = field(default_factory=list[Contract])

    async def archived(self, event: InboundArchived) -> None:
        """Note that a message was saved."""
        self.told.append(event)

    async def history_changed(self, session_id: str) -> None:
        """Note that a history changed."""
        self.told.append(HistoryChanged(session_id=session_id))

    async def messages_deleted(self, event: MessagesDeleted) -> None:
        """Note which rows are gone."""
        self.told.append(event)

    async def todo_updated(self, event: TodoUpdated) -> None:
        """Note what the todo list is now."""
        self.told.append(event)


@dataclass
class LocalClearing:
    """`Clearing` with one interceptor, a function, or none."""

    interceptor: Callable[[MemoryClearData], tuple[MemoryClearData, bool]] | None = None

    async def run(self, data: MemoryClearData) -> tuple[MemoryClearData, bool]:
        """Ask the interceptor, if there is one."""
        return (data, True) if self.interceptor is None else self.interceptor(data)
