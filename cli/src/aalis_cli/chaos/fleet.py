"""This is about the fleet: the real stack as processes, each of which may die and comes back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aalis_cli.children import SERVICES, Child
from aalis_cli.failure import Failed
from aalis_cli.guardian import Guardian
from aalis_cli.nursery import Nursery
from aalis_sdk.embedded import Server, free_port, start_nats, start_valkey
from aalis_sdk.serving import end

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from aalis_cli.place import Place
    from aalis_sdk.registry import Registry

MODULES: Final[dict[str, str]] = {
    **SERVICES,
    "workshop": "aalis_cli.chaos.workshop",
    "recorder": "aalis_cli.chaos.recorder",
    "critic": "aalis_cli.chaos.critic",
}
GUESTS: Final = frozenset({"critic"})
"""Who is not there from the beginning."""
REPLICAS: Final = {"agent": 2, "gateway": 2}
SYNC: Final = "2m"
"""JetStream's own default: processes die here, the power stays on."""
GRACE_SECONDS: Final = 10.0
"""How long running work may go on after SIGTERM; whoever has not left soon after is stuck."""
READY_SECONDS: Final = 90.0
_TICK: Final = 0.02


@dataclass
class Death:
    """One end of a process, and whether anybody had a hand in it that we know of."""

    instance: str
    at: float
    ending: str


