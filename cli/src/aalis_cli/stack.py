"""This is about a stack: two servers, the topology, the services; up together, down in reverse.

`up` keeps one in the data directory; `ask` makes one in a temporary directory when none runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from aalis_cli.children import SERVICES, Child
from aalis_cli.failure import Failed
from aalis_cli.guardian import Guardian
from aalis_cli.nats_info import greet
from aalis_cli.nursery import Nursery
from aalis_cli.place import Place, State
from aalis_sdk.embedded import Server, ServerFailed, start_nats, start_valkey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import IO

    from aalis_sdk.mesh import Mesh
    from aalis_sdk.registry import Registry

_Result = TypeVar("_Result")
READY_SECONDS: Final = 60.0
"""How long all services together may take to become ready."""
FIRST_PORT: Final = 4222
_TICK: Final = 0.1
_BACKOFF: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
_STEADY_SECONDS: Final = 60.0
"""A process that lived this long has recovered: its next death is its first."""


@dataclass(frozen=True)
class Plan:
    """What a stack is made of; a URL names a server that is there already."""

    nats: str | None = None
    redis: str | None = None
    services: tuple[str, ...] = tuple(SERVICES)
    replicas: tuple[tuple[str, int], ...] = ()
    port: int = 0
    """Of our own NATS server; 0 = a free one."""


class Stack:
    """The processes of one stack."""

    def __init__(
        self,
        place: Place,
        plan: Plan,
        *,
        say: Callable[[str], None],
        lock: IO[bytes] | None = None,
        temporary: bool = False,
    ) -> None:
        self._place = place
        self._plan = plan
        self._say = say
        self._temporary = temporary
        self._guardian = Guardian(lock, place.directory if temporary else None)
        self._nursery = Nursery.open(self._guardian.fileno())
        self._nats: Server | None = None
        self._valkey: Server | None = None
        self._hurry = False
        self.children: list[Child] = []

    @property
    def state(self) -> State:
        """Who runs here, and where it is reached."""
        ours = self._nats is not None
        return State(
            pid=os.getpid(),
            nats_url=self.nats_url,
            redis_url=self.redis_url,
            server_id=greet(self.nats_url).server_id if ours else None,
        )

    @property
    def nats_url(self) -> str:
        """Where NATS is reached."""
        return self._nats.url if self._nats is not None else self._plan.nats or ""

    @property
    def redis_url(self) -> str | None:
        """Where the cache is reached, if there is one."""
        return self._valkey.url if self._valkey is not None else self._plan.redis

    # up ----------------------------------------------------------------------------------

    async def start_servers(self) -> None:
        """Start what is not there already; an existing server must answer."""
        if self._plan.nats is not None:
            greet(self._plan.nats)
        for outcome in await _to_its_end(
            asyncio.gather(self._start_nats(), self._start_valkey(), return_exceptions=True)
        ):
            if outcome is not None:
                raise outcome

    def start_services(self) -> None:
        """Start every replica; none is waited for."""
        wanted = dict(self._plan.replicas)
        self.children = [
            Child(name, number, SERVICES[name], self._environment(), self._place.logs)
            for name in self._plan.services
            for number in range(1, wanted.get(name, 1) + 1)
        ]
        if self._nursery is not None:
            self._nursery.want(self.children)
            return
        for child in self.children:
            child.start(self._guardian.fileno())

    async def settle(self) -> None:
        """Wait until every process is known; after that each can be ended."""
        nursery, self._nursery = self._nursery, None
        if nursery is not None:
            await _to_its_end(asyncio.to_thread(nursery.deliver))

    async def await_ready(self, registry: Registry) -> None:
        """Wait until every replica has said that it is ready; fail if one dies before."""
        await self.settle()
        missing: list[Child] = []

        def settled() -> bool:
            announced = {(e.service, e.instance): e.since for e in registry.services()}
            missing[:] = [
                child
                for child in self.children
                # An entry of an earlier process of this name may not have expired yet.
                if announced.get((child.service, child.instance), 0) < child.started_ms
            ]
            return not missing or any(not child.running for child in missing)

        await registry.wait_for(settled, READY_SECONDS)
        for child in missing:
            if not child.running:
                why = f"{child.instance} {child.ending}: {child.last_words()}"
                raise Failed(self._with_log(why, child))
        if missing:
            child = missing[0]
            why = f"{child.instance} was not ready in {READY_SECONDS:g} s: {child.last_words()}"
            raise Failed(self._with_log(why, child))

    def _with_log(self, why: str, child: Child) -> str:
        return why if self._temporary else f"{why} (log: {child.log})"

    async def _start_nats(self) -> None:
        if self._plan.nats is None:
            self._nats = await self._server("NATS", lambda: self._nats_on(self._plan.port))

    async def _start_valkey(self) -> None:
        if self._plan.redis is None:
            self._valkey = await self._server("Valkey", self._valkey_on)

    def _nats_on(self, port: int) -> Server:
        directory, announce = self._place.directory / "nats", self._guardian.fileno()
        if port:
            try:
                return start_nats(directory, port=port, announce=announce)
            except ServerFailed:
                if port != FIRST_PORT:
                    raise
        return start_nats(directory, announce=announce)

    def _valkey_on(self, port: int | None = None) -> Server:
        directory = self._place.directory / "valkey"
        return start_valkey(directory, port=port, announce=self._guardian.fileno())

    async def _server(self, name: str, start: Callable[[], Server]) -> Server:
        try:
            return await asyncio.to_thread(start)
        except (ServerFailed, OSError) as error:
            raise Failed(f"{name}: {error}") from None

    def _environment(self) -> dict[str, str]:
        environment = {
            "AALIS_NATS_URL": self.nats_url,
            "AALIS_DATA_DIR": str(self._place.directory),
        }
        if self.redis_url is not None:
            environment["AALIS_REDIS_URL"] = self.redis_url
        if self._temporary:
            # What lives for one question must not write into a database that was meant for more.
            environment["AALIS_DATABASE_URL"] = f"sqlite:///{self._place.directory}/memory.db"
        return environment

    # while it runs -----------------------------------------------------------------------

    async def watch(self) -> None:
        """Say which process died, with its last words, and start it again; never returns."""
        due: dict[str, float] = {}
        while True:
            await asyncio.sleep(_TICK)
            await self._watch_servers()
            for child in self.children:
                if child.running:
                    continue
                if child.instance not in due:
                    due[child.instance] = time.monotonic() + self._bury(child)
                elif time.monotonic() >= due[child.instance]:
                    del due[child.instance]
                    child.start(self._guardian.fileno())
                    self._say(f"{child.instance} was started again")

    def _bury(self, child: Child) -> float:
        """Say that `child` died; return the seconds until it is started again."""
        if child.process is not None:
            self._guardian.forget(child.process.pid)
        if time.time() * 1000 - child.started_ms > _STEADY_SECONDS * 1000:
            child.deaths = 0
        pause = _BACKOFF[min(child.deaths, len(_BACKOFF) - 1)]
        child.deaths += 1
        self._say(
            f"{child.instance} {child.ending}; again in {pause:g} s. "
            f"Its last line: {child.last_words()} (log: {child.log})"
        )
        return pause

    async def _watch_servers(self) -> None:
        if self._nats is not None and self._nats.process.poll() is not None:
            port = self._nats.port
            self._say(f"NATS died; starting it again on port {port} (log: {self._nats.log})")
            self._guardian.forget(self._nats.process.pid)
            self._nats = await self._server("NATS", lambda: self._nats_on(port))
            self._place.announce(self.state)
        if self._valkey is not None and self._valkey.process.poll() is not None:
            port = self._valkey.port
            self._say(f"Valkey died; starting it again on port {port} (log: {self._valkey.log})")
            self._guardian.forget(self._valkey.process.pid)
            self._valkey = await self._server("Valkey", lambda: self._valkey_on(port))

    # down --------------------------------------------------------------------------------

    def hurry(self) -> None:
        """Do not wait for running work any longer."""
        self._hurry = True

    async def stop(self, grace: float) -> None:
        """End everything in reverse; each service may finish its work for `grace` seconds."""
        with contextlib.suppress(Failed):
            await self.settle()
        if self._temporary:
            await self._end(self.children, grace)
        else:
            for child in reversed(self.children):
                await self._end([child], grace)
        for server in (self._valkey, self._nats):
            if server is not None:
                await asyncio.to_thread(server.stop)
        if self._temporary:
            shutil.rmtree(self._place.directory, ignore_errors=True)
        self._guardian.dismiss()

    async def _end(self, children: list[Child], grace: float) -> None:
        for child in children:
            child.ask_to_end()
        deadline = time.monotonic() + grace
        while any(child.running for child in children) and time.monotonic() < deadline:
            if self._hurry:
                break
            await asyncio.sleep(0.01)
        for child in children:
            child.kill()


async def connected(url: str, wait: float = 0.0) -> Mesh:
    """Return a mesh that is connected to `url`; fail if nobody answers there for `wait` seconds."""
    from aalis_sdk.mesh import Mesh  # slow to import: only when it is needed
    from aalis_sdk.settings import MeshSettings, SettingsError, load

    gc.enable()
    await _greeted(url, wait)
    try:
        mesh = Mesh(load(MeshSettings, nats_url=url, instance=f"cli-{os.getpid()}"), "cli")
    except SettingsError as error:
        raise Failed(str(error)) from None
    try:
        async with asyncio.timeout(10.0):
            await mesh.connect()
    except TimeoutError:
        raise Failed(f"NATS at {url} greets but lets nobody in; are credentials needed?") from None
    return mesh


async def provisioned(mesh: Mesh, replicas: int = 1) -> list[str]:
    """Apply the topology; return what was made new."""
    from aalis_contracts.errors import Fault
    from aalis_sdk import topology

    try:
        return await topology.apply(mesh.js, replicas)
    except Fault as error:
        raise Failed(f"topology: {error.message}") from None


async def _greeted(url: str, wait: float) -> None:
    deadline = time.monotonic() + wait
    while True:
        try:
            greet(url)
        except Failed:
            if time.monotonic() >= deadline:
                raise
            await asyncio.sleep(0.5)
        else:
            return


async def _to_its_end(work: Awaitable[_Result]) -> _Result:
    """Await `work` even when we are cancelled meanwhile: it makes processes that must be known."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
