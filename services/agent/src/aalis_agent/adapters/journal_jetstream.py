"""This is about the journal on JetStream: a subject a lane, appended by compare-and-set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aalis_agent.ports import Lost, Recorded, TooLong, Waiting
from aalis_contracts import subjects
from aalis_contracts.contract import InvalidBody
from aalis_contracts.dead import MESSAGE_ID_HEADER, TURN_HEADER
from aalis_contracts.journal import JournalEntry
from aalis_contracts.messages import IncomingMessage
from aalis_sdk.mesh import Conflict, TooLarge
from aalis_sdk.topology import AGENT_INBOX, AGENT_JOURNAL

if TYPE_CHECKING:
    from aalis_sdk.mesh import Entry, Mesh


class JetStreamJournal:
    """The journal port on NATS."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh

    async def last(self, session_id: str, lane: str) -> Recorded | None:
        """Return the newest entry."""
        found = await self._mesh.last(AGENT_JOURNAL, subjects.journal(session_id, lane).name)
        return None if found is None else _recorded(found)

    async def lanes(self, session_id: str) -> list[Recorded]:
        """Return the newest entry of every lane of a session."""
        found = await self._mesh.lasts(AGENT_JOURNAL, [subjects.journals_of(session_id)])
        return [_recorded(entry) for entry in found]

    async def read(self, session_id: str, lane: str, start: int) -> list[Recorded]:
        """Return the entries from the sequence `start` on, in order."""
        subject = subjects.journal(session_id, lane).name
        return [
            _recorded(entry) for entry in await self._mesh.read_all(AGENT_JOURNAL, subject, start)
        ]

    async def append(self, entry: JournalEntry, expected: int, key: str) -> int:
        """Append by compare-and-set; an append whose answer was lost is recognised by its key."""
        subject = subjects.journal(entry.session_id, entry.lane)
        headers = {TURN_HEADER: entry.turn_id}
        try:
            stored = await self._mesh.store(subject, entry, key, expected=expected, headers=headers)
        except Conflict as error:
            newest = await self._mesh.last(AGENT_JOURNAL, subject.name)
            if newest is not None and newest.headers.get(MESSAGE_ID_HEADER) == key:
                return newest.seq
            raise Lost(str(error)) from None
        except TooLarge as error:
            raise TooLong(str(error)) from None
        return stored.seq

    async def waiting(self, session_id: str, lane: str, after: int) -> list[Waiting]:
        """Return the readable messages; others are rejected by their own delivery."""
        subject = subjects.inbox(session_id, lane).name
        found = await self._mesh.read_all(AGENT_INBOX, subject, after + 1)
        return [one for entry in found if (one := _waiting(entry, session_id)) is not None]


def _recorded(entry: Entry) -> Recorded:
    return Recorded(entry.seq, JournalEntry.from_json(entry.data))


def _waiting(entry: Entry, session_id: str) -> Waiting | None:
    try:
        incoming = IncomingMessage.from_json(entry.data)
    except InvalidBody:
        return None
    if incoming.session_id != session_id:
        return None
    return Waiting(entry.seq, incoming, entry.time_ms)
