"""This is about topology: every stream, bucket and durable consumer, in one table (DESIGN §4).

`aalis topology apply`, `aalis up` and a Kubernetes Job apply it; services only verify it, and say
what is missing. Applying twice changes nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import nats.errors
import nats.js.errors
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    DiscardPolicy,
    StorageType,
    StreamConfig,
    SubjectTransform,
)

from aalis_contracts.errors import Fault
from aalis_contracts.subjects import PARTITIONS, inbound_partition

if TYPE_CHECKING:
    from nats.js import JetStreamContext

_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR
ACK_WAIT: Final = 8.0
"""Seconds without a sign of life after which a message goes to another replica (DESIGN §5)."""
MAX_DELIVER: Final = 1000
"""The server's last resort; `delivery.Policy` gives up long before, with a dead letter."""

INBOUND: Final = "INBOUND"
AGENT_INBOX: Final = "AGENT_INBOX"
AGENT_JOURNAL: Final = "AGENT_JOURNAL"
TOKEN_USAGE: Final = "TOKEN_USAGE"
EVENTS: Final = "EVENTS"
OUTBOUND: Final = "OUTBOUND"
STREAMS: Final = "STREAMS"
DEAD: Final = "DEAD"
REGISTRY: Final = "registry"
TOOL_RESULTS: Final = "tool_results"
SESSIONS: Final = "sessions"
PROFILES: Final = "profiles"

AGENT_CONSUMER: Final = "agent"
GATEWAY_TURNS: Final = "gateway-turns"
PROMPT_BUDGET: Final = "prompt-budget"


def gateway_consumer(partition: int) -> str:
    """Return the durable of one inbound partition."""
    return f"gateway-{partition}"


@dataclass(frozen=True)
class Consumer:
    """A durable pull consumer of the table."""

    stream: str
    config: ConsumerConfig


def streams(replicas: int = 1) -> tuple[StreamConfig, ...]:
    """Return every stream and bucket; `replicas` is 1 embedded and 3 in production."""
    return (
        _stream(
            INBOUND,
            ["inbound.message.*.*"],
            replicas,
            max_age=7 * _DAY,
            duplicate_window=_HOUR,
            subject_transform=SubjectTransform(
                src="inbound.message.*.*",
                dest=f"inbound.{{{{partition({PARTITIONS},2)}}}}"
                ".message.{{wildcard(1)}}.{{wildcard(2)}}",
            ),
        ),
        _stream(
            AGENT_INBOX,
            ["agent.inbox.*.*"],
            replicas,
            max_age=7 * _DAY,
            duplicate_window=_HOUR,
        ),
        _stream(
            AGENT_JOURNAL,
            ["agent.journal.*.*"],
            replicas,
            max_age=7 * _DAY,
            max_msgs_per_subject=2000,
        ),
        _stream(TOKEN_USAGE, ["token.usage.*"], replicas, max_age=_DAY, max_msgs_per_subject=1),
        _stream(
            EVENTS,
            ["agent.turn.after.*", "tool.execute.*", "session.*.*", "inbound.archived.*"],
            replicas,
            max_age=3 * _DAY,
            duplicate_window=_HOUR,
        ),
        _stream(
            OUTBOUND,
            ["outbound.message.*.*"],
            replicas,
            max_age=7 * _DAY,
            duplicate_window=_HOUR,
        ),
        _stream(
            STREAMS,
            ["outbound.stream.*.*"],
            replicas,
            max_age=600.0,
            storage=StorageType.MEMORY,
            max_bytes=256 * 1024 * 1024,
        ),
        _stream(DEAD, ["dead.>"], replicas, max_age=30 * _DAY, duplicate_window=_HOUR),
        _bucket(REGISTRY, replicas, allow_msg_ttl=True, subject_delete_marker_ttl=30.0),
        _bucket(TOOL_RESULTS, replicas, max_age=_DAY),
        _bucket(SESSIONS, replicas),
        _bucket(PROFILES, replicas),
    )


