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
from aalis_sdk.failpoints import failpoint
from aalis_sdk.failures import UNREACHABLE, TooLarge
from aalis_sdk.logs import Log
from aalis_sdk.serving import end, finish, hush

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

    from aalis_sdk.mesh import Mesh

log = Log(__name__)

_EXPIRES: Final = 4.5
"""Seconds a pull request stays open; a longer one leaves us deaf after a server restart."""
_LOST_AFTER: Final = _EXPIRES + 1.5
_HEARTBEAT: Final = 2.0
_CUT_HEADER: Final = "aalis-dead-cut"
_PENDING_HEADER: Final = "Nats-Pending-Messages"
_REMEMBERED: Final = 1000
"""Failing messages that are counted at a time."""


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

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after failure number `failures`."""
        return self.delays[min(failures, len(self.delays)) - 1]


@dataclass(frozen=True)
class Delivery:
    """One delivery of a stored message."""

    subject: str
    data: bytes
    headers: dict[str, str]
    seq: int
    delivered: int
    time_ms: int
    number: int = 0
    """How many deliveries the consumer has made, this one included, to whomever."""


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
    silence: float = 20.0
    """Seconds without a delivery after which the server is asked whether anything waits."""

    def __post_init__(self) -> None:
        self._running: dict[asyncio.Task[None], Msg] = {}
        self._failures: dict[int, int] = {}
        self._requests: deque[_Request] = deque()
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._subscription: Subscription | None = None
        self._inbox = ""
        self._count = 0
        self._complained = False
        self._pause = 0.0
        self._draining = False
        self._arrived_at = 0.0

    async def start(self) -> None:
        """Begin to pull."""
        self._inbox = self.mesh.client.new_inbox()
        self._subscription = await self.mesh.client.subscribe(
            f"{self._inbox}.*", cb=self._arrived, pending_msgs_limit=-1, pending_bytes_limit=-1
        )
        self.mesh.reconnected.append(self._forget_requests)
        self._tasks = [
            asyncio.create_task(self._keep_pulling()),
            asyncio.create_task(self._prove_life()),
            asyncio.create_task(self._watch()),
        ]

    async def drain(self, grace: float) -> None:
        """Stop taking; let running handlers finish for `grace` seconds, then hand the rest back."""
        if self._draining or not self._tasks:
            return
        deadline = asyncio.get_running_loop().time() + grace
        self._draining = True
        self.mesh.reconnected.remove(self._forget_requests)
        pump, heart, watch = self._tasks
        await end(pump, watch)
        if self._subscription is not None:
            # Our open pull requests must go before anything is handed back, or it comes to us.
            await hush(self.mesh.client, self._subscription, grace)
        await finish(set(self._running), deadline - asyncio.get_running_loop().time())
        await end(heart)

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

    async def _prove_life(self) -> None:
        """Tell the server again and again that what runs here is in good hands."""
        while True:
            await asyncio.sleep(_HEARTBEAT)
            for message in list(self._running.values()):
                with contextlib.suppress(*UNREACHABLE):
                    await message.in_progress()

    async def _watch(self) -> None:
        """Say that messages wait and none is delivered, and ask anew (DESIGN §5).

        Twice in a row, with hands free and nothing in anybody's work: then our requests are lost.
        """
        waited = False
        while True:
            await asyncio.sleep(self.silence / 2)
            quiet = asyncio.get_running_loop().time() - self._arrived_at >= self.silence
            pending = await self._pending() if quiet and not self._running else 0
            if pending and waited:
                log.warning(
                    "messages wait and none is delivered; asking anew",
                    stream=self.stream,
                    consumer=self.consumer,
                    pending=pending,
                )
                self._forget_requests()
            waited = bool(pending) and not waited

    async def _pending(self) -> int:
        """Return how many messages wait while nobody has any in work; 0 when that is unknown."""
        try:
            info = await self.mesh.js.consumer_info(self.stream, self.consumer)
        except UNREACHABLE:
            return 0
        return 0 if info.num_ack_pending else info.num_pending or 0

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
        except UNREACHABLE as error:
            with contextlib.suppress(ValueError):  # a reconnect may have forgotten it meanwhile
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
        self._settle(1)
        self._arrived_at = asyncio.get_running_loop().time()
        task = asyncio.create_task(self._handle(message))
        self._running[task] = message
        task.add_done_callback(self._ended)

    def _settle(self, number: int) -> None:
        """Count `number` messages of the oldest requests as come, or as never to come.

        The server serves its open requests in turns and does not say which one a message is for,
        so only the sum over all of them is exact; what is left stands with the newest, which is
        given up last.
        """
        while number and self._requests:
            oldest = self._requests[0]
            taken = min(number, oldest.remaining)
            oldest.remaining -= taken
            number -= taken
            if not oldest.remaining:
                self._requests.popleft()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        self._wake.set()

    async def _request_ended(self, message: Msg, status: str) -> None:
        if status == "100":
            return
        pending = (message.headers or {}).get(_PENDING_HEADER)
        self._settle(self._left_of(message.subject) if pending is None else int(pending))
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

    def _left_of(self, inbox: str) -> int:
        """Return how many messages a request may still bring, as far as we know."""
        return next((r.remaining for r in self._requests if r.inbox == inbox), 0)

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
            number=metadata.sequence.consumer,
        )
        failpoint("delivery.arrived")
        try:
            await self._judge(message, delivery)
        except UNREACHABLE as error:
            log.debug("not acknowledged; it will come again", reason=repr(error))

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
        except Exception as error:
            failures = self._count_failure(delivery.seq)
            if failures >= self.policy.max_failures and not isinstance(error, Fault):
                log.exception("gave up on a message", subject=delivery.subject, seq=delivery.seq)
                why = f"failed {failures} times; last: {type(error).__name__}: {error}"
                await self._bury(message, delivery, why, None)
                return
            log.exception(
                "a message failed and will be tried again",
                subject=delivery.subject,
                seq=delivery.seq,
                failures=failures,
            )
            await message.nak(delay=self.policy.delay(failures))
        else:
            self._failures.pop(delivery.seq, None)
            failpoint("delivery.handled")
            await message.ack()
            failpoint("delivery.acknowledged")

    def _count_failure(self, seq: int) -> int:
        """Count failures, not deliveries: one that was put off for good reasons has not failed."""
        failures = self._failures.pop(seq, 0) + 1
        self._failures[seq] = failures
        if len(self._failures) > _REMEMBERED:
            del self._failures[next(iter(self._failures))]
        return failures

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
        failpoint("delivery.burying")
        try:
            await bury(self.mesh, delivery, self.stream, self.consumer, why, turn_id)
        except Fault as error:
            log.warning("dead letter not stored; will retry", reason=error.message)
            await message.nak(delay=2.0)
            return
        failpoint("delivery.buried")
        self._failures.pop(delivery.seq, None)
        await message.ack()


async def bury(
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
