"""This is about tools over the mesh: one call, however often it has to be asked for (TOOL-6, 7)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aalis_agent.ports import Unanswered, Unavailable
from aalis_contracts import subjects
from aalis_contracts.errors import Fault
from aalis_contracts.tools import ToolCallRequest, ToolCancel, ToolResult, error_result
from aalis_sdk.logs import Log
from aalis_sdk.mesh import UNREACHABLE, Absent, Remote, TooLarge

if TYPE_CHECKING:
    from aalis_contracts.registry import ToolEntry
    from aalis_sdk.mesh import Mesh
    from aalis_sdk.registry import Registry

log = Log(__name__)

SLICE_SECONDS = 3.0
"""After this long without an answer the same call is asked for again: if its host has died, another
one finds its record and says so, instead of leaving the turn to wait for the whole timeout."""


_PASSING = ("absent", "timeout")
"""Answers of a host that is leaving, or that cannot record a call now."""
PATIENCE_SECONDS = 6.0
"""For this long a host that is registered and does not listen is taken for one that restarts."""
_PAUSE_SECONDS = 0.2


class MeshTools:
    """The tools port over requests."""

    def __init__(self, mesh: Mesh, registry: Registry, patience: float = PATIENCE_SECONDS) -> None:
        self._mesh = mesh
        self._registry = registry
        self._patience = patience

    def entries(self) -> list[ToolEntry]:
        """Return what is offered now."""
        return self._registry.tools()

    async def call(self, entry: ToolEntry, request: ToolCallRequest) -> ToolResult:
        """Have a call executed once; TimeoutError after the tool's own time."""
        async with asyncio.timeout(entry.timeout_ms / 1000):
            return await self._call(entry, request)

    async def _call(self, entry: ToolEntry, request: ToolCallRequest) -> ToolResult:
        """Ask until there is an answer: the key makes asking again harmless."""
        loop = asyncio.get_running_loop()
        subject, name = subjects.tool_call(entry.name), f"tool {entry.name}"
        patience = min(self._patience, entry.timeout_ms / 2000)
        begun, give_up = False, loop.time() + patience
        while True:
            try:
                return await self._mesh.request(subject, request, ToolResult, SLICE_SECONDS)
            except Absent as error:
                if error.why != "no responder":
                    begun, give_up = True, loop.time() + patience
                elif loop.time() > give_up or not self._offers(entry):
                    gone = Unanswered if begun else Unavailable
                    raise gone(name, error.why) from None
            except Remote as error:
                if error.error.code not in _PASSING:
                    return error_result(error.error.message)
                begun, give_up = True, loop.time() + patience
            except (Fault, TooLarge) as error:
                return error_result(str(error))
            await asyncio.sleep(_PAUSE_SECONDS)

    def _offers(self, entry: ToolEntry) -> bool:
        return any(known.name == entry.name for known in self._registry.tools())

    async def cancel(self, name: str, key: str, reason: str) -> None:
        """Tell the hosts that nobody waits for this call any more."""
        try:
            await self._mesh.publish(subjects.tool_cancel(name), ToolCancel(key=key, reason=reason))
        except UNREACHABLE as error:
            log.debug("a cancel is lost", tool=name, reason=repr(error))
