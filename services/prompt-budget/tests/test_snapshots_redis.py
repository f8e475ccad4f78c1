"""This is about snapshots in a real Valkey: newest wins, absence costs nothing but speed."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from aalis_prompt_budget.adapters.snapshots_redis import RedisSnapshots
from aalis_prompt_budget.snapshots import Snapshot
from aalis_sdk.testing.servers import ValkeyServer


def of(session: str = "s", at: int = 1_700_000_000_000, seq: int = 1, used: int = 1) -> Snapshot:
    body = f'{{"sessionId":"{session}","used":{used},"breakdown":{{"b":null,"a":1}}}}'.encode()
    read = Snapshot.read(body, at, seq)
    assert read is not None
    return read


@pytest_asyncio.fixture
async def cache(valkey_server: ValkeyServer) -> AsyncIterator[RedisSnapshots]:
    made = RedisSnapshots(valkey_server.url, ttl=100.0)
    yield made
    await made.close()


async def test_what_is_kept_is_found_as_it_was(cache: RedisSnapshots) -> None:
    await cache.keep(of())
    assert await cache.find("s") == of()
    assert await cache.find("other") is None


async def test_an_older_one_never_replaces_a_newer_one(cache: RedisSnapshots) -> None:
    await cache.keep(of(at=5, seq=9))
    await cache.keep(of(at=5, seq=8))
    await cache.keep(of(at=4, seq=10))
    assert await cache.find("s") == of(at=5, seq=9)
    await cache.keep(of(at=6, seq=1))
    assert await cache.find("s") == of(at=6, seq=1)


async def test_the_newest_wins_whoever_writes_when(
    cache: RedisSnapshots, valkey_server: ValkeyServer
) -> None:
    other = RedisSnapshots(valkey_server.url, ttl=100.0)
    numbers = [(7 * n) % 101 for n in range(101)]
    await asyncio.gather(*((cache if n % 2 else other).keep(of(seq=n, used=n)) for n in numbers))
    assert await cache.find("s") == of(seq=100, used=100)
    await other.close()


async def test_reading_and_writing_keep_it_for_longer(valkey_server: ValkeyServer) -> None:
    cache = RedisSnapshots(valkey_server.url, ttl=6 * 3600.0)
    peek = Redis.from_url(valkey_server.url)
    await cache.keep(of())
    (key,) = await peek.keys("*")
    assert await peek.ttl(key) > 6 * 3600 - 5
    await peek.expire(key, 10)
    await cache.find("s")
    assert await peek.ttl(key) > 6 * 3600 - 5
    await peek.expire(key, 10)
    await cache.keep(of(seq=2))
    assert await peek.ttl(key) > 6 * 3600 - 5
    await peek.aclose()
    await cache.close()


async def test_it_expires_by_itself(valkey_server: ValkeyServer) -> None:
    cache = RedisSnapshots(valkey_server.url, ttl=0.05)
    await cache.keep(of())
    await asyncio.sleep(0.2)
    assert await cache.find("s") is None
    await cache.close()


@pytest.mark.parametrize("junk", [b"", b"x", b"1 2", b"1 2 {}", b"a b {}", b"\xff"])
async def test_what_somebody_else_wrote_there_is_nothing_and_is_replaced(
    cache: RedisSnapshots, valkey_server: ValkeyServer, junk: bytes
) -> None:
    await cache.keep(of())
    peek = Redis.from_url(valkey_server.url)
    (key,) = await peek.keys("*")
    await peek.set(key, junk)
    assert await cache.find("s") is None
    await cache.keep(of(seq=3))
    assert await cache.find("s") == of(seq=3)
    await peek.aclose()


async def test_a_flushed_server_and_a_restarted_one_are_written_again(
    cache: RedisSnapshots, valkey_server: ValkeyServer
) -> None:
    await cache.keep(of())
    valkey_server.restart()
    await asyncio.sleep(1.1)
    await cache.keep(of(seq=2))
    await asyncio.sleep(1.1)
    await cache.keep(of(seq=3))
    assert await cache.find("s") == of(seq=3)


async def test_absence_is_said_once_and_so_is_recovery(
    valkey_server: ValkeyServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    cache = RedisSnapshots(valkey_server.url, ttl=100.0)
    valkey_server.kill()
    for _ in range(3):
        await cache.keep(of())
        assert await cache.find("s") is None
        await asyncio.sleep(1.1)
    assert [r.message for r in caplog.records if r.levelno == logging.WARNING] == [
        "Redis is absent; answering from memory and stream"
    ]
    valkey_server.start()
    await asyncio.sleep(1.1)
    await cache.keep(of())
    assert await cache.find("s") == of()
    assert [r.message for r in caplog.records if "back" in r.message] == ["Redis is back"]
    await cache.close()


async def test_a_frozen_server_costs_half_a_second_once(valkey_server: ValkeyServer) -> None:
    cache = RedisSnapshots(valkey_server.url, ttl=100.0)
    await cache.keep(of())
    valkey_server.pause()
    began = time.monotonic()
    for _ in range(20):
        await cache.keep(of(seq=2))
    assert time.monotonic() - began < 1.5
    valkey_server.resume()
    await cache.close()
