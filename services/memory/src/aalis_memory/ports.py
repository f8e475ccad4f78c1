"""This is about ports: what memory needs from the world, and nothing of how it is done.

`Store` keeps rows and metadata, `Events` tells what happened, `Clearing` asks the other
participants of `memory:clear`. Handlers, tools and tests know only these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from aalis_contracts.events import InboundArchived, MessagesDeleted, TodoUpdated
from aalis_contracts.hooks import MemoryClearData
from aalis_contracts.messages import Message
from aalis_contracts.rpc import (
    MessagesRange,
    MessagesRecent,
    MetadataChange,
    MetadataItem,
    RowKey,
    SessionMessage,
)


@dataclass(frozen=True)
class Draft:
    """A row to be saved: a message with `inputSeq` and `index`, or one with a key of its own.

    A message without `inputSeq` is placed behind the newest input of its session when it is
    saved, and `idempotency_key` says that two saves mean the same row (SPEC MEM-2).
    """

    message: Message
    idempotency_key: str | None = None


@dataclass(frozen=True)
class Saved:
    """A stored row; `created` is false when it had been stored before."""

    message: Message
    created: bool


class Store(Protocol):
    """Rows and metadata. Every method raises `Fault` when the database cannot do it now."""

    async def save(self, session_id: str, drafts: Sequence[Draft]) -> list[Saved]:
        """Save rows, all or none; answer what is stored under their keys, ascending (MEM-1)."""
        ...

    async def history(
        self, session_id: str, limit: int, before: RowKey | None = None, *, archived: bool = False
    ) -> list[Message]:
        """Return the newest `limit` rows below `before`, ascending (MEM-4)."""
        ...

    async def between(self, request: MessagesRange) -> list[Message]:
        """Return the first 500 rows of a range, archived ones included, ascending (MEM-5)."""
        ...

    async def recent(self, request: MessagesRecent) -> list[SessionMessage]:
        """Return the newest rows across sessions, in order of insertion (MEM-5)."""
        ...

    async def find(self, session_id: str, message_id: str, scan_limit: int) -> Message | None:
        """Return the newest row of a platform message among the newest `scan_limit` (ARC-4)."""
        ...

    async def trim(self, session_id: str, keep_recent: int) -> int:
        """Mark all but the newest rows as archived; answer how many became so (MEM-4)."""
        ...

    async def replace_text(self, session_id: str, old: str, new: str, recent: int) -> int:
        """Replace text literally in the newest `recent` rows; answer how many changed (MEM-6)."""
        ...

    async def delete(self, session_id: str, keys: Sequence[RowKey]) -> list[RowKey]:
        """Delete rows and answer the keys of those that were there, ascending (MEM-6)."""
        ...

    async def clear_messages(self, session_id: str | None) -> tuple[int, list[str]]:
        """Delete the rows of a session, or all; answer how many, and of which sessions."""
        ...

    async def metadata(self, namespace: str, key: str | None = None) -> list[MetadataItem]:
        """Return the value of one key (if it has one), or all of a namespace, by key (MEM-7)."""
        ...

    async def commit(self, changes: Sequence[MetadataChange]) -> int:
        """Apply changes whole or not at all; answer how many values were put or removed."""
        ...

    async def clear_metadata(self, namespaces: Sequence[str] | None) -> int:
        """Delete every value of these namespaces; None = of all. Answer how many."""
        ...


class Events(Protocol):
    """What memory tells the mesh (SPEC EVT-3, EVT-13)."""

    async def archived(self, event: InboundArchived) -> None:
        """Tell, durably and once a row, that a message was saved."""
        ...

    async def history_changed(self, session_id: str) -> None:
        """Tell whoever shows a history to read it again."""
        ...

    async def messages_deleted(self, event: MessagesDeleted) -> None:
        """Tell which rows are gone."""
        ...

    async def todo_updated(self, event: TodoUpdated) -> None:
        """Tell what the todo list is now."""
        ...


class Clearing(Protocol):
    """The interceptors of `memory:clear` (SPEC HOOK-8)."""

    async def run(self, data: MemoryClearData) -> tuple[MemoryClearData, bool]:
        """Ask them in order; answer the data as they left it, and whether none stopped."""
        ...
