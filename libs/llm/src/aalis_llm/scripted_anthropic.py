"""This is about the scripted model in the Anthropic wire format (SPEC LLM-47). Pure.

Reasoning is signed, as the real API does it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final, cast

from pydantic import JsonValue

from aalis_contracts.messages import ToolCall
from aalis_contracts.models import FinishReason, Usage
from aalis_contracts.text import JsonObject
from aalis_llm.script_rules import Plan
from aalis_llm.scripted import pieces
from aalis_llm.scripted_anthropic_request import read_request, signature
from aalis_llm.scripted_wire import sse

__all__ = [
    "deltas",
    "ending",
    "error_body",
    "models",
    "opening",
    "read_request",
    "whole_answer",
]

_STOP: Final[dict[FinishReason, str]] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
_CODES: Final[dict[int, str]] = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


def whole_answer(planned: Plan, model: str) -> JsonObject:
    """Write the answer to a request that does not stream."""
    content: list[JsonValue] = []
    if planned.reasoning:
        signed = signature(planned.reasoning)
        content.append({"type": "thinking", "thinking": planned.reasoning, "signature": signed})
    if planned.content:
        content.append({"type": "text", "text": planned.content})
    content.extend(_use(call) for call in planned.calls)
    usage = {**_input_usage(planned.usage), **_output_usage(planned.usage)}
    return {
        **_envelope(model),
        "content": content,
        "stop_reason": _STOP[planned.finish],
        "usage": usage,
    }


def _use(call: ToolCall) -> JsonObject:
    arguments = cast("JsonObject", json.loads(call.function.arguments or "{}"))
    return {"type": "tool_use", "id": call.id, "name": call.function.name, "input": arguments}


def opening(planned: Plan, model: str) -> Iterator[bytes]:
    """Write what comes before the first delta."""
    message = {**_envelope(model), "content": [], "usage": _input_usage(planned.usage)}
    yield _event("message_start", {"message": message})
    yield _event("ping", {})


def deltas(planned: Plan, model: str) -> Iterator[bytes]:
    """Write the chunks that count for `cut: {after}`, with the starts and stops of their blocks."""
    del model
    index, size = 0, planned.stream.chunk
    if planned.reasoning:
        started = {"type": "thinking", "thinking": "", "signature": ""}
        head, tail = _block(index, started), _signed(index, planned.reasoning)
        yield from _framed(head, _pieces(index, "thinking", planned.reasoning, size), tail)
        index += 1
    if planned.content:
        head, tail = _block(index, {"type": "text", "text": ""}), _stop(index)
        yield from _framed(head, _pieces(index, "text", planned.content, size), tail)
        index += 1
    for call in planned.calls:
        used: JsonObject = {"type": "tool_use", "id": call.id, "name": call.function.name}
        used["input"] = {}
        arguments = {"type": "input_json_delta", "partial_json": call.function.arguments}
        delta = _event("content_block_delta", {"index": index, "delta": arguments})
        yield _block(index, used) + delta + _stop(index)
        index += 1


def ending(planned: Plan, model: str, *, usage: bool, terminator: bool) -> Iterator[bytes]:
    """Write what follows the last delta."""
    del model, usage
    delta = {"stop_reason": _STOP[planned.finish], "stop_sequence": None}
    yield _event("message_delta", {"delta": delta, "usage": _output_usage(planned.usage)})
    if terminator:
        yield _event("message_stop", {})


def models(ids: list[str]) -> JsonObject:
    """Write the model list."""
    data: list[JsonValue] = [{"id": name, "type": "model", "display_name": name} for name in ids]
    return {"data": data, "has_more": False, "first_id": ids[0], "last_id": ids[-1]}


def error_body(status: int, message: str, code: str | None) -> JsonObject:
    """Write an error; the code of a script stands in the text, since this API has only types."""
    told = f"{code}: {message}" if code else message
    return {"type": "error", "error": {"type": _CODES.get(status, "api_error"), "message": told}}


def _framed(head: bytes, parts: list[bytes], tail: bytes) -> Iterator[bytes]:
    parts[0] = head + parts[0]
    parts[-1] += tail
    yield from parts


def _pieces(index: int, kind: str, text: str, size: int) -> list[bytes]:
    return [
        _event(
            "content_block_delta", {"index": index, "delta": {"type": f"{kind}_delta", kind: piece}}
        )
        for piece in pieces(text, size)
    ]


def _signed(index: int, thinking: str) -> bytes:
    delta = {"type": "signature_delta", "signature": signature(thinking)}
    return _event("content_block_delta", {"index": index, "delta": delta}) + _stop(index)


def _block(index: int, block: Mapping[str, object]) -> bytes:
    return _event("content_block_start", {"index": index, "content_block": block})


def _stop(index: int) -> bytes:
    return _event("content_block_stop", {"index": index})


def _event(kind: str, fields: Mapping[str, object]) -> bytes:
    return sse({"type": kind, **fields}, kind)


def _envelope(model: str) -> JsonObject:
    return {"id": "msg_scripted", "type": "message", "role": "assistant", "model": model}


def _input_usage(usage: Usage | None) -> JsonObject:
    if usage is None:
        return {}
    cached = usage.cached_prompt_tokens
    counts: JsonObject = {"input_tokens": usage.prompt_tokens - (cached or 0), "output_tokens": 1}
    if cached is not None:
        counts["cache_read_input_tokens"] = cached
    return counts


def _output_usage(usage: Usage | None) -> JsonObject:
    return {"output_tokens": usage.completion_tokens} if usage else {}
