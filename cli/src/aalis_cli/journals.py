"""This is about reading journals: what a lane has written, and who wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aalis_contracts import subjects
from aalis_contracts.dead import MESSAGE_ID_HEADER
from aalis_contracts.journal import JournalEntry, TurnStarted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aalis_contracts.journal import Fact
    from aalis_sdk.mesh import Entry, Mesh

_PAGE: Final = 500


@dataclass(frozen=True)
class Record:
    """One entry of a journal: when it was stored, and who wrote it, as its key says."""

    seq: int
    time_ms: int
    writer: str
    entry: JournalEntry


async def stored(mesh: Mesh, stream: str, subject: str) -> list[Entry]:
    """Return everything that a stream holds of a subject, in order."""
    found: list[Entry] = []
    while page := await mesh.range(stream, subject, found[-1].seq + 1 if found else 1, _PAGE):
        found += page
    return found


async def journal_of(mesh: Mesh, session_id: str, lane: str) -> list[Record]:
    """Return the journal of a lane, in order."""
    from aalis_sdk.topology import AGENT_JOURNAL

    entries = await stored(mesh, AGENT_JOURNAL, subjects.journal(session_id, lane).name)
    return [
        Record(
            entry.seq,
            entry.time_ms,
            # An entry's key is its writer and the entry before it.
            entry.headers.get(MESSAGE_ID_HEADER, "").rpartition(".")[0],
            JournalEntry.from_json(entry.data),
        )
        for entry in entries
    ]


def turns_in(records: Sequence[Record]) -> list[list[Record]]:
    """Split a journal into turns; what lost its beginning to retention is left out."""
    turns: list[list[Record]] = []
    for one in records:
        if one.entry.facts and isinstance(one.entry.facts[0], TurnStarted):
            turns.append([])
        if turns:
            turns[-1].append(one)
    return turns


def facts_of(records: Sequence[Record]) -> list[Fact]:
    """Return the facts of some entries, in order."""
    return [fact for one in records for fact in one.entry.facts]
