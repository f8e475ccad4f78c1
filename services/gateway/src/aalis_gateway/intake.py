"""This is about intake: a delivery arrives, one at a time in each partition (SPEC GW-1, GW-5).

The server keeps the order: each partition's consumer has one message out at most, to whichever
replica asks, and the next only after this one is acknowledged. What cannot be read is refused with
a reason a person understands, and never holds up what comes behind it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from aalis_contracts.contract import InvalidBody
from aalis_contracts.messages import IncomingMessage
from aalis_contracts.subjects import PARTITIONED, PARTITIONS
from aalis_gateway import identity
from aalis_gateway.passage import Passage
from aalis_sdk import topology
from aalis_sdk.delivery import Delivery, Puller, Reject
from aalis_sdk.logs import Log

if TYPE_CHECKING:
    from collections.abc import Callable

    from aalis_sdk.mesh import Mesh

log = Log(__name__)


class Way(Protocol):
    """Where a readable message goes."""

    async def take(self, passage: Passage) -> None:
        """Take it as far as it gets."""
        ...


class Intake:
    """Pulls the partitions of INBOUND and hands each message on."""

    def __init__(self, mesh: Mesh, way: Way, now_ms: Callable[[], int]) -> None:
        self._way = way
        self._now = now_ms
        self._pullers = [
            Puller(
                mesh, topology.INBOUND, topology.gateway_consumer(number), PARTITIONED, self._take
            )
            for number in range(PARTITIONS)
        ]

    async def start(self) -> None:
        """Begin to take messages."""
        for puller in self._pullers:
            await puller.start()

    async def drain(self, grace: float) -> None:
        """Take no more; let what is on its way end."""
        await asyncio.gather(*(puller.drain(grace) for puller in self._pullers))

    async def _take(self, delivery: Delivery) -> None:
        passage = self._read(delivery)
        if identity.says_nothing(passage.message):
            log.debug("a message that says nothing", key=passage.key)
            return
        await self._way.take(passage)

    def _read(self, delivery: Delivery) -> Passage:
        try:
            message = IncomingMessage.from_json(delivery.data)
        except InvalidBody as error:
            raise Reject(f"not a message that an adapter may publish: {error}") from None
        problem = identity.disagreement(delivery.subject, message)
        if problem is not None:
            raise Reject(problem)
        key = identity.message_key(message, delivery.seq)
        search_from = identity.earliest_copy(message, delivery.time_ms, self._now())
        if message.timestamp is None:
            message = message.model_copy(update={"timestamp": delivery.time_ms})
        return Passage(
            message=message,
            key=key,
            subject=delivery.subject,
            seq=delivery.seq,
            time_ms=delivery.time_ms,
            number=delivery.number,
            search_from_ms=search_from,
        )
