"""This is about the servers of a test: really running, on ports of their own, gone afterwards.

A test may kill, freeze, restart and wipe what it asked for; the address stays the same, so that
whoever was connected can find it again.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol

from aalis_sdk import embedded, topology
from aalis_sdk.mesh import Mesh
from aalis_sdk.settings import MeshSettings, load
from aalis_sdk.testing import containers

BACKEND: Final = "AALIS_TEST_BACKEND"
"""`embedded` (default: servers from installed packages) or `containers` (a Docker engine)."""
TEST_SYNC: Final = "2m"
"""JetStream's own default: tests kill processes, they do not cut the power."""


class Running(Protocol):
    """What a backend starts: an address and a life."""

    @property
    def url(self) -> str:
        """The address at which clients reach it."""
        ...

    def stop(self) -> None:
        """End it politely."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...

    def pause(self) -> None:
        """Freeze it."""
        ...

    def resume(self) -> None:
        """Wake it."""
        ...


class TestServer:
    """A server that a test may treat badly; `url` never changes."""

    __test__ = False

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._running: Running | None = None
        self._port = embedded.free_port()
        self._paused = False
        self.url = ""
        self.starts = 0

    @property
    def port(self) -> int:
        """The TCP port."""
        return self._port

    @property
    def up(self) -> bool:
        """Whether it runs and is not frozen."""
        return self._running is not None and not self._paused

    def start(self) -> None:
        """Start it, unless it runs; what it had stored on disk is still there."""
        if self._running is None:
            self._running = self._begin()
            self.url = self._running.url
            self.starts += 1
        self.resume()

    def stop(self) -> None:
        """End it politely."""
        self.resume()
        running, self._running = self._running, None
        if running is not None:
            running.stop()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        running, self._running = self._running, None
        self._paused = False
        if running is not None:
            running.kill()

    def restart(self) -> None:
        """End it politely and start it again on the same port."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze it: connections stay open, nobody answers."""
        if self._running is not None:
            self._running.pause()
            self._paused = True

    def resume(self) -> None:
        """Wake it."""
        if self._running is not None and self._paused:
            self._running.resume()
        self._paused = False

    def _begin(self) -> Running:
        raise NotImplementedError


class NatsServer(TestServer):
    """A NATS server with JetStream, its streams, buckets and consumers in place."""

    def start(self) -> None:
        """Start it; the topology is applied where it is missing."""
        fresh = not (self.directory / "jetstream").exists()
        super().start()
        if fresh:
            self.apply_topology()

    def mend(self) -> None:
        """Bring it back, complete, from whatever a test has done to it."""
        self.start()
        self.apply_topology()

    def wipe(self) -> None:
        """Start it anew with nothing stored, on the same port."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)
        self.start()

    def apply_topology(self) -> None:
        """Create every stream, bucket and consumer of the table."""

        async def apply() -> None:
            mesh = Mesh(load(MeshSettings, nats_url=self.url), "topology")
            await mesh.connect()
            try:
                await topology.apply(mesh.js)
            finally:
                await mesh.close()

        # In a thread of its own: pytest's event loop may be waiting further up this one.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, apply()).result()

    def _begin(self) -> Running:
        if use_containers():
            return containers.start_nats(self.directory, self._port)
        return embedded.start_nats(self.directory, port=self._port, sync=TEST_SYNC)


class ValkeyServer(TestServer):
    """A Redis-compatible server that keeps nothing on disk."""

    def _begin(self) -> Running:
        if use_containers():
            return containers.start_valkey(self._port)
        return embedded.start_valkey(self.directory, port=self._port)


def use_containers() -> bool:
    """Say whether servers come from a Docker engine."""
    return os.environ.get(BACKEND, "embedded") == "containers"
