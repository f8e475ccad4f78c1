"""This is about flow: a group that talks too much is not all heard by the agent (SPEC GW-6).

At most `limit` messages of a group go on in a minute of the stream's clock. The count lives
nowhere: it is the message's position among its session's messages stored in that minute, which the
stream itself answers. So replicas agree, and a second delivery is judged like the first.

The stream is asked only when what this replica has seen leaves it open: `Traffic` bounds the
position from above by what went through here, and by how many deliveries of the partition went
elsewhere. A lone replica, or a quiet group, asks nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aalis_gateway import identity
from aalis_gateway.passage import Ended, Passage, kept
from aalis_sdk import topology

if TYPE_CHECKING:
    from aalis_sdk.mesh import Mesh

_SESSIONS: Final = 500
_BEHIND: Final = "Nats-Num-Pending"


def minute_of(time_ms: int) -> int:
    """Return the number of the minute in which something was stored."""
    return time_ms // identity.MINUTE_MS


@dataclass
class _Partition:
    """Deliveries of one partition: the last one seen, and how many of this minute were not."""

    number: int
    minute: int
    unseen: int | None


@dataclass
class _Group:
    """Messages of one group seen in its newest minute; None = not all of them are remembered."""

    minute: int
    seq: int
    seen: int | None


class Traffic:
    """What this replica knows of the messages of each minute."""

    def __init__(self) -> None:
        self._partitions: dict[str, _Partition] = {}
        self._groups: OrderedDict[str, _Group] = OrderedDict()
        self._forgotten = -1

    def delivered(self, passage: Passage) -> int | None:
        """Take note of a delivery; return how many of its minute went elsewhere, None = unknown.

        A partition is delivered in order, so what is missing between two deliveries came before
        the second. Messages that are no group's, too, count as possible ones of any group.
        """
        name = passage.subject.split(".", 2)[1]
        minute = minute_of(passage.time_ms)
        last = self._partitions.get(name)
        if last is None or passage.number <= last.number:
            unseen = None
        else:
            earlier = last.unseen if last.minute == minute else 0
            missed = passage.number - last.number - 1
            unseen = None if earlier is None else earlier + missed
        self._partitions[name] = _Partition(passage.number, minute, unseen)
        return unseen

    def before(self, passage: Passage) -> int | None:
        """Take note of a group's message; return how many of its minute were seen before it."""
        minute = minute_of(passage.time_ms)
        group = self._groups.pop(passage.subject, None)
        if group is None:
            seen = None if self._forgotten >= minute else 0
        elif group.minute != minute:
            seen = 0
        else:
            # A message that comes again has been counted: its position is no longer known here.
            seen = group.seen if passage.seq > group.seq else None
        self._groups[passage.subject] = _Group(
            minute, passage.seq, None if seen is None else seen + 1
        )
        while len(self._groups) > _SESSIONS:
            _, gone = self._groups.popitem(last=False)
            self._forgotten = max(self._forgotten, gone.minute)
        return seen


class Flow:
    """Lets `limit` messages a minute of each group go on; 0 = all of them."""

    def __init__(self, mesh: Mesh, limit: int) -> None:
        self._mesh = mesh
        self._limit = limit
        self._traffic = Traffic()

    async def __call__(self, passage: Passage) -> Ended | None:
        """Keep what comes beyond the limit from the agent."""
        elsewhere = self._traffic.delivered(passage)
        if not self._limit or not identity.is_group(passage.message):
            return None
        here = self._traffic.before(passage)
        if identity.is_internal(passage.message):
            return None
        if here is not None and elsewhere is not None and here + elsewhere < self._limit:
            return None
        if await self._position(passage) < self._limit:
            return None
        return kept(f"more than {self._limit} messages in a minute")

    async def _position(self, passage: Passage) -> int:
        """Return how many of the group's messages stand before this one in its minute.

        At most `limit`. The first message of the minute comes with the number of those behind it:
        usually that is small enough, and only otherwise the rest is read.
        """
        began = minute_of(passage.time_ms) * identity.MINUTE_MS
        first = await self._mesh.since(topology.INBOUND, passage.subject, began, 1)
        behind = int(first[0].headers.get(_BEHIND, self._limit)) if first else 0
        if behind < self._limit:
            return behind
        first = await self._mesh.since(topology.INBOUND, passage.subject, began, self._limit)
        return sum(entry.seq < passage.seq for entry in first)
