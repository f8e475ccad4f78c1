"""This is about evidence: what anybody can see of a run from outside, once everything is over."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from aalis_cli.chaos.errands import PLATFORM, Errand
from aalis_cli.journals import Record, journal_of
from aalis_contracts import subjects
from aalis_contracts.contract import Contract
from aalis_contracts.dead import REASON_HEADER
from aalis_contracts.events import TurnAfter
from aalis_contracts.journal import JournalEntry
from aalis_contracts.messages import IncomingMessage, Message, OutgoingMessage, StreamFrame
from aalis_contracts.rpc import HistoryFull, Rows

if TYPE_CHECKING:
    from pathlib import Path

    from aalis_sdk.mesh import Mesh

Body = TypeVar("Body", bound=Contract)
_ALL_ROWS = 5000


@dataclass(frozen=True)
class Effect:
    """One line that a tool has left."""

    tool: str
    word: str
    key: str


@dataclass(frozen=True)
class Asked:
    """One request that the model has got; `wrong` is what a strict provider would refuse."""

    word: str
    iteration: int
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True)
class Span:
    """Seconds since the epoch during which something was out of order."""

    begin: float
    end: float

    def meets(self, begin: float, end: float) -> bool:
        """Say whether the two overlap."""
        return self.begin <= end and begin <= self.end


@dataclass
class Session:
    """Everything that is stored of one session."""

    session_id: str
    inputs: dict[int, IncomingMessage] = field(default_factory=dict[int, IncomingMessage])
    journal: list[Record] = field(default_factory=list[Record])
    ends: list[TurnAfter] = field(default_factory=list[TurnAfter])
    sent: list[OutgoingMessage] = field(default_factory=list[OutgoingMessage])
    rows: list[Message] = field(default_factory=list[Message])
    frames: list[StreamFrame] = field(default_factory=list[StreamFrame])


@dataclass
class Evidence:
    """What was said, and what came of it."""

    errands: list[Errand]
    sessions: dict[str, Session] = field(default_factory=dict[str, Session])
    effects: list[Effect] = field(default_factory=list[Effect])
    delivered: list[str] = field(default_factory=list[str])
    """The ids of delivered messages, in order."""
    asked: list[Asked] = field(default_factory=list[Asked])
    dead: list[str] = field(default_factory=list[str])
    overtaken: set[str] = field(default_factory=set[str])
    """Words of errands that a newer one or an abort may have ended."""
    hosts_hit: list[Span] = field(default_factory=list[Span])
    """When the tool host was dead or frozen."""


async def of_session(mesh: Mesh, session_id: str) -> Session:
    """Read all that is stored of a session."""
    from aalis_sdk import topology

    found = Session(session_id)
    inbox = subjects.inbox(session_id, "user").name
    for entry in await mesh.read_all(topology.AGENT_INBOX, inbox):
        found.inputs[entry.seq] = IncomingMessage.from_json(entry.data)
    found.journal = await journal_of(mesh, session_id, "user")
    ends = await mesh.read_all(topology.EVENTS, subjects.turn_after(session_id).name)
    found.ends = [TurnAfter.from_json(entry.data) for entry in ends]
    sent = await mesh.read_all(topology.OUTBOUND, subjects.outbound(PLATFORM, session_id).name)
    found.sent = [OutgoingMessage.from_json(entry.data) for entry in sent]
    frames = await mesh.read_all(topology.STREAMS, subjects.stream(PLATFORM, session_id).name)
    found.frames = [StreamFrame.from_json(entry.data) for entry in frames]
    asking = HistoryFull(session_id=session_id, limit=_ALL_ROWS)
    rows = await mesh.request(subjects.request(subjects.HISTORY_FULL), asking, Rows)
    found.rows = rows.messages
    return found


async def owes(mesh: Mesh, session_id: str) -> bool:
    """Say whether the journal of a session says that rows are owed."""
    from aalis_sdk import topology

    newest = await mesh.last(topology.AGENT_JOURNAL, subjects.journal(session_id, "user").name)
    return newest is not None and JournalEntry.from_json(newest.data).owed_from is not None


async def dead_letters(mesh: Mesh) -> list[str]:
    """Return a line for each message that could not be handled."""
    from aalis_sdk import topology

    letters = await mesh.read_all(topology.DEAD, "dead.>")
    return [f"{one.subject}: {one.headers.get(REASON_HEADER, '')}" for one in letters]


async def bury_for_good(mesh: Mesh, session_id: str) -> int:
    """Delete the dead letters of a session; return how many there were."""
    from aalis_sdk import topology

    token = subjects.token(session_id)
    letters = await mesh.read_all(topology.DEAD, "dead.>")
    own = [one for one in letters if one.subject.endswith(f".{token}")]
    for one in own:
        await mesh.forget(topology.DEAD, one.seq)
    return len(own)


def lines_of(file: Path) -> list[dict[str, Any]]:
    """Return the lines of a file that a process of the run has written."""
    if not file.exists():
        return []
    return [cast("dict[str, Any]", json.loads(line)) for line in file.read_text().splitlines()]
