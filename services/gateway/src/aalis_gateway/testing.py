"""This is about a mesh for tests of the gateway: gateways on a real server, people around them.

Nothing here stands in for NATS; only what the other services would do is up to the test.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from aalis_contracts import subjects
from aalis_contracts.contract import Contract
from aalis_contracts.hooks import HOOKS
from aalis_contracts.messages import IncomingMessage, OutgoingMessage
from aalis_contracts.registry import ServiceEntry
from aalis_gateway.app import Gateway, build
from aalis_gateway.settings import GatewaySettings
from aalis_sdk import topology
from aalis_sdk.buckets import Bucket
from aalis_sdk.embedded import Server, start_nats
from aalis_sdk.mesh import Entry, Mesh
from aalis_sdk.registry import Registry

PATIENCE = 150.0
"""Seconds after which a test says that something did not happen; a busy machine is slow."""


@dataclass
class Rig:
    """A person's and an operator's view of the mesh."""

    server: Server
    mesh: Mesh
    registry: Registry
    gateways: list[tuple[Gateway, Mesh, Registry]] = field(default_factory=list)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    logs: Path = Path()

    async def gateway(self, **settings: object) -> Gateway:
        """Start a gateway in this process, on a connection of its own."""
        name = f"in-process-{len(self.gateways)}"
        chosen = GatewaySettings(nats_url=self.server.url, instance=name, **settings)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        mesh = Mesh(chosen, "gateway")
        await mesh.connect()
        registry = Registry(mesh)
        await registry.start()
        made = await build(chosen, mesh, registry)
        await made.start()
        self.gateways.append((made, mesh, registry))
        return made

    def process(self, **environment: str) -> subprocess.Popen[bytes]:
        """Start a gateway as a process of its own."""
        number = len(self.processes)
        with (self.logs / f"gateway-{number}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "aalis_gateway"],
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                    "AALIS_NATS_URL": self.server.url,
                    "AALIS_INSTANCE": f"process-{number}",
                    **environment,
                },
            )
        self.processes.append(process)
        return process

    async def publish(
        self, message: IncomingMessage | bytes, *, subject: str = "", message_id: str | None = None
    ) -> None:
        """Publish as an adapter does."""
        if isinstance(message, bytes):
            where = subjects.Subject(subject, subjects.INBOUND)
        else:
            where = subjects.inbound(message.platform, message.session_id)
        await self.mesh.store(where, message, message_id)

    async def stored(self, stream: str, pattern: str, count: int = 1) -> list[Entry]:
        """Return the messages of a stream once there are at least `count`."""
        found: list[Entry] = []

        async def enough() -> bool:
            nonlocal found
            found = await self.mesh.range(stream, pattern, 1, 5000)
            return len(found) >= count

        await self.until(enough)
        return found

    async def inputs(self, count: int = 1, pattern: str = "agent.inbox.>") -> list[IncomingMessage]:
        """Return the inputs in the mailboxes once there are at least `count`."""
        entries = await self.stored(topology.AGENT_INBOX, pattern, count)
        return [IncomingMessage.from_json(entry.data) for entry in entries]

    async def answers(self, count: int = 1) -> list[OutgoingMessage]:
        """Return what was sent to people once there are at least `count` messages."""
        entries = await self.stored(topology.OUTBOUND, "outbound.message.>", count)
        return [OutgoingMessage.from_json(entry.data) for entry in entries]

    async def dead(self, count: int = 1) -> list[Entry]:
        """Return the dead letters once there are at least `count`."""
        return await self.stored(topology.DEAD, "dead.>", count)

    async def settled(self) -> None:
        """Wait until every partition has acknowledged all that was published."""

        async def idle() -> bool:
            infos = await asyncio.gather(
                *(
                    self.mesh.js.consumer_info(topology.INBOUND, topology.gateway_consumer(number))
                    for number in range(subjects.PARTITIONS)
                )
            )
            return all(not info.num_pending and not info.num_ack_pending for info in infos)

        await self.until(idle)

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait until `condition` holds."""
        async with asyncio.timeout(PATIENCE):
            while not await condition():  # noqa: ASYNC110 - the server is asked, it does not tell
                await asyncio.sleep(0.02)

    async def announce(self, key: str, entry: Contract) -> None:
        """Put an entry into the registry as its owner would, and see every gateway hear it."""
        await Bucket(self.mesh, topology.REGISTRY).put(key, entry, 30)
        await self.registry.wait_for(lambda: self.registry.get(key) is not None, PATIENCE)
        await self.hear_registry()

    async def hear_registry(self) -> None:
        """See every gateway of this process hear what the registry has been told."""
        for _, _, registry in self.gateways:
            await registry.wait_for(partial(self._is_heard_by, registry), PATIENCE)

    async def never_answer(self, subject: str) -> None:
        """Take requests on a subject and leave them without an answer."""

        async def ignore(_: object) -> None:
            pass

        await self.mesh.client.subscribe(subject, cb=ignore)
        await self.mesh.client.flush()

    async def heard_by_gateways(self) -> None:
        """See every gateway of this process hear what any bucket has been told."""
        for _, mesh, _ in self.gateways:
            await mesh.client.flush()
            # What has arrived is handed to its listener in the next rounds of the loop.
            await asyncio.sleep(0.05)

    def _is_heard_by(self, registry: Registry) -> bool:
        return _offers(registry) == _offers(self.registry)

    async def announce_service(self, service: str, *capabilities: str) -> None:
        """Say that a service runs."""
        entry = ServiceEntry(
            service=service, instance="one", version="0", since=1, capabilities=list(capabilities)
        )
        await self.announce(subjects.service_key(service, "one"), entry)

    def restart_nats(self) -> None:
        """End the server and start it again on the same port and data."""
        self.server.stop()
        again = start_nats(self.server.log.parent, port=self.server.port, sync="2m")
        self.server.process = again.process

    async def close(self) -> None:
        """Stop whatever was started."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()
        for gateway, mesh, _ in self.gateways:
            await gateway.stop()
            await mesh.close()
        await self.mesh.close()


def said(content: str = "hello", **more: object) -> IncomingMessage:
    """Return what a person said, in session `s` on platform `chat` unless told otherwise."""
    fields: dict[str, object] = {"session_id": "s", "platform": "chat", "user_id": "u"}
    return IncomingMessage.from_object({"content": content, **fields, **more})


def _offers(registry: Registry) -> list[object]:
    hooks = [registry.hooks(hook, mode) for hook in HOOKS for mode in ("intercept", "observe")]
    return [*registry.commands(), *registry.services(), *hooks]
