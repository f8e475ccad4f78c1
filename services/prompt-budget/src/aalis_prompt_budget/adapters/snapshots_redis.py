"""This is about snapshots in a Redis-compatible server: shared by all replicas, gone at any time.

A value is `<observedAt> <seq> <usage>`, compared on the server, so that no replica puts an older
snapshot over a newer one. A server that is absent costs one warning and a short pause; whatever
it would have known, the stream knows too.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from aalis_contracts.subjects import token
from aalis_prompt_budget.snapshots import Snapshot
from aalis_sdk.logs import Log

if TYPE_CHECKING:
    from collections.abc import Awaitable

log = Log(__name__)

_TIMEOUT: Final = 0.5
_PAUSE: Final = 1.0
_CONNECTIONS: Final = 8
_PREFIX: Final = "aalis:budget:"
_KEEP: Final = """
local known = redis.call('GET', KEYS[1])
if known then
  local at, seq = string.match(known, '^(%d+) (%d+) ')
  at, seq = tonumber(at), tonumber(seq)
  local new_at, new_seq = tonumber(ARGV[1]), tonumber(ARGV[2])
  if at and (at > new_at or (at == new_at and seq > new_seq)) then return 0 end
end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[3], 'PX', ARGV[4])
return 1
"""


class RedisSnapshots:
    """Snapshots in Redis, each for `ttl` seconds after it was last written or read."""

    def __init__(self, url: str, ttl: float) -> None:
        pool: Any = BlockingConnectionPool.from_url(  # pyright: ignore[reportUnknownMemberType]
            url,
            max_connections=_CONNECTIONS,
            timeout=_TIMEOUT,
            socket_timeout=_TIMEOUT,
            socket_connect_timeout=_TIMEOUT,
            retry=Retry(NoBackoff(), 0),
        )
        self._redis: Any = Redis.from_pool(pool)
        self._keep = self._redis.register_script(_KEEP)
        self._ttl_ms = max(1, int(ttl * 1000))
        self._absent_until = 0.0
        self._absent = False

    async def keep(self, snapshot: Snapshot) -> None:
        """Keep it, unless a newer one of the session is there."""
        arguments = [
            snapshot.observed_at,
            snapshot.seq,
            snapshot.body,
            self._ttl_ms,
        ]
        await self._try(self._keep(keys=[_key(snapshot.session_id)], args=arguments))

    async def find(self, session_id: str) -> Snapshot | None:
        """Return the session's snapshot, and keep it for longer."""
        value = await self._try(self._redis.getex(_key(session_id), px=self._ttl_ms))
        return _read(value) if isinstance(value, bytes) else None

    async def close(self) -> None:
        """Disconnect."""
        await self._redis.aclose()

    async def _try(self, command: Awaitable[object]) -> object:
        """Run a command if the server is there; None when it is not."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._absent_until:
            _discard(command)
            return None
        try:
            answer = await command
        except (RedisError, OSError) as error:
            self._absent_until = loop.time() + _PAUSE
            if not self._absent:
                log.warning("Redis is absent; answering from memory and stream", reason=str(error))
            self._absent = True
            return None
        if self._absent:
            log.info("Redis is back")
        self._absent = False
        return answer


def _key(session_id: str) -> str:
    return _PREFIX + token(session_id)


def _read(value: bytes) -> Snapshot | None:
    """Read a stored value; one that somebody else wrote there is nothing."""
    at, _, rest = value.partition(b" ")
    seq, _, body = rest.partition(b" ")
    return Snapshot.read(body, int(at), int(seq)) if at.isdigit() and seq.isdigit() else None


def _discard(command: Awaitable[object]) -> None:
    close = getattr(command, "close", None)
    if close is not None:
        close()
