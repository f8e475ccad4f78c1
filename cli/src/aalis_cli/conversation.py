"""This is about a conversation: one session, as an adapter takes part in it.

The command line is an adapter in its own right. It listens before it speaks, so that no answer
can be too early; what was said while the connection was lost is read again from the streams.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from aalis_cli.failure import Failed
from aalis_cli.hearing import Answer, Hearing
from aalis_contracts import subjects
from aalis_contracts.contract import Contract, InvalidBody
from aalis_contracts.dead import MESSAGE_ID_HEADER
from aalis_contracts.errors import Fault
from aalis_contracts.events import PhaseDone, TokenUsage, ToolExecute, TurnAfter
from aalis_contracts.messages import IncomingMessage, OutgoingMessage
from aalis_sdk import topology
from aalis_sdk.adapter import Adapter
from aalis_sdk.mesh import TooLarge

if TYPE_CHECKING:
    from aalis_sdk.mesh import Mesh

PERSON: Final = "console"
"""Who speaks here: with platform `cli` an owner (SPEC CMD-12)."""
_READ_AGAIN_SECONDS: Final = 5.0
_LAST_WAIT: Final = 2.0
"""Seconds after the end of a turn for a reply that an interceptor may have withheld."""
_KNOWN: Final = 2000
"""Message ids that are remembered, to hear nothing twice."""

Ear = Callable[[Contract], None]


class _Message(Protocol):
    @property
    def data(self) -> bytes: ...
    @property
    def headers(self) -> dict[str, str] | None: ...


def new_session() -> str:
    """Return the id of a new conversation (SPEC SES-1)."""
    return f"session-{secrets.token_hex(4)}"


class Conversation:
    """Speaks and listens in one session."""

    def __init__(self, mesh: Mesh, platform: str, session_id: str) -> None:
        self.session_id = session_id
        self.adapter = Adapter(mesh, platform)
        self.ears: list[Ear] = []
        self._mesh = mesh
        self._unsubscribe: list[Callable[[], Awaitable[None]]] = []
        self._heard = asyncio.Event()
        self._positions: dict[str, int] = {}
        self._known: dict[str, None] = {}
        self._sources: list[tuple[str, type[Contract], str | None]] = [
            (subjects.turn_after(session_id).name, TurnAfter, topology.EVENTS),
            (subjects.tool_execute(session_id).name, ToolExecute, topology.EVENTS),
            (subjects.outbound(platform, session_id).name, OutgoingMessage, topology.OUTBOUND),
            (subjects.token_usage(session_id).name, TokenUsage, topology.TOKEN_USAGE),
            (subjects.phase_done(session_id).name, PhaseDone, None),
        ]

    async def open(self) -> None:
        """Listen from now on."""
        for subject, kind, _ in self._sources:
            listening = await self._mesh.client.subscribe(subject, cb=self._reader(kind))
            self._unsubscribe.append(listening.unsubscribe)
        await self._mesh.client.flush()
        for subject, _, stream in self._sources:
            if stream is not None:
                newest = await self._mesh.last(stream, subject)
                self._positions[subject] = newest.seq if newest is not None else 0
        self._mesh.reconnected.append(self._heard.set)

    async def close(self) -> None:
        """Listen no more."""
        self._mesh.reconnected.remove(self._heard.set)
        if not self._mesh.client.is_closed:
            for unsubscribe in self._unsubscribe:
                await unsubscribe()

    async def ask(self, text: str, patience: float) -> Answer:
        """Say `text` and return what became of it; fail if that is not known in `patience` s."""
        hearing = Hearing(message_id=secrets.token_hex(16))
        self.ears.append(hearing.take)
        try:
            await self._say(text, hearing.message_id)
            await self._wait(hearing, patience)
        finally:
            self.ears.remove(hearing.take)
        return hearing.answer()

    async def _say(self, text: str, message_id: str) -> None:
        message = IncomingMessage(
            content=text,
            session_id=self.session_id,
            platform=self.adapter.platform,
            user_id=PERSON,
            session_type="private",
            message_id=message_id,
        )
        try:
            await self.adapter.receive(message)
        except TooLarge as error:
            raise Failed(f"the message was not sent: {error}") from None
        except Fault as error:
            raise Failed(f"the message was not stored: {error.message}") from None

    async def _wait(self, hearing: Hearing, patience: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        last_wait = None
        read_again = loop.time() + _READ_AGAIN_SECONDS
        while not hearing.complete:
            if hearing.ending:
                last_wait = last_wait or loop.time() + _LAST_WAIT
            now = loop.time()
            if last_wait is not None and now >= last_wait:
                return
            if now >= deadline:
                raise Failed(_too_late(hearing, patience))
            if now >= read_again:
                await self._read_what_was_missed()
                read_again = loop.time() + _READ_AGAIN_SECONDS
            self._heard.clear()
            until = min(deadline, read_again, last_wait or deadline)
            try:
                async with asyncio.timeout_at(until):
                    await self._heard.wait()
            except TimeoutError:
                continue

    async def _read_what_was_missed(self) -> None:
        """Read from the streams what a lost connection may have kept from us."""
        if not self._mesh.connected:
            return
        for subject, kind, stream in self._sources:
            if stream is None:
                continue
            try:
                found = await self._mesh.range(stream, subject, self._positions[subject] + 1)
            except Fault:
                return
            for entry in found:
                self._positions[subject] = entry.seq
                self._hear(kind, entry.data, entry.headers)

    def _reader(self, kind: type[Contract]) -> Callable[[_Message], Awaitable[None]]:
        async def read(message: _Message) -> None:
            self._hear(kind, message.data, message.headers or {})

        return read

    def _hear(self, kind: type[Contract], data: bytes, headers: Mapping[str, str]) -> None:
        message_id = headers.get(MESSAGE_ID_HEADER)
        if message_id is not None:
            if message_id in self._known:
                return
            self._known[message_id] = None
            if len(self._known) > _KNOWN:
                del self._known[next(iter(self._known))]
        try:
            event = kind.from_json(data)
        except InvalidBody:
            return
        for ear in list(self.ears):
            ear(event)
        self._heard.set()


def _too_late(hearing: Hearing, patience: float) -> str:
    said = [notice.content for notice in hearing.notices]
    if said:
        return f"no answer in {patience:g} s; last notice: {' '.join(said[-1].split())}"
    return f"no answer in {patience:g} s; ./aalis doctor looks for the reason"
