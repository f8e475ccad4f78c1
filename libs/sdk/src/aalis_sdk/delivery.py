"""This is about durable delivery: fetch only what can start now, prove life, never lose a message.

A handler returns (done: acknowledged), raises `Retry` (again, later), raises `Reject` (can never
be handled: dead letter), or raises anything else: a bug, treated as Retry with a limit. While it
works, `in_progress` is sent, so a slow message is not delivered twice. A message is asked for only
when a slot is free: one that waited in a local buffer past the ack wait would run twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import nats.errors
from opentelemetry.trace import SpanKind

from aalis_contracts.dead import (
    CONSUMER_HEADER,
    REASON_HEADER,
    SEQUENCE_HEADER,
    STREAM_HEADER,
    SUBJECT_HEADER,
    TURN_HEADER,
)
from aalis_contracts.errors import Fault
from aalis_contracts.subjects import Subject, dead
from aalis_contracts.text import one_line
from aalis_sdk import tracing
from aalis_sdk.logs import Log
from aalis_sdk.mesh import Mesh, TooLarge

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

log = Log(__name__)

_EXPIRES: Final = 4.5
"""Seconds a pull request stays open; a longer one leaves us deaf after a server restart."""
_LOST_AFTER: Final = _EXPIRES + 1.5
_HEARTBEAT: Final = 2.0
_CUT_HEADER: Final = "aalis-dead-cut"


class Retry(Exception):
    """Not now: deliver the message again after `delay` seconds."""

    def __init__(self, why: str, delay: float = 1.0) -> None:
        super().__init__(why)
        self.why = why
        self.delay = delay


class Reject(Exception):
    """Never: the message cannot be handled, and the reason goes with it to DEAD."""

    def __init__(self, why: str, turn_id: str | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.turn_id = turn_id


class Leave(Exception):
    """The message has been delivered to somebody else meanwhile: neither keep nor return it."""


@dataclass(frozen=True)
class Policy:
    """How often a message whose handler fails by a bug is tried again, and how soon."""

    max_failures: int = 4
    delays: tuple[float, ...] = (0.2, 1.0, 3.0)

    def delay(self, delivered: int) -> float:
        """Return the seconds to wait after the delivery number `delivered` failed."""
        return self.delays[min(delivered, len(self.delays)) - 1]


@dataclass(frozen=True)
class Delivery:
    """One delivery of a stored message."""

    subject: str
    data: bytes
    headers: dict[str, str]
    seq: int
    delivered: int
    time_ms: int


@dataclass
class _Request:
    """An open pull request: how many messages it may still bring, and when it is given up."""

    inbox: str
    remaining: int
    deadline: float


@dataclass(eq=False)
class Puller:
    """Pulls one durable consumer and runs its handler in at most `slots` tasks."""

    mesh: Mesh
    stream: str
    consumer: str
    template: str
    handler: Callable[[Delivery], Awaitable[None]]
    slots: int = 1
    policy: Policy = field(default_factory=Policy)

    def __post_init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()
        self._requests: deque[_Request] = deque()
        self._wake = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        self._subscription: Subscription | None = None
        self._inbox = ""
        self._count = 0
        self._complained = False
        self._pause = 0.0
        self._draining = False

    async def start(self) -> None:
        """Begin to pull."""
        self._inbox = self.mesh.client.new_inbox()
        self._subscription = await self.mesh.client.subscribe(
            f"{self._inbox}.*", cb=self._arrived, pending_msgs_limit=-1, pending_bytes_limit=-1
        )
        self.mesh.reconnected.append(self._forget_requests)
        self._pump = asyncio.create_task(self._keep_pulling())

    async def drain(self, grace: float) -> None:
        """Stop taking; let running handlers finish for `grace` seconds, then hand the rest back."""
        self.mesh.reconnected.remove(self._forget_requests)
        self._draining = True
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)
        if self._subscription is not None:
            # Our open pull requests must go before anything is handed back, or it comes to us.
            with contextlib.suppress(nats.errors.Error):
                await self._subscription.drain()
        if self._running:
            await asyncio.wait(self._running, timeout=grace)
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    @property
    def running(self) -> int:
        """How many messages are in work."""
        return len(self._running)

    async def _keep_pulling(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            if self._pause:
                await asyncio.sleep(self._pause)
                self._pause = 0.0
            while self._requests and self._requests[0].deadline < loop.time():
                self._requests.popleft()
            free = self.slots - len(self._running) - sum(r.remaining for r in self._requests)
            if free > 0 and self.mesh.connected:
                await self._ask_for(free, loop.time() + _LOST_AFTER)
            # Not wait_for: before Python 3.12 it loses a cancellation that meets its event.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._wake.wait()

    async def _ask_for(self, number: int, deadline: float) -> None:
        self._count += 1
        request = _Request(f"{self._inbox}.{self._count}", number, deadline)
        self._requests.append(request)
        query = {"batch": number, "expires": int(_EXPIRES * 1e9)}
        try:
            await self.mesh.client.publish(
                f"$JS.API.CONSUMER.MSG.NEXT.{self.stream}.{self.consumer}",
                json.dumps(query).encode(),
                reply=request.inbox,
            )
        except nats.errors.Error as error:
            self._requests.remove(request)
            log.debug("pull failed", consumer=self.consumer, reason=repr(error))
            await asyncio.sleep(0.2)

    def _forget_requests(self) -> None:
        """After a reconnect the server knows none of our requests: ask again at once."""
        self._requests.clear()
        self._wake.set()

    async def _arrived(self, message: Msg) -> None:
        status = (message.headers or {}).get("Status")
        if status is not None and not message.reply:
            await self._request_ended(message, status)
            return
        if self._draining:
            await message.nak()
            return
        for request in self._requests:
            if request.remaining:
                request.remaining -= 1
                break
        while self._requests and not self._requests[0].remaining:
            self._requests.popleft()
        task = asyncio.create_task(self._handle(message))
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._wake.set()

    async def _request_ended(self, message: Msg, status: str) -> None:
        if status == "100":
            return
        for request in list(self._requests):
            if request.inbox == message.subject:
                self._requests.remove(request)
        if status == "503":
            if not self._complained:
                log.warning(
                    "consumer is missing; run: aalis topology apply",
                    stream=self.stream,
                    consumer=self.consumer,
                )
            self._complained = True
            self._pause = 0.5
        elif status not in {"408", "404"}:
            description = (message.headers or {}).get("Description", "")
            log.debug("pull ended", consumer=self.consumer, status=f"{status} {description}")
            self._pause = 0.1
        self._wake.set()

    async def _handle(self, message: Msg) -> None:
        self._complained = False
        metadata = message.metadata
        delivery = Delivery(
            subject=message.subject,
            data=message.data,
            headers=dict(message.headers or {}),
            seq=metadata.sequence.stream,
            delivered=metadata.num_delivered,
            time_ms=int(metadata.timestamp.timestamp() * 1000),
        )
        beat = asyncio.create_task(_keep_alive(message))
        try:
            await self._judge(message, delivery)
        except nats.errors.Error as error:
            log.debug("not acknowledged; it will come again", reason=repr(error))
        finally:
            beat.cancel()

    async def _judge(self, message: Msg, delivery: Delivery) -> None:
        try:
            await self._run(delivery)
        except Retry as retry:
            log.debug("again later", subject=delivery.subject, reason=retry.why)
            await message.nak(delay=retry.delay)
        except Leave as leave:
            log.debug("left to its new owner", subject=delivery.subject, reason=str(leave))
        except Reject as reject:
            await self._bury(message, delivery, reject.why, reject.turn_id)
        except asyncio.CancelledError:
            await message.nak()
            raise
        except Exception as error:  # noqa: BLE001 - a bug, or the world: retried with a limit
            if delivery.delivered >= self.policy.max_failures and not isinstance(error, Fault):
                log.error("gave up on a message", subject=delivery.subject, exc_info=True)
                why = f"failed {delivery.delivered} times; last: {type(error).__name__}: {error}"
                await self._bury(message, delivery, why, None)
                return
            log.error(
                "a message failed and will be tried again",
                subject=delivery.subject,
                seq=delivery.seq,
                delivered=delivery.delivered,
                exc_info=True,
            )
            await message.nak(delay=self.policy.delay(delivery.delivered))
        else:
            await message.ack()

    async def _run(self, delivery: Delivery) -> None:
        subject = Subject(delivery.subject, self.template)
        with tracing.span(
            f"process {self.template}",
            SpanKind.CONSUMER,
            {
                **tracing.messaging("process", subject),
                "messaging.consumer.group.name": self.consumer,
                tracing.DELIVERY: delivery.delivered,
            },
            headers=delivery.headers,
        ):
            await self.handler(delivery)

    async def _bury(self, message: Msg, delivery: Delivery, why: str, turn_id: str | None) -> None:
        """Keep the message in DEAD with the reason, then let it go; try again if that fails."""
        try:
            await bury(self.mesh, delivery, self.stream, self.consumer, why, turn_id)
        except Fault as error:
            log.error("dead letter not stored; will retry", reason=error.message)
            await message.nak(delay=2.0)
            return
        await message.ack()


async def bury(  # noqa: PLR0913 - the headers of a dead letter, one by one
    mesh: Mesh,
    delivery: Delivery,
    stream: str,
    consumer: str,
    why: str,
    turn_id: str | None = None,
) -> None:
    """Store a message in DEAD with the reason in its headers; doing it twice is doing it once."""
    reason = one_line(why, 400).encode("ascii", "backslashreplace").decode()
    log.warning("message is dead", subject=delivery.subject, seq=delivery.seq, reason=reason)
    headers = {
        REASON_HEADER: reason,
        SUBJECT_HEADER: delivery.subject,
        STREAM_HEADER: stream,
        SEQUENCE_HEADER: str(delivery.seq),
        CONSUMER_HEADER: consumer,
    }
    if turn_id is not None:
        headers[TURN_HEADER] = turn_id
    target = dead(delivery.subject)
    message_id = f"dead:{stream}:{consumer}:{delivery.seq}"
    try:
        await mesh.store(target, delivery.data, message_id, headers=headers)
    except TooLarge:
        headers[_CUT_HEADER] = str(len(delivery.data))
        await mesh.store(target, delivery.data[: 1024 * 1024], message_id, headers=headers)


async def _keep_alive(message: Msg) -> None:
    while True:
        await asyncio.sleep(_HEARTBEAT)
        with contextlib.suppress(nats.errors.Error):
            await message.in_progress()
