"""This is about tools: the todo list of a session, and reading another session's history.

Handlers get (memory, arguments, context); `service` offers them through a plugin.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, cast

from pydantic import JsonValue

from aalis_contracts.errors import InvalidRequest
from aalis_contracts.events import TodoUpdated
from aalis_contracts.messages import CONTROL_KINDS, Message
from aalis_contracts.rpc import MetadataChange
from aalis_contracts.text import JsonObject, cut
from aalis_contracts.tools import ToolCallContext
from aalis_memory.requests import TODO_LIST, Memory

MAX_ITEMS: Final = 50
MAX_TITLE: Final = 120
STATUSES: Final = ("not-started", "in-progress", "completed")
MAX_ROWS: Final = 100
DEFAULT_ROWS: Final = 20
MAX_TEXT: Final = 2000
"""Characters of one row's text: a reader of stored results is limited in characters (TOOL-9)."""
DELEGATED_FROM: Final = "proactive:from:"

TODO_DESCRIPTION: Final = (
    "Keep the plan of a task with several steps. Without items: answers the current list. "
    f"With items: replaces the whole list (at most {MAX_ITEMS} items, each with a title of at "
    f"most {MAX_TITLE} characters and a status: {', '.join(STATUSES)})."
)
TODO_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "items": {
            "type": "array",
            "maxItems": MAX_ITEMS,
            "description": "The full list; leave it out to read the list.",
            "items": {
                "type": "object",
                "properties": {
                    "title": {"type": "string", "minLength": 1, "maxLength": MAX_TITLE},
                    # No enum: a model that invents a status has not started the step.
                    "status": {"type": "string", "description": ", ".join(STATUSES)},
                },
                "required": ["title"],
            },
        }
    },
    "additionalProperties": False,
}

HISTORY_DESCRIPTION: Final = (
    "Read the newest messages of another session of the same user, oldest first. "
    f"limit: at most {MAX_ROWS}, default {DEFAULT_ROWS}."
)
HISTORY_GROUP: Final = "session-history"
HISTORY_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "sessionId": {"type": "string", "minLength": 1},
        "limit": {"type": "integer", "minimum": 1, "maximum": MAX_ROWS},
    },
    "required": ["sessionId"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Visibility:
    """Whose sessions may be read besides the caller's own: the operator's list (PB-9)."""

    allowed: frozenset[str] = field(default_factory=frozenset[str])
    """Identities (`platform:userId`) and session ids."""


async def todo_list(memory: Memory, args: JsonObject, context: ToolCallContext) -> JsonObject:
    """Answer the session's todo list, or replace it (MEM-11)."""
    session = context.session_id
    given = args.get("items")
    if given is None:
        return {"items": await _todo_items(memory, session)}
    items = todo_items(given)
    change = MetadataChange(op="put", namespace=TODO_LIST, key=session, value=items)
    await memory.store.commit([change])
    await memory.events.todo_updated(TodoUpdated(session_id=session, items=items))
    return {"items": items}


def todo_items(given: JsonValue) -> list[JsonValue]:
    """Return the list as it is kept; raise `InvalidRequest` for what is no list of steps."""
    if not isinstance(given, list):
        raise InvalidRequest("items must be a list")
    if len(given) > MAX_ITEMS:
        raise InvalidRequest(f"{len(given)} items; at most {MAX_ITEMS} are kept")
    return [_todo_item(position, item) for position, item in enumerate(given)]


def _todo_item(position: int, item: JsonValue) -> JsonObject:
    fields = item if isinstance(item, dict) else {"title": item}
    title = fields.get("title")
    if not isinstance(title, str) or not title.strip():
        raise InvalidRequest(f"items.{position}: a title is missing")
    title = " ".join(title.split())
    if len(title) > MAX_TITLE:
        raise InvalidRequest(f"items.{position}: the title has more than {MAX_TITLE} characters")
    status = fields.get("status")
    return {"title": title, "status": status if status in STATUSES else STATUSES[0]}


async def _todo_items(memory: Memory, session: str) -> list[JsonValue]:
    found = await memory.store.metadata(TODO_LIST, session)
    value = found[0].value if found else None
    return value if isinstance(value, list) else []


async def session_get_history(
    memory: Memory, visibility: Visibility, args: JsonObject, context: ToolCallContext
) -> JsonObject:
    """Answer the newest messages of a session; one the caller may not see has none (MEM-12)."""
    session = args.get("sessionId")
    if not isinstance(session, str) or not session:
        raise InvalidRequest("sessionId is missing")
    limit = args.get("limit")
    wanted = max(1, min(limit if isinstance(limit, int) else DEFAULT_ROWS, MAX_ROWS))
    # Whoever asks for few rows is judged by as many as if he asked for all.
    rows = await memory.store.history(session, MAX_ROWS, archived=True)
    seen = rows[-wanted:] if may_see(visibility, context, session, rows) else []
    shown = [_shown(row) for row in seen if row.kind not in CONTROL_KINDS]
    return {"sessionId": session, "messages": cast("list[JsonValue]", shown)}


def may_see(
    visibility: Visibility, context: ToolCallContext, session: str, rows: Iterable[Message]
) -> bool:
    """Say whether the caller may see these rows of `session` (PB-9, AG-32).

    His own session; one that the operator lists, or any for a listed identity; the session that
    delegated this very turn; and one where he is the only one who spoke in the newest rows.
    """
    identity = f"{context.platform}:{context.user_id}" if context.user_id else None
    if session == context.session_id or {identity, context.session_id} & visibility.allowed:
        return True
    source = context.inbound.source if context.inbound else None
    if source == DELEGATED_FROM + session:
        return True
    speakers = {_speaker(row) for row in rows if row.role == "user"}
    return context.user_id is not None and speakers == {(context.platform, context.user_id)}


def _speaker(row: Message) -> tuple[object, object]:
    metadata = row.metadata or {}
    return metadata.get("platform"), metadata.get("userId")


def _shown(row: Message) -> JsonObject:
    fields: dict[str, Any] = {
        "role": row.role,
        "kind": row.kind,
        "name": row.name,
        "time": _iso(row.timestamp),
        "content": cut(row.content or "", MAX_TEXT, "…"),
        "toolCalls": [call.function.name for call in row.tool_calls or []],
    }
    return {key: value for key, value in fields.items() if value}


def _iso(timestamp: int | None) -> str | None:
    if timestamp is None:
        return None
    try:
        return datetime.fromtimestamp(timestamp / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return None
