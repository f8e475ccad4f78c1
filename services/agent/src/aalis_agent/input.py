"""This is about input: what happens to a message before anything is made of it (AG-20, AG-21)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aalis_agent.lane import IDLE
from aalis_agent.ports import Refused, Unavailable
from aalis_contracts.hooks import INPUT_BEFORE, InputBeforeData
from aalis_contracts.journal import InputPrepared
from aalis_sdk.failpoints import failpoint

if TYPE_CHECKING:
    from aalis_agent.parts import Parts
    from aalis_agent.ports import Waiting
    from aalis_contracts.messages import Message


async def prepare(parts: Parts, session_id: str, waiting: Waiting) -> InputPrepared:
    """Let the interceptors see an input, then archive it; a failed archive is owed, not lost."""
    incoming = waiting.incoming
    metadata = dict(incoming.metadata or {})
    stopped_by: str | None = None
    if parts.interceptors.anyone(INPUT_BEFORE):
        chain = await parts.interceptors.run(
            INPUT_BEFORE, InputBeforeData(message=incoming, metadata=metadata)
        )
        # Where a message belongs is not an interceptor's to change: its lane owns it, and the
        # answer goes to where it came from (SPEC GW-8).
        home = {
            "session_id": session_id,
            "source": incoming.source,
            "platform": incoming.platform,
        }
        incoming = chain.data.message.model_copy(update=home)
        metadata = chain.data.metadata
        stopped_by = chain.stopped_by
    failpoint("agent.input.hooked")
    archived: Message | None = None
    owed = False
    if stopped_by is None and incoming.source != IDLE:
        try:
            archived = await parts.memory.archive(incoming, waiting.seq, waiting.arrived_at)
        except Unavailable:
            owed = True
        except Refused as error:
            parts.log.warning("input is not archived", input=waiting.seq, why=str(error))
    failpoint("agent.input.archived")
    return InputPrepared(
        input_seq=waiting.seq,
        message=incoming,
        metadata=metadata,
        swallowed_by=stopped_by,
        archived=archived,
        owed=True if owed else None,
        arrived_at=waiting.arrived_at,
    )
