"""This is about a process from start to SIGTERM: one way to begin, to be ready, and to leave.

Start: settings, logs, tracing, health, NATS (waits for it), topology (waits, saying what is
missing), the service itself, its registry entry. Leave: not ready any more, stop taking, let
running work reach its end within the grace period, withdraw, disconnect.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
import time
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import nats.errors
import nats.js.errors

from aalis_contracts.errors import Fault
from aalis_contracts.registry import ServiceEntry
from aalis_contracts.subjects import service_key
from aalis_sdk import failpoints, logs, topology, tracing
from aalis_sdk.buckets import Bucket
from aalis_sdk.logs import Log
from aalis_sdk.mesh import Absent, Mesh
from aalis_sdk.registry import REFRESH_SECONDS, TTL_SECONDS, Registry
from aalis_sdk.serving import end
from aalis_sdk.settings import MeshSettings, SettingsError, load

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aalis_sdk.plugin import Plugin

log = Log(__name__)
VERSION: Final = "0.1.0"
_FIRST_PAUSE: Final = 0.05
_PATIENT_PAUSE: Final = 1.0
"""Seconds between two looks at what is missing, when it is long in coming."""

Settings = TypeVar("Settings", bound=MeshSettings)


class StartFailed(Exception):
    """The service cannot start as things are; the message is one line."""


class Service(Protocol):
    """What a service must offer to be run."""

    capabilities: list[str]

    async def start(self) -> None:
        """Begin to take work."""
        ...

    async def stop(self) -> None:
        """Stop taking work and finish or hand back what runs, within the grace period."""
        ...

    def problems(self) -> list[str]:
        """Say why this service is not ready; empty = it is."""
        ...


def run(
    name: str,
    settings_type: type[Settings],
    build: Callable[[Settings, Mesh, Registry], Awaitable[Service]],
) -> None:
    """Run a service until SIGTERM or SIGINT; exit with one line and code 1 if it cannot start."""
    try:
        settings = load(settings_type)
        logs.configure(name, settings.instance, settings.log_level)
        failpoints.enable(settings.failpoints)
        tracing.configure(f"aalis-{name}", settings.instance, settings.otlp_endpoint)
        asyncio.run(_Process(name, settings, build).live())
    except (SettingsError, StartFailed) as error:
        sys.stderr.write(f"aalis-{name}: {error}\n")
        raise SystemExit(1) from None
    finally:
        tracing.shutdown()


def run_plugin(plugin: Plugin) -> None:
    """Run a plugin as a process of its own."""

    async def build(_: MeshSettings, mesh: Mesh, registry: Registry) -> Service:
        return PluginService(plugin, mesh, registry)

    run(plugin.name, MeshSettings, build)


class PluginService:
    """A plugin as a whole service: it is ready when it has offered everything."""

    def __init__(self, plugin: Plugin, mesh: Mesh, registry: Registry, *capabilities: str) -> None:
        self.capabilities = list(capabilities)
        self._plugin = plugin
        self._mesh = mesh
        self._registry = registry

    async def start(self) -> None:
        """Offer everything that the plugin declares."""
        await self._plugin.attach(self._mesh, self._registry)

    async def stop(self) -> None:
        """Withdraw it, and let running calls finish."""
        await self._plugin.detach()

    def problems(self) -> list[str]:
        """Say nothing: a plugin that was attached takes calls."""
        return []


class _Process:
    def __init__(
        self,
        name: str,
        settings: Settings,
        build: Callable[[Settings, Mesh, Registry], Awaitable[Service]],
    ) -> None:
        self._name = name
        self._settings = settings
        self._build = build
        self._mesh = Mesh(settings, name)
        self._registry = Registry(self._mesh)
        self._service: Service | None = None
        self._restoring: asyncio.Task[None] | None = None
        self._leaving = asyncio.Event()
        self._since = int(time.time() * 1000)

    async def live(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._leaving.set)
        async with self._health():
            life = asyncio.create_task(self._serve())
            leave = asyncio.create_task(self._leaving.wait())
            await asyncio.wait({life, leave}, return_when=asyncio.FIRST_COMPLETED)
            await end(leave, life)
            await self._leave()
            if not life.cancelled() and (error := life.exception()) is not None:
                raise error

    @contextlib.asynccontextmanager
    async def _health(self):  # type: ignore[no-untyped-def] # noqa: ANN202
        if self._settings.health_port < 0:
            yield
            return
        # Imported here: a web server takes a while to load, and the embedded stack serves none.
        from aalis_sdk.health import Health  # noqa: PLC0415

        health = Health(self._settings.health_host, self._settings.health_port, self._problems)
        await health.start()
        log.info("health is served", host=self._settings.health_host, port=health.port)
        try:
            yield
        finally:
            await health.stop()

    def _problems(self) -> list[str]:
        if self._leaving.is_set():
            return ["leaving"]
        if not self._mesh.connected:
            return ["NATS is not connected"]
        if self._service is None:
            return ["starting"]
        return self._service.problems()

    async def _serve(self) -> None:
        await self._await_nats()
        await self._await_topology()
        self._mesh.reconnected.append(self._restore_soon)
        await self._registry.start()
        service = await self._build(self._settings, self._mesh, self._registry)
        await service.start()
        self._service = service
        # What exists now lives as long as the process: the collector need not look at it again.
        # Whoever started us may have switched it off while everything was imported.
        gc.collect()
        gc.freeze()
        gc.enable()
        log.info("ready", version=VERSION)
        await self._announce(service)

    async def _await_nats(self) -> None:
        connecting = asyncio.create_task(self._mesh.connect())
        try:
            while not connecting.done():
                done, _ = await asyncio.wait({connecting}, timeout=5.0)
                if not done:
                    log.warning("waiting for NATS", url=self._settings.nats_url)
        except asyncio.CancelledError:
            connecting.cancel()
            raise
        try:
            connecting.result()
        except (nats.errors.Error, OSError, ValueError) as error:
            message = f"AALIS_NATS_URL={self._settings.nats_url}: {error}"
            raise StartFailed(message) from None

    async def _await_topology(self) -> None:
        # In a stack that comes up whole somebody is applying it right now: look again at once.
        pause = _FIRST_PAUSE
        while missing := await topology.verify(self._mesh.js):
            if await topology.restore(self._mesh.js, missing):
                log.info("streams in memory were made again", streams=missing)
                continue
            if pause >= _PATIENT_PAUSE:
                log.warning(
                    "topology is incomplete; run: aalis topology apply",
                    missing=missing[:5],
                    count=len(missing),
                )
            await asyncio.sleep(pause)
            pause = min(2 * pause, _PATIENT_PAUSE)

    def _restore_soon(self) -> None:
        self._restoring = asyncio.create_task(self._restore())

    async def _restore(self) -> None:
        """After a restart of a single server: make again what it kept in memory only."""
        with contextlib.suppress(Fault, nats.errors.Error, nats.js.errors.Error, TimeoutError):
            await topology.restore(self._mesh.js, await topology.verify(self._mesh.js))

    async def _announce(self, service: Service) -> None:
        bucket = Bucket(self._mesh, topology.REGISTRY)
        entry = ServiceEntry(
            service=self._name,
            instance=self._settings.instance,
            version=VERSION,
            since=self._since,
            capabilities=service.capabilities,
        )
        key = service_key(self._name, self._settings.instance)
        try:
            while True:
                with contextlib.suppress(Fault, nats.errors.Error):
                    await bucket.put(key, entry, TTL_SECONDS)
                await asyncio.sleep(REFRESH_SECONDS)
        finally:
            # Without a server the entry expires by itself; leaving does not wait for one.
            if self._mesh.connected:
                with contextlib.suppress(Fault, Absent, nats.errors.Error):
                    await bucket.delete(key, ttl_seconds=TTL_SECONDS)

    async def _leave(self) -> None:
        log.info("leaving")
        if self._restoring is not None:
            self._restoring.cancel()
        if self._service is not None:
            await self._service.stop()
        await self._mesh.close()
