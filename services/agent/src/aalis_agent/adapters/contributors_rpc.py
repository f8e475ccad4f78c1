"""This is about prompt contributions over the mesh."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aalis_agent.ports import Unavailable
from aalis_contracts import subjects
from aalis_contracts.errors import Fault
from aalis_contracts.hooks import PromptBlocks, PromptBuild
from aalis_contracts.text import one_line
from aalis_sdk.mesh import Absent, Remote, TooLarge

if TYPE_CHECKING:
    from aalis_contracts.registry import PromptEntry
    from aalis_sdk.mesh import Mesh
    from aalis_sdk.registry import Registry

_LOOK_AGAIN_SECONDS = 5.0


class MeshContributors:
    """The contributors port over requests."""

    def __init__(self, mesh: Mesh, registry: Registry) -> None:
        self._mesh = mesh
        self._registry = registry

    def entries(self) -> list[PromptEntry]:
        """Return what is offered now."""
        return self._registry.prompts()

    async def build(
        self, entry: PromptEntry, request: PromptBuild, timeout: float
    ) -> str | list[str] | None:
        """Have one block built; `timeout` 0 = for as long as its builder is registered (AG-6)."""
        if timeout > 0:
            return await self._ask(entry, request, timeout)
        asking = asyncio.create_task(self._ask(entry, request, 24 * 3600.0))
        try:
            while not asking.done():
                await asyncio.wait({asking}, timeout=_LOOK_AGAIN_SECONDS)
                if not asking.done() and entry.key not in {e.key for e in self.entries()}:
                    raise Unavailable(entry.key, "its registry entry has expired")
            return asking.result()
        finally:
            asking.cancel()

    async def _ask(
        self, entry: PromptEntry, request: PromptBuild, timeout: float
    ) -> str | list[str] | None:
        subject = subjects.prompt(entry.plugin, entry.id)
        try:
            return (await self._mesh.request(subject, request, PromptBlocks, timeout)).blocks
        except (Absent, Remote, Fault, TooLarge) as error:
            raise Unavailable(entry.key, one_line(str(error), 300)) from None
