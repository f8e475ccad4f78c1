"""This is about offers: keeping one's registry entries alive, and yielding a name that is taken.

Replicas of one plugin write the same entry. A second plugin that wants a taken tool, command or
contribution key is refused, with an error naming the holder, and tries again until that entry has
expired; of two at once the smaller name keeps it (SPEC REG-6).
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import nats.errors

from aalis_contracts.errors import Fault
from aalis_sdk.buckets import Bucket
from aalis_sdk.logs import Log
from aalis_sdk.registry import REFRESH_SECONDS, TTL_SECONDS
from aalis_sdk.topology import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aalis_contracts.contract import Contract
    from aalis_sdk.mesh import Mesh, Offer
    from aalis_sdk.registry import Registry

log = Log(__name__)


@dataclass
class Announcement:
    """One entry to keep alive, and how to begin serving it once the name is ours."""

    key: str
    entry: Contract
    serve: Callable[[], Awaitable[list[Offer]]]
    held: bool = False
    complained: bool = False
    offers: list[Offer] = field(default_factory=list)


class Announcer:
    """Keeps the entries of one plugin in the registry for as long as it runs."""

    def __init__(self, mesh: Mesh, registry: Registry, plugin: str) -> None:
        self._mesh = mesh
        self._bucket = Bucket(mesh, REGISTRY)
        self._registry = registry
        self._plugin = plugin
        self._announcements: dict[str, Announcement] = {}
        self._task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    async def add(self, announcement: Announcement) -> None:
        """Offer something; an earlier offer of ours under the same key is replaced."""
        async with self._lock:
            earlier = self._announcements.pop(announcement.key, None)
            if earlier is not None:
                await _stop_serving(earlier)
            self._announcements[announcement.key] = announcement
            await self._refresh(announcement)
        if self._task is None:
            self._task = asyncio.create_task(self._keep())

    async def withdraw(self, announcement: Announcement) -> None:
        """Take an offer back; the entry is deleted only if it is still this one's (REG-6)."""
        async with self._lock:
            if self._announcements.get(announcement.key) is not announcement:
                return
            del self._announcements[announcement.key]
            await self._let_go(announcement)

    async def close(self) -> None:
        """Withdraw everything."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        async with self._lock:
            for announcement in self._announcements.values():
                await self._let_go(announcement)
            self._announcements.clear()

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            async with self._lock:
                for announcement in list(self._announcements.values()):
                    try:
                        await self._refresh(announcement)
                    except (Fault, nats.errors.Error) as error:
                        log.warning(
                            "registry entry not refreshed", key=announcement.key, why=str(error)
                        )

    async def _refresh(self, announcement: Announcement) -> None:
        holder = self._holder(announcement.key)
        if holder is not None and holder != self._plugin:
            keeps = announcement.held and self._plugin < holder
            if not keeps:
                await self._refused(announcement, holder)
                return
        if not announcement.held:
            announcement.offers = await announcement.serve()
            announcement.held = True
            announcement.complained = False
        await self._bucket.put(announcement.key, announcement.entry, TTL_SECONDS)

    async def _refused(self, announcement: Announcement, holder: str) -> None:
        if announcement.held:
            await _stop_serving(announcement)
        if not announcement.complained:
            log.error(
                "name is taken; will try again until its holder is gone",
                key=announcement.key,
                holder=holder,
            )
            announcement.complained = True

    def _holder(self, key: str) -> str | None:
        return getattr(self._registry.get(key), "plugin", None)

    async def _let_go(self, announcement: Announcement) -> None:
        await _stop_serving(announcement)
        if not self._mesh.connected:
            return  # The entry expires by itself; leaving must not wait for a server that is gone.
        with contextlib.suppress(Fault, nats.errors.Error):
            record = await self._bucket.get(announcement.key)
            if record is not None and record.value == announcement.entry.to_json():
                await self._bucket.delete(announcement.key)


async def _stop_serving(announcement: Announcement) -> None:
    for offer in announcement.offers:
        await offer.withdraw()
    announcement.offers = []
    announcement.held = False
