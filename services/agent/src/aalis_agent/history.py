"""This is about history: which stored messages a model may be shown, and how (SPEC §2.5).

The store keeps everything, also what a crash or an abort left half done. A model is shown
whole tool groups only, and each user text with the time at which it was said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from pydantic import JsonValue

from aalis_contracts.messages import CONTROL_KINDS, Message

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class History:
    """What may be shown, in order, and how many messages of incomplete groups were left out."""

    messages: list[Message]
    dropped: int


def shown_history(
    rows: Iterable[Message],
    *,
    now: int,
    zone: tzinfo,
    before: int | None = None,
) -> History:
    """Choose and label the rows that the model is shown (SPEC HIST-1 to HIST-6).

    `now` is in milliseconds since the epoch. Rows of the input `before` and later ones are left
    out: they are the turn that is being answered, which the caller knows better.
    """
    chosen = [row for row in in_order(rows) if _may_be_shown(row, before)]
    whole, dropped = whole_groups(chosen)
    return History([_own_copy(with_time(row, now, zone)) for row in whole], dropped)


def in_order(rows: Iterable[Message]) -> list[Message]:
    """Return rows by their key, not by their clock; rows without keys stay as they came."""
    keyed = list(rows)
    if any(row.input_seq is None for row in keyed):
        return keyed
    return sorted(keyed, key=lambda row: (row.input_seq or 0, row.index or 0))


def whole_groups(messages: Sequence[Message]) -> tuple[list[Message], int]:
    """Return the messages without incomplete tool groups, and how many were dropped (HIST-4).

    A call takes the tool messages directly after it, as long as each answers a declared call
    that has no answer yet; two calls may share an id and then have two answers. A tool message
    that nobody takes is dropped.
    """
    kept: list[Message] = []
    position = 0
    while position < len(messages):
        message = messages[position]
        position += 1
        if message.role == "assistant" and message.tool_calls:
            open_ids = Counter(call.id for call in message.tool_calls)
            group = [message]
            while position < len(messages) and _answers(messages[position], open_ids):
                group.append(messages[position])
                open_ids[messages[position].tool_call_id or ""] -= 1
                position += 1
            if not open_ids.total():
                kept += group
        elif message.role != "tool":
            kept.append(message)
    return kept, len(messages) - len(kept)


def with_time(message: Message, now: int, zone: tzinfo) -> Message:
    """Return a user message with its time in front, once (SPEC HIST-5)."""
    text, timestamp = message.content, message.timestamp
    if message.role != "user" or not text or timestamp is None:
        return message
    if text.startswith(_both_labels(timestamp, zone)):
        return message
    return message.model_copy(update={"content": time_label(timestamp, now, zone) + text})


def time_label(timestamp: int, now: int, zone: tzinfo) -> str:
    """Return `(M/D HH:mm) `, with the year in front when it is not this year's.

    Absolute, so that it does not change while the year lasts; empty for a time outside of any
    calendar.
    """
    short, long = _both_labels(timestamp, zone) or ("", "")
    return short if _same_year(timestamp, now, zone) else long


def _may_be_shown(row: Message, before: int | None) -> bool:
    if row.kind in CONTROL_KINDS or row.injector is not None:
        return False
    return before is None or row.input_seq is None or row.input_seq < before


def _answers(message: Message, open_ids: Counter[str]) -> bool:
    return message.role == "tool" and open_ids[message.tool_call_id or ""] > 0


def _both_labels(timestamp: int, zone: tzinfo) -> tuple[str, ...]:
    """Return the label without and with its year; nothing if no calendar has that time."""
    then = _local(timestamp, zone)
    if then is None:
        return ()
    day = f"{then.month}/{then.day} {then:%H:%M}) "
    return f"({day}", f"({then.year}/{day}"


def _same_year(one: int, other: int, zone: tzinfo) -> bool:
    first, second = _local(one, zone), _local(other, zone)
    return first is not None and second is not None and first.year == second.year


def _local(timestamp: int, zone: tzinfo) -> datetime | None:
    try:
        return (_EPOCH + timedelta(milliseconds=timestamp)).astimezone(zone)
    except (OverflowError, ValueError):
        return None


def _own_copy(message: Message) -> Message:
    """Return a message that shares no container with what memory returned (SPEC HIST-6)."""
    changes: dict[str, object] = {}
    for name in _LISTS:
        value = getattr(message, name)
        if value is not None:
            changes[name] = list(value)
    for name in _OBJECTS:
        value = getattr(message, name)
        if value is not None:
            changes[name] = _json_copy(value)
    return message.model_copy(update=changes) if changes else message


_LISTS = ("tool_calls", "segments", "images", "audios")
_OBJECTS = ("metadata", "provider_data")


def _json_copy(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _json_copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_json_copy(item) for item in value]
    return value
