"""This is about doubles of every port, in memory: for tests of the story, here and elsewhere.

They keep the promises of the real adapters, no more: the journal refuses by compare-and-set, the
broker takes an id once, a tool's host runs a key once, a memory that is away says so. One suite of
behaviour runs on this journal and on the real one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from aalis_agent.ports import Lost, Recorded, Refused, TooLong, Unavailable, Waiting
from aalis_contracts.contract import Contract, InvalidBody
from aalis_contracts.events import AgentAbort, TokenUsage, ToolExecute, TurnAfter
from aalis_contracts.hooks import PromptBuild, json_object
from aalis_contracts.journal import JournalEntry
from aalis_contracts.messages import IncomingMessage, Message, OutgoingMessage, StreamFrame
from aalis_contracts.models import ChatChunk, ChatRequest
from aalis_contracts.registry import PromptEntry, ToolEntry
from aalis_contracts.rpc import PersonaPrompt
from aalis_contracts.sessions import SessionConfig
from aalis_contracts.text import JsonObject
from aalis_contracts.tools import (
    FunctionDefinition,
    ToolCallContext,
    ToolCallRequest,
    ToolDefinition,
    ToolResult,
    error_result,
)
from aalis_llm.script import Script
from aalis_llm.scripted import ScriptedProvider

Data = TypeVar("Data", bound=Contract)
LaneKey = tuple[str, str]
START = 1_700_000_000_000
"""Milliseconds since the epoch at which time begins here."""


@dataclass
class FakeClock:
    """A clock that moves by a millisecond each time somebody looks at it."""

    at: int = START

    def now(self) -> int:
        """Return the time."""
        self.at += 1
        return self.at


class FakeJournal:
    """The journal port in memory, and the mailbox; `limit` is the longest entry in bytes.

    `before_append` and `after_append` are called around each entry that is taken: whoever raises
    there plays the owner that dies.
    """

    def __init__(self, limit: int = 8 * 1024 * 1024) -> None:
        self.limit = limit
        self.before_append: Callable[[JournalEntry], Awaitable[None]] | None = None
        self.after_append: Callable[[JournalEntry], Awaitable[None]] | None = None
        self.refused = 0
        self._seq = 0
        self._input = 0
        self._entries: dict[LaneKey, list[tuple[int, bytes, str]]] = {}
        self._mailboxes: dict[LaneKey, list[tuple[int, bytes, int]]] = {}

    def post(self, session_id: str, lane: str, body: bytes, at: int = START) -> int:
        """Put a body into a mailbox; return its sequence."""
        self._input += 1
        self._mailboxes.setdefault((session_id, lane), []).append((self._input, body, at))
        return self._input

    def body(self, session_id: str, lane: str, seq: int) -> bytes:
        """Return a body of a mailbox, as a delivery carries it."""
        mailbox = self._mailboxes[(session_id, lane)]
        return next(body for number, body, _ in mailbox if number == seq)

    def clear(self, session_id: str, lane: str) -> None:
        """Lose the mailbox."""
        self._mailboxes.pop((session_id, lane), None)

    def forget(self, session_id: str, lane: str, below: int) -> None:
        """Lose the entries below a sequence, as retention does."""
        kept = [one for one in self._entries[(session_id, lane)] if one[0] >= below]
        self._entries[(session_id, lane)] = kept

    def entries(self, session_id: str, lane: str) -> list[Recorded]:
        """Return everything that is recorded of a lane."""
        found = self._entries.get((session_id, lane), [])
        return [Recorded(seq, JournalEntry.from_json(data)) for seq, data, _ in found]

    async def last(self, session_id: str, lane: str) -> Recorded | None:
        """Return the newest entry."""
        await asyncio.sleep(0)
        return next(iter(reversed(self.entries(session_id, lane))), None)

    async def lanes(self, session_id: str) -> list[Recorded]:
        """Return the newest entry of every lane of a session."""
        await asyncio.sleep(0)
        lanes = [lane for session, lane in self._entries if session == session_id]
        return [self.entries(session_id, lane)[-1] for lane in lanes]

    async def read(self, session_id: str, lane: str, start: int) -> list[Recorded]:
        """Return the entries from the sequence `start` on, in order."""
        await asyncio.sleep(0)
        return [one for one in self.entries(session_id, lane) if one.seq >= start]

    async def append(self, entry: JournalEntry, expected: int, key: str) -> int:
        """Append by compare-and-set."""
        await asyncio.sleep(0)
        data = entry.to_json()
        if len(data) > self.limit:
            raise TooLong(f"{len(data)} bytes exceed {self.limit}")
        entries = self._entries.setdefault((entry.session_id, entry.lane), [])
        newest = entries[-1] if entries else (0, b"", "")
        if newest[2] == key:
            return newest[0]
        if newest[0] != expected:
            self.refused += 1
            raise Lost(f"expected {expected}, found {newest[0]}")
        if self.before_append is not None:
            await self.before_append(entry)
        self._seq = seq = self._seq + 1
        entries.append((seq, data, key))
        if self.after_append is not None:
            await self.after_append(entry)
        return seq

    async def waiting(self, session_id: str, lane: str, after: int) -> list[Waiting]:
        """Return the readable messages of the mailbox behind `after`."""
        await asyncio.sleep(0)
        found: list[Waiting] = []
        for seq, body, at in self._mailboxes.get((session_id, lane), []):
            try:
                incoming = IncomingMessage.from_json(body)
            except InvalidBody:
                continue
            if seq > after and incoming.session_id == session_id:
                found.append(Waiting(seq, incoming, at))
        return found


@dataclass
class FakeMemory:
    """The memory port in memory; `away` = it does not answer, `refuses` = it answers no."""

    away: bool = False
    refuses: bool = False
    rows: dict[str, dict[tuple[int, int], Message]] = field(
        default_factory=dict[str, dict[tuple[int, int], Message]]
    )
    order: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """The keys of the rows in the order in which they were first saved."""

    def of(self, session_id: str) -> list[Message]:
        """Return the rows of a session by their key."""
        return [row for _, row in sorted(self.rows.get(session_id, {}).items())]

    async def archive(self, incoming: IncomingMessage, input_seq: int, said_at: int) -> Message:
        """Save what a person said."""
        await self._answer()
        row = Message(
            role="user",
            content=incoming.content,
            name=incoming.user_id,
            timestamp=incoming.timestamp or said_at,
            input_seq=input_seq,
            index=0,
        )
        return self._keep(incoming.session_id, row)

    async def history(self, session_id: str, limit: int, before: int) -> list[Message]:
        """Return the newest rows below an input."""
        await self._answer()
        return [row for row in self.of(session_id) if (row.input_seq or 0) < before][-limit:]

    async def save(self, session_id: str, rows: Sequence[Message]) -> None:
        """Save rows under their keys."""
        await self._answer()
        for row in rows:
            self._keep(session_id, row)

    async def _answer(self) -> None:
        await asyncio.sleep(0)
        if self.away:
            raise Unavailable("memory", "no responder")
        if self.refuses:
            raise Refused("memory", "invalid")

    def _keep(self, session_id: str, row: Message) -> Message:
        key = (row.input_seq or 0, row.index or 0)
        stored = self.rows.setdefault(session_id, {})
        if key not in stored:
            stored[key] = Message.from_json(row.to_json())
            self.order.append(key)
        return stored[key]


class Stop(Exception):
    """Raised by a fake interceptor to stop its chain; the patch is applied before."""

    def __init__(self, **patch: object) -> None:
        super().__init__("stopped")
        self.patch = patch


@dataclass(frozen=True)
class FakeChain(Generic[Data]):
    """How a fake chain ended."""

    data: Data
    stopped_by: str | None = None


Interceptor = Callable[[Contract], Awaitable[dict[str, object] | None]]


@dataclass
class FakeInterceptors:
    """The interceptors port: plain functions in the order in which they were added.

    One that raises `ChainFailed` is one that may not be missed.
    """

    chains: dict[str, list[tuple[str, Interceptor]]] = field(
        default_factory=dict[str, list[tuple[str, Interceptor]]]
    )

    def add(self, hook: str, plugin: str, interceptor: Interceptor) -> None:
        """Have `interceptor` asked at `hook`; it returns a patch of camelCase fields, or None."""
        self.chains.setdefault(hook, []).append((plugin, interceptor))

    def anyone(self, hook: str) -> bool:
        """Say whether anybody is registered."""
        return bool(self.chains.get(hook))

    async def run(self, hook: str, data: Data) -> FakeChain[Data]:
        """Ask them in order."""
        for plugin, interceptor in self.chains.get(hook, []):
            try:
                patch = await interceptor(data)
            except Stop as stop:
                return FakeChain(_patched(data, stop.patch), plugin)
            data = _patched(data, patch or {})
        return FakeChain(data)


def _patched(data: Data, patch: dict[str, object]) -> Data:
    return type(data).from_object({**json_object(data), **patch}) if patch else data


Builder = Callable[[PromptBuild], Awaitable[str | list[str] | None]]


@dataclass
class FakeContributors:
    """The contributors port: plain functions."""

    builders: dict[str, tuple[PromptEntry, Builder]] = field(
        default_factory=dict[str, tuple[PromptEntry, Builder]]
    )

    def add(self, plugin: str, name: str, anchor: str, builder: Builder) -> None:
        """Offer a contribution."""
        entry = PromptEntry(plugin=plugin, id=name, anchor=anchor)
        self.builders[entry.key] = (entry, builder)

    def entries(self) -> list[PromptEntry]:
        """Return what is offered, sorted by key."""
        return [entry for _, (entry, _) in sorted(self.builders.items())]

    async def build(
        self, entry: PromptEntry, request: PromptBuild, timeout: float
    ) -> str | list[str] | None:
        """Have one block built."""
        try:
            async with asyncio.timeout(timeout or None):
                return await self.builders[entry.key][1](request)
        except TimeoutError:
            raise Unavailable(entry.key, f"no answer within {timeout:g} s") from None


Handler = Callable[[JsonObject, ToolCallContext], Awaitable[str]]
ANY_ARGUMENTS: JsonObject = {"type": "object", "properties": {}}


@dataclass
class FakeTools:
    """The tools port: a host that runs each key once, whoever asks and however often."""

    offers: dict[str, tuple[ToolEntry, Handler]] = field(
        default_factory=dict[str, tuple[ToolEntry, Handler]]
    )
    effects: list[str] = field(default_factory=list[str])
    """The keys of the calls that were executed, once for each execution."""
    contexts: list[ToolCallContext] = field(default_factory=list[ToolCallContext])
    cancelled: list[str] = field(default_factory=list[str])
    images: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    away: set[str] = field(default_factory=set[str])
    """Tools whose host is not there; `lost`: it was there when it was asked."""
    lost: set[str] = field(default_factory=set[str])
    _calls: dict[str, asyncio.Task[ToolResult]] = field(
        default_factory=dict[str, asyncio.Task[ToolResult]]
    )

    def add(
        self,
        name: str,
        handler: Handler,
        *,
        groups: Sequence[str] = (),
        schema: JsonObject | None = None,
        timeout_ms: int = 60_000,
    ) -> None:
        """Offer a tool."""
        function = FunctionDefinition(name=name, parameters=schema or ANY_ARGUMENTS)
        entry = ToolEntry(
            definition=ToolDefinition(function=function),
            plugin="fake",
            groups=list(groups),
            timeout_ms=timeout_ms,
        )
        self.offers[name] = (entry, handler)

    def entries(self) -> list[ToolEntry]:
        """Return what is offered, sorted by name."""
        return [entry for _, (entry, _) in sorted(self.offers.items())]

    async def call(
        self, entry: ToolEntry, request: ToolCallRequest, *, begun: bool = False
    ) -> ToolResult:
        """Run the call, or join the one that has this key."""
        if entry.name in self.away | self.lost:
            begun = begun or entry.name in self.lost
            raise Unavailable(f"tool {entry.name}", "no responder", begun=begun)
        key = request.context.key
        if key not in self._calls:
            self._calls[key] = asyncio.create_task(self._run(entry.name, request))
        async with asyncio.timeout(entry.timeout_ms / 1000):
            return await asyncio.shield(self._calls[key])

    async def cancel(self, name: str, key: str, reason: str) -> None:
        """End the call with this key."""
        self.cancelled.append(f"{name} {key} {reason}")
        if key in self._calls:
            self._calls[key].cancel()

    async def close(self) -> None:
        """End every call."""
        for task in self._calls.values():
            task.cancel()
        await asyncio.gather(*self._calls.values(), return_exceptions=True)

    async def _run(self, name: str, request: ToolCallRequest) -> ToolResult:
        self.effects.append(request.context.key)
        self.contexts.append(request.context)
        try:
            content = await self.offers[name][1](request.args, request.context)
        except asyncio.CancelledError:
            return error_result("cancelled")
        except Exception as error:  # noqa: BLE001 - a host answers whatever its tool raises
            return error_result(str(error) or type(error).__name__)
        return ToolResult(content=content, images=self.images.get(name))


class FakeProvider:
    """The scripted provider, remembering what it was asked and which answers it gave whole."""

    def __init__(self, script: Script | None = None, provider_id: str = "scripted") -> None:
        self._provider = ScriptedProvider(script, provider_id)
        self.provider_id = provider_id
        self.asked: list[ChatRequest] = []
        self.answered: list[ChatRequest] = []
        self.entries = self._provider.entries
        self.refresh = self._provider.refresh
        self.close = self._provider.close

    async def stream(self, entry_id: str, request: ChatRequest) -> AsyncGenerator[ChatChunk]:
        """Answer as the script says."""
        self.asked.append(request)
        async for chunk in self._provider.stream(entry_id, request):
            if chunk.done:
                self.answered.append(request)
            yield chunk


@dataclass
class FakePersonas:
    """The personas port: one persona, or none."""

    answer: PersonaPrompt | None = None
    away: bool = False

    async def prompt(
        self, config: SessionConfig, incoming: IncomingMessage
    ) -> PersonaPrompt | None:
        """Return the persona's texts."""
        _ = (config, incoming)
        if self.away:
            raise Unavailable("persona", "no responder")
        return self.answer

    async def names(self) -> list[str] | None:
        """Return the one there is."""
        if self.away:
            return None
        return [self.answer.name] if self.answer is not None else []


