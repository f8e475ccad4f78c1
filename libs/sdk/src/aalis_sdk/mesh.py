"""This is about the mesh: one connection on which a process publishes, stores, asks and answers.

FastStream carries what is declared once and served for long (requests and core events); streams,
journals and text deltas use the same connection through nats-py directly. Nothing else in the
product touches either library, save the modules that import-linter names.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast

import nats.errors
import nats.js.errors
from faststream.nats import NatsBroker
from faststream.security import BaseSecurity
from opentelemetry.trace import SpanKind

from aalis_contracts.contract import Contract, InvalidBody
from aalis_contracts.dead import CONTRACT_HEADER, MESSAGE_ID_HEADER
from aalis_contracts.errors import ErrorReply, Fault
from aalis_contracts.subjects import Route, Subject
from aalis_sdk import tracing
from aalis_sdk.cancelling import hear_cancellations, heard
from aalis_sdk.failures import (
    UNREACHABLE,
    Absent,
    Answer,
    Body,
    Conflict,
    Remote,
    TooLarge,
)
from aalis_sdk.logs import Log
from aalis_sdk.serving import HEADROOM, Offer, patiently
from aalis_sdk.serving import answer as answer_one

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from contextlib import AbstractContextManager

    from faststream.nats.message import NatsMessage
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.js import JetStreamContext
    from opentelemetry.trace import Span

    from aalis_sdk.settings import MeshSettings

log = Log(__name__)

DEFAULT_TIMEOUT: Final = 5.0
"""Seconds a request waits for its answer (SPEC RPC-1)."""
EXPECTED_HEADER: Final = "Nats-Expected-Last-Subject-Sequence"
_WRONG_LAST_SEQUENCE: Final = 10071
_RETRY_PAUSE: Final = 0.25
_MAX_SUBJECT: Final = 3800
"""Bytes: the server drops a connection whose control line (subject, reply, sizes) exceeds 4096."""
_SETTLE_SECONDS: Final = 2.0
_CLOSE_SECONDS: Final = 5.0
_PAGE: Final = 1000
_LIGHT: Final = 4 * 1024 * 1024
"""Bytes: an answer below this was not cut short by what the server sends at once."""
_FOR_EVER: Final = 24 * 3600
_ERROR_WITHIN: Final = 64
"""Bytes at the start of an answer among which an error answer has its word."""


@dataclass(frozen=True)
class Stored:
    """Where a durable publish ended up; `duplicate` if its id was there before."""

    seq: int
    duplicate: bool


@dataclass(frozen=True)
class Entry:
    """A message of a stream as it is stored."""

    subject: str
    seq: int
    data: bytes
    headers: dict[str, str]
    time_ms: int


class Mesh:
    """One process's connection to NATS."""

    def __init__(self, settings: MeshSettings, service: str) -> None:
        self.settings = settings
        self.service = service
        self.reconnected: list[Callable[[], None]] = []
        self._broker = NatsBroker(
            [url.strip() for url in settings.nats_url.split(",")],
            name=f"{service}/{settings.instance}",
            max_reconnect_attempts=-1,
            reconnect_time_wait=cast("int", 0.2),
            ping_interval=10,
            max_outstanding_pings=2,
            connect_timeout=3,
            pending_size=16 * 1024 * 1024,
            graceful_timeout=settings.grace_seconds,
            drain_timeout=cast("int", settings.grace_seconds),
            error_cb=self._on_error,
            reconnected_cb=self._on_reconnected,
            disconnected_cb=self._on_disconnected,
            logger=None,
            apply_types=False,
            decoder=_whole_message,
            security=_security(settings),
        )
        self._offers: list[Offer] = []
        self._settling: set[asyncio.Task[None]] = set()
        self._client: Client | None = None
        self._js: JetStreamContext | None = None

    @property
    def client(self) -> Client:
        """The nats-py client, for the few modules that speak to it directly."""
        if self._client is None:
            message = "the mesh is not connected yet; call connect() first"
            raise RuntimeError(message)
        return self._client

    @property
    def js(self) -> JetStreamContext:
        """The JetStream side of the same connection."""
        if self._js is None:
            message = "the mesh is not connected yet; call connect() first"
            raise RuntimeError(message)
        return self._js

    @property
    def connected(self) -> bool:
        """Whether the connection is up at this moment."""
        return self._client is not None and self._client.is_connected

    async def connect(self) -> None:
        """Connect, waiting for as long as no server answers; then start what was declared."""
        self._client = await self._broker.connect()
        hear_cancellations(self._client)
        self._js = self._client.jetstream(timeout=DEFAULT_TIMEOUT)
        await self._broker.start()

    async def close(self) -> None:
        """Finish running handlers, then disconnect; a server that is gone does not matter."""
        await asyncio.gather(*(offer.withdraw() for offer in self._offers))
        self._offers.clear()
        if self._client is not None:
            await self.settle()
            await patiently(self._client.close(), _CLOSE_SECONDS)
            for settling in self._settling:
                settling.cancel()
        # The broker would drain the client, which takes its time when the server is frozen; what
        # was served is finished by now, so it gets a closed one, and that is all it complains of.
        with contextlib.suppress(*UNREACHABLE):
            await self._broker.stop()

    # publish -----------------------------------------------------------------------------

    async def publish(
        self, subject: Subject, body: Contract | bytes, headers: dict[str, str] | None = None
    ) -> None:
        """Publish without waiting for anything; raise `TooLarge` for a body over the limit.

        While NATS is away it is kept for later, up to 16 MiB in all; what no longer fits is lost,
        with a warning.
        """
        data, head = self._prepare(subject, body, headers)
        with tracing.span(
            f"publish {subject.template}",
            SpanKind.PRODUCER,
            tracing.messaging("publish", subject),
        ):
            tracing.inject(head)
            await self._publish(subject, data, head)

    async def publish_quietly(self, subject: Subject, body: Contract) -> None:
        """Publish without a span of its own: for text deltas, many a second."""
        data, head = self._prepare(subject, body, None)
        tracing.inject(head)
        await self._publish(subject, data, head)

    async def _publish(self, subject: Subject, data: bytes, head: dict[str, str]) -> None:
        try:
            await self.client.publish(subject.name, data, headers=head)
        except UNREACHABLE as error:
            log.warning("event lost", subject=subject.template, reason=repr(error))

    async def store(
        self,
        subject: Subject,
        body: Contract | bytes,
        message_id: str | None = None,
        *,
        expected: int | None = None,
        headers: dict[str, str] | None = None,
        patience: float = 10.0,
    ) -> Stored:
        """Publish into a stream and wait until it is stored.

        A lost answer is asked for again for `patience` seconds. `message_id` makes that harmless,
        also for whoever publishes the same thing later; without one, this call makes one up (a
        compare-and-set without one is not repeated). `expected` is the sequence the subject's last
        message must have (0 = none): otherwise `Conflict`. Raises `Fault` when nobody stored it in
        time, `TooLarge` for a body over the limit.
        """
        data, head = self._prepare(subject, body, headers)
        if message_id is not None:
            head[MESSAGE_ID_HEADER] = message_id
        elif expected is None:
            head[MESSAGE_ID_HEADER] = secrets.token_hex(12)
        if expected is not None:
            head[EXPECTED_HEADER] = str(expected)
        with tracing.span(
            f"publish {subject.template}", SpanKind.PRODUCER, tracing.messaging("publish", subject)
        ):
            tracing.inject(head)
            return await self._store(subject.name, data, head, patience)

    async def _store(
        self, subject: str, data: bytes, head: dict[str, str], patience: float
    ) -> Stored:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        message_id = head.get(MESSAGE_ID_HEADER)
        unanswered = False
        while True:
            try:
                ack = await self.js.publish(subject, data, headers=head, timeout=2.0)
            except nats.js.errors.APIError as error:
                if error.err_code == _WRONG_LAST_SEQUENCE:
                    # The server compares before it looks for duplicates: after a lost answer,
                    # what was written first may be this very message.
                    mine = await self._written(subject, message_id) if unanswered else None
                    if mine is not None:
                        return Stored(mine, duplicate=True)
                    raise Conflict(str(error.description)) from None
                problem = f"{error.err_code}: {error.description}"
            except UNREACHABLE as error:
                problem = repr(error)
                unanswered = True
            else:
                return Stored(ack.seq, bool(ack.duplicate))
            if message_id is None or loop.time() >= deadline:
                message = f"{subject} was not stored: {problem}"
                raise Fault(message, "timeout")
            await asyncio.sleep(_RETRY_PAUSE)

    async def _written(self, subject: str, message_id: str | None) -> int | None:
        """Return the sequence of the subject's newest message if it has this id."""
        stream = await self.js.find_stream_name_by_subject(subject)
        newest = await self.last(stream, subject)
        if newest is None or newest.headers.get(MESSAGE_ID_HEADER) != message_id:
            return None
        return newest.seq

    def _prepare(
        self, subject: Subject, body: Contract | bytes, headers: dict[str, str] | None
    ) -> tuple[bytes, dict[str, str]]:
        if len(subject.name) > _MAX_SUBJECT and len(subject.name.encode()) > _MAX_SUBJECT:
            message = (
                f"a subject of {len(subject.name)} characters ({subject.template}) is too long"
            )
            raise TooLarge(message)
        head = dict(headers or {})
        if isinstance(body, Contract):
            head.setdefault(CONTRACT_HEADER, f"{type(body).__name__}.v1")
            head.setdefault("content-type", "application/json")
            data = body.to_json()
        else:
            data = body
        limit = self.client.max_payload - HEADROOM
        if len(data) > limit:
            message = f"a body of {len(data)} bytes exceeds the limit of {limit} bytes"
            raise TooLarge(message)
        return data, head

    # streams -----------------------------------------------------------------------------

    async def last(self, stream: str, subject: str) -> Entry | None:
        """Return the newest message of `subject` in `stream`, or None."""
        return await self.direct_get(stream, {"last_by_subj": subject})

    async def next(self, stream: str, subject: str, after: int) -> Entry | None:
        """Return the first message of `subject` with a sequence above `after`, or None."""
        return await self.direct_get(stream, {"seq": after + 1, "next_by_subj": subject})

    async def direct_get(self, stream: str, query: dict[str, object]) -> Entry | None:
        """Ask `stream` for one message (`$JS.API.DIRECT.GET`); None when there is none."""
        reply = await self._ask(f"$JS.API.DIRECT.GET.{stream}", json.dumps(query).encode())
        head = reply.headers or {}
        status = head.get("Status")
        if status == "404":
            return None
        if status is not None:
            message = f"stream {stream} answered {status} {head.get('Description', '')}"
            raise Fault(message)
        return _entry(reply.data, head)

    async def range(self, stream: str, subject: str, first: int, limit: int = 1000) -> list[Entry]:
        """Return up to `limit` messages of `subject` from sequence `first` on, in order."""
        query: dict[str, object] = {"seq": first, "next_by_subj": subject, "batch": limit}
        return await self._batch(stream, query)

    async def read_all(self, stream: str, subject: str, first: int = 1) -> list[Entry]:
        """Return every message of `subject` from sequence `first` on, in order.

        Page after page: one answer holds so many messages and so many bytes.
        """
        found: list[Entry] = []
        while True:
            page = await self.range(stream, subject, first, limit=_PAGE)
            found += page
            if len(page) < _PAGE and sum(len(entry.data) for entry in page) < _LIGHT:
                return found
            first = page[-1].seq + 1

    async def since(
        self, stream: str, subject: str, time_ms: int, limit: int = 1000
    ) -> list[Entry]:
        """Return up to `limit` messages of `subject` stored at `time_ms` or later, in order."""
        seconds, milliseconds = divmod(max(0, time_ms), 1000)
        stamp = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        start = f"{stamp}.{milliseconds:03d}Z"
        query: dict[str, object] = {"start_time": start, "next_by_subj": subject, "batch": limit}
        return await self._batch(stream, query)

    async def lasts(self, stream: str, patterns: list[str]) -> list[Entry]:
        """Return the newest message of every subject that matches one of `patterns`."""
        return await self._batch(stream, {"multi_last": patterns, "batch": 10_000})

    async def forget(self, stream: str, seq: int) -> None:
        """Delete one message of a stream; one that is gone already is fine."""
        try:
            await self.js.delete_msg(stream, seq)
        except nats.js.errors.APIError as error:
            log.debug("not deleted", stream=stream, seq=seq, reason=str(error.description))
        except UNREACHABLE as error:
            message = f"stream {stream} did not answer: {error!r}"
            raise Fault(message, "timeout") from None

    async def _batch(self, stream: str, query: dict[str, object]) -> list[Entry]:
        inbox = self.client.new_inbox()
        subscription = await self.client.subscribe(inbox)
        next_message = heard(subscription.next_msg)
        try:
            await self.client.publish(
                f"$JS.API.DIRECT.GET.{stream}", json.dumps(query).encode(), reply=inbox
            )
            found: list[Entry] = []
            while True:
                message = await next_message(timeout=DEFAULT_TIMEOUT)
                head = message.headers or {}
                status = head.get("Status")
                if status in {"204", "404"}:
                    return found
                if status is not None:
                    text = f"stream {stream} answered {status} {head.get('Description', '')}"
                    raise Fault(text)
                found.append(_entry(message.data, head))
        except UNREACHABLE as error:
            message = f"stream {stream} did not answer: {error!r}"
            raise Fault(message, "timeout") from None
        finally:
            if not self.client.is_closed:
                await subscription.unsubscribe()

    async def _ask(self, subject: str, data: bytes) -> Msg:
        try:
            return await self.client.request(subject, data, timeout=DEFAULT_TIMEOUT)
        except nats.errors.NoRespondersError:
            raise Absent(subject, "no responder") from None
        except UNREACHABLE as error:
            message = f"{subject} did not answer: {error!r}"
            raise Fault(message, "timeout") from None

    # requests ----------------------------------------------------------------------------

    async def request(
        self,
        subject: Subject,
        body: Contract,
        answer: type[Answer],
        timeout: float = DEFAULT_TIMEOUT,
    ) -> Answer:
        """Ask and return the answer.

        Raises `Absent` when nobody answers in `timeout` seconds, `Remote` for an error answer,
        `Fault` for an answer that cannot be read, `TooLarge` for a body over the limit.
        """
        data, head = self._prepare(subject, body, None)
        with tracing.span(
            f"request {subject.template}", SpanKind.CLIENT, tracing.messaging("request", subject)
        ):
            tracing.inject(head)
            try:
                reply = await self.client.request(subject.name, data, timeout=timeout, headers=head)
            except nats.errors.NoRespondersError:
                raise Absent(subject.name, "no responder") from None
            except UNREACHABLE:
                raise Absent(subject.name, f"no answer within {timeout:g} s") from None
            return _read_answer(subject, reply.data, answer)

    async def respond(
        self,
        template: str,
        body: type[Body],
        handler: Callable[[Body], Awaitable[Contract]],
        *,
        name: str | None = None,
        concurrency: int = 256,
    ) -> Offer:
        """Answer requests on a subject, shared by all replicas in one queue group (REG-8).

        `name` is the concrete subject when `template` has tokens. Bad bodies are answered
        `invalid`; `InvalidRequest` and `Fault` become error answers; anything else is a bug,
        logged with its stack and answered `internal`.
        """
        subject = name or Route(template, "request", "").pattern
        limit = self.client.max_payload - HEADROOM

        async def serve(message: Msg) -> None:
            with self._processing(template, message):
                await answer_one(template, message, body, handler, limit)

        return await self._offer(subject, serve, queue=subject, concurrency=concurrency)

    async def listen(
        self,
        template: str,
        body: type[Body],
        handler: Callable[[Body], Awaitable[None]],
        *,
        queue: str = "",
        name: str | None = None,
        concurrency: int = 256,
    ) -> Offer:
        """Hear events on a subject; with `queue`, one process of that group hears each.

        A body that cannot be read is ignored with a debug line (SPEC CON-8); a failing handler
        is logged and disturbs nothing.
        """
        subject = name or Route(template, "event", "").pattern

        async def hear(message: Msg) -> None:
            try:
                event = body.from_json(message.data)
            except InvalidBody as error:
                log.debug("event ignored", subject=template, reason=str(error))
                return
            with self._processing(template, message):
                try:
                    await handler(event)
                except Exception:
                    log.exception("event handler failed", subject=template)

        return await self._offer(subject, hear, queue=queue, concurrency=concurrency)

    def _processing(self, template: str, message: Msg) -> AbstractContextManager[Span]:
        return tracing.span(
            f"process {template}",
            SpanKind.CONSUMER,
            tracing.messaging("process", Subject(message.subject, template)),
            headers=message.headers or {},
        )

    async def _offer(
        self,
        subject: str,
        handle: Callable[[Msg], Coroutine[Any, Any, None]],
        *,
        queue: str,
        concurrency: int,
    ) -> Offer:
        offer = Offer(self.client, handle, concurrency, self.settings.grace_seconds)
        await offer.start(
            self._broker.subscriber(subject, queue=queue, no_reply=True, persistent=False)
        )
        self._offers.append(offer)
        await self.settle()
        return offer

    async def settle(self) -> None:
        """Wait until the server knows every subscription; without it, a reconnect will tell."""
        if self.client.is_connected:
            settling = await patiently(self.client.flush(timeout=_FOR_EVER), _SETTLE_SECONDS)
            if not settling.done():
                self._settling.add(settling)
                settling.add_done_callback(self._settling.discard)

    async def _on_error(self, error: Exception) -> None:
        log.debug("nats", reason=repr(error))

    async def _on_disconnected(self) -> None:
        if self._client is not None and not self._client.is_closed:
            log.warning("NATS is gone; reconnecting", url=self.settings.nats_url)

    async def _on_reconnected(self) -> None:
        log.info("NATS is back")
        for tell in self.reconnected:
            tell()


