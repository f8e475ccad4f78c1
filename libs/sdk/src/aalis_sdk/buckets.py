"""This is about buckets: small keyed records, compared and set by revision.

A bucket is a NATS KV bucket; it is reached by direct gets and plain publishes, because the
client's own `create` and `get` misbehave after a key has expired. Keys are encoded ids.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aalis_contracts.dead import MESSAGE_ID_HEADER
from aalis_contracts.subjects import Subject
from aalis_sdk.mesh import Conflict, Entry, Mesh

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nats.aio.msg import Msg

    from aalis_contracts.contract import Contract

OPERATION_HEADER: Final = "KV-Operation"
MARKER_HEADER: Final = "Nats-Marker-Reason"
TTL_HEADER: Final = "Nats-TTL"


@dataclass(frozen=True)
class Record:
    """A value and the revision it was read at."""

    key: str
    value: bytes
    revision: int


class Bucket:
    """One KV bucket."""

    def __init__(self, mesh: Mesh, name: str) -> None:
        self._mesh = mesh
        self._name = name
        self.stream = f"KV_{name}"

    def subject(self, key: str) -> Subject:
        """Return the subject under which the bucket's stream keeps `key`."""
        return Subject(f"$KV.{self._name}.{key}", f"$KV.{self._name}.{{key}}")

    async def get(self, key: str) -> Record | None:
        """Return the record of `key`, or None when there is none (or it was deleted)."""
        return self._record(await self._mesh.last(self.stream, self.subject(key).name))

    async def all(self, prefix: str = ">") -> list[Record]:
        """Return every record whose key matches the pattern `prefix`."""
        found = await self._mesh.lasts(self.stream, [self.subject(prefix).name])
        return [record for entry in found if (record := self._record(entry)) is not None]

    async def put(self, key: str, value: Contract | bytes, ttl_seconds: int | None = None) -> int:
        """Write `key` whatever it held; return the new revision."""
        headers = {TTL_HEADER: f"{ttl_seconds}s"} if ttl_seconds is not None else None
        return (await self._mesh.store(self.subject(key), value, headers=headers)).seq

    async def create(self, key: str, value: Contract | bytes, message_id: str) -> int | None:
        """Write `key` only if it holds nothing; return the revision, None if it holds something.

        `message_id` tells a repeat of this very write (after a lost answer) from somebody else's.
        """
        revision = await self.update(key, value, 0, message_id)
        if revision is not None:
            return revision
        # A key that was deleted, or has expired, may still be marked as such.
        newest = await self._mesh.last(self.stream, self.subject(key).name)
        if newest is None or not is_deletion(newest.headers):
            return None
        return await self.update(key, value, newest.seq, message_id)

    async def update(
        self, key: str, value: Contract | bytes, revision: int, message_id: str
    ) -> int | None:
        """Write `key` only if it is still at `revision`; return the new one, None if it is not."""
        try:
            stored = await self._mesh.store(self.subject(key), value, message_id, expected=revision)
        except Conflict:
            newest = await self._mesh.last(self.stream, self.subject(key).name)
            if newest is not None and newest.headers.get(MESSAGE_ID_HEADER) == message_id:
                return newest.seq
            return None
        return stored.seq

    async def delete(
        self, key: str, *, revision: int | None = None, ttl_seconds: int | None = None
    ) -> None:
        """Delete `key`; a missing one is fine, and one that is not at `revision` any more stays.

        `ttl_seconds` is how long the mark of the deletion is kept, for ever without it.
        """
        headers = {OPERATION_HEADER: "DEL"}
        if ttl_seconds is not None:
            headers[TTL_HEADER] = f"{ttl_seconds}s"
        with contextlib.suppress(Conflict):
            await self._mesh.store(
                self.subject(key), b"", _mark(key, revision), expected=revision, headers=headers
            )

    async def hear(
        self, pattern: str, heard: Callable[[str, bytes | None], Awaitable[None]]
    ) -> None:
        """Tell `heard` of every write from now on: key and value, None when it is deleted.

        For live copies: the writes themselves are heard, there is no consumer on the server. What
        was written while the connection was down is not heard; read again after a reconnect.
        """
        prefix = f"$KV.{self._name}."

        async def take(message: Msg) -> None:
            headers = dict(message.headers or {})
            value = None if is_deletion(headers) else message.data
            await heard(message.subject.removeprefix(prefix), value)

        await self._mesh.client.subscribe(self.subject(pattern).name, cb=take)
        await self._mesh.settle()

    def _record(self, entry: Entry | None) -> Record | None:
        if entry is None or is_deletion(entry.headers):
            return None
        key = entry.subject.removeprefix(f"$KV.{self._name}.")
        return Record(key, entry.data, entry.seq)


def _mark(key: str, revision: int | None) -> str | None:
    """Return what makes a deletion at a revision repeatable after a lost answer."""
    return None if revision is None else f"{key}.{revision}.deleted"


def is_deletion(headers: dict[str, str]) -> bool:
    """Say whether a bucket message marks a key as gone (deleted, purged or expired)."""
    return headers.get(OPERATION_HEADER) in {"DEL", "PURGE"} or MARKER_HEADER in headers