def consumers() -> tuple[Consumer, ...]:
    """Return every durable consumer; ack policy, wait and limits are decided here only."""
    partitions = tuple(
        _consumer(
            INBOUND,
            gateway_consumer(partition),
            filter_subject=inbound_partition(partition),
            max_ack_pending=1,
        )
        for partition in range(PARTITIONS)
    )
    return (
        *partitions,
        _consumer(AGENT_INBOX, AGENT_CONSUMER, max_ack_pending=50_000),
        _consumer(EVENTS, GATEWAY_TURNS, filter_subject="agent.turn.after.*", max_ack_pending=1000),
        _consumer(TOKEN_USAGE, PROMPT_BUDGET, max_ack_pending=1000),
    )


def _stream(name: str, subjects: list[str], replicas: int, **more: object) -> StreamConfig:
    return StreamConfig(
        name=name,
        subjects=subjects,
        num_replicas=replicas,
        allow_direct=True,
        **more,  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    )


def _bucket(name: str, replicas: int, **more: object) -> StreamConfig:
    """Return the stream behind a KV bucket, as every NATS client knows it."""
    return _stream(
        f"KV_{name}",
        [f"$KV.{name}.>"],
        replicas,
        max_msgs_per_subject=1,
        discard=DiscardPolicy.NEW,
        allow_rollup_hdrs=True,
        deny_delete=True,
        **more,
    )


def _consumer(stream: str, durable: str, **more: object) -> Consumer:
    return Consumer(
        stream,
        ConsumerConfig(
            name=durable,
            durable_name=durable,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACK_WAIT,
            max_deliver=MAX_DELIVER,
            deliver_policy=DeliverPolicy.ALL,
            **more,  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        ),
    )


async def apply(js: JetStreamContext, replicas: int = 1) -> list[str]:
    """Create or update everything; return one line for each thing that was made new."""
    made: list[str] = []
    for config in streams(replicas):
        name = config.name or ""
        try:
            await js.stream_info(name)
        except nats.js.errors.NotFoundError:
            await _guarded(f"stream {name}", js.add_stream(config))
            made.append(f"stream {name}")
        else:
            await _guarded(f"stream {name}", js.update_stream(config))
    for consumer in consumers():
        name = f"consumer {consumer.stream}/{consumer.config.durable_name}"
        try:
            await js.consumer_info(consumer.stream, consumer.config.durable_name or "")
        except nats.js.errors.NotFoundError:
            made.append(name)
        await _guarded(name, js.add_consumer(consumer.stream, consumer.config))
    return made


async def verify(js: JetStreamContext) -> list[str]:
    """Return one line for each stream or consumer that is missing; empty = all there."""
    wanted = [(_stream_line(config), js.stream_info(config.name or "")) for config in streams()]
    wanted += [
        (_consumer_line(consumer), js.consumer_info(consumer.stream, consumer.config.name or ""))
        for consumer in consumers()
    ]
    found = await asyncio.gather(*(asked for _, asked in wanted), return_exceptions=True)
    missing: list[str] = []
    for (line, _), info in zip(wanted, found, strict=True):
        if isinstance(info, nats.js.errors.NotFoundError):
            missing.append(line)
        elif isinstance(info, (nats.errors.Error, asyncio.TimeoutError)):
            return [f"JetStream does not answer ({info!r})"]
        elif isinstance(info, BaseException):
            raise info
    return missing


async def restore(js: JetStreamContext, missing: list[str]) -> bool:
    """Make the streams that live in memory again, if nothing else of the table is missing.

    A single server forgets them when it restarts, and nobody would apply the topology again for
    that. Everything durable is only ever made by `apply`.
    """
    volatile = [config for config in streams() if config.storage is StorageType.MEMORY]
    if not missing or not set(missing) <= {_stream_line(config) for config in volatile}:
        return False
    replicas = (await js.stream_info(INBOUND)).config.num_replicas
    for config in volatile:
        config.num_replicas = replicas
        await _guarded(_stream_line(config), js.add_stream(config))
    return True


def _stream_line(config: StreamConfig) -> str:
    return f"stream {config.name}"


def _consumer_line(consumer: Consumer) -> str:
    return f"consumer {consumer.stream}/{consumer.config.name}"


async def _guarded(what: str, action: object) -> None:
    try:
        await action  # type: ignore[misc] # pyright: ignore[reportGeneralTypeIssues]
    except nats.js.errors.APIError as error:
        message = f"{what} was refused: {error.description} (code {error.err_code})"
        raise Fault(message, retryable=False) from None
