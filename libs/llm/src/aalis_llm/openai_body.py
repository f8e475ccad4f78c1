"""This is about what is sent to OpenAI-compatible servers (SPEC LLM-20 to LLM-23). Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pydantic import JsonValue

from aalis_contracts.messages import Message, ToolCall
from aalis_contracts.models import ChatRequest, ModelEntry
from aalis_contracts.text import JsonObject, well_formed_json
from aalis_llm.settings import OpenAISettings

_REASONING_MODEL: Final = re.compile(r"o\d|gpt-5")
_SENDABLE_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def request_body(request: ChatRequest, entry: ModelEntry, settings: OpenAISettings) -> JsonObject:
    """Write the body of one question; the messages are in the shape of the entry's profile."""
    body: JsonObject = {
        "model": entry.id,
        "messages": [_message(message, entry) for message in request.messages],
    }
    if request.tools:
        body["tools"] = [_json(tool.to_object()) for tool in request.tools]
    if entry.can("streaming"):
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    most = settings.max_tokens if request.max_tokens is None else request.max_tokens
    temperature = settings.temperature if request.temperature is None else request.temperature
    if _REASONING_MODEL.match(entry.id):
        body["max_completion_tokens"] = most
    else:
        body |= {"max_tokens": most, "temperature": temperature}
    thinking = _thinking(request, entry, settings)
    if thinking is not None:
        body["thinking"] = {"type": "enabled" if thinking else "disabled"}
    if thinking and entry.profile == "deepseek":
        body.pop("temperature", None)
    return body


def _thinking(request: ChatRequest, entry: ModelEntry, settings: OpenAISettings) -> bool | None:
    """Return what is said about thinking; None says nothing (SPEC LLM-22, LLM-23)."""
    if entry.profile == "deepseek":
        return entry.can("thinking") if request.think is None else request.think
    return request.think if settings.thinking_param else None


def _message(message: Message, entry: ModelEntry) -> JsonObject:
    sent: JsonObject = {"role": message.role, "content": _content(message)}
    if message.role == "user" and entry.profile != "strict" and _may_be_sent(message.name):
        sent["name"] = message.name
    if message.role == "tool":
        sent["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        # What else the model said about a call (a signature, say) goes back only to it.
        whole = message.provider_data is not None
        sent["tool_calls"] = [_call(call, whole=whole) for call in message.tool_calls]
    if entry.profile == "deepseek" and message.reasoning_content is not None:
        sent["reasoning_content"] = message.reasoning_content
    return sent


def _content(message: Message) -> JsonValue:
    if message.role != "user" or not message.images:
        return message.content or ""
    said = bool(message.content) and not message.content.isspace()
    text: Sequence[JsonValue] = [{"type": "text", "text": message.content}] if said else []
    images: list[JsonValue] = [
        {"type": "image_url", "image_url": {"url": image}} for image in message.images
    ]
    return [*text, *images]


def _call(call: ToolCall, *, whole: bool) -> JsonObject:
    function: JsonObject = {"name": call.function.name, "arguments": call.function.arguments}
    sent: JsonObject = {"id": call.id, "type": "function", "function": function}
    if whole:
        function |= call.function.model_extra or {}
        sent |= call.model_extra or {}
    return sent


def _may_be_sent(name: str | None) -> bool:
    return name is not None and _SENDABLE_NAME.fullmatch(name) is not None


def _json(value: dict[str, object]) -> JsonObject:
    return {key: well_formed_json(inner) for key, inner in value.items()}  # pyright: ignore[reportReturnType] - to_object gives JSON
