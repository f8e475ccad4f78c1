"""This is about a stack: the services that run in a test, by name, as processes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from aalis_sdk.testing.processes import ServiceProcess, Spawner

SERVICES: Final = ("memory", "gateway", "prompt_budget", "agent")


class Stack:
    """The services of a platform; replicas may come and go."""

    def __init__(self, spawn: Spawner, env: dict[str, str]) -> None:
        self._spawn = spawn
        self.env = env
        self.processes: dict[str, list[ServiceProcess]] = {}

    async def start_all(self) -> None:
        """Start one replica of each service, side by side."""
        await asyncio.gather(*(self.start(service) for service in SERVICES))

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
