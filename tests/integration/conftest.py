"""The whole stack as processes, for tests that concern several services at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from aalis_sdk.testing.person import Person

if TYPE_CHECKING:
    from aalis_sdk.testing.meshes import Meshes
    from aalis_sdk.testing.processes import ServiceProcess, Spawner
    from aalis_sdk.testing.servers import NatsServer, ValkeyServer

SERVICES = ("memory", "gateway", "prompt_budget", "agent")


class Stack:
    """The services that run, by name."""

    def __init__(self, spawn: Spawner, env: dict[str, str]) -> None:
        self._spawn = spawn
        self.env = env
        self.processes: dict[str, list[ServiceProcess]] = {}

    async def start(self, service: str, **env: str) -> ServiceProcess:
        """Start one more replica of a service."""
        process = await self._spawn(f"aalis_{service}", {**self.env, **env})
        self.processes.setdefault(service, []).append(process)
        return process

    def one(self, service: str) -> ServiceProcess:
        """Return the newest replica of a service."""
        return self.processes[service][-1]

    def warnings(self, service: str) -> list[dict[str, Any]]:
        """Return the warnings and errors that a service has logged."""
        return [
            line
            for process in self.processes[service]
            for line in process.events()
            if line.get("level") in {"warning", "error"}
        ]


@pytest.fixture
def nats_server(fresh_nats: NatsServer) -> NatsServer:
    """Give each test a server of its own: these tests break things."""
    return fresh_nats


@pytest.fixture
def environment(valkey_server: ValkeyServer, tmp_path: Path) -> dict[str, str]:
    """What every service of the stack is told."""
    return {
        "AALIS_REDIS_URL": valkey_server.url,
        "AALIS_DATABASE_URL": f"sqlite+aiosqlite:///{tmp_path / 'memory.db'}",
        "AALIS_LOCALE": "en",
    }


@pytest_asyncio.fixture
async def stack(spawn_service: Spawner, environment: dict[str, str]) -> AsyncIterator[Stack]:
    """Run one replica of each service."""
    running = Stack(spawn_service, environment)
    await asyncio.gather(*(running.start(service) for service in SERVICES))
    yield running


PersonFactory = Callable[..., Awaitable[Person]]


@pytest.fixture
def person(mesh: Meshes, session_id: str) -> PersonFactory:
    """`await person()` gives somebody who chats; `session` and `platform` may be given."""

    async def meet(session: str = session_id, platform: str = "cli") -> Person:
        return await Person(await mesh("adapter"), session, platform).listen()

    return meet
