"""This is about snapshots: a session's newest usage as it was stored, and a bounded map of them.

Positions and times are the stream's own, so that snapshots from any replica, the cache and the
stream compare, whatever clocks the processes have.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

from pydantic import Field

from aalis_contracts.contract import Contract, InvalidBody
from aalis_contracts.messages import SessionId
from aalis_contracts.text import JsonObject

Number = int | float


class Usage(Contract):
    """`token:usage` as this plugin reads it: a session, and whatever numbers came (SPEC PB-1).

    `breakdown` stays as received: buckets of a later version, and their order, survive.
    """

    session_id: SessionId
    platform: str | None = None
    user_id: str | None = None
    used: Number = 0
    context_window: Number = 0
    usage_ratio: float = 0.0
    max_tokens: Number = 0
    token_budget: Number = 0
    breakdown: JsonObject = Field(default_factory=dict)
    calibrated_used: Number | None = None


@dataclass(frozen=True)
class Snapshot:
    """A usage, when it was stored (milliseconds since the epoch), and where in the stream."""

    usage: Usage
    body: bytes
    observed_at: int
    seq: int

    @classmethod
    def read(cls, body: bytes, observed_at: int, seq: int) -> Snapshot | None:
        """Read an event as it was stored; None when it names no session or cannot be read."""
        try:
            return cls(Usage.from_json(body), body, observed_at, seq)
        except InvalidBody:
            return None

    @property
    def session_id(self) -> str:
        """The session it is about."""
        return self.usage.session_id

    @property
    def order(self) -> tuple[int, int]:
        """What makes one snapshot of a session newer; time first, as a new stream counts anew."""
        return self.observed_at, self.seq


class Source(Protocol):
    """Where a snapshot may be found; absent, it knows nothing."""

    async def find(self, session_id: str) -> Snapshot | None:
        """Return the session's snapshot, if it is known here."""
        ...


class Cache(Source, Protocol):
    """Where snapshots are kept beside the process; finding one keeps it for longer."""

    async def keep(self, snapshot: Snapshot) -> None:
        """Keep it, unless a newer one of the session is there."""
        ...


class NoCache:
    """What stands there when no cache is configured."""

    async def keep(self, snapshot: Snapshot) -> None:
        """Keep nothing."""

    async def find(self, session_id: str) -> Snapshot | None:  # noqa: ARG002 - the port's shape
        """Know nothing."""
        return None


class RecentSnapshots:
    """The snapshots of at most `limit` sessions, each for `ttl` seconds after its last use.

    Least recently used goes first; what is too old goes whenever something is put in.
    """

    def __init__(self, limit: float = 500, ttl: float = 6 * 3600.0) -> None:
        for name, bound in (("limit", limit), ("ttl", ttl)):
            if not (math.isfinite(bound) and bound > 0):
                message = f"{name} must be a positive finite number, not {bound}"
                raise ValueError(message)
        self._limit = limit
        self.ttl = ttl
        self._kept: OrderedDict[str, tuple[float, Snapshot]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, snapshot: Snapshot, now: float) -> None:
        """Keep `snapshot`, unless a newer one is there; `now` in seconds of any steady clock."""
        self._sweep(now)
        known = self._kept.get(snapshot.session_id)
        if known is not None and known[1].order > snapshot.order:
            return
        self._kept[snapshot.session_id] = (now, snapshot)
        self._kept.move_to_end(snapshot.session_id)
        while len(self._kept) > self._limit:
            self._kept.popitem(last=False)

    def find(self, session_id: str, now: float) -> Snapshot | None:
        """Return the session's snapshot, and count that as a use."""
        self._sweep(now)
        known = self._kept.get(session_id)
        if known is None:
            return None
        self._kept[session_id] = (now, known[1])
        self._kept.move_to_end(session_id)
        return known[1]

    def _sweep(self, now: float) -> None:
        # Uses are in order of time, so the old ones are all at the front.
        while self._kept:
            oldest = next(iter(self._kept))
            if now - self._kept[oldest][0] < self.ttl:
                return
            del self._kept[oldest]
