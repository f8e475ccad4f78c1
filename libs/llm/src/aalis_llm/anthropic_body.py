"""This is about what is sent to the Anthropic Messages API (SPEC LLM-30 to LLM-33). Pure."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from typing import Final, cast
from urllib.parse import unquote_to_bytes

from pydantic import JsonValue

from aalis_contracts.messages import DELEGATION_KIND, Message
from aalis_contracts.models import ChatRequest, ModelEntry
from aalis_contracts.text import JsonObject, well_formed_json
from aalis_contracts.tools import ToolDefinition
from aalis_llm.settings import AnthropicSettings
from aalis_llm.shape_reasoning import signed_blocks
from aalis_llm.shape_roles import leading_system

SMALLEST_BUDGET: Final = 1024
LARGEST_BUDGET: Final = 16_000
_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)?((?:;[\w=.+-]+)*),", re.ASCII)
_STABLE: Final = frozenset({"", "persona", "memory-summary"})
"""Injectors that stand before the first message of a session and do not change with the clock."""


def request_body(
    request: ChatRequest, entry: ModelEntry, settings: AnthropicSettings
) -> JsonObject:
    """Write the body of one question; the messages are in the shape of profile `anthropic`."""
    messages = request.messages
    start, end = leading_system(messages), history_end(messages)
    most = settings.max_tokens if request.max_tokens is None else request.max_tokens
    body: JsonObject = {
        "model": entry.id,
        "max_tokens": most,
        "messages": _turns(messages[start:], None if end is None else end - start),
    }
    if entry.can("streaming"):
        body["stream"] = True
    if start:
        body["system"] = _system(messages[:start], has_history=end is not None)
    if request.tools:
        body["tools"] = _tools(request.tools)
    budget = thinking_budget(request, entry, most)
    if budget is not None:
        body["thinking"] = {"type": "enabled", "budget_tokens": budget}
    else:
        given = request.temperature
        body["temperature"] = settings.temperature if given is None else given
    return body


def thinking_budget(request: ChatRequest, entry: ModelEntry, most: int) -> int | None:
    """Return the tokens to think with, None for no thinking (SPEC LLM-33).

    No room below `max_tokens`, or an open tool turn whose first message has lost its signed
    reasoning: the API would refuse the request, so it goes without.
    """
    if not request.think or not entry.can("thinking") or most <= SMALLEST_BUDGET:
        return None
    turn = _open_tool_turn(request.messages)
    if turn and not signed_blocks(turn[0]):
        return None
    return max(SMALLEST_BUDGET, min(most // 2, LARGEST_BUDGET))


def history_end(messages: Sequence[Message]) -> int | None:
    """Return where the last message of the history stands, None without a history.

    Behind it come the injected texts of this turn and what the person, or the session that
    delegates, says now.
    """
    tail = len(messages)
    for at in range(len(messages) - 1, -1, -1):
        label = (messages[at].injector or "").rpartition("/")[2]
        if messages[at].role == "user" and label in {"", DELEGATION_KIND}:
            tail = at
            break
    while tail > 0 and messages[tail - 1].injector is not None:
        tail -= 1
    return tail - 1 if tail - 1 >= leading_system(messages) else None


def image_block(reference: str) -> JsonObject | None:
    """Return the image part for a data URL or an address; None for a data URL without data."""
    if not reference.startswith("data:"):
        return {"type": "image", "source": {"type": "url", "url": reference}}
    head = _DATA_URL.match(reference)
    if head is None:
        return None
    data = reference[head.end() :]
    if ";base64" not in (head[2] or ""):
        data = base64.b64encode(unquote_to_bytes(data)).decode("ascii")
    media = head[1] or "image/png"
    return {"type": "image", "source": {"type": "base64", "media_type": media, "data": data}}


def _open_tool_turn(messages: Sequence[Message]) -> list[Message]:
    """Return the assistant messages whose tool turn is still open, oldest first."""
    turn: list[Message] = []
    for message in reversed(messages):
        if message.role == "assistant":
            if not message.tool_calls:
                break
            turn.append(message)
        elif message.role == "user" and (turn or message.injector is None):
            break
    return turn[::-1]


def _system(messages: Sequence[Message], *, has_history: bool) -> list[JsonValue]:
    blocks: list[JsonObject] = [{"type": "text", "text": m.content or ""} for m in messages]
    stable = len(blocks)
    if not has_history:
        # Without a history the leading run goes on into the blocks of this very turn.
        labels = [(message.injector or "").rpartition("/")[2] for message in messages]
        stable = next((at for at, name in enumerate(labels) if name not in _STABLE), stable)
    if stable:
        _mark(blocks[stable - 1])
    return [*blocks]


def _tools(tools: Sequence[ToolDefinition]) -> list[JsonValue]:
    sent: list[JsonObject] = [
        {
            "name": tool.name,
            "description": tool.function.description,
            "input_schema": well_formed_json(tool.function.parameters),
        }
        for tool in tools
    ]
    _mark(sent[-1])
    return [*sent]


def _turns(messages: Sequence[Message], marked: int | None) -> list[JsonValue]:
    """Write the turns; results and what the person says after them are one user turn."""
    turns: list[JsonValue] = []
    role = ""
    content: list[JsonValue] = []
    for at, message in enumerate(messages):
        speaker = "assistant" if message.role == "assistant" else "user"
        blocks = _blocks(message)
        if at == marked:
            markable = [b for b in blocks if "thinking" not in str(b.get("type"))]
            if markable:
                _mark(markable[-1])
        if speaker == role:
            content.extend(blocks)
        else:
            role, content = speaker, list[JsonValue](blocks)
            turns.append({"role": role, "content": content})
    return turns


def _blocks(message: Message) -> list[JsonObject]:
    text: list[JsonObject] = []
    if message.content and not message.content.isspace():
        text = [{"type": "text", "text": message.content}]
    images = [block for image in message.images or [] if (block := image_block(image))]
    if message.role == "tool":
        result: JsonObject = {
            "type": "tool_result",
            "tool_use_id": message.tool_call_id,
            "content": [*text, *images],
        }
        if _is_error(message.content):
            result["is_error"] = True
        return [result]
    if message.role != "assistant":
        return [*text, *images]
    uses: list[JsonObject] = [
        {
            "type": "tool_use",
            "id": call.id,
            "name": call.function.name,
            "input": _object(call.function.arguments),
        }
        for call in message.tool_calls or []
    ]
    return [*(dict(block) for block in signed_blocks(message)), *text, *uses]


def _mark(block: JsonObject) -> None:
    block["cache_control"] = {"type": "ephemeral"}


def _is_error(content: str | None) -> bool:
    return '"error"' in (content or "") and "error" in _object(content or "")


def _object(text: str) -> JsonObject:
    try:
        value: object = well_formed_json(json.loads(text))
    except (ValueError, RecursionError):
        return {}
    return cast("JsonObject", value) if isinstance(value, dict) else {}
