"""This is about what both wire formats of the scripted server share (SPEC LLM-47)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from pydantic import ValidationError

from aalis_contracts.messages import Message
from aalis_contracts.models import ChatRequest
from aalis_contracts.text import JsonObject, compact_json


class BadWire(ValueError):
    """A request that the real API would refuse; the message is its error text."""


def request_of(
    messages: list[JsonObject],
    tools: list[JsonObject],
    body: JsonObject,
    headers: Mapping[str, str],
    think: bool | None,  # noqa: FBT001 - one caller a format
) -> ChatRequest:
    """Make the request that a script looks at; attempt and purpose stand in headers."""
    fields = {
        "messages": messages,
        "tools": tools or None,
        "temperature": body.get("temperature"),
        "maxTokens": body.get("max_tokens") or body.get("max_completion_tokens"),
        "think": think,
        "attempt": headers.get("x-aalis-attempt"),
        "purpose": headers.get("x-aalis-purpose"),
    }
    try:
        return ChatRequest.model_validate({k: v for k, v in fields.items() if v is not None})
    except ValidationError as error:
        raise BadWire(f"invalid request: {error.errors()[0]['msg']}") from None


def objects(value: object) -> list[JsonObject]:
    """Return the objects of a list, nothing for anything else."""
    if not isinstance(value, list):
        return []
    items = cast("list[object]", value)
    return [cast("JsonObject", item) for item in items if isinstance(item, dict)]


def sse(data: object, event: str | None = None) -> bytes:
    """Write one server-sent event."""
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {compact_json(data)}\n\n".encode()


def check_pairs(messages: list[Message]) -> None:
    """Refuse what real APIs refuse: a call without its result, a result without its call."""
    waiting: list[str] = []
    for message in messages:
        if message.role == "tool":
            if message.tool_call_id not in waiting:
                raise BadWire(f"tool_result {message.tool_call_id} answers no tool_call before it")
            waiting.remove(message.tool_call_id or "")
        elif waiting:
            raise BadWire(f"tool_call ids without results: {', '.join(waiting)}")
        else:
            waiting = [call.id for call in message.tool_calls or []]
    if waiting:
        raise BadWire(f"tool_call ids without results: {', '.join(waiting)}")
