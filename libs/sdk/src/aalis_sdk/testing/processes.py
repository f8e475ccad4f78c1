"""This is about real processes in tests: started, seen to be ready, treated badly, always ended."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from aalis_contracts.errors import Fault
from aalis_contracts.subjects import service_key
from aalis_sdk.buckets import Bucket
from aalis_sdk.mesh import Absent, Mesh
from aalis_sdk.testing.meshes import settings
from aalis_sdk.topology import REGISTRY

GRACE_SECONDS: Final = 5
"""How long a process gets to leave by itself, as its own setting and when a test ends."""
_POLL: Final = 0.02
_numbers = itertools.count(1)


class ServiceProcess:
    """A process that a test started."""

    def __init__(
        self, name: str, instance: str, process: subprocess.Popen[bytes], log: Path
    ) -> None:
        self.name = name
        self.instance = instance
        self.process = process
        self.log_file = log

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs (frozen counts)."""
        return self.process.poll() is None

    @property
    def log(self) -> str:
        """Everything it has written so far, standard output and error."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def events(self, event: str | None = None) -> list[dict[str, Any]]:
        """Return its log lines as objects, all or those of one `event`; other output is skipped."""
        lines: list[dict[str, Any]] = []
        for line in self.log.splitlines():
            with contextlib.suppress(ValueError):
                read = json.loads(line)
                if isinstance(read, dict) and event in {None, read.get("event")}:  # pyright: ignore[reportUnknownMemberType]
                    lines.append(read)  # pyright: ignore[reportUnknownArgumentType]
        return lines

    @property
    def health_url(self) -> str:
        """Where it serves /healthz, when it was started with AALIS_HEALTH_PORT=0."""
        served = self.events("health is served")[-1]
        return f"http://{served['host']}:{served['port']}"

    async def wait_for_log(self, text: str, timeout: float = 10.0) -> None:
        """Wait until `text` is in its log."""
        deadline = time.monotonic() + timeout
        while text not in self.log:
            if time.monotonic() > deadline or not self.alive:
                raise AssertionError(f"{text!r} is not in the log of {self}:\n{self.tail()}")
            await asyncio.sleep(_POLL)

    def tail(self, lines: int = 40) -> str:
        """Return the end of its log."""
        return "\n".join(self.log.splitlines()[-lines:])

    def pause(self) -> None:
        """Freeze it (SIGSTOP)."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Wake it (SIGCONT)."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash would."""
        self.process.kill()
        self.process.wait()

    async def terminate(self, timeout: float = 15.0) -> int:
        """Ask it to leave (SIGTERM) and return its exit code."""
        self.process.terminate()
        return await self.wait(timeout)

    async def wait(self, timeout: float = 15.0) -> int:
        """Wait until it has ended and return its exit code."""
        deadline = time.monotonic() + timeout
        while (code := self.process.poll()) is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"{self} did not end in {timeout:g} s:\n{self.tail()}")
            await asyncio.sleep(_POLL)
        return code

    def end(self) -> None:
        """End it, whatever state it is in: politely, then by force."""
        if self.alive:
            self.resume()
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(GRACE_SECONDS + 1)
        if self.alive:
            self.process.kill()
        self.process.wait()

    def __str__(self) -> str:
        return f"{self.name}/{self.instance} (pid {self.pid})"


class _Reached(Protocol):
    """A NATS server, as far as starting something beside it goes."""

    @property
    def url(self) -> str: ...


class Spawner:
    """Starts services as processes: `await spawn_service("aalis_gateway", {"AALIS_…": "…"})`."""

    def __init__(self, nats_server: _Reached, directory: Path) -> None:
        self._nats = nats_server
        self._directory = directory
        self._mesh: Mesh | None = None
        self._connecting = asyncio.Lock()
        self.processes: list[ServiceProcess] = []

    async def __call__(
        self,
        module: str | Path,
        env: Mapping[str, str] | None = None,
        *,
        name: str | None = None,
        instance: str | None = None,
        ready: bool = True,
        timeout: float = 90.0,
    ) -> ServiceProcess:
        """Start a module (`python -m`) or a script as a process of its own.

        `name` is what it calls itself in the registry (default: the module without `aalis_`, or
        the script's file name); with `ready` it is awaited there. Its address of NATS, an
        instance name of its own and a short grace period are set, unless `env` says otherwise.
        """
        if name is None:
            name = Path(module).stem.removeprefix("aalis_").replace("_", "-")
        # The entry of one that was killed stays for a while, so a name is never used again.
        instance = instance or f"{name}-{next(_numbers)}"
        script = [str(module)] if isinstance(module, Path) else ["-m", module]
        log = self._directory / f"{instance}-{len(self.processes) + 1}.log"
        with log.open("wb") as output:
            # asyncio's own processes die with their loop; these must outlive any.
            process = subprocess.Popen(  # noqa: ASYNC220
                [sys.executable, "-P", *script],
                env=self._environment(instance, env or {}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._directory,
            )
        service = ServiceProcess(name, instance, process, log)
        self.processes.append(service)
        if ready:
            await self.wait_until_ready(service, timeout)
        return service

    async def wait_until_ready(self, service: ServiceProcess, timeout: float = 90.0) -> None:
        """Wait for `service.<name>.<instance>` in the registry."""
        key = service_key(service.name, service.instance)
        deadline = time.monotonic() + timeout
        bucket = Bucket(await self._connected(), REGISTRY)
        while True:
            with contextlib.suppress(Fault, Absent):
                if await bucket.get(key) is not None:
                    return
            if not service.alive:
                code = service.process.returncode
                raise AssertionError(f"{service} ended with {code}:\n{service.tail()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"{service} was not ready in {timeout:g} s:\n{service.tail()}")
            await asyncio.sleep(_POLL)

    async def close(self) -> None:
        """End every process that was started here, all at once, then disconnect."""
        if self._mesh is not None:
            await self._mesh.close()
        for process in self.processes:
            if process.alive:
                process.resume()
                process.process.terminate()
        for process in self.processes:
            process.end()

    async def _connected(self) -> Mesh:
        async with self._connecting:
            if self._mesh is None:
                mesh = Mesh(settings(self._nats.url, instance="spawner"), "tests")
                await mesh.connect()
                self._mesh = mesh
        return self._mesh

    def _environment(self, instance: str, env: Mapping[str, str]) -> dict[str, str]:
        # Whoever started pytest may have put the sources on the path in one of several ways.
        sources = [entry for entry in sys.path if Path(entry).name == "src"]
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sources),
            "PYTHONUNBUFFERED": "1",
            "AALIS_NATS_URL": self._nats.url,
            "AALIS_INSTANCE": instance,
            "AALIS_GRACE_SECONDS": str(GRACE_SECONDS),
            **env,
        }
