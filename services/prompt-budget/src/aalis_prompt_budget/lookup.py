"""This is about looking a budget up: the newest snapshot anybody has, if the caller may see it.

The map in this process may be behind: another replica may have heard the newest event. The cache
may be gone, or not have it yet. The stream may be silent, or hold none any more. So all three are
asked at once and the newest counts; each alone is enough.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aalis_prompt_budget import budget
from aalis_prompt_budget.snapshots import Cache, RecentSnapshots, Snapshot, Source
from aalis_prompt_budget.visibility import Allowed, may_see
from aalis_sdk.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from aalis_contracts.catalogue import Catalogue
    from aalis_contracts.text import JsonObject
    from aalis_contracts.tools import ToolCallContext
    from aalis_sdk.delivery import Delivery


class Lookup:
    """Remembers what it hears and answers `prompt_budget_info`."""

    def __init__(
        self,
        recent: RecentSnapshots,
        cache: Cache,
        stream: Source,
        allowed: Allowed,
        catalogue: Catalogue,
        now: Callable[[], float],
    ) -> None:
        self._recent = recent
        self._cache = cache
        self._stream = stream
        self._allowed = allowed
        self._catalogue = catalogue
        self._now = now

    async def hear(self, delivery: Delivery) -> None:
        """Remember a `token:usage`; one that names no session is ignored (PB-1)."""
        snapshot = Snapshot.read(delivery.data, delivery.time_ms, delivery.seq)
        if snapshot is not None and self._fresh(snapshot):
            self._recent.keep(snapshot, self._now())
            failpoint("budget.heard")
            await self._cache.keep(snapshot)
            failpoint("budget.kept")

    async def tell(self, args: JsonObject, context: ToolCallContext) -> str:
        """Answer the tool for the session asked about, or the caller's own."""
        session_id = str(args.get("sessionId") or context.session_id)
        snapshot = await self._newest(session_id)
        if snapshot is None or not may_see(context, session_id, snapshot.usage, self._allowed):
            return budget.no_data(session_id, self._catalogue)
        return budget.answer(snapshot, int(self._now() * 1000), self._catalogue)

    async def _newest(self, session_id: str) -> Snapshot | None:
        cached, stored = await asyncio.gather(
            self._cache.find(session_id), self._stream.find(session_id)
        )
        if stored is not None and not self._fresh(stored):
            stored = None
        known = [self._recent.find(session_id, self._now()), cached, stored]
        found = [snapshot for snapshot in known if snapshot is not None]
        if not found:
            return None
        newest = max(found, key=lambda snapshot: snapshot.order)
        self._recent.keep(newest, self._now())
        if cached is None or cached.order < newest.order:
            await self._cache.keep(newest)
        return newest

    def _fresh(self, snapshot: Snapshot) -> bool:
        """Say whether the stream's copy is young enough to count; it keeps events for longer."""
        return self._now() - snapshot.observed_at / 1000 < self._recent.ttl
