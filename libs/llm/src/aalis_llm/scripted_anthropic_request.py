"""This is about reading what a client sends to the scripted model as if it were Anthropic's. Pure.

It refuses what the real API refuses, signatures that do not fit among it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from itertools import pairwise
from typing import cast

from pydantic import JsonValue

from aalis_contracts.models import ChatRequest
from aalis_contracts.text import JsonObject, compact_json
from aalis_llm.scripted_wire import BadWire, check_pairs, objects, request_of


def signature(thinking: str) -> str:
    """Sign a text of reasoning."""
    return hashlib.sha256(thinking.encode("utf-8", "replace")).hexdigest()


def read_request(body: JsonObject, headers: Mapping[str, str]) -> ChatRequest:
    """Read a Messages body as the real API would; raise `BadWire` where it would refuse."""
    if not isinstance(body.get("max_tokens"), int):
        raise BadWire("max_tokens: Field required")
    turns = objects(body.get("messages"))
    _check_roles(turns)
    messages = [_system(block) for block in objects(body.get("system"))]
    messages.extend(message for turn in turns for message in _messages(turn))
    thinking = body.get("thinking")
    think = thinking.get("type") == "enabled" if isinstance(thinking, dict) else None
    if think:
        _check_thinking(body, turns)
    tools = [_tool(tool) for tool in objects(body.get("tools"))]
    request = request_of(messages, tools, body, headers, think)
    check_pairs(request.messages)
    return request


def _check_roles(turns: list[JsonObject]) -> None:
    roles = [turn.get("role") for turn in turns]
    if not roles or roles[0] != "user" or set(roles) - {"user", "assistant"}:
        raise BadWire("messages: the first role must be user, only user and assistant are known")
    if any(first == second for first, second in pairwise(roles)):
        raise BadWire("messages: roles must alternate")
    if roles[-1] != "user":
        raise BadWire("messages: the last role must be user")


def _check_thinking(body: JsonObject, turns: list[JsonObject]) -> None:
    thinking = cast("JsonObject", body["thinking"])
    budget = thinking.get("budget_tokens")
    if not isinstance(budget, int) or not 1024 <= budget < cast("int", body["max_tokens"]):  # noqa: PLR2004 - the API's own limit
        raise BadWire("thinking.budget_tokens: must be >= 1024 and less than max_tokens")
    if "temperature" in body:
        raise BadWire("temperature may only be set to 1 when thinking is enabled")
    opened = next((t for t in reversed(turns) if t.get("role") == "assistant"), None)
    kinds = [block.get("type") for block in objects((opened or {}).get("content"))]
    if "tool_use" in kinds and "thinking" not in str(kinds[0]) and len(turns) == 3:  # noqa: PLR2004 - first tool turn
        raise BadWire("messages.1.content.0: Expected `thinking`, but found `tool_use`")


def _system(block: JsonObject) -> JsonObject:
    return {"role": "system", "content": block.get("text")}


def _tool(tool: JsonObject) -> JsonObject:
    return {
        "function": {
            "name": tool.get("name"),
            "description": tool.get("description") or "",
            "parameters": tool.get("input_schema"),
        }
    }


def _messages(turn: JsonObject) -> list[JsonObject]:
    content = turn.get("content")
    spoken: list[JsonValue] = [{"type": "text", "text": content}]
    blocks = objects(spoken if isinstance(content, str) else content)
    for block in blocks:
        if block.get("type") == "text" and not str(block.get("text") or "").strip():
            raise BadWire("messages: text content blocks must contain non-whitespace text")
        signed = signature(str(block.get("thinking")))
        if block.get("type") == "thinking" and block.get("signature") != signed:
            raise BadWire("messages: Invalid `signature` in `thinking` block")
    results = [_result(block) for block in blocks if block.get("type") == "tool_result"]
    said = [block for block in blocks if block.get("type") in {"text", "image"}]
    if turn.get("role") == "assistant":
        uses = [_use(block) for block in blocks if block.get("type") == "tool_use"]
        thoughts = "".join(str(b.get("thinking") or "") for b in blocks)
        return [
            {
                "role": "assistant",
                "content": cast("JsonValue", said),
                "toolCalls": cast("JsonValue", uses) or None,
                "reasoningContent": thoughts or None,
            }
        ]
    return [*results, {"role": "user", "content": cast("JsonValue", said)}] if said else results


def _result(block: JsonObject) -> JsonObject:
    return {
        "role": "tool",
        "toolCallId": block.get("tool_use_id"),
        "content": block.get("content"),
    }


def _use(block: JsonObject) -> JsonObject:
    function: JsonObject = {
        "name": block.get("name"),
        "arguments": compact_json(block.get("input") or {}),
    }
    return {"id": block.get("id"), "function": function}
