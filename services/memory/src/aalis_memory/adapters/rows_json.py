"""This is about a row's two forms: a message, and the columns that hold it.

Structured fields are kept as the JSON text they were written as, so they come back value for value
and in the same order. A text that cannot be read any more costs its field, not the row, and one
warning (SPEC MEM-8).
"""

from __future__ import annotations

import json
from typing import Any, Final, TypeVar, cast

import pydantic
from pydantic import JsonValue, TypeAdapter
from pydantic_core import PydanticSerializationError
from sqlalchemy import RowMapping

from aalis_contracts.errors import InvalidRequest
from aalis_contracts.messages import ContentSegment, Message, ToolCall
from aalis_contracts.text import JsonObject, compact_json, well_formed, well_formed_json
from aalis_memory.adapters.tables import full_form, index_form
from aalis_memory.ports import Draft
from aalis_sdk.logs import Log

log = Log(__name__)

_Value = TypeVar("_Value")

_TOOL_CALLS: Final = TypeAdapter(list[ToolCall])
_SEGMENTS: Final = TypeAdapter(list[ContentSegment])
_OBJECT: Final = TypeAdapter(JsonObject)
_ANY: Final[TypeAdapter[JsonValue]] = TypeAdapter(JsonValue)


def columns_of(session_id: str, draft: Draft, now_ms: int) -> dict[str, Any]:
    """Return the values of a new row; its place must be set already."""
    message = draft.message
    platform = (message.metadata or {}).get("platform")
    return {
        "session": index_form(session_id),
        "session_full": full_form(session_id),
        "input_seq": message.input_seq,
        "row_index": message.index,
        "idempotency_key": index_form(draft.idempotency_key) if draft.idempotency_key else None,
        "archived": False,
        "role": message.role,
        "content": message.content,
        "kind": message.kind,
        "tool_calls": _written(_TOOL_CALLS, message.tool_calls),
        "tool_call_id": message.tool_call_id,
        "name": message.name,
        "timestamp": message.timestamp,
        "reasoning_content": message.reasoning_content,
        "segments": _written(_SEGMENTS, message.segments),
        "metadata": _written(_OBJECT, message.metadata),
        "provider_data": _written(_OBJECT, message.provider_data),
        "platform": platform if isinstance(platform, str) else None,
        "created_at": now_ms,
    }


def message_of(row: RowMapping) -> Message:
    """Return the message of a row; unreadable parts are absent."""
    fields: dict[str, Any] = {
        "role": row["role"],
        "content": row["content"],
        "kind": row["kind"],
        "tool_calls": _read(_TOOL_CALLS, row, "tool_calls"),
        "tool_call_id": row["tool_call_id"],
        "name": row["name"],
        "timestamp": row["timestamp"],
        "reasoning_content": row["reasoning_content"],
        "segments": _read(_SEGMENTS, row, "segments"),
        "metadata": _read(_OBJECT, row, "metadata"),
        "provider_data": _read(_OBJECT, row, "provider_data"),
        "input_seq": row["input_seq"],
        "index": row["row_index"],
    }
    return Message(**{name: value for name, value in fields.items() if value is not None})


def metadata_of(row: RowMapping) -> JsonObject | None:
    """Return a row's metadata alone."""
    return _read(_OBJECT, row, "metadata")


def value_text(value: JsonValue) -> str:
    """Write a metadata value; raise `InvalidRequest` if it is no JSON (MEM-7)."""
    try:
        return well_formed(
            json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        )
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidRequest(f"the value cannot be written as JSON: {error}") from None


def value_of(row: RowMapping) -> tuple[bool, JsonValue]:
    """Return whether a metadata value can be read, and the value."""
    try:
        return True, _parsed(_ANY, row["value"])
    except (ValueError, RecursionError):
        log.warning("unreadable metadata", namespace=row["namespace"], key=row["key"])
        return False, None


def replaced_in_segments(text: str | None, old: str, new: str) -> str | None:
    """Replace `old` in the text segments, which mirror the content; the rest stays as it is."""
    if text is None:
        return None
    try:
        segments = json.loads(text)
    except (ValueError, RecursionError):
        return text
    changed = False
    for segment in cast("list[object]", segments) if isinstance(segments, list) else []:
        if not isinstance(segment, dict):
            continue
        fields = cast("dict[str, object]", segment)
        content = fields.get("content")
        if fields.get("type") == "text" and isinstance(content, str) and old in content:
            fields["content"] = content.replace(old, new)
            changed = True
    return compact_json(cast("object", segments)) if changed else text


def _written(adapter: TypeAdapter[_Value], value: _Value | None) -> str | None:
    if value is None:
        return None
    try:
        return adapter.dump_json(value, by_alias=True, exclude_unset=True).decode()
    except PydanticSerializationError:
        # A lone surrogate, which the fast writer refuses; it becomes U+FFFD (CON-5).
        raw = adapter.dump_python(value, mode="python", by_alias=True, exclude_unset=True)
        return compact_json(well_formed_json(raw))


def _read(adapter: TypeAdapter[_Value], row: RowMapping, column: str) -> _Value | None:
    text = row[column]
    if text is None:
        return None
    try:
        return _parsed(adapter, text)
    except (ValueError, RecursionError):
        log.warning(
            "unreadable part of a row",
            column=column,
            session=row["session"],
            inputSeq=row["input_seq"],
            index=row["row_index"],
        )
        return None


def _parsed(adapter: TypeAdapter[_Value], text: str) -> _Value:
    try:
        return adapter.validate_json(text)
    except pydantic.ValidationError:
        return adapter.validate_python(well_formed_json(json.loads(text)))
