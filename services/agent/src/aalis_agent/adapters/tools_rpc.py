"""This is about tools over the mesh: one call, however often it has to be asked for (TOOL-6, 7)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aalis_agent.ports import Unavailable
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
_PAUSE_SECONDS = 0.1
_LATER = ("absent", "timeout")
"""What a host answers that is leaving, or has lost its way to the records of calls."""


class MeshTools:
    """The tools port over requests."""

    def __init__(self, mesh: Mesh, registry: Registry) -> None:
        self._mesh = mesh
        self._registry = registry

    def entries(self) -> list[ToolEntry]:
        """Return what is offered now."""
        return self._registry.tools()

    async def call(
        self, entry: ToolEntry, request: ToolCallRequest, *, begun: bool = False
    ) -> ToolResult:
        """Have a call executed once; TimeoutError after the tool's own time."""
        async with asyncio.timeout(entry.timeout_ms / 1000):
            return await self._call(entry, request, asked=begun)

    async def _call(self, entry: ToolEntry, request: ToolCallRequest, *, asked: bool) -> ToolResult:
        """Ask until there is a result; a host that was asked may have begun before it was lost.

        It, or a replica, may be back in a moment and know what became of the call; until its entry
        has expired that is waited for.
        """
        subject = subjects.tool_call(entry.name)
        while True:
            try:
                return await self._mesh.request(subject, request, ToolResult, SLICE_SECONDS)
            except Absent as error:
                nobody = error.why == "no responder"
                if nobody and not (asked and self._offered(entry)):
                    raise Unavailable(f"tool {entry.name}", error.why, begun=asked) from None
                asked = asked or not nobody
            except Remote as error:
                if not (error.error.retryable and error.error.code in _LATER):
                    return error_result(error.error.message)
                asked = True
            except (Fault, TooLarge) as error:
                return error_result(str(error))
            await asyncio.sleep(_PAUSE_SECONDS)

    def _offered(self, entry: ToolEntry) -> bool:
        return self._registry.get(subjects.tool_key(entry.name)) is not None

    async def cancel(self, name: str, key: str, reason: str) -> None:
        """Tell the hosts that nobody waits for this call any more."""
        try:
            await self._mesh.publish(subjects.tool_cancel(name), ToolCancel(key=key, reason=reason))
        except UNREACHABLE as error:
            log.debug("a cancel is lost", tool=name, reason=repr(error))
