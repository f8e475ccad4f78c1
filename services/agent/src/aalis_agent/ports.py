"""This is about ports: what a turn needs from the world, on one page.

Each is named for what it does for a turn. What can be missing raises `Unavailable`: the turn
degrades, with a warning that names it, and tries again at the next need (SPEC RPC-1, AG-10). What
answers no raises `Refused`: the turn goes on without it and does not ask again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from aalis_contracts.contract import Contract
from aalis_contracts.events import TokenUsage, ToolExecute, TurnAfter
from aalis_contracts.hooks import PromptBuild
from aalis_contracts.journal import JournalEntry
from aalis_contracts.messages import IncomingMessage, Message, OutgoingMessage, StreamFrame
from aalis_contracts.models import ChatChunk, ChatRequest, ModelEntry
from aalis_contracts.registry import PromptEntry, ToolEntry
from aalis_contracts.rpc import CommandContext, PersonaPrompt
from aalis_contracts.sessions import SessionConfig, SessionInfo
from aalis_contracts.tools import ToolCallRequest, ToolResult
from aalis_llm.retry import Attempt

Data = TypeVar("Data", bound=Contract)
Seen_co = TypeVar("Seen_co", bound=Contract, covariant=True)


class Unavailable(Exception):
    """A collaborator does not answer now; the message names it and says why.

    `begun`: it was there when it was asked, so what was asked for may have happened.
    """

    def __init__(self, what: str, why: str, *, begun: bool = False) -> None:
        super().__init__(f"{what} is absent: {why}")
        self.what = what
        self.begun = begun


class Refused(Exception):
    """A collaborator has answered no: asking again unchanged is no use (SPEC RPC-1)."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what} refused: {why}")
        self.what = what


class ChainFailed(Exception):
    """An interceptor without which the turn must not go on has failed (SPEC HOOK-9)."""


class TooLong(Exception):
    """An entry does not fit into one message of the journal (SPEC JRN-8)."""


class Lost(Exception):
    """This lane has a new owner: stop at once and touch nothing (SPEC AG-17)."""


class HandBack(Exception):
    """This process is leaving: the turn goes to another replica (DESIGN §5, step 8)."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A journal entry and where it stands."""

    seq: int
    entry: JournalEntry


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message in a lane's mailbox."""

    seq: int
    incoming: IncomingMessage
    arrived_at: int


class Journal(Protocol):
    """The lane's memory of its turns, and its mailbox."""

    async def last(self, session_id: str, lane: str) -> Recorded | None:
        """Return the newest entry."""
        ...

    async def lanes(self, session_id: str) -> list[Recorded]:
        """Return the newest entry of every lane of a session."""
        ...

    async def read(self, session_id: str, lane: str, start: int) -> list[Recorded]:
        """Return the entries from the sequence `start` on, in order."""
        ...

    async def append(self, entry: JournalEntry, expected: int, key: str) -> int:
        """Append; raise `Lost` when the newest entry is not the one at `expected` (0 = none).

        `key` names this append: repeating it is answered as the first time. Raises `TooLong` for
        an entry that does not fit into one message.
        """
        ...

    async def waiting(self, session_id: str, lane: str, after: int) -> list[Waiting]:
        """Return all readable messages of the mailbox behind the sequence `after`, in order."""
        ...


class Memory(Protocol):
    """History and archive; each may raise `Unavailable` or `Refused`."""

    async def archive(self, incoming: IncomingMessage, input_seq: int, said_at: int) -> Message:
        """Save what a person said; return the stored row. Saving again returns the same."""
        ...

    async def history(self, session_id: str, limit: int, before: int) -> list[Message]:
        """Return the newest rows with a key below the input `before`, ascending."""
        ...

    async def save(self, session_id: str, rows: Sequence[Message]) -> None:
        """Save rows under their keys; saving again changes nothing."""
        ...


class Chain(Protocol[Seen_co]):
    """How a hook's chain ended."""

    @property
    def data(self) -> Seen_co:
        """The data as the last interceptor left it."""
        ...

    @property
    def stopped_by(self) -> str | None:
        """The plugin that stopped the chain, if any did."""
        ...


