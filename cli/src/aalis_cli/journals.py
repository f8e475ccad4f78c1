"""This is about reading journals: what a lane has written, and who wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aalis_agent.ports import Recorded
from aalis_contracts import subjects
from aalis_contracts.dead import MESSAGE_ID_HEADER
from aalis_contracts.journal import JournalEntry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aalis_contracts.journal import Fact
    from aalis_sdk.mesh import Mesh


@dataclass(frozen=True, slots=True)
class Record(Recorded):
    """One entry of a journal: when it was stored, and who wrote it, as its key says."""

    time_ms: int
    writer: str


async def journal_of(mesh: Mesh, session_id: str, lane: str) -> list[Record]:
    """Return the journal of a lane, in order."""
    from aalis_sdk.topology import AGENT_JOURNAL

    entries = await mesh.read_all(AGENT_JOURNAL, subjects.journal(session_id, lane).name)
    return [
        Record(
            seq=entry.seq,
            entry=JournalEntry.from_json(entry.data),
            time_ms=entry.time_ms,
            # An entry's key is its writer and the entry before it.
            writer=entry.headers.get(MESSAGE_ID_HEADER, "").rpartition(".")[0],
        )
        for entry in entries
    ]


def facts_of(records: Sequence[Record]) -> list[Fact]:
    """Return the facts of some entries, in order."""
    return [fact for one in records for fact in one.entry.facts]
