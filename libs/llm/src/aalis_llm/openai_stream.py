"""This is about the answers of OpenAI-compatible servers: frames in, chunks out (LLM-6 to 8, 22).

Pure. A whole, unstreamed answer is one frame with a `message`, and is read by the same rules.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Final, cast

from aalis_contracts.messages import ToolCall, flatten_content
from aalis_contracts.models import ChatChunk, FinishReason, Usage
from aalis_contracts.text import JsonObject
from aalis_llm.assembly import CallAssembly
from aalis_llm.classify import failure
from aalis_llm.errors import ModelError
from aalis_llm.leaked import LeakFilter

_FINISH: Final[dict[str, FinishReason]] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
    "sensitive": "content_filter",
}
_BROKEN: Final = frozenset({"error", "insufficient_system_resource", "network_error"})
"""Finish reasons by which a server says that it could not go on."""

_REASONING_KEYS: Final = ("reasoning_content", "reasoning")


class OpenAIStream:
    """One answer while it arrives.

    `recovers_leaks` is for profile deepseek: calls that leaked into the text count (SPEC TXT-2).
    """

    def __init__(self, provider_id: str, model: str, *, recovers_leaks: bool = False) -> None:
        self._leaks = LeakFilter() if recovers_leaks else None
        self._writer: JsonObject = {"provider": provider_id, "model": model}
        self._calls = CallAssembly()
        self._finish: str | None = None
        self._usage: Usage | None = None
        self._choices = False

    @property
    def leaked_markers(self) -> int:
        """How many leaked markers were removed from the text."""
        return self._leaks.removed if self._leaks is not None else 0

    def add(self, frame: JsonObject) -> Iterator[ChatChunk]:
        """Take one frame; yield what readers may see of it."""
        if frame.get("error"):
            raise failure(None, json.dumps(frame))
        self._usage = read_usage(frame.get("usage")) or self._usage
        choice = _first_choice(frame)
        if choice is None:
            return
        self._choices = True
        # Some servers report the usage inside the choice.
        self._usage = read_usage(choice.get("usage")) or self._usage
        # Some servers send the text so far in `message` beside each delta.
        delta = choice.get("delta") if "delta" in choice else choice.get("message")
        if isinstance(delta, dict):
            yield from self._delta(delta)
        elif isinstance(choice.get("text"), str):
            yield ChatChunk(content_delta=cast("str", choice["text"]))
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish:
            self._finish = finish

    def finish(self, *, terminated: bool) -> ChatChunk:
        """Return the last chunk; an answer that is not complete is an error (SPEC STR-4).

        `terminated` says that `[DONE]` was read. Without it, a finish reason makes the answer
        complete: some servers just close.
        """
        if self._finish in _BROKEN:
            raise ModelError("upstream", f"the model stopped: {self._finish}")
        if not self._choices and terminated:
            raise ModelError("upstream", "the answer has no choice")
        if self._finish is None and not terminated:
            raise ModelError("cut", "the stream ended before the answer did")
        calls = self._calls.calls()
        left = self._leaks.close() if self._leaks is not None else ""
        calls += self._leaked(calls)
        has_extra = any(call.model_extra or call.function.model_extra for call in calls)
        return ChatChunk(
            content_delta=left or None,
            done=True,
            tool_calls=calls or None,
            provider_data=dict(self._writer) if has_extra else None,
            finish_reason=_finish_reason(self._finish, calls=bool(calls)),
            usage=self._usage,
        )

    def _leaked(self, calls: list[ToolCall]) -> list[ToolCall]:
        """Return the calls that leaked into the text and were not made besides."""
        if self._leaks is None:
            return []
        made = {(call.function.name, call.function.arguments) for call in calls}
        leaked = self._leaks.calls
        return [c for c in leaked if (c.function.name, c.function.arguments) not in made]

    def _delta(self, delta: JsonObject) -> Iterator[ChatChunk]:
        reasoning = next(
            (v for k in _REASONING_KEYS if isinstance(v := delta.get(k), str) and v), ""
        )
        if reasoning:
            yield ChatChunk(reasoning_delta=reasoning)
        for key in ("content", "refusal"):
            text, _ = flatten_content(delta.get(key))
            if self._leaks is not None:
                text = self._leaks.feed(text or "")
            if text:
                yield ChatChunk(content_delta=text)
        for fragment in _fragments(delta):
            yield ChatChunk(tool_call_progress=self._calls.add(fragment))


def read_usage(value: object) -> Usage | None:
    """Read token counts; prompt tokens contain the cached ones already (SPEC LLM-8)."""
    if not isinstance(value, dict):
        return None
    fields = cast("JsonObject", value)
    prompt, completion = (
        _count(fields.get("prompt_tokens")),
        _count(fields.get("completion_tokens")),
    )
    if prompt is None and completion is None:
        return None
    details = fields.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
    if cached is None:
        cached = _count(fields.get("prompt_cache_hit_tokens"))
    return Usage(
        prompt_tokens=prompt or 0,
        completion_tokens=completion or 0,
        total_tokens=(prompt or 0) + (completion or 0),
        cached_prompt_tokens=cached,
    )


def _first_choice(frame: JsonObject) -> JsonObject | None:
    choices = frame.get("choices")
    if not isinstance(choices, list):
        return None
    usable = [choice for choice in choices if isinstance(choice, dict)]
    return next((choice for choice in usable if not choice.get("index")), None)


def _fragments(delta: JsonObject) -> Iterator[JsonObject]:
    calls = delta.get("tool_calls")
    for fragment in calls if isinstance(calls, list) else [calls]:
        if isinstance(fragment, dict):
            yield fragment
    legacy = delta.get("function_call")
    if isinstance(legacy, dict):
        yield {"index": 0, "function": legacy}


def _finish_reason(reason: str | None, *, calls: bool) -> FinishReason:
    known = _FINISH.get(reason or "", "stop")
    if known in {"stop", "tool_calls"}:
        return "tool_calls" if calls else "stop"
    return known


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if math.isfinite(value) and value >= 0 else None
