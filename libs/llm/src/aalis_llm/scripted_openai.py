"""This is about the scripted model in the OpenAI wire format (SPEC LLM-47). Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import cast

from pydantic import JsonValue

from aalis_contracts.models import ChatRequest, Usage
from aalis_contracts.text import JsonObject
from aalis_llm.script_rules import Plan
from aalis_llm.scripted import pieces
from aalis_llm.scripted_wire import BadWire, check_pairs, objects, request_of, sse

_ID = "chatcmpl-scripted"


def read_request(body: JsonObject, headers: Mapping[str, str]) -> ChatRequest:
    """Read a chat completions body as the real API would; raise `BadWire` where it would refuse."""
    if not body.get("messages"):
        raise BadWire("messages: [] is too short")
    thinking = body.get("thinking")
    think = thinking.get("type") == "enabled" if isinstance(thinking, dict) else None
    messages = [_message(message) for message in objects(body.get("messages"))]
    request = request_of(messages, objects(body.get("tools")), body, headers, think)
    check_pairs(request.messages)
    for message in request.messages:
        for call in message.tool_calls or []:
            if not isinstance(_json(call.function.arguments), dict):
                raise BadWire(f"tool_calls: arguments of {call.id} are no JSON object")
    return request


def whole_answer(planned: Plan, model: str) -> JsonObject:
    """Write the answer to a request that does not stream."""
    message: JsonObject = {"role": "assistant", "content": planned.content or None}
    if planned.reasoning:
        message["reasoning_content"] = planned.reasoning
    if planned.calls:
        message["tool_calls"] = [_call(planned, index) for index in range(len(planned.calls))]
    choice: JsonObject = {"index": 0, "message": message, "finish_reason": planned.finish}
    return {
        "id": _ID,
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [choice],
        "usage": _usage(planned.usage),
    }


def deltas(planned: Plan, model: str) -> Iterator[bytes]:
    """Write the chunks that count for `cut: {after}`."""
    for piece in pieces(planned.reasoning, planned.stream.chunk):
        yield _chunk(model, {"reasoning_content": piece})
    for piece in pieces(planned.content, planned.stream.chunk):
        yield _chunk(model, {"content": piece})
    for index in range(len(planned.calls)):
        yield _chunk(model, {"tool_calls": [{"index": index, **_call(planned, index)}]})


def ending(planned: Plan, model: str, *, usage: bool, terminator: bool) -> Iterator[bytes]:
    """Write what follows the last delta."""
    yield _chunk(model, {}, planned.finish)
    if usage:
        yield sse({**_envelope(model), "choices": [], "usage": _usage(planned.usage)})
    if terminator:
        yield b"data: [DONE]\n\n"


def models(ids: list[str]) -> JsonObject:
    """Write the model list."""
    data: list[JsonValue] = [{"id": name, "object": "model", "created": 0} for name in ids]
    return {"object": "list", "data": data}


def error_body(status: int, message: str, code: str | None) -> JsonObject:
    """Write an error."""
    kind = "invalid_request_error" if status < 500 else "server_error"  # noqa: PLR2004 - HTTP
    return {"error": {"message": message, "type": kind, "code": code}}


def _message(message: JsonObject) -> JsonObject:
    return {
        "role": message.get("role"),
        "content": message.get("content"),
        "name": message.get("name"),
        "toolCalls": message.get("tool_calls"),
        "toolCallId": message.get("tool_call_id"),
        "reasoningContent": message.get("reasoning_content"),
    }


def _call(planned: Plan, index: int) -> JsonObject:
    call = planned.calls[index]
    function: JsonObject = {"name": call.function.name, "arguments": call.function.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _envelope(model: str) -> JsonObject:
    return {"id": _ID, "object": "chat.completion.chunk", "created": 0, "model": model}


def _chunk(model: str, delta: JsonObject, finish: str | None = None) -> bytes:
    choice: JsonObject = {"index": 0, "delta": delta, "finish_reason": finish}
    return sse({**_envelope(model), "choices": [choice]})


def _usage(usage: Usage | None) -> JsonObject:
    if usage is None:
        return {}
    counts: JsonObject = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
    }
    if usage.cached_prompt_tokens is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": usage.cached_prompt_tokens}
    return counts


def _json(text: str) -> object:
    try:
        return cast("object", json.loads(text))
    except ValueError:
        return None