@dataclass
class FakeSettings:
    """The settings port: what was set for a session, else nothing."""

    configs: dict[str, SessionConfig] = field(default_factory=dict[str, SessionConfig])

    async def effective(self, session_id: str, platform: str) -> SessionConfig:
        """Return the effective settings."""
        _ = platform
        return self.configs.get(session_id, SessionConfig())


@dataclass
class FakeOutbound:
    """The outbound port: what the world has seen, where the broker takes an id once."""

    frames: list[StreamFrame] = field(default_factory=list[StreamFrame])
    done: dict[str, StreamFrame] = field(default_factory=dict[str, StreamFrame])
    sent: dict[str, OutgoingMessage] = field(default_factory=dict[str, OutgoingMessage])
    after: dict[str, TurnAfter] = field(default_factory=dict[str, TurnAfter])
    usages: list[TokenUsage] = field(default_factory=list[TokenUsage])
    tools: dict[str, ToolExecute] = field(default_factory=dict[str, ToolExecute])
    order: list[str] = field(default_factory=list[str])
    """The ids of done frames, messages and turn ends, as they were first taken."""
    listeners: list[Callable[[AgentAbort], Awaitable[None]]] = field(
        default_factory=list[Callable[[AgentAbort], Awaitable[None]]]
    )
    deaf: bool = False
    """Whether nobody hears aborts."""

    async def frame(self, frame: StreamFrame) -> None:
        """Take a piece of text."""
        self.frames.append(frame)

    async def last_frame(self, frame: StreamFrame) -> None:
        """Take a `done` frame, once."""
        await self._once(self.done, f"{frame.turn_id}.done", frame.turn_id, frame)

    async def dispatch(self, message: OutgoingMessage) -> None:
        """Take a message, once."""
        await self._once(self.sent, message.id, message.id, message)

    async def usage(self, usage: TokenUsage) -> None:
        """Take a usage."""
        self.usages.append(usage)

    async def tool_event(self, event: ToolExecute, key: str) -> None:
        """Take a tool event, once per phase of its call."""
        await self._once(self.tools, None, f"{key}.{event.phase}", event)

    async def turn_after(self, event: TurnAfter) -> None:
        """Take the end of a turn, once."""
        await self._once(self.after, f"{event.turn_id}.after", event.turn_id, event)

    async def abort(self, session_id: str, lane: str, turn_id: str, reason: str) -> None:
        """Tell every agent process."""
        kind = "preempted" if reason == "preempted" else "aborted"
        event = AgentAbort(session_id=session_id, lane=lane, turn_id=turn_id, reason=kind)
        for listener in () if self.deaf else self.listeners:
            await listener(event)

    async def _once(self, taken: dict[str, Data], name: str | None, key: str, body: Data) -> None:
        await asyncio.sleep(0)
        if key not in taken:
            taken[key] = body
            if name is not None:
                self.order.append(name)
