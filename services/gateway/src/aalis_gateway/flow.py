"""This is about flow: a group that talks too much is not all heard by the agent (SPEC GW-6).

At most `limit` messages of a group go on in a minute of the stream's clock. The count lives
nowhere: it is the message's position among its session's messages stored in that minute, which the
stream itself answers. So replicas agree, a second delivery is judged like the first, and nothing is
kept for any session. The stream is asked only when the whole of INBOUND has grown by more than the
limit since the minute began, which its sequence numbers say.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from aalis_gateway import identity
from aalis_gateway.passage import Ended, Passage, kept
from aalis_sdk import topology

if TYPE_CHECKING:
    from aalis_sdk.mesh import Mesh

_MINUTES: Final = 30


def minute_of(time_ms: int) -> int:
    """Return the number of the minute in which something was stored."""
    return time_ms // identity.MINUTE_MS


class Traffic:
    """How far the stream had come when each of the last minutes ended, as far as seen here."""

    def __init__(self) -> None:
        self._newest: OrderedDict[int, int] = OrderedDict()

    def saw(self, time_ms: int, seq: int) -> None:
        """Take note that the message `seq` was stored at `time_ms`."""
        minute = minute_of(time_ms)
        self._newest[minute] = max(seq, self._newest.get(minute, 0))
        while len(self._newest) > _MINUTES:
            del self._newest[min(self._newest)]

    def at_most(self, time_ms: int, seq: int) -> int | None:
        """Return an upper bound of the messages in this minute up to `seq`; None = unknown."""
        minute = minute_of(time_ms)
        before = [newest for other, newest in self._newest.items() if other < minute]
        return seq - max(before) if before else None


class Flow:
    """Lets `limit` messages a minute of each group go on; 0 = all of them."""

    def __init__(self, mesh: Mesh, limit: int) -> None:
        self._mesh = mesh
        self._limit = limit
        self._traffic = Traffic()

    async def __call__(self, passage: Passage) -> Ended | None:
        """Keep what comes beyond the limit from the agent."""
        self._traffic.saw(passage.time_ms, passage.seq)
        message = passage.message
        if not self._limit or identity.is_internal(message) or not identity.is_group(message):
            return None
        bound = self._traffic.at_most(passage.time_ms, passage.seq)
        if bound is not None and bound <= self._limit:
            return None
        began = minute_of(passage.time_ms) * identity.MINUTE_MS
        earlier = await self._mesh.since(topology.INBOUND, passage.subject, began, self._limit)
        if len(earlier) < self._limit or earlier[-1].seq >= passage.seq:
            return None
        return kept(f"more than {self._limit} messages in a minute")
