"""This is about tables: the columns and indexes behind the store (SPEC §6.1).

Two rules shape them. Text comes back byte for byte: PostgreSQL refuses U+0000, so `WholeText`
escapes it, the same on both databases, and JSON is kept as the text it was written as. And any id
is legal, however long: an index entry of PostgreSQL holds 2,704 bytes, so what is indexed is
`index_form(id)`, which is the id itself unless that is very long.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.types import TypeDecorator

from aalis_contracts.text import well_formed

_INDEXED_BYTES: Final = 255
_PREFIX_CHARACTERS: Final = 200

_ESCAPE: Final = "\x10"
_ESCAPED_ESCAPE: Final = "\x10\x10"
_ESCAPED_NUL: Final = "\x100"


def index_form(identifier: str) -> str:
    """Return what stands for `identifier` in an index: itself, up to 255 bytes of UTF-8.

    A longer one becomes its first 200 characters and its SHA-256. That is over 255 bytes, so it
    can never be mistaken for a short id that looks the same.
    """
    text = well_formed(identifier)
    data = text.encode()
    if len(data) <= _INDEXED_BYTES:
        return text
    return f"{text[:_PREFIX_CHARACTERS]}#{hashlib.sha256(data).hexdigest()}"


def full_form(identifier: str) -> str | None:
    """Return the id if its index form is something else, to be kept beside it."""
    text = well_formed(identifier)
    return None if index_form(text) == text else text


class WholeText(TypeDecorator[str]):
    """Text of which every character survives; U+0000 is stored as U+0010 `0` (and U+0010 twice)."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(
        self,
        value: str | None,
        dialect: sa.Dialect,  # noqa: ARG002 - the same on every database
    ) -> str | None:
        """Escape what a database would refuse."""
        if value is None:
            return None
        text = well_formed(value)
        if _ESCAPE in text:
            text = text.replace(_ESCAPE, _ESCAPED_ESCAPE)
        return text.replace("\0", _ESCAPED_NUL) if "\0" in text else text

    def process_result_value(
        self,
        value: Any | None,  # noqa: ANN401 - what a driver hands out
        dialect: sa.Dialect,  # noqa: ARG002 - the same on every database
    ) -> str | None:
        """Undo `process_bind_param`."""
        if value is None or _ESCAPE not in value:
            return value
        halves = str(value).split(_ESCAPED_ESCAPE)
        return _ESCAPE.join(half.replace(_ESCAPED_NUL, "\0") for half in halves)


# SQLite counts only a column that is literally INTEGER PRIMARY KEY.
_Identity: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

metadata: Final = sa.MetaData()

messages: Final = sa.Table(
    "messages",
    metadata,
    sa.Column("id", _Identity, primary_key=True, autoincrement=True),
    # The index form; session_full holds the id where the two differ.
    sa.Column("session", WholeText, nullable=False),
    sa.Column("session_full", WholeText),
    sa.Column("input_seq", sa.BigInteger, nullable=False),
    sa.Column("row_index", sa.BigInteger, nullable=False),
    # The index form of the key of a row without an input (MEM-2).
    sa.Column("idempotency_key", WholeText),
    sa.Column("archived", sa.Boolean, nullable=False),
    sa.Column("role", WholeText, nullable=False),
    sa.Column("content", WholeText),
    sa.Column("kind", WholeText),
    sa.Column("tool_calls", sa.Text),
    sa.Column("tool_call_id", WholeText),
    sa.Column("name", WholeText),
    sa.Column("timestamp", sa.BigInteger),
    sa.Column("reasoning_content", WholeText),
    sa.Column("segments", sa.Text),
    sa.Column("metadata", sa.Text),
    sa.Column("provider_data", sa.Text),
    # metadata.platform, so that reading across sessions can ask for one platform.
    sa.Column("platform", WholeText),
    # When the row was saved, in milliseconds since the epoch; `timestamp` is for display only.
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("session", "input_seq", "row_index", name="uq_messages_key"),
    # AUTOINCREMENT: an id is never used again, so insertion order holds after a delete.
    sqlite_autoincrement=True,
)

live: Final = messages.c.archived.is_(sa.false())
"""Rows not archived away, spelled as the partial indexes spell it, so that they are used."""

sa.Index(
    "ix_messages_live",
    messages.c.session,
    messages.c.input_seq,
    messages.c.row_index,
    sqlite_where=live,
    postgresql_where=live,
)
_keyed: Final = messages.c.idempotency_key.is_not(None)
sa.Index(
    "ix_messages_idempotency_key",
    messages.c.session,
    messages.c.idempotency_key,
    unique=True,
    sqlite_where=_keyed,
    postgresql_where=_keyed,
)
sa.Index(
    "ix_messages_recent",
    messages.c.created_at,
    messages.c.id,
    sqlite_where=live,
    postgresql_where=live,
)

entries: Final = sa.Table(
    "metadata",
    metadata,
    # The index forms; the full ones stand beside them where the two differ.
    sa.Column("namespace", WholeText, primary_key=True),
    sa.Column("key", WholeText, primary_key=True),
    sa.Column("namespace_full", WholeText),
    sa.Column("key_full", WholeText),
    sa.Column("value", sa.Text, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
)
