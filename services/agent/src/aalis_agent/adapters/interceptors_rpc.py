"""This is about interceptors over the mesh."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from aalis_agent.ports import ChainFailed
from aalis_contracts.contract import Contract
from aalis_sdk.hooks import Chain, HookFailed, Hooks

if TYPE_CHECKING:
    from aalis_sdk.mesh import Mesh
    from aalis_sdk.registry import Registry

Data = TypeVar("Data", bound=Contract)


class MeshInterceptors:
    """The interceptors port over requests."""

    def __init__(self, mesh: Mesh, registry: Registry) -> None:
        self._hooks = Hooks(mesh, registry)

    def anyone(self, hook: str) -> bool:
        """Say whether anybody intercepts or observes `hook` right now."""
        return self._hooks.anyone(hook)

    async def run(self, hook: str, data: Data) -> Chain[Data]:
        """Ask them in order."""
        try:
            return await self._hooks.run(hook, data)
        except HookFailed as error:
            raise ChainFailed(str(error)) from None
