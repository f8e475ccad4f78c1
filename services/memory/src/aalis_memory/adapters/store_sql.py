"""This is about the store in SQL: each method is one statement where it can be (SPEC §6.1).

The same code serves SQLite and PostgreSQL. Three things make several writers harmless: unique keys
with ON CONFLICT DO NOTHING (whoever is second reads what the first stored), one order in which
rows are locked (ascending, so that no two wait for each other), and on PostgreSQL a lock a session
while rows without an input look for their place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from aalis_contracts.errors import Fault
from aalis_contracts.messages import Message
from aalis_contracts.rpc import (
    MessagesRange,
    MessagesRecent,
    MetadataChange,
    MetadataItem,
    RowKey,
    SessionMessage,
)
from aalis_memory.adapters.database import Database
from aalis_memory.adapters.rows_json import (
    columns_of,
    message_of,
    metadata_of,
    replaced_in_segments,
    value_of,
    value_text,
)
from aalis_memory.adapters.tables import entries, full_form, index_form, live, messages
from aalis_memory.ports import Draft, Saved
from aalis_memory.rows import AFTER_TURN

RANGE_LIMIT: Final = 500
_BATCH: Final = 200
_TRIES: Final = 20
_INT64: Final = 2**63 - 1

_key = sa.tuple_(messages.c.input_seq, messages.c.row_index)
_ascending = (messages.c.input_seq, messages.c.row_index, messages.c.id)
_descending = tuple(column.desc() for column in _ascending)

Place = tuple[int, int]


class SqlStore:
    """The `Store` on a database that has been opened."""

    def __init__(self, database: Database, now_ms: Callable[[], int]) -> None:
        self.database = database
        self._now = now_ms
        self._insert = postgresql_insert if database.is_postgresql else sqlite_insert

    # rows --------------------------------------------------------------------------------

    async def save(self, session_id: str, drafts: Sequence[Draft]) -> list[Saved]:
        """Save rows, all or none; answer what is stored under their keys, ascending (MEM-1)."""
        placed = _first_of_each(draft for draft in drafts if draft.message.input_seq is not None)
        loose = _first_of_each(draft for draft in drafts if draft.message.input_seq is None)

        def work(connection: sa.Connection) -> list[Saved] | None:
            saved = self._save_placed(connection, session_id, placed)
            if loose and saved is not None:
                behind = self._save_loose(connection, session_id, loose)
                saved = None if behind is None else [*saved, *behind]
            return saved

        one_statement = not loose and len(placed) <= _BATCH
        for _ in range(_TRIES if drafts else 0):
            if one_statement:
                saved = await self.database.run(work, writes=True)
            else:
                saved = await self.database.transaction(work)
            if saved is not None:
                return sorted(saved, key=lambda row: _place(row.message))
        if not drafts:
            return []
        raise Fault("the rows were deleted as fast as they were saved", "conflict")

    def _save_placed(
        self, connection: sa.Connection, session_id: str, drafts: list[Draft]
    ) -> list[Saved] | None:
        """Insert rows that know their place; None when a row in the way vanished meanwhile."""
        if not drafts:
            return []
        ordered = sorted(drafts, key=lambda draft: _place(draft.message))
        made = self._insert_rows(connection, session_id, ordered)
        saved = [Saved(draft.message, created=True) for draft in ordered if _of(draft) in made]
        missing = [_of(draft) for draft in ordered if _of(draft) not in made]
        for batch in _batches(missing):
            rows = connection.execute(
                sa.select(messages).where(_session(session_id), _at_places(batch))
            )
            saved += [Saved(message_of(row), created=False) for row in rows.mappings()]
        return saved if len(saved) == len(ordered) else None

    def _save_loose(
        self, connection: sa.Connection, session_id: str, drafts: list[Draft]
    ) -> list[Saved] | None:
        """Put rows without an input behind the newest one, side by side (MEM-2)."""
        if self.database.is_postgresql:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_lock_of(session_id))))
        keys = [index_form(draft.idempotency_key or "") for draft in drafts]
        rows = connection.execute(
            sa.select(messages).where(_session(session_id), messages.c.idempotency_key.in_(keys))
        )
        known = {row["idempotency_key"]: message_of(row) for row in rows.mappings()}
        saved = [Saved(message, created=False) for message in known.values()]
        new = [draft for draft, key in zip(drafts, keys, strict=True) if key not in known]
        if new:
            seq, index = self._place_behind(connection, session_id)
            placed = [_at(draft, (seq, index + offset)) for offset, draft in enumerate(new)]
            made = self._insert_rows(connection, session_id, placed)
            if len(made) < len(placed):
                return None
            saved += [Saved(draft.message, created=True) for draft in placed]
        return saved

    def _place_behind(self, connection: sa.Connection, session_id: str) -> Place:
        """Return the first free place behind everything the session has."""
        rows = connection.execute(
            sa.select(messages.c.input_seq, messages.c.row_index)
            .where(_session(session_id))
            .order_by(messages.c.input_seq.desc(), messages.c.row_index.desc())
            .limit(1)
        )
        last = rows.first()
        if last is None:
            return 0, AFTER_TURN
        return int(last[0]), max(int(last[1]) + 1, AFTER_TURN)

    def _insert_rows(
        self, connection: sa.Connection, session_id: str, drafts: list[Draft]
    ) -> set[Place]:
        """Insert rows whose keys are free; answer their places."""
        now = self._now()
        statement = (
            self._insert(messages)
            .on_conflict_do_nothing()
            .returning(messages.c.input_seq, messages.c.row_index)
        )
        values = [columns_of(session_id, draft, now) for draft in drafts]
        rows = connection.execute(statement, values)
        return {(int(seq), int(index)) for seq, index in rows}

    async def history(
        self, session_id: str, limit: int, before: RowKey | None = None, *, archived: bool = False
    ) -> list[Message]:
        """Return the newest `limit` rows below `before`, ascending (MEM-4)."""
        if limit <= 0:
            return []
        query = sa.select(messages).where(_session(session_id))
        if not archived:
            query = query.where(live)
        if before is not None:
            query = query.where(_key < sa.tuple_(*_literal(before)))
        rows = await self._rows(query.order_by(*_descending).limit(_int64(limit)))
        return [message_of(row) for row in reversed(rows)]

    async def between(self, request: MessagesRange) -> list[Message]:
        """Return the first 500 rows of a range, archived ones included, ascending (MEM-5)."""
        query = sa.select(messages).where(
            _session(request.session_id),
            _key >= sa.tuple_(*_literal(request.start)),
            _key <= sa.tuple_(*_literal(request.end)),
        )
        if request.roles is not None:
            query = query.where(messages.c.role.in_(request.roles))
        query = _without_kinds(query, request.exclude_kinds)
        rows = await self._rows(query.order_by(*_ascending).limit(RANGE_LIMIT))
        return [message_of(row) for row in rows]

    async def recent(self, request: MessagesRecent) -> list[SessionMessage]:
        """Return the newest rows across sessions, in order of insertion (MEM-5)."""
        if request.limit <= 0:
            return []
        roles = ["user", "assistant"] if request.roles is None else request.roles
        query = sa.select(messages).where(live, messages.c.role.in_(roles))
        if request.since is not None:
            query = query.where(messages.c.created_at >= _int64(request.since))
        if request.platform is not None:
            query = query.where(messages.c.platform == request.platform)
        if request.exclude_sessions:
            excluded = [index_form(session) for session in request.exclude_sessions]
            query = query.where(messages.c.session.not_in(excluded))
        if request.kinds is not None:
            query = query.where(messages.c.kind.in_(request.kinds))
        query = _without_kinds(query, request.exclude_kinds)
        newest = (messages.c.created_at.desc(), messages.c.id.desc())
        rows = await self._rows(query.order_by(*newest).limit(request.limit))
        return [
            SessionMessage(
                session_id=row["session_full"] or row["session"], message=message_of(row)
            )
            for row in reversed(rows)
        ]

    async def find(self, session_id: str, message_id: str, scan_limit: int) -> Message | None:
        """Return the newest row of a platform message among the newest `scan_limit` (ARC-4)."""
        columns = (
            messages.c.id,
            messages.c.session,
            messages.c.input_seq,
            messages.c.row_index,
            messages.c.metadata,
        )
        query = sa.select(*columns).where(_session(session_id))
        for row in await self._rows(query.order_by(*_descending).limit(scan_limit)):
            found = (metadata_of(row) or {}).get("messageId")
            if found is not None and str(found) == message_id:
                rows = await self._rows(sa.select(messages).where(messages.c.id == row["id"]))
                return message_of(rows[0]) if rows else None
        return None

    async def trim(self, session_id: str, keep_recent: int) -> int:
        """Mark all but the newest rows as archived; answer how many became so (MEM-4)."""
        old = (
            sa.select(messages.c.id)
            .where(_session(session_id), live)
            .order_by(*_descending)
            .offset(_int64(keep_recent))
        )
        statement = sa.update(messages).where(messages.c.id.in_(old), live).values(archived=True)
        return await self._changed(statement)

    async def replace_text(self, session_id: str, old: str, new: str, recent: int) -> int:
        """Replace text literally in the newest `recent` rows; answer how many changed (MEM-6)."""
        newest = (
            sa.select(messages.c.id, messages.c.content, messages.c.segments)
            .where(_session(session_id))
            .order_by(*_descending)
            .limit(_int64(recent))
            .with_for_update()
        )
        update = (
            sa.update(messages)
            .where(messages.c.id == sa.bindparam("row"))
            .values(content=sa.bindparam("text"), segments=sa.bindparam("pieces"))
        )

        def work(connection: sa.Connection) -> int:
            changes: list[dict[str, Any]] = []
            for row in connection.execute(newest).mappings():
                text = row["content"]
                after = text.replace(old, new) if text is not None else None
                pieces = replaced_in_segments(row["segments"], old, new)
                if after != text or pieces != row["segments"]:
                    changes.append({"row": row["id"], "text": after, "pieces": pieces})
            if changes:
                connection.execute(update, changes)
            return len(changes)

        return await self.database.transaction(work)

    async def delete(self, session_id: str, keys: Sequence[RowKey]) -> list[RowKey]:
        """Delete rows and answer the keys of those that were there, ascending (MEM-6)."""
        places = sorted({(_int64(key.input_seq), _int64(key.index)) for key in keys})
        if not places:
            return []

        def work(connection: sa.Connection) -> list[RowKey]:
            gone: list[Place] = []
            for batch in _batches(places):
                rows = connection.execute(
                    sa.delete(messages)
                    .where(_session(session_id), _at_places(batch))
                    .returning(messages.c.input_seq, messages.c.row_index)
                )
                gone += [(int(seq), int(index)) for seq, index in rows]
            return [RowKey(input_seq=seq, index=index) for seq, index in sorted(gone)]

        return await self.database.transaction(work)

    async def clear_messages(self, session_id: str | None) -> tuple[int, list[str]]:
        """Delete the rows of a session, or all; answer how many, and of which sessions."""
        if session_id is not None:
            count = await self._changed(sa.delete(messages).where(_session(session_id)))
            return count, [session_id]
        names = sa.select(messages.c.session, messages.c.session_full).distinct()

        def work(connection: sa.Connection) -> tuple[int, list[str]]:
            found = [full or short for short, full in connection.execute(names)]
            deleted = connection.execute(sa.delete(messages))
            return deleted.rowcount, sorted(found)

        return await self.database.transaction(work)

    # metadata ----------------------------------------------------------------------------

    async def metadata(self, namespace: str, key: str | None = None) -> list[MetadataItem]:
        """Return the value of one key (if it has one), or all of a namespace, by key (MEM-7)."""
        query = sa.select(entries).where(entries.c.namespace == index_form(namespace))
        if key is not None:
            query = query.where(entries.c.key == index_form(key))
        rows = await self._rows(query)
        items: list[MetadataItem] = []
        for row in rows:
            readable, value = value_of(row)
            if readable:
                items.append(
                    MetadataItem(
                        namespace=namespace,
                        key=row["key_full"] or row["key"],
                        value=value,
                        updated_at=row["updated_at"],
                    )
                )
        # Sorted here: databases order text by collations of their own.
        return sorted(items, key=lambda item: item.key)

    async def commit(self, changes: Sequence[MetadataChange]) -> int:
        """Apply changes whole or not at all; answer how many values were put or removed.

        Of several changes of one key the last counts.
        """
        last = {(change.namespace, change.key): change for change in changes}
        now = self._now()
        puts: list[dict[str, Any]] = []
        deletes: list[tuple[str, str]] = []
        for (namespace, key), change in sorted(last.items()):
            if change.op == "delete":
                deletes.append((index_form(namespace), index_form(key)))
            else:
                puts.append(
                    {
                        "namespace": index_form(namespace),
                        "key": index_form(key),
                        "namespace_full": full_form(namespace),
                        "key_full": full_form(key),
                        "value": value_text(change.value),
                        "updated_at": now,
                    }
                )
        if not last:
            return 0
        put = self._insert(entries)
        put = put.on_conflict_do_update(
            index_elements=[entries.c.namespace, entries.c.key],
            set_={"value": put.excluded.value, "updated_at": put.excluded.updated_at},
        )
        pair = sa.tuple_(entries.c.namespace, entries.c.key)

        def work(connection: sa.Connection) -> int:
            if puts:
                connection.execute(put, puts)
            count = len(puts)
            for batch in _batches(deletes):
                gone = connection.execute(sa.delete(entries).where(pair.in_(batch)))
                count += gone.rowcount
            return count

        if len(last) == 1:
            return await self.database.run(work, writes=True)
        return await self.database.transaction(work)

    async def clear_metadata(self, namespaces: Sequence[str] | None) -> int:
        """Delete every value of these namespaces; None = of all. Answer how many."""
        statement = sa.delete(entries)
        if namespaces is not None:
            names = [index_form(namespace) for namespace in namespaces]
            statement = statement.where(entries.c.namespace.in_(names))
        return await self._changed(statement)

    # statements --------------------------------------------------------------------------

    async def _rows(self, query: sa.Select[*tuple[Any, ...]]) -> list[sa.RowMapping]:
        def work(connection: sa.Connection) -> list[sa.RowMapping]:
            return list(connection.execute(query).mappings())

        return await self.database.run(work)

    async def _changed(self, statement: sa.Update | sa.Delete) -> int:
        def work(connection: sa.Connection) -> int:
            return connection.execute(statement).rowcount

        return await self.database.run(work, writes=True)


def _session(session_id: str) -> sa.ColumnElement[bool]:
    return messages.c.session == index_form(session_id)


def _at_places(places: Sequence[Place]) -> sa.ColumnElement[bool]:
    """Match rows by place; naming the inputs too lets SQLite find them by index."""
    inputs = sorted({seq for seq, _ in places})
    return sa.and_(messages.c.input_seq.in_(inputs), _key.in_(places))


def _without_kinds(
    query: sa.Select[*tuple[Any, ...]], kinds: list[str] | None
) -> sa.Select[*tuple[Any, ...]]:
    """Leave out rows of these kinds; a row without a kind is never left out (MEM-5)."""
    if not kinds:
        return query
    return query.where(sa.or_(messages.c.kind.is_(None), messages.c.kind.not_in(kinds)))


def _first_of_each(drafts: Iterable[Draft]) -> list[Draft]:
    """Drop drafts whose key an earlier draft of the same request has."""
    seen: dict[object, Draft] = {}
    for draft in drafts:
        key = draft.idempotency_key if draft.message.input_seq is None else _of(draft)
        seen.setdefault(key, draft)
    return list(seen.values())


def _place(message: Message) -> Place:
    return message.input_seq or 0, message.index or 0


def _of(draft: Draft) -> Place:
    return _place(draft.message)


def _at(draft: Draft, place: Place) -> Draft:
    seq, index = place
    message = draft.message.model_copy(update={"input_seq": seq, "index": index})
    return Draft(message, draft.idempotency_key)


def _literal(key: RowKey) -> tuple[sa.ColumnElement[int], sa.ColumnElement[int]]:
    number = sa.BigInteger()
    return (
        sa.literal(_int64(key.input_seq), number),
        sa.literal(_int64(key.index), number),
    )


def _int64(number: int) -> int:
    """Return the number, or the nearest one that a database can hold."""
    return max(-_INT64, min(number, _INT64))


def _batches(values: list[Any]) -> Iterable[list[Any]]:
    return (values[start : start + _BATCH] for start in range(0, len(values), _BATCH))


def _lock_of(session_id: str) -> int:
    digest = hashlib.sha256(index_form(session_id).encode()).digest()
    return int.from_bytes(digest[:8], signed=True)
