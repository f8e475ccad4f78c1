"""This is about dispatch: a message becomes an input in its lane's mailbox (SPEC GW-4, EVT-2).

Nobody waits for a turn here: once the mailbox has stored the input, the message's way is over. The
mailbox drops an id it has seen within the hour; only a message that may have an older copy is
looked up first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aalis_contracts import subjects
from aalis_contracts.dead import MESSAGE_ID_HEADER
from aalis_gateway.passage import Ended, Passage, handled
from aalis_sdk import topology
from aalis_sdk.failpoints import failpoint
from aalis_sdk.logs import Log

if TYPE_CHECKING:
    from aalis_gateway.absence import Absence
    from aalis_gateway.records import Records
    from aalis_sdk.mesh import Mesh

log = Log(__name__)
_PAGE: Final = 200


class Dispatch:
    """Publishes inputs into the mailboxes of their lanes."""

    def __init__(self, mesh: Mesh, records: Records, absence: Absence) -> None:
        self._mesh = mesh
        self._records = records
        self._absence = absence

    async def __call__(self, passage: Passage) -> Ended | None:
        """Store the input; a copy of one that is there already changes nothing."""
        message = passage.message
        mailbox = subjects.inbox(message.session_id, message.lane)
        if passage.search_from_ms is not None and await is_stored(
            self._mesh, topology.AGENT_INBOX, mailbox.name, passage.key, passage.search_from_ms
        ):
            return handled("a copy of an earlier message")
        failpoint("gateway.dispatching")
        stored = await self._mesh.store(mailbox, message, passage.key)
        failpoint("gateway.dispatched")
        if stored.duplicate:
            return handled("a copy of an earlier message")
        self._records.dispatched(message, stored.seq)
        self._absence.dispatched(message)
        return None


async def is_stored(mesh: Mesh, stream: str, subject: str, message_id: str, since_ms: int) -> bool:
    """Say whether `subject` holds a message with this id, stored at `since_ms` or later."""
    page = await mesh.since(stream, subject, since_ms, _PAGE)
    while page:
        if any(entry.headers.get(MESSAGE_ID_HEADER) == message_id for entry in page):
            return True
        if len(page) < _PAGE:
            return False
        page = await mesh.range(stream, subject, page[-1].seq + 1, _PAGE)
    return False
