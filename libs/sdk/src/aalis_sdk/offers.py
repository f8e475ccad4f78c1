"""This is about offers: keeping one's registry entries alive, and yielding a name that is taken.

Replicas of one plugin write the same entry. A second plugin that wants a taken tool, command or
contribution key is refused, with an error naming the holder, and tries again until that entry has
expired; of two at once the smaller name keeps it (SPEC REG-6).

Entries are written again every 10 s, and at once when somebody else deletes or overwrites one.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aalis_contracts.errors import Fault
from aalis_sdk.buckets import Bucket
from aalis_sdk.failures import UNREACHABLE
from aalis_sdk.logs import Log
from aalis_sdk.mesh import Absent
from aalis_sdk.registry import REFRESH_SECONDS, TTL_SECONDS
from aalis_sdk.serving import end
from aalis_sdk.topology import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aalis_contracts.contract import Contract
    from aalis_sdk.mesh import Mesh, Offer
    from aalis_sdk.registry import Registry

log = Log(__name__)


@dataclass(eq=False)
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

    def __init__(self, mesh: Mesh, registry: Registry) -> None:
        self._mesh = mesh
        self._bucket = Bucket(mesh, REGISTRY)
        self._registry = registry
        self._announcements: dict[str, Announcement] = {}
        self._task: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._lock = asyncio.Lock()
        self._disturbed: set[str] = set()
        self._wake = asyncio.Event()
        registry.changed.append(self._heard)

    async def add(self, announcement: Announcement) -> None:
        """Offer something; an earlier offer of ours under the same key is replaced.

        The new one is served before the old one ends, so nobody finds the name unserved.
        """
        async with self._lock:
            earlier = self._announcements.pop(announcement.key, None)
            self._announcements[announcement.key] = announcement
            await self._try_refresh(announcement)
        if self._task is None:
            self._task = asyncio.create_task(self._keep())
        if earlier is not None and earlier is not announcement:
            replaced = earlier.offers
            self._end_serving(earlier)
            for offer in replaced:
                await offer.quiet()

    async def withdraw(self, announcement: Announcement) -> None:
        """Take an offer back; the entry is deleted only if it is still this one's (REG-6)."""
        async with self._lock:
            if self._announcements.get(announcement.key) is not announcement:
                return
            del self._announcements[announcement.key]
            await self._delete(announcement)
        await asyncio.gather(*self._end_serving(announcement))

    async def close(self) -> None:
        """Withdraw everything; what another replica goes on offering keeps its entry."""
        self._registry.changed.remove(self._heard)
        if self._task is not None:
            await end(self._task)
            self._task = None
        async with self._lock:
            leaving = list(self._announcements.values())
            self._announcements.clear()
            if not self._replicated():
                await asyncio.gather(*(self._delete(one) for one in leaving))
        for one in leaving:
            self._end_serving(one)
        await asyncio.gather(*self._ending, return_exceptions=True)

    def _heard(self, key: str) -> None:
        """Look at a key of ours at once when its entry is gone, or another plugin's."""
        announcement = self._announcements.get(key)
        if announcement is None:
            return
        holder = self._holder(key)
        if holder is None or (announcement.held and holder != _plugin(announcement)):
            self._disturbed.add(key)
            self._wake.set()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + REFRESH_SECONDS
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._wake.wait()
            self._wake.clear()
            keys, self._disturbed = self._disturbed, set()
            if loop.time() >= due:
                keys = set(self._announcements)
                due = loop.time() + REFRESH_SECONDS
            async with self._lock:
                for key in sorted(keys & set(self._announcements)):
                    try:
                        await self._try_refresh(self._announcements[key])
                    except Exception:
                        log.exception("registry entry not refreshed", key=key)

    async def _try_refresh(self, announcement: Announcement) -> None:
        try:
            await self._refresh(announcement)
        except (Fault, *UNREACHABLE) as error:
            log.warning("registry entry not refreshed", key=announcement.key, why=str(error))

    async def _refresh(self, announcement: Announcement) -> None:
        holder, plugin = self._holder(announcement.key), _plugin(announcement)
        if holder is not None and holder != plugin:
            keeps = announcement.held and plugin < holder
            # Who came late has heard of an entry only once, and cannot say how old it was then.
            if not keeps and await self._bucket.get(announcement.key) is not None:
                self._refused(announcement, holder)
                return
        if not announcement.held:
            announcement.offers = await announcement.serve()
            announcement.held = True
            announcement.complained = False
        await self._bucket.put(announcement.key, announcement.entry, TTL_SECONDS)

    def _refused(self, announcement: Announcement, holder: str) -> None:
        self._end_serving(announcement)
        if not announcement.complained:
            log.error(
                "name is taken; will try again until its holder is gone",
                key=announcement.key,
                holder=holder,
            )
            announcement.complained = True

    def _holder(self, key: str) -> str | None:
        return getattr(self._registry.get(key), "plugin", None)

    def _replicated(self) -> bool:
        """Say whether another process of this service lives, and so offers the same."""
        mesh = self._mesh
        alive = {one.instance for one in self._registry.services(mesh.service)}
        return bool(alive - {mesh.settings.instance})

    async def _delete(self, announcement: Announcement) -> None:
        if not self._mesh.connected:
            return  # The entry expires by itself; leaving must not wait for a server that is gone.
        with contextlib.suppress(Fault, Absent, *UNREACHABLE):
            record = await self._bucket.get(announcement.key)
            if record is not None and record.value == announcement.entry.to_json():
                await self._bucket.delete(
                    announcement.key, revision=record.revision, ttl_seconds=TTL_SECONDS
                )

    def _end_serving(self, announcement: Announcement) -> list[asyncio.Task[None]]:
        """Serve no more; what has come is finished meanwhile, and nothing else waits for it."""
        ending = [asyncio.create_task(offer.withdraw()) for offer in announcement.offers]
        announcement.offers = []
        announcement.held = False
        self._ending.update(ending)
        for task in ending:
            task.add_done_callback(self._ending.discard)
        return ending


def _plugin(announcement: Announcement) -> str:
    return str(getattr(announcement.entry, "plugin", ""))
