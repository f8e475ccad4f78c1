"""This is about requests: what memory does for each `memory.*` subject (SPEC RPC-2, §6).

Each handler is a plain async function of (memory, request), and `HANDLERS` is the whole list, so
that a test can call them without a broker and `service` can bind them without knowing them.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from aalis_contracts import subjects
from aalis_contracts.catalogue import Catalogue
from aalis_contracts.contract import Contract
from aalis_contracts.errors import Fault, InvalidRequest
from aalis_contracts.events import InboundArchived, MessagesDeleted
from aalis_contracts.hooks import ClearReport, MemoryClearData
from aalis_contracts.messages import IncomingMessage
from aalis_contracts.rpc import (
    Archived,
    ArchiveFind,
    ArchiveIncoming,
    ArchiveNotice,
    ArchiveOutgoing,
    ClearResults,
    Count,
    HistoryFull,
    HistoryGet,
    HistoryTrim,
    MemoryClear,
    MessageSave,
    MessagesDelete,
    MessagesRange,
    MessagesRecent,
    MessageUpdate,
    MetadataChange,
    MetadataCommit,
    MetadataItems,
    MetadataKey,
    MetadataList,
    MetadataPut,
    NoticeArchived,
    Rows,
    SessionRows,
)
from aalis_memory.archive import incoming_row, notice_row, outgoing_rows
from aalis_memory.ports import Clearing, Events, Store
from aalis_memory.rows import drafts_of
from aalis_sdk.failpoints import failpoint

ANSWER_BYTES: Final = 6 * 1024 * 1024
"""What rows an answer may carry, below the 8 MiB that a message may have (DESIGN §4)."""
SUMMARY: Final = "summary"
TODO_LIST: Final = "todo-list"
"""The namespaces whose keys are sessions (MEM-7)."""

Request = TypeVar("Request", bound=Contract)
Carried = TypeVar("Carried", bound=Contract)


@dataclass(frozen=True)
class Memory:
    """What a handler works with."""

    store: Store
    events: Events
    clearing: Clearing
    catalogue: Catalogue
    now_ms: Callable[[], int]


# rows ------------------------------------------------------------------------------------


async def save_messages(memory: Memory, request: MessageSave) -> Rows:
    """Save rows; a key saved again answers the row it has (MEM-1 to MEM-3)."""
    drafts = drafts_of(request.messages, request.idempotency_keys)
    failpoint("memory.saving")
    saved = await memory.store.save(request.session_id, drafts)
    failpoint("memory.saved")
    return Rows(messages=newest_that_fit([row.message for row in saved]))


async def get_history(memory: Memory, request: HistoryGet) -> Rows:
    """Answer the newest rows not archived away (MEM-4)."""
    failpoint("memory.reading")
    rows = await memory.store.history(request.session_id, request.limit, request.before)
    return Rows(messages=newest_that_fit(rows))


async def get_full_history(memory: Memory, request: HistoryFull) -> Rows:
    """Answer the newest rows, archived ones included (MEM-4)."""
    rows = await memory.store.history(
        request.session_id, request.limit, request.before, archived=True
    )
    return Rows(messages=newest_that_fit(rows))


async def trim_history(memory: Memory, request: HistoryTrim) -> Count:
    """Archive all but the newest rows (MEM-4)."""
    return Count(count=await memory.store.trim(request.session_id, request.keep_recent))


async def update_messages(memory: Memory, request: MessageUpdate) -> Count:
    """Replace text in the newest rows (MEM-6)."""
    count = await memory.store.replace_text(
        request.session_id, request.old, request.new, request.recent_limit
    )
    if count:
        await memory.events.history_changed(request.session_id)
    return Count(count=count)


async def get_range(memory: Memory, request: MessagesRange) -> Rows:
    """Answer a range of rows; whoever wants more goes on behind the last one (MEM-5)."""
    rows = await memory.store.between(request)
    return Rows(messages=rows[: how_many_fit(rows)])


async def get_recent(memory: Memory, request: MessagesRecent) -> SessionRows:
    """Answer the newest rows across sessions (MEM-5)."""
    return SessionRows(messages=newest_that_fit(await memory.store.recent(request)))


async def delete_messages(memory: Memory, request: MessagesDelete) -> Count:
    """Delete rows by key, and tell which of them there were (MEM-6)."""
    gone = await memory.store.delete(request.session_id, request.keys)
    if gone:
        keys = [(key.input_seq, key.index) for key in gone]
        await memory.events.messages_deleted(
            MessagesDeleted(session_id=request.session_id, keys=keys)
        )
        await memory.events.history_changed(request.session_id)
    return Count(count=len(gone))


# metadata --------------------------------------------------------------------------------


async def get_metadata(memory: Memory, request: MetadataKey) -> MetadataItems:
    """Answer one value, or none."""
    return MetadataItems(items=await memory.store.metadata(request.namespace, request.key))


async def put_metadata(memory: Memory, request: MetadataPut) -> Count:
    """Store one value."""
    change = MetadataChange(
        op="put", namespace=request.namespace, key=request.key, value=request.value
    )
    return Count(count=await memory.store.commit([change]))


async def list_metadata(memory: Memory, request: MetadataList) -> MetadataItems:
    """Answer all values of a namespace."""
    return MetadataItems(items=await memory.store.metadata(request.namespace))


async def delete_metadata(memory: Memory, request: MetadataKey) -> Count:
    """Delete one value, if there is one."""
    change = MetadataChange(op="delete", namespace=request.namespace, key=request.key)
    return Count(count=await memory.store.commit([change]))


async def commit_metadata(memory: Memory, request: MetadataCommit) -> Count:
    """Apply all changes or none (MEM-7)."""
    return Count(count=await memory.store.commit(request.changes))


# clearing --------------------------------------------------------------------------------


async def clear(memory: Memory, request: MemoryClear) -> ClearResults:
    """Ask every participant to clear, then clear what is kept here (MEM-10)."""
    if request.scope == "session" and not request.session_id:
        raise InvalidRequest("sessionId is needed to clear a session")
    asked = MemoryClearData(scope=request.scope, session_id=request.session_id, types=request.types)
    data, reached_end = await memory.clearing.run(asked)
    if not reached_end:
        return ClearResults(results=data.results)
    if data.scope == "session" and not data.session_id:
        raise InvalidRequest("an interceptor took away the sessionId to clear")
    session = data.session_id if data.scope == "session" else None
    results = list(data.results)
    if _asks_for(data.types, "context"):
        results.append(await _reported("context", _clear_context(memory, session, data.types)))
    if _asks_for(data.types, SUMMARY):
        results.append(await _reported(SUMMARY, _clear_namespace(memory, SUMMARY, session)))
    return ClearResults(results=results)


async def _clear_context(memory: Memory, session: str | None, types: list[str] | None) -> int:
    """Delete rows, and what only makes sense beside them: the todo list (MEM-11)."""
    count, sessions = await memory.store.clear_messages(session)
    if session is None and types is None:
        await memory.store.clear_metadata(None)
    else:
        await _clear_namespace(memory, TODO_LIST, session)
    for each in sessions:
        await memory.events.history_changed(each)
    return count


async def _clear_namespace(memory: Memory, namespace: str, session: str | None) -> int:
    if session is None:
        return await memory.store.clear_metadata([namespace])
    change = MetadataChange(op="delete", namespace=namespace, key=session)
    return await memory.store.commit([change])


async def _reported(source: str, clearing: Awaitable[int]) -> ClearReport:
    """Say what was cleared, also when it could not be."""
    try:
        count = await clearing
    except Fault as error:
        return ClearReport(source=source, success=False, message=error.message)
    return ClearReport(source=source, success=True, message=str(count))


def _asks_for(types: Sequence[str] | None, kind: str) -> bool:
    return types is None or kind in types


# archive ---------------------------------------------------------------------------------


async def archive_incoming(memory: Memory, request: ArchiveIncoming) -> Archived:
    """Keep what a person said, once, and tell (ARC-1 to ARC-3, EVT-3)."""
    incoming = request.incoming
    timestamp = request.timestamp or incoming.timestamp or memory.now_ms()
    row = incoming_row(incoming, memory.catalogue, timestamp, request.input_seq)
    key = None
    if request.input_seq is None:
        key = request.idempotency_key or _key_of(incoming)
    drafts = drafts_of([row], [key])
    failpoint("memory.archiving")
    saved = (await memory.store.save(incoming.session_id, drafts))[0]
    failpoint("memory.archived")
    # Told after a repeat as well: whoever saved it first may have died before it could tell.
    # The event's id derives from the row's key, so the stream keeps one (DESIGN §5.6).
    await memory.events.archived(
        InboundArchived(
            session_id=incoming.session_id,
            input_seq=saved.message.input_seq or 0,
            incoming=incoming,
            archived_message=saved.message,
        )
    )
    failpoint("memory.archived.told")
    return Archived(message=saved.message, created=saved.created)


async def archive_notice(memory: Memory, request: ArchiveNotice) -> NoticeArchived:
    """Keep a platform notice; a blank one is nothing (ARC-4)."""
    row = notice_row(request, request.timestamp or memory.now_ms())
    if row is None:
        return NoticeArchived()
    # Two equal notices may be two events: without a key of the sender's, each is its own.
    key = request.idempotency_key or uuid.uuid4().hex
    saved = await memory.store.save(request.session_id, drafts_of([row], [key]))
    return NoticeArchived(message=saved[0].message)


async def archive_outgoing(memory: Memory, request: ArchiveOutgoing) -> Rows:
    """Keep marker rows for attachments that were sent (ARC-6)."""
    rows = outgoing_rows(request.attachments, memory.catalogue, memory.now_ms())
    keys = [f"{request.idempotency_key}#{position}" for position in range(len(rows))]
    saved = await memory.store.save(request.session_id, drafts_of(rows, keys))
    return Rows(messages=[row.message for row in saved])


async def find_archived(memory: Memory, request: ArchiveFind) -> Rows:
    """Answer the newest row of a platform message, or none (ARC-4)."""
    found = await memory.store.find(request.session_id, request.message_id, request.scan_limit)
    return Rows(messages=[] if found is None else [found])


def _key_of(incoming: IncomingMessage) -> str:
    """Return the key of a message that no turn will answer, as GW-2 derives ids."""
    if incoming.message_id:
        return f"{incoming.platform}:{incoming.message_id}"
    return uuid.uuid4().hex


# answers ---------------------------------------------------------------------------------


def newest_that_fit(rows: list[Carried]) -> list[Carried]:
    """Drop the oldest rows of an answer that would be too large for one message."""
    fit = how_many_fit(rows[::-1])
    return rows[len(rows) - fit :]


def how_many_fit(rows: Sequence[Contract]) -> int:
    """Return how many rows, from the first on, fit into one answer; at least one."""
    total = 0
    for count, row in enumerate(rows):
        total += len(row.to_json()) + 1
        if total > ANSWER_BYTES and count:
            return count
    return len(rows)


@dataclass(frozen=True)
class Handler(Generic[Request]):
    """How one subject is answered."""

    request: type[Request]
    answer: Callable[[Memory, Request], Awaitable[Contract]]


HANDLERS: Final[dict[str, Handler[Any]]] = {
    subjects.HISTORY_GET: Handler(HistoryGet, get_history),
    subjects.HISTORY_FULL: Handler(HistoryFull, get_full_history),
    subjects.HISTORY_TRIM: Handler(HistoryTrim, trim_history),
    subjects.MESSAGE_SAVE: Handler(MessageSave, save_messages),
    subjects.MESSAGE_UPDATE: Handler(MessageUpdate, update_messages),
    subjects.MESSAGES_RANGE: Handler(MessagesRange, get_range),
    subjects.MESSAGES_RECENT: Handler(MessagesRecent, get_recent),
    subjects.MESSAGES_DELETE: Handler(MessagesDelete, delete_messages),
    subjects.METADATA_GET: Handler(MetadataKey, get_metadata),
    subjects.METADATA_PUT: Handler(MetadataPut, put_metadata),
    subjects.METADATA_LIST: Handler(MetadataList, list_metadata),
    subjects.METADATA_DELETE: Handler(MetadataKey, delete_metadata),
    subjects.METADATA_COMMIT: Handler(MetadataCommit, commit_metadata),
    subjects.MEMORY_CLEAR: Handler(MemoryClear, clear),
    subjects.ARCHIVE_INCOMING: Handler(ArchiveIncoming, archive_incoming),
    subjects.ARCHIVE_NOTICE: Handler(ArchiveNotice, archive_notice),
    subjects.ARCHIVE_OUTGOING: Handler(ArchiveOutgoing, archive_outgoing),
    subjects.ARCHIVE_FIND: Handler(ArchiveFind, find_archived),
}
"""Every subject that memory answers."""
