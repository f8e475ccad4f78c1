"""This is about absence: nobody answers, and the person is told so, once (SPEC GW-4).

An input waits in its mailbox however long the agent is away. Living agents repeat their registry
entry every few seconds; when none has been heard for a while, each session that has sent something
since is told, once. The id of that text names the agent last heard, so two replicas tell it once.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from aalis_contracts.contract import InvalidBody
from aalis_contracts.errors import Fault
from aalis_contracts.registry import ServiceEntry
from aalis_contracts.subjects import token
from aalis_gateway import identity
from aalis_sdk.buckets import Bucket
from aalis_sdk.logs import Log
from aalis_sdk.serving import end
from aalis_sdk.topology import REGISTRY

if TYPE_CHECKING:
    from aalis_contracts.catalogue import Catalogue
    from aalis_contracts.messages import IncomingMessage
    from aalis_gateway.outbound import Outbound
    from aalis_sdk.mesh import Mesh

log = Log(__name__)
_AGENTS: Final = "service.agent.*"
_SESSIONS: Final = 500


class Absence:
    """Listens for living agents, and tells those who wait in vain."""

    def __init__(
        self, mesh: Mesh, outbound: Outbound, catalogue: Catalogue, patience: float
    ) -> None:
        self._mesh = mesh
        self._outbound = outbound
        self._text = f"{catalogue.text('systemAnswer')} {catalogue.text('agentAway')}"
        self._patience = patience
        self._newest = 0
        self._heard_at = 0.0
        self._waiting: OrderedDict[str, IncomingMessage] = OrderedDict()
        self._told: OrderedDict[str, None] = OrderedDict()
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to listen."""
        self._count_from_now()
        # While the server was away, no agent could say that it lives.
        self._mesh.reconnected.append(self._count_from_now)
        await Bucket(self._mesh, REGISTRY).hear(_AGENTS, self._heard)
        self._watch = asyncio.create_task(self._keep_watching())

    async def stop(self) -> None:
        """Watch no more."""
        if self._watch is not None:
            await end(self._watch)

    def dispatched(self, message: IncomingMessage) -> None:
        """Take note of a session that waits for an answer."""
        if identity.is_internal(message) or message.session_id in self._told:
            return
        self._waiting[message.session_id] = message
        while len(self._waiting) > _SESSIONS:
            self._waiting.popitem(last=False)

    def _count_from_now(self) -> None:
        self._heard_at = asyncio.get_running_loop().time()

    async def _heard(self, _key: str, value: bytes | None) -> None:
        if value is None:
            return
        try:
            self._newest = max(self._newest, ServiceEntry.from_json(value).since)
        except InvalidBody:
            return
        self._count_from_now()
        self._waiting.clear()
        self._told.clear()

    async def _keep_watching(self) -> None:
        while True:
            await asyncio.sleep(min(1.0, self._patience / 4))
            silence = asyncio.get_running_loop().time() - self._heard_at
            if silence >= self._patience and self._mesh.connected:
                await self._tell()

    async def _tell(self) -> None:
        while self._waiting:
            session, message = self._waiting.popitem(last=False)
            self._told[session] = None
            while len(self._told) > _SESSIONS:
                self._told.popitem(last=False)
            message_id = f"away:{token(message.platform)}:{token(session)}:{self._newest}"
            log.warning("no agent is alive; the input waits", session=session)
            try:
                await self._outbound.say(
                    message, identity.header_id(message_id), self._text, "system"
                )
            except Fault as error:
                log.warning("notice not sent", session=session, reason=error.message)
