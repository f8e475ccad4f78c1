"""A persona service in this process, on a real server, with cards of the test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from aalis_persona.app import build
from aalis_persona.settings import PersonaSettings
from aalis_sdk.settings import load

if TYPE_CHECKING:
    from aalis_sdk.mesh import Mesh
    from aalis_sdk.registry import Registry
    from aalis_sdk.service import Service
    from aalis_sdk.testing.meshes import Meshes
    from aalis_sdk.testing.servers import NatsServer

CAT = """
name: Miu
nick_name: [kitty, " "]
description: A cat.
prompt: Purr.
"""
HOST = """
name: Host
outputFormat:
  mood: {type: string}
  say: {type: string, reply: true}
"""


@pytest.fixture
def cards(tmp_path: Path) -> Path:
    """Give a directory with two cards, one of them with an output format."""
    home = tmp_path / "cards"
    home.mkdir()
    (home / "cat.yaml").write_text(CAT, encoding="utf-8")
    (home / "host.yaml").write_text(HOST, encoding="utf-8")
    return home


@pytest_asyncio.fixture
async def start(
    nats_server: NatsServer,
    mesh: Meshes,
    registry: Callable[[Mesh], Awaitable[Registry]],
    cards: Path,
) -> AsyncIterator[Callable[..., Awaitable[Mesh]]]:
    """Give a function that starts the service and returns a mesh that sees what it offers."""
    running: list[Service] = []

    async def begin(**given: object) -> Mesh:
        chosen: dict[str, object] = {"persona_cards": cards, "locale": "en", **given}
        settings = load(PersonaSettings, nats_url=nats_server.url, **chosen)
        connected = await mesh("persona")
        service = await build(settings, connected, await registry(connected))
        await service.start()
        running.append(service)
        return await mesh("asker")

    try:
        yield begin
    finally:
        for service in running:
            await service.stop()