class Interceptors(Protocol):
    """Other processes that may look at and change a step."""

    def anyone(self, hook: str) -> bool:
        """Say whether anybody is registered for `hook`; if not, nothing need be asked."""
        ...

    async def run(self, hook: str, data: Data) -> Chain[Data]:
        """Ask them in order; raise `ChainFailed` for one that may not be missed."""
        ...


class Contributors(Protocol):
    """Other processes that add to the prompt."""

    def entries(self) -> list[PromptEntry]:
        """Return what is offered now, sorted by key."""
        ...

    async def build(
        self, entry: PromptEntry, request: PromptBuild, timeout: float
    ) -> str | list[str] | None:
        """Have one block built within `timeout` seconds (0 = no limit), or raise `Unavailable`."""
        ...


class Models(Protocol):
    """The models that may be chosen."""

    def entries(self) -> list[ModelEntry]:
        """Return them as `/model` lists them."""
        ...

    def failed(self) -> list[str]:
        """Return the names of provider instances that have no model, for the explanation."""
        ...

    def stream(
        self, entry: ModelEntry, request: ChatRequest
    ) -> AsyncGenerator[Attempt | ChatChunk]:
        """Ask one question, shaped for the model, again where that may help (LLM-10).

        Raises `ModelError`; closing it aborts the call.
        """
        ...


class Tools(Protocol):
    """Tools in other processes."""

    def entries(self) -> list[ToolEntry]:
        """Return what is offered now, sorted by name."""
        ...

    async def call(
        self, entry: ToolEntry, request: ToolCallRequest, *, begun: bool = False
    ) -> ToolResult:
        """Have a call executed once under its key; raise `Unavailable` or TimeoutError.

        `begun`: it may have been sent before, so that its host may know more than we do.
        """
        ...

    async def cancel(self, name: str, key: str, reason: str) -> None:
        """Tell the hosts that nobody waits for this call any more."""
        ...


class Personas(Protocol):
    """Who the model is."""

    async def prompt(
        self, config: SessionConfig, incoming: IncomingMessage
    ) -> PersonaPrompt | None:
        """Return the persona's texts, None without a persona service."""
        ...

    async def names(self) -> list[str] | None:
        """Return the personas that may be chosen, None when they cannot be listed now."""
        ...


class Settings(Protocol):
    """What is set for a session."""

    async def effective(self, session_id: str, platform: str) -> SessionConfig:
        """Return the effective settings (SPEC SES-4)."""
        ...


@dataclass(frozen=True, slots=True)
class Sourced:
    """A value of a setting, and the layer that says it (SPEC SES-4)."""

    source: str
    value: object


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session's record, and for each setting all that is said of it, strongest first."""

    record: SessionInfo | None
    values: Mapping[str, Sequence[Sourced]]


class SessionRecords(Protocol):
    """The records of sessions, for whoever changes them; an unreadable one raises `Refused`."""

    async def view(self, session_id: str, platform: str) -> SessionView:
        """Return what is set for a session, and where; an unknown id has no record."""
        ...

    async def change(
        self, context: CommandContext, change: Callable[[SessionInfo], SessionInfo]
    ) -> SessionInfo:
        """Write a change by compare-and-set, in a record made for it if there is none.

        `change` may be asked again with a newer record (SPEC SES-2).
        """
        ...


class Outbound(Protocol):
    """Everything a turn says to the world."""

    async def frame(self, frame: StreamFrame) -> None:
        """Publish a piece of text; nobody waits for it."""
        ...

    async def last_frame(self, frame: StreamFrame) -> None:
        """Publish a `done` frame, once."""
        ...

    async def dispatch(self, message: OutgoingMessage) -> None:
        """Send a message through the gateway, or directly when there is none (AG-58)."""
        ...

    async def usage(self, usage: TokenUsage) -> None:
        """Publish `token:usage`; a failure disturbs nothing."""
        ...

    async def tool_event(self, event: ToolExecute, key: str) -> None:
        """Publish `tool:execute`, once per phase of the call with this key."""
        ...

    async def turn_after(self, event: TurnAfter) -> None:
        """Publish `agent:turn:after`, once per turn."""
        ...

    async def abort(self, session_id: str, lane: str, turn_id: str, reason: str) -> None:
        """Tell a lane's old owner to stop."""
        ...