@dataclass
class Fleet:
    """The processes of one chaos run; what dies is started again, until it is dismissed."""

    place: Place
    extra: Mapping[str, str]
    """What every process is told beside the addresses."""
    guardian: Guardian = field(default_factory=Guardian)
    children: dict[str, Child] = field(default_factory=dict[str, Child])
    deaths: list[Death] = field(default_factory=list[Death])
    _dismissed: set[str] = field(default_factory=set[str])
    _held: set[str] = field(default_factory=set[str])
    _nats: Server | None = None
    _valkey: Server | None = None
    _watching: asyncio.Task[None] | None = None

    # up ----------------------------------------------------------------------------------

    @property
    def nats_url(self) -> str:
        """Where NATS is reached."""
        return self._nats.url if self._nats is not None else ""

    async def start_servers(self) -> None:
        """Start NATS and Valkey, each on a port of its own that it keeps."""
        await asyncio.gather(
            asyncio.to_thread(self.start_nats, free_port()),
            asyncio.to_thread(self.start_valkey, free_port()),
        )

    async def start_services(self, registry: Registry) -> None:
        """Start every replica of everything, and wait until all are ready."""
        for name in MODULES.keys() - GUESTS:
            for number in range(1, REPLICAS.get(name, 1) + 1):
                self._child(name, number)
        nursery = Nursery.open(self.guardian.fileno())
        if nursery is None:
            for child in self.children.values():
                child.start(self.guardian.fileno())
        else:
            nursery.want(list(self.children.values()))
            await asyncio.to_thread(nursery.deliver)
        await self.await_ready(registry)
        self._watching = asyncio.create_task(self._watch())

    async def await_ready(self, registry: Registry) -> None:
        """Wait until every replica that should run has said that it is ready."""
        missing: list[str] = []

        def settled() -> bool:
            known = {(one.service, one.instance): one.since for one in registry.services()}
            missing[:] = [
                child.instance
                for child in self.children.values()
                if known.get((child.service, child.instance), 0) < child.started_ms
            ]
            return not missing

        await registry.wait_for(settled, READY_SECONDS)
        if missing:
            child = self.children[missing[0]]
            raise Failed(f"{child.instance} was not ready: {child.last_words()} ({child.log})")

    def armory(self, service: str) -> Path:
        """Return the directory in which points of this service's processes are armed."""
        return self.place.directory / "failpoints" / service

    def _child(self, name: str, number: int) -> Child:
        self.armory(name).mkdir(parents=True, exist_ok=True)
        environment = {
            **self.extra,
            "AALIS_GRACE_SECONDS": str(GRACE_SECONDS),
            "AALIS_NATS_URL": self.nats_url,
            "AALIS_REDIS_URL": self._valkey.url if self._valkey is not None else "",
            "AALIS_DATA_DIR": str(self.place.directory),
            "AALIS_DATABASE_URL": f"sqlite:///{self.place.directory}/memory.db",
            "AALIS_FAILPOINTS": str(self.armory(name)),
        }
        child = Child(name, number, MODULES[name], environment, self.place.logs)
        self.children[child.instance] = child
        return child

    # trouble -----------------------------------------------------------------------------

    def replicas(self, service: str) -> list[Child]:
        """Return the replicas of a service that should run."""
        return [child for child in self.children.values() if child.service == service]

    def well(self, service: str) -> list[Child]:
        """Return the replicas that run, are not frozen, and have not been sent away."""
        return [
            child
            for child in self.replicas(service)
            if child.running and child.instance not in self._dismissed and _state(child) != "T"
        ]

    def kill(self, instance: str) -> None:
        """End a process as a crash would."""
        self._signal(instance, signal.SIGKILL)

    def freeze(self, instance: str) -> None:
        """Stop a process where it stands."""
        self._signal(instance, signal.SIGSTOP)

    def wake(self, instance: str) -> None:
        """Let a frozen process go on."""
        self._signal(instance, signal.SIGCONT)

    def frozen(self, service: str) -> Child | None:
        """Return a replica of `service` that is frozen."""
        return next((child for child in self.replicas(service) if _state(child) == "T"), None)

    def add(self, service: str) -> Child:
        """Start one more replica; it is not waited for."""
        numbers = {child.number for child in self.replicas(service)}
        child = self._child(service, max(numbers, default=0) + 1)
        self._dismissed.discard(child.instance)
        child.start(self.guardian.fileno())
        return child

    async def dismiss(self, instance: str, grace: float = GRACE_SECONDS) -> float:
        """Send a replica away for good (SIGTERM); return the seconds that it took."""
        self._dismissed.add(instance)
        seconds = await self._end_of(self.children[instance], grace)
        del self.children[instance]
        return seconds

    async def restart(self, instance: str, grace: float = GRACE_SECONDS) -> float:
        """Have a replica leave (SIGTERM) and start it again; return the seconds it took to go."""
        async with self.without(instance, grace) as gone:
            return gone

    @contextlib.asynccontextmanager
    async def without(self, instance: str, grace: float = GRACE_SECONDS) -> AsyncGenerator[float]:
        """Have a replica leave (SIGTERM), for as long as this lasts; yield how long it took."""
        child = self.children[instance]
        self._held.add(instance)
        try:
            yield await self._end_of(child, grace)
        finally:
            self._held.discard(instance)
            child.start(self.guardian.fileno())

    async def _end_of(self, child: Child, grace: float) -> float:
        began = time.monotonic()
        child.ask_to_end()
        while child.running:
            if time.monotonic() - began > grace:
                raise Failed(f"{child.instance} did not leave in {grace:g} s (log: {child.log})")
            await asyncio.sleep(_TICK)
        self._forget(child)
        return time.monotonic() - began

    def start_nats(self, port: int) -> None:
        """Start NATS on `port`; what it had stored is still there."""
        directory = self.place.directory / "nats"
        announce = self.guardian.fileno()
        self._nats = start_nats(directory, port=port, sync=SYNC, announce=announce)

    def start_valkey(self, port: int) -> None:
        """Start Valkey on `port`, empty."""
        directory = self.place.directory / "valkey"
        self._valkey = start_valkey(directory, port=port, announce=self.guardian.fileno())

    @property
    def valkey_port(self) -> int:
        """The port on which Valkey is reached."""
        return self._valkey.port if self._valkey is not None else 0

    def renew_nats(self, *, politely: bool) -> None:
        """End NATS and start it again where it was."""
        if self._nats is not None:
            port = self._nats.port
            self._end(self._nats, politely=politely)
            self.start_nats(port)

    def renew_valkey(self) -> None:
        """Kill Valkey and start it again where it was, empty."""
        if self._valkey is not None:
            port = self._valkey.port
            self._end(self._valkey, politely=False)
            self.start_valkey(port)

    def _end(self, server: Server, *, politely: bool) -> None:
        if politely:
            server.stop()
        else:
            server.kill()
        self.guardian.forget(server.process.pid)

    def _signal(self, instance: str, number: int) -> None:
        child = self.children[instance]
        if child.running and child.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.process.pid, number)

    def _forget(self, child: Child) -> None:
        if child.process is not None:
            self.guardian.forget(child.process.pid)

    async def _watch(self) -> None:
        """Start again whatever died."""
        while True:
            await asyncio.sleep(_TICK)
            for instance, child in list(self.children.items()):
                if child.running or instance in self._dismissed | self._held:
                    continue
                self.deaths.append(Death(instance, time.time(), child.ending))
                self._forget(child)
                child.start(self.guardian.fileno())

    # down --------------------------------------------------------------------------------

    async def stop(self) -> None:
        """End everything."""
        if self._watching is not None:
            await end(self._watching)
        for child in self.children.values():
            self.wake(child.instance)
            child.ask_to_end()
        deadline = time.monotonic() + 10.0
        while any(child.running for child in self.children.values()):
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(_TICK)
        for child in self.children.values():
            child.kill()
        for server in (self._valkey, self._nats):
            if server is not None:
                await asyncio.to_thread(server.stop)
        self.guardian.dismiss()


def _state(child: Child) -> str:
    """Return the letter with which the kernel says what a process does; T = frozen."""
    if child.process is None:
        return ""
    try:
        stat = Path(f"/proc/{child.process.pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[0]
