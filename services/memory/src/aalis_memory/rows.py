"""This is about rows: which messages are kept, and what of them (SPEC MEM-1 to MEM-3). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aalis_contracts.errors import InvalidRequest
from aalis_contracts.messages import Message
from aalis_memory.ports import Draft

AFTER_TURN: Final = 1_000_000
"""Index of the first row without an input, behind the newest input's rows (SPEC MEM-2).

A turn saves its rows while it runs, under indexes that the agent counts. A notice that arrives in
between must neither take the index of a row that is still to come (that row would be lost) nor
stand between a call and its result. So it goes behind all rows that the turn can ever have.
"""


def drafts_of(messages: Sequence[Message], keys: Sequence[str | None] | None) -> list[Draft]:
    """Return what is to be saved of a request; raise `InvalidRequest` for a row without a key."""
    if keys is not None and len(keys) != len(messages):
        raise InvalidRequest(f"{len(keys)} idempotencyKeys for {len(messages)} messages")
    drafts: list[Draft] = []
    for position, message in enumerate(messages):
        key = keys[position] if keys is not None else None
        _check_key(position, message, key)
        if is_kept(message):
            drafts.append(Draft(kept(message), None if message.input_seq is not None else key))
    return drafts


def is_kept(message: Message) -> bool:
    """Say whether this message is history at all (MEM-3)."""
    if message.injector is not None:
        return False
    empty = not message.content and not message.tool_calls
    return not (message.role == "assistant" and empty)


def kept(message: Message) -> Message:
    """Return the message without what is never stored."""
    if message.images is None and message.audios is None:
        return message
    return message.model_copy(update={"images": None, "audios": None})


def _check_key(position: int, message: Message, key: str | None) -> None:
    where = f"messages.{position}"
    if message.input_seq is None:
        if not key:
            raise InvalidRequest(f"{where}: without inputSeq it needs an idempotency key")
        if message.index is not None:
            raise InvalidRequest(f"{where}: index without inputSeq")
    elif message.index is None:
        raise InvalidRequest(f"{where}: inputSeq without index")
    elif message.input_seq < 0 or message.index < 0:
        raise InvalidRequest(f"{where}: inputSeq and index must not be negative")
