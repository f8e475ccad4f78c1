"""This is about the stream of usages itself: it holds the newest event of each session."""

from __future__ import annotations

import asyncio
from typing import Final

from aalis_contracts.errors import Fault
from aalis_contracts.subjects import token_usage
from aalis_prompt_budget.snapshots import Snapshot
from aalis_sdk.logs import Log
from aalis_sdk.mesh import Absent, Mesh
from aalis_sdk.topology import TOKEN_USAGE

log = Log(__name__)

_PATIENCE: Final = 2.0
"""Seconds; a turn is waiting for the answer, and two other sources may have it."""


class UsageStream:
    """Reads TOKEN_USAGE."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh

    async def find(self, session_id: str) -> Snapshot | None:
        """Return the session's newest usage; None also when the stream is silent."""
        try:
            async with asyncio.timeout(_PATIENCE):
                entry = await self._mesh.last(TOKEN_USAGE, token_usage(session_id).name)
        except (Fault, Absent, TimeoutError) as error:
            log.warning("usage stream is silent", session=session_id, reason=repr(error))
            return None
        return None if entry is None else Snapshot.read(entry.data, entry.time_ms, entry.seq)
