"""This is about fixtures for the gateway's tests: a real server, and a rig around it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from aalis_gateway.testing import Rig
from aalis_sdk import topology
from aalis_sdk.embedded import Server, start_nats
from aalis_sdk.mesh import Mesh
from aalis_sdk.registry import Registry
from aalis_sdk.settings import MeshSettings


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[Server]:
    server = start_nats(tmp_path / "nats", sync="2m")
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
async def rig(nats: Server, tmp_path: Path) -> AsyncIterator[Rig]:
    mesh = Mesh(MeshSettings(nats_url=nats.url, instance="person"), "person")
    await mesh.connect()
    await topology.apply(mesh.js)
    registry = Registry(mesh)
    await registry.start()
    made = Rig(nats, mesh, registry, logs=tmp_path)
    try:
        yield made
    finally:
        await made.close()
