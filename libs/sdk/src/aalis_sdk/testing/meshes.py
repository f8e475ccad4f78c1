"""This is about connections of a test's own process: made on demand, closed when it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aalis_sdk.mesh import Mesh
from aalis_sdk.settings import MeshSettings, load

if TYPE_CHECKING:
    from aalis_sdk.testing.servers import NatsServer


def settings(nats_url: str, **more: Any) -> MeshSettings:  # noqa: ANN401 - any field
    """Return the settings of a process of a test, connected to `nats_url`."""
    given: dict[str, Any] = {"grace_seconds": 5.0, **more, "nats_url": nats_url}
    return load(MeshSettings, **given)


class Meshes:
    """Makes connections: `connection = await mesh()`, or `await mesh("gateway", locale="en")`."""

    def __init__(self, nats_server: NatsServer) -> None:
        self._nats = nats_server
        self._made: list[Mesh] = []

    async def __call__(self, service: str = "test", **more: Any) -> Mesh:  # noqa: ANN401 - any field
        """Return a connected mesh of a process called `service`."""
        instance = f"{service}-{len(self._made) + 1}"
        made = Mesh(settings(self._nats.url, **{"instance": instance, **more}), service)
        self._made.append(made)
        await made.connect()
        return made

    async def close(self) -> None:
        """Close all of them, last one first."""
        for made in reversed(self._made):
            await made.close()
