"""This is about adapters: a platform's two directions, and text while it is written (SPEC GW-9).

Nothing here is needed to be an adapter: plain NATS suffices (`docs/adapters.md`). This kit only
does it carefully: derived message ids, durable delivery, frames in order and once.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

import nats.js.errors
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from aalis_contracts import subjects
from aalis_contracts.contract import InvalidBody
from aalis_contracts.messages import IncomingMessage, OutgoingMessage, StreamFrame
from aalis_sdk import topology
from aalis_sdk.delivery import Delivery, Puller, Reject
from aalis_sdk.logs import Log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from nats.aio.msg import Msg

    from aalis_sdk.mesh import Mesh, Stored

log = Log(__name__)
_SLOTS: Final = 16


class Adapter:
    """One platform's connection to the mesh."""

    def __init__(self, mesh: Mesh, platform: str) -> None:
        self._mesh = mesh
        self.platform = platform
        self._puller: Puller | None = None

    async def receive(self, incoming: IncomingMessage) -> Stored:
        """Publish what a person said and wait until it is stored.

        With a `messageId` the publish is idempotent: sending the same message again is harmless.
        """
        message_id = None
        if incoming.message_id:
            parts = (self.platform, incoming.session_id, incoming.message_id)
            message_id = ":".join(subjects.token(part) for part in parts)
        subject = subjects.inbound(self.platform, incoming.session_id)
        return await self._mesh.store(subject, incoming, message_id)

    async def deliver(
        self,
        handler: Callable[[OutgoingMessage], Awaitable[None]],
        *,
        from_now: bool = False,
        durable: str | None = None,
    ) -> None:
        """Hand every message for this platform to `handler`; acknowledged when it returns.

        `from_now` leaves what was waiting to others; it matters only the first time. A handler
        that raises gets the message again, a few times.
        """
        name = durable or f"adapter-{subjects.kv_key(self.platform).replace('=', '_')}"
        config = ConsumerConfig(
            name=name,
            durable_name=name,
            filter_subject=subjects.outbound_of(self.platform),
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=topology.ACK_WAIT,
            max_deliver=topology.MAX_DELIVER,
            deliver_policy=DeliverPolicy.NEW if from_now else DeliverPolicy.ALL,
        )
        try:
            await self._mesh.js.consumer_info(topology.OUTBOUND, name)
        except nats.js.errors.NotFoundError:
            await self._mesh.js.add_consumer(topology.OUTBOUND, config)

        async def take(delivery: Delivery) -> None:
            try:
                message = OutgoingMessage.from_json(delivery.data)
            except InvalidBody as error:
                raise Reject(str(error)) from None
            await handler(message)

        self._puller = Puller(
            self._mesh, topology.OUTBOUND, name, subjects.OUTBOUND, take, slots=_SLOTS
        )
        await self._puller.start()

    async def close(self, grace: float = 5.0) -> None:
        """Stop delivering; what runs may finish for `grace` seconds."""
        if self._puller is not None:
            await self._puller.drain(grace)
            self._puller = None

    async def frames(self, session_id: str, cursor: int = 0) -> AsyncIterator[Frame]:
        """Yield the session's stream frames, each once and in order, for as long as it is read.

        `cursor` is the position of the last frame that was seen (0 = only new ones): what came
        after it is replayed from the stream first, also after a lost connection (SPEC STR-6).
        """
        subject = subjects.stream(self.platform, session_id)
        news = asyncio.Event()

        async def heard(_: Msg) -> None:
            news.set()

        live = await self._mesh.client.subscribe(subject.name, cb=heard)
        await self._mesh.settle()
        position = cursor or await self._end(subject.name)
        try:
            while True:
                news.clear()
                for entry in await self._mesh.range(topology.STREAMS, subject.name, position + 1):
                    position = entry.seq
                    with contextlib.suppress(InvalidBody):
                        yield Frame(position, StreamFrame.from_json(entry.data))
                        continue
                if not news.is_set():
                    # Not wait_for: before Python 3.12 it loses a cancellation that meets its event.
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(1.0):
                            await news.wait()
        finally:
            if not self._mesh.client.is_closed:
                await live.unsubscribe()

    async def _end(self, subject: str) -> int:
        newest = await self._mesh.last(topology.STREAMS, subject)
        return newest.seq if newest is not None else 0


class Frame:
    """A stream frame and its position, the cursor to resume from."""

    __slots__ = ("cursor", "frame")

    def __init__(self, cursor: int, frame: StreamFrame) -> None:
        self.cursor = cursor
        self.frame = frame
