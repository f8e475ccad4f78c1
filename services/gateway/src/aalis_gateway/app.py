"""This is about the gateway as a whole: it alone knows every part."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from aalis_contracts import hooks as names
from aalis_contracts.catalogue import Catalogue
from aalis_gateway.absence import Absence
from aalis_gateway.commands import Commands
from aalis_gateway.confirm import Confirm
from aalis_gateway.dispatch import Dispatch
from aalis_gateway.flow import Flow
from aalis_gateway.intake import Intake
from aalis_gateway.nicknames import Trigger
from aalis_gateway.outbound import Outbound
from aalis_gateway.phases import Phases
from aalis_gateway.records import Records
from aalis_gateway.running import Runner
from aalis_gateway.settings import GatewaySettings
from aalis_gateway.shadow import Shadow
from aalis_sdk import service
from aalis_sdk.authority import AuthorityBook
from aalis_sdk.hooks import Hooks
from aalis_sdk.sessions import Sessions

if TYPE_CHECKING:
    from aalis_sdk.mesh import Mesh
    from aalis_sdk.registry import Registry


class Gateway:
    """The running service."""

    def __init__(self, settings: GatewaySettings, mesh: Mesh, registry: Registry) -> None:
        self.capabilities = ["gateway"]
        self._grace = settings.grace_seconds
        catalogue = Catalogue(settings.locale)
        hooks = Hooks(mesh, registry)
        sessions = Sessions(mesh, _now_ms)
        self._outbound = Outbound(mesh, hooks)
        self._records = Records(mesh, sessions)
        self._absence = Absence(mesh, self._outbound, catalogue, settings.away_seconds)
        self._shadow = Shadow(mesh)
        self._book = AuthorityBook(mesh)
        self._runner = Runner(mesh, self._outbound, catalogue)
        self._confirm = Confirm(
            mesh, self._outbound, self._runner, catalogue, settings.confirm_seconds, _now_ms
        )
        self._commands = Commands(
            mesh,
            registry,
            book=self._book,
            runner=self._runner,
            confirm=self._confirm,
            texts=catalogue,
            prefix=settings.command_prefix,
        )
        phases = Phases(
            mesh,
            hooks,
            {
                names.INBOUND_CONFIRM: self._confirm,
                names.INBOUND_COMMAND: self._commands,
                names.INBOUND_FLOW: Flow(mesh, settings.flow_limit),
                names.INBOUND_TRIGGER: Trigger(mesh, registry, sessions),
                names.INBOUND_DISPATCH: Dispatch(mesh, self._records, self._absence),
            },
            self._shadow.keep,
        )
        self._intake = Intake(mesh, phases, _now_ms)

    async def start(self) -> None:
        """Open the way out first: what comes in may answer at once."""
        await self._outbound.start()
        await self._book.start()
        await self._confirm.start()
        await self._commands.start()
        await self._records.start()
        await self._absence.start()
        await self._shadow.start()
        await self._intake.start()

    async def stop(self) -> None:
        """Take no more, let what is on its way end, then close the way out."""
        await self._intake.drain(self._grace)
        await self._runner.stop(self._grace)
        await self._commands.stop()
        await self._confirm.stop()
        await self._shadow.stop()
        await self._absence.stop()
        await self._records.stop()
        await self._outbound.stop()

    def problems(self) -> list[str]:
        """Say why this replica is not ready: nothing of its own can be missing."""
        return []


async def build(settings: GatewaySettings, mesh: Mesh, registry: Registry) -> Gateway:
    """Put the parts together on a connected mesh."""
    return Gateway(settings, mesh, registry)


def main() -> None:
    """Run the gateway until SIGTERM."""
    service.run("gateway", GatewaySettings, build)


def _now_ms() -> int:
    return int(time.time() * 1000)
