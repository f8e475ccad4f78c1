"""This is about fixtures: what a test asks for by name, and gets as a real, running thing.

| fixture         | is                                                                         |
|-----------------|----------------------------------------------------------------------------|
| `nats_server`   | a NATS with the topology; one a module, up again after a test that broke it |
| `fresh_nats`    | one for this test alone                                                    |
| `valkey_server` | a Valkey; one a module, empty and up at the start of each test             |
| `free_port`     | `free_port()` gives a port that nobody listens on                          |
| `session_id`    | a session that no other test has used                                      |
| `mesh`          | `await mesh("name", locale="en")` gives a connected mesh, closed afterwards |
| `registry`      | `await registry(mesh)` gives a live copy of the registry                   |
| `attach`        | `await attach(plugin)` offers a plugin from here, taken back afterwards    |
| `warned`        | `warned("event")` gives the fields of each such warning of this process    |
| `spawn_service` | `await spawn_service("aalis_gateway", {"AALIS_…": "…"})` gives a process    |
| `otlp`          | an OTLP receiver; pass `otlp.endpoint` as OTEL_EXPORTER_OTLP_ENDPOINT      |

`mesh`, `attach` and `spawn_service` use `nats_server`; a module that wants one server a test
overrides it:

    @pytest.fixture
    def nats_server(fresh_nats):
        return fresh_nats

With AALIS_TEST_BACKEND=containers the servers come from a Docker engine, and tests that need one
are skipped where none answers. A failing test shows the end of the log of each of its processes.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
import pytest_asyncio

from aalis_sdk import embedded
from aalis_sdk.logs import fields_of
from aalis_sdk.plugin import Plugin
from aalis_sdk.registry import Registry
from aalis_sdk.testing import containers
from aalis_sdk.testing.meshes import Meshes
from aalis_sdk.testing.otlp import OtlpReceiver
from aalis_sdk.testing.processes import Spawner
from aalis_sdk.testing.servers import NatsServer, TestServer, ValkeyServer, use_containers

if TYPE_CHECKING:
    from aalis_sdk.mesh import Mesh

_numbers = itertools.count(1)
AnyServer = TypeVar("AnyServer", bound=TestServer)


@pytest.fixture(scope="session")
def container_engine() -> None:
    """Skip the test when containers are asked for and cannot be had."""
    if use_containers() and (why := containers.unavailable()) is not None:
        pytest.skip(why)


@pytest.fixture(scope="module")
def module_nats(
    container_engine: None,  # noqa: ARG001 - a condition, not a value
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[NatsServer]:
    """One NATS for a whole module; ask for `nats_server` instead."""
    with _running(NatsServer(tmp_path_factory.mktemp("nats"))) as server:
        yield server


@pytest.fixture
def nats_server(module_nats: NatsServer) -> Iterator[NatsServer]:
    """Give the module's NATS server, with its topology; a test that breaks it need not mend it."""
    starts = module_nats.starts
    yield module_nats
    if not module_nats.up or module_nats.starts != starts:
        module_nats.mend()


@pytest.fixture
def fresh_nats(
    container_engine: None,  # noqa: ARG001 - a condition, not a value
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[NatsServer]:
    """Give a NATS server for this test alone."""
    with _running(NatsServer(tmp_path_factory.mktemp("nats"))) as server:
        yield server


@pytest.fixture(scope="module")
def module_valkey(
    container_engine: None,  # noqa: ARG001 - a condition, not a value
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ValkeyServer]:
    """One Valkey for a whole module; ask for `valkey_server` instead."""
    with _running(ValkeyServer(tmp_path_factory.mktemp("valkey"))) as server:
        yield server


@pytest.fixture
def valkey_server(module_valkey: ValkeyServer) -> ValkeyServer:
    """Give an empty, running Valkey server."""
    module_valkey.start()
    with socket.create_connection(("127.0.0.1", module_valkey.port), timeout=5) as link:
        link.sendall(b"FLUSHALL\r\n")
        link.recv(64)
    return module_valkey


@pytest.fixture
def free_port() -> Callable[[], int]:
    """Give a function that returns a port nobody listens on."""
    return embedded.free_port


@pytest.fixture
def session_id() -> str:
    """Give the id of a session that no other test has used."""
    return f"session-{next(_numbers)}"


@pytest_asyncio.fixture
async def mesh(nats_server: NatsServer) -> AsyncIterator[Meshes]:
    """Give a function that connects this process; the connections are closed afterwards."""
    meshes = Meshes(nats_server)
    try:
        yield meshes
    finally:
        await meshes.close()


@pytest.fixture
def registry() -> Callable[[Mesh], Awaitable[Registry]]:
    """Give a function that starts a live copy of the registry on a mesh."""

    async def start(connected: Mesh) -> Registry:
        made = Registry(connected)
        await made.start()
        return made

    return start


@pytest_asyncio.fixture
async def attach(
    mesh: Meshes, registry: Callable[[Mesh], Awaitable[Registry]]
) -> AsyncIterator[Callable[..., Awaitable[Mesh]]]:
    """Give a function that offers a plugin on a mesh of its own; taken back afterwards."""
    attached: list[Plugin] = []

    async def offer(plugin: Plugin, **more: Any) -> Mesh:  # noqa: ANN401 - any setting
        connected = await mesh(plugin.name, **more)
        await plugin.attach(connected, await registry(connected))
        attached.append(plugin)
        return connected

    yield offer
    for plugin in reversed(attached):
        await plugin.detach()


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Callable[[str], list[dict[str, object]]]:
    """Give a function that returns the fields of each warning or error of one event."""

    def find(event: str) -> list[dict[str, object]]:
        return [
            fields_of(record)
            for record in caplog.records
            if record.levelno >= logging.WARNING and record.getMessage() == event
        ]

    return find


@pytest_asyncio.fixture
async def spawn_service(
    nats_server: NatsServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Spawner]:
    """Give a function that starts services as processes; all of them are ended afterwards."""
    spawner = Spawner(nats_server, tmp_path_factory.mktemp("services"))
    atexit.register(_end_all, spawner)
    try:
        yield spawner
    finally:
        await spawner.close()
        atexit.unregister(_end_all)


@pytest.fixture
def otlp() -> Iterator[OtlpReceiver]:
    """Give a running OTLP receiver."""
    receiver = OtlpReceiver()
    receiver.start()
    try:
        yield receiver
    finally:
        receiver.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of each process's log beside a failure."""
    report = yield
    spawner: Any = getattr(item, "funcargs", {}).get("spawn_service")
    if report.failed and isinstance(spawner, Spawner):
        for process in spawner.processes:
            report.sections.append((f"log of {process}", process.tail()))
    return report


@contextlib.contextmanager
def _running(server: AnyServer) -> Generator[AnyServer]:
    # atexit: a run that is cut off by its own time limit skips what fixtures would clean up.
    atexit.register(server.kill)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        atexit.unregister(server.kill)


def _end_all(spawner: Spawner) -> None:
    for process in spawner.processes:
        process.end()
