"""This is about the running service: requests and tools on the mesh, and an eye on the database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from aalis_contracts.contract import Contract
from aalis_contracts.text import JsonObject
from aalis_contracts.tools import ToolCallContext
from aalis_memory import tools
from aalis_memory.requests import HANDLERS, Handler, Memory
from aalis_sdk.logs import Log
from aalis_sdk.mesh import Mesh, Offer
from aalis_sdk.plugin import Plugin
from aalis_sdk.registry import Registry
from aalis_sdk.serving import end

log = Log(__name__)

LOOK_SECONDS: Final = 1.0
"""How often the database is looked at."""


class Database(Protocol):
    """What the service needs of its database, beside the store on it."""

    async def problem(self) -> str | None:
        """Say why it cannot be used right now; None = it can."""
        ...

    async def close(self) -> None:
        """Let go of it."""
        ...


class MemoryService:
    """Answers every `memory.*` request and offers memory's tools."""

    def __init__(
        self,
        mesh: Mesh,
        registry: Registry,
        memory: Memory,
        visibility: tools.Visibility,
        database: Database,
    ) -> None:
        self.capabilities = ["memory", "message-archive"]
        self._mesh = mesh
        self._registry = registry
        self._memory = memory
        self._database = database
        self._plugin = plugin(memory, visibility)
        self._offers: list[Offer] = []
        self._problem: str | None = None
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to answer."""
        for subject, handler in HANDLERS.items():
            answer = _bound(handler, self._memory)
            self._offers.append(await self._mesh.respond(subject, handler.request, answer))
        await self._plugin.attach(self._mesh, self._registry)
        self._looking = asyncio.create_task(self._look())

    async def stop(self) -> None:
        """Take no more requests, finish what runs, let go of the database."""
        if self._looking is not None:
            await end(self._looking)
        for offer in self._offers:
            await offer.withdraw()
        await self._plugin.detach()
        await self._database.close()

    def problems(self) -> list[str]:
        """Say why this service is not ready: its database is gone."""
        return [self._problem] if self._problem else []

    async def _look(self) -> None:
        while True:
            problem = await self._database.problem()
            if problem and not self._problem:
                log.error("the database is gone; trying again", reason=problem)
            if self._problem and not problem:
                log.info("the database is back")
            self._problem = problem
            await asyncio.sleep(LOOK_SECONDS)


def plugin(memory: Memory, visibility: tools.Visibility) -> Plugin:
    """Return the tools that memory offers."""
    made = Plugin("memory")

    @made.tool("todo_list", tools.TODO_DESCRIPTION, schema=tools.TODO_SCHEMA, retry="safe")
    async def todo_list(args: JsonObject, context: ToolCallContext) -> object:  # pyright: ignore[reportUnusedFunction]
        return await tools.todo_list(memory, args, context)

    @made.tool(
        "session_get_history",
        tools.HISTORY_DESCRIPTION,
        schema=tools.HISTORY_SCHEMA,
        groups=[tools.HISTORY_GROUP],
        risk="sensitive",
        retry="safe",
    )
    async def session_get_history(args: JsonObject, context: ToolCallContext) -> object:  # pyright: ignore[reportUnusedFunction]
        return await tools.session_get_history(memory, visibility, args, context)

    return made


def _bound(handler: Handler[Any], memory: Memory) -> Callable[[Any], Awaitable[Contract]]:
    async def answer(request: Contract) -> Contract:
        return await handler.answer(memory, request)

    return answer
