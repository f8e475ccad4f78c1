"""This is about session records: made at the first message, active while somebody waits (SES-3, 6).

A record is what a person sees in a list, so it may come a moment late: nothing here is awaited by a
message. Changes of one session within two seconds are one change, and none when the record already
says so: a session that talks all the time costs one look every two seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from aalis_contracts import subjects
from aalis_contracts.contract import InvalidBody
from aalis_contracts.errors import Fault, InvalidRequest
from aalis_contracts.events import TurnAfter
from aalis_contracts.sessions import SessionInfo
from aalis_sdk import topology
from aalis_sdk.buckets import Bucket
from aalis_sdk.delivery import Delivery, Puller, Reject
from aalis_sdk.logs import Log
from aalis_sdk.mesh import Absent, TooLarge
from aalis_sdk.serving import end

if TYPE_CHECKING:
    from aalis_contracts.messages import IncomingMessage
    from aalis_sdk.mesh import Mesh
    from aalis_sdk.sessions import Sessions

log = Log(__name__)
_SESSIONS: Final = 500
_SETTLE: Final = 2.0
_TURN_SLOTS: Final = 64

Status = Literal["active", "completed", "error"]


@dataclass(frozen=True)
class _Wish:
    """What a record should say, and since when it waits to be said."""

    status: Status
    input_seq: int
    since: float
    platform: str | None = None
    user_id: str | None = None


class Records:
    """Writes the records of sessions behind the messages' backs."""

    def __init__(self, mesh: Mesh, sessions: Sessions) -> None:
        self._mesh = mesh
        self._sessions = sessions
        self._bucket = Bucket(mesh, topology.SESSIONS)
        self._wishes: OrderedDict[str, _Wish] = OrderedDict()
        self._known: OrderedDict[str, str] = OrderedDict()
        self._writer: asyncio.Task[None] | None = None
        self._turns = Puller(
            mesh,
            topology.EVENTS,
            topology.GATEWAY_TURNS,
            subjects.TURN_AFTER,
            self._turn_ended,
            slots=_TURN_SLOTS,
        )

    async def start(self) -> None:
        """Hear what others write, and begin to write."""
        await self._bucket.hear("*", self._heard)
        self._mesh.reconnected.append(self._known.clear)
        self._writer = asyncio.create_task(self._keep_writing())
        await self._turns.start()

    async def stop(self) -> None:
        """Write what is still to be written, then no more."""
        await self._turns.drain(1.0)
        if self._writer is not None:
            await end(self._writer)
        while self._wishes:
            await self._write(*self._wishes.popitem(last=False))

    def dispatched(self, message: IncomingMessage, input_seq: int) -> None:
        """Take note that an input is in its mailbox: the session is active."""
        self._wish(
            message.session_id,
            _Wish("active", input_seq, time.monotonic(), message.platform, message.user_id),
        )

    async def _turn_ended(self, delivery: Delivery) -> None:
        try:
            event = TurnAfter.from_json(delivery.data)
        except InvalidBody as error:
            raise Reject(str(error)) from None
        status: Status = "error" if event.outcome == "error" else "completed"
        wish = _Wish(status, event.input_seq, time.monotonic(), event.message.platform)
        self._wish(event.session_id, wish)

    def _wish(self, session_id: str, wish: _Wish) -> None:
        """Remember the newest; an older input's end changes nothing, and waits no longer."""
        earlier = self._wishes.get(session_id)
        if earlier is not None and earlier.input_seq > wish.input_seq:
            return
        since = earlier.since if earlier is not None else wish.since
        user = wish.user_id or (earlier.user_id if earlier is not None else None)
        self._wishes[session_id] = _Wish(wish.status, wish.input_seq, since, wish.platform, user)
        while len(self._wishes) > _SESSIONS:
            self._wishes.popitem(last=False)

    async def _heard(self, key: str, value: bytes | None) -> None:
        """Keep what is known of a record up to date with what anybody writes."""
        session_id = subjects.from_kv_key(key)
        if session_id not in self._known:
            return
        try:
            self._known[session_id] = SessionInfo.from_json(value or b"").status
        except InvalidBody:
            del self._known[session_id]

    async def _keep_writing(self) -> None:
        while True:
            if not self._wishes:
                await asyncio.sleep(0.25)
                continue
            oldest = next(iter(self._wishes.values()))
            await asyncio.sleep(max(0.0, oldest.since + _SETTLE - time.monotonic()))
            if self._wishes:
                await self._write(*self._wishes.popitem(last=False))

    async def _write(self, session_id: str, wish: _Wish) -> None:
        if self._known.get(session_id) == wish.status:
            self._known.move_to_end(session_id)
            return
        try:
            await self._settle(session_id, wish)
        except (Fault, Absent, InvalidRequest, TooLarge) as error:
            log.warning("session record not written", session=session_id, reason=str(error))

    async def _settle(self, session_id: str, wish: _Wish) -> None:
        if await self._sessions.get(session_id) is None:
            await self._sessions.ensure(session_id, platform=wish.platform, user_id=wish.user_id)
        if wish.status != "active" and await self._is_outrun(session_id, wish.input_seq):
            return
        before = await self._sessions.get(session_id)
        if before is None or before.parent_id is not None or before.status == wish.status:
            self._remember(session_id, before.status if before is not None else "")
            return
        after = await self._sessions.update(
            session_id,
            lambda record: record.model_copy(update={"status": wish.status}),
            "completed" if wish.status == "completed" else "updated",
        )
        self._remember(session_id, after.status)

    async def _is_outrun(self, session_id: str, input_seq: int) -> bool:
        """Say whether a newer input of the session waits or runs."""
        newest = await self._mesh.lasts(topology.AGENT_INBOX, [subjects.inboxes_of(session_id)])
        return any(entry.seq > input_seq for entry in newest)

    def _remember(self, session_id: str, status: str) -> None:
        self._known[session_id] = status
        self._known.move_to_end(session_id)
        while len(self._known) > _SESSIONS:
            self._known.popitem(last=False)
