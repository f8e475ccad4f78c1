"""This is about the recorder: an adapter that delivers to a file, each message once.

A platform that cannot tell a message it knows gets each once from its adapter, which remembers what
it has delivered (docs/adapters.md). Run as a process: `python -m aalis_cli.chaos.recorder`.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aalis_cli.chaos.errands import PLATFORM
from aalis_cli.chaos.workshop import append
from aalis_sdk.adapter import Adapter
from aalis_sdk.failpoints import failpoint
from aalis_sdk.service import run
from aalis_sdk.settings import MeshSettings

if TYPE_CHECKING:
    from aalis_contracts.messages import OutgoingMessage
    from aalis_sdk.mesh import Mesh
    from aalis_sdk.registry import Registry

DELIVERIES: Final = "AALIS_CHAOS_DELIVERIES"
"""The file that messages are delivered to."""


class Recorder:
    """Delivers every message of its platform to a file."""

    def __init__(self, mesh: Mesh, file: Path) -> None:
        self.capabilities: list[str] = []
        self._adapter = Adapter(mesh, PLATFORM)
        self._file = file
        self._known: set[str] = set()

    async def start(self) -> None:
        """Remember what was delivered, and go on."""
        if self._file.exists():
            lines = self._file.read_text(encoding="utf-8").splitlines()
            self._known = {str(json.loads(line)["id"]) for line in lines}
        await self._adapter.deliver(self._deliver)

    async def stop(self) -> None:
        """Take no more."""
        await self._adapter.close()

    def problems(self) -> list[str]:
        """Say nothing: it is ready when it has started."""
        return []

    async def _deliver(self, message: OutgoingMessage) -> None:
        if message.id in self._known:
            return
        failpoint("adapter.delivering")
        line = {**message.to_object(), "at": time.time()}
        append(self._file, line)
        self._known.add(message.id)
        failpoint("adapter.delivered")


async def build(_: MeshSettings, mesh: Mesh, __: Registry) -> Recorder:
    """Put it together."""
    return Recorder(mesh, Path(os.environ[DELIVERIES]))


if __name__ == "__main__":
    run("recorder", MeshSettings, build)