async def _whole_message(message: NatsMessage) -> NatsMessage:
    """Hand the handler the message itself: bodies are read by their contract, not guessed."""
    return message


def _read_answer(subject: Subject, data: bytes, answer: type[Answer]) -> Answer:
    if b'"error"' in data[:_ERROR_WITHIN]:
        try:
            reply = ErrorReply.from_json(data)
        except InvalidBody:
            pass
        else:
            raise Remote(subject.name, reply.error)
    try:
        return answer.from_json(data)
    except InvalidBody as error:
        message = f"{subject.name}: unreadable answer: {error}"
        raise Fault(message, retryable=False) from None


def _entry(data: bytes, head: dict[str, str]) -> Entry:
    return Entry(
        subject=head["Nats-Subject"],
        seq=int(head["Nats-Sequence"]),
        data=data,
        headers=head,
        time_ms=_milliseconds(head["Nats-Time-Stamp"]),
    )


def _milliseconds(stamp: str) -> int:
    """Read the server's RFC 3339 time (nanoseconds, Z) as milliseconds since the epoch."""
    seconds, _, fraction = stamp.removesuffix("Z").partition(".")
    whole = datetime.fromisoformat(seconds).replace(tzinfo=UTC)
    return int(whole.timestamp()) * 1000 + int((fraction + "000")[:3])


def _security(settings: MeshSettings) -> BaseSecurity | None:
    from faststream.nats import security  # noqa: PLC0415 - only secured servers need it

    if settings.nats_creds is not None:
        return security.NatsCredentials(str(settings.nats_creds))
    if settings.nats_nkey_seed is not None:
        return security.NatsNKey(str(settings.nats_nkey_seed))
    return None
