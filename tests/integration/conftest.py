"""The whole stack as processes, for tests that concern several services at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from aalis_sdk.testing.person import Person
from aalis_sdk.testing.stack import Stack

if TYPE_CHECKING:
    from aalis_sdk.testing.meshes import Meshes
    from aalis_sdk.testing.processes import Spawner
    from aalis_sdk.testing.servers import NatsServer, ValkeyServer


@pytest.fixture
def nats_server(fresh_nats: NatsServer) -> NatsServer:
    """Give each test a server of its own: these tests break things."""
    return fresh_nats


@pytest.fixture
def environment(valkey_server: ValkeyServer, tmp_path: Path) -> dict[str, str]:
    """Say what every service of the stack is told."""
    return {
        "AALIS_REDIS_URL": valkey_server.url,
        "AALIS_DATABASE_URL": f"sqlite:///{tmp_path / 'memory.db'}",
        "AALIS_LOCALE": "en",
    }


@pytest_asyncio.fixture
async def stack(spawn_service: Spawner, environment: dict[str, str]) -> AsyncIterator[Stack]:
    """Run one replica of each service."""
    running = Stack(spawn_service, environment)
    await running.start_all()
    yield running


PersonFactory = Callable[..., Awaitable[Person]]


@pytest.fixture
def person(mesh: Meshes, session_id: str) -> PersonFactory:
    """Give a way to meet somebody who chats, in a session of a platform."""

    async def meet(session: str = session_id, platform: str = "cli") -> Person:
        return await Person(await mesh("adapter"), session, platform).listen()

    return meet
