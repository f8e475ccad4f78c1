"""This is about a person: somebody who says things on a platform and sees what comes of it.

It listens with core subscriptions only, so it takes nothing away from a real adapter.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any, TypeVar

from aalis_contracts import subjects
from aalis_contracts.contract import Contract
from aalis_contracts.events import TokenUsage, ToolExecute, TurnAfter
from aalis_contracts.messages import IncomingMessage, OutgoingMessage, StreamFrame
from aalis_sdk import tracing
from aalis_sdk.adapter import Adapter

if TYPE_CHECKING:
    from collections.abc import Callable

    from nats.aio.msg import Msg

    from aalis_sdk.mesh import Mesh

Body = TypeVar("Body", bound=Contract)


class Person:
    """One person in one session of one platform."""

    def __init__(self, mesh: Mesh, session_id: str, platform: str = "cli") -> None:
        self.mesh = mesh
        self.session_id = session_id
        self.platform = platform
        self.heard: list[OutgoingMessage] = []
        self.frames: list[StreamFrame] = []
        self.usages: list[TokenUsage] = []
        self.tools: list[ToolExecute] = []
        self.turns: list[TurnAfter] = []
        self.trace_ids: dict[str, str] = {}
        self._adapter = Adapter(mesh, platform)
        self._numbers = itertools.count(1)
        self._news = asyncio.Event()

    async def listen(self) -> Person:
        """Begin to hear what concerns this session."""
        session, platform = self.session_id, self.platform
        for subject, callback in (
            (subjects.outbound(platform, session), self._into(OutgoingMessage, self.heard)),
            (subjects.stream(platform, session), self._into(StreamFrame, self.frames)),
            (subjects.token_usage(session), self._into(TokenUsage, self.usages)),
            (subjects.tool_execute(session), self._into(ToolExecute, self.tools)),
            (subjects.turn_after(session), self._into(TurnAfter, self.turns)),
        ):
            await self.mesh.client.subscribe(subject.name, cb=callback)
        await self.mesh.settle()
        return self

    async def say(self, text: str, **fields: Any) -> str:  # noqa: ANN401 - any message field
        """Say something; return its message id."""
        message_id = str(fields.pop("message_id", f"m{next(self._numbers)}"))
        incoming = IncomingMessage(
            content=text,
            session_id=self.session_id,
            platform=self.platform,
            user_id=fields.pop("user_id", "u1"),
            message_id=message_id,
            **fields,
        )
        with tracing.span("say"):
            trace_id = tracing.trace_id()
            if trace_id is not None:
                self.trace_ids[message_id] = trace_id
            await self._adapter.receive(incoming)
        return message_id

    async def ask(self, text: str, timeout: float = 30.0, **fields: Any) -> OutgoingMessage:  # noqa: ANN401
        """Say something and return the next message that comes back."""
        before = len(self.heard)
        await self.say(text, **fields)
        await self.until(lambda: len(self.heard) > before, timeout)
        return self.heard[before]

    async def turn_of(self, message_id: str, timeout: float = 30.0) -> TurnAfter:
        """Wait for the end of the turn that this message was an input of."""

        def found() -> list[TurnAfter]:
            return [turn for turn in self.turns if turn.message.message_id == message_id]

        await self.until(lambda: bool(found()), timeout)
        return found()[0]

    async def until(self, condition: Callable[[], bool], timeout: float = 30.0) -> None:
        """Wait until `condition` holds; it is asked after everything that is heard."""
        try:
            async with asyncio.timeout(timeout):
                while not condition():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            heard = [message.content for message in self.heard]
            outcomes = [(turn.input_seq, turn.outcome) for turn in self.turns]
            message = f"not within {timeout:g} s; heard {heard}, turns {outcomes}"
            raise AssertionError(message) from None

    def _into(self, body: type[Body], into: list[Body]) -> Callable[[Msg], Any]:
        async def take(message: Msg) -> None:
            into.append(body.from_json(message.data))
            self._news.set()

        return take
