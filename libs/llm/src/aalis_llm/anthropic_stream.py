"""This is about the answers of the Anthropic Messages API: events in, chunks out (LLM-34, LLM-35).

Pure. A whole, unstreamed answer is one event of type `message`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final, cast

from aalis_contracts.models import ChatChunk, FinishReason, Usage
from aalis_contracts.text import JsonObject, compact_json, well_formed_json
from aalis_llm.assembly import CallAssembly
from aalis_llm.classify import failure
from aalis_llm.errors import ModelError

_FINISH: Final[dict[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


class AnthropicStream:
    """One answer while it arrives. `done` is true from its last event on."""

    def __init__(self) -> None:
        self._calls = CallAssembly()
        self._blocks: dict[int, JsonObject] = {}
        self._stop: str | None = None
        self._counts: dict[str, int] = {}
        self.done = False

    def add(self, event: JsonObject) -> Iterator[ChatChunk]:
        """Take one event; yield what readers may see of it."""
        match event.get("type"):
            case "error":
                raise failure(None, json.dumps(event))
            case "message_start":
                self._count(_dict(event.get("message")).get("usage"))
            case "message":
                yield from self._whole(event)
            case "content_block_start":
                yield from self._start(_index(event), _dict(event.get("content_block")))
            case "content_block_delta":
                yield from self._delta(_index(event), _dict(event.get("delta")))
            case "message_delta":
                self._count(event.get("usage"))
                self._stopped(_dict(event.get("delta")).get("stop_reason"))
            case "message_stop":
                self.done = True
            case _:  # ping, block stop, and what is still to be invented
                pass

    def finish(self) -> ChatChunk:
        """Return the last chunk; an answer that is not complete is an error (SPEC STR-4).

        Its provider data holds the blocks only; the adapter adds who wrote them, after what.
        """
        if self._stop is None and not self.done:
            raise ModelError("cut", "the stream ended before the answer did")
        calls = self._calls.calls()
        finish = _FINISH.get(self._stop or "", "stop")
        if finish in {"stop", "tool_calls"}:
            finish = "tool_calls" if calls else "stop"
        blocks = self._signed()
        return ChatChunk(
            done=True,
            tool_calls=calls or None,
            provider_data={"blocks": [*blocks]} if blocks else None,
            finish_reason=finish,
            usage=self._usage(),
        )

    def _whole(self, message: JsonObject) -> Iterator[ChatChunk]:
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else []):
            yield from self._start(index, _dict(block))
        self._count(message.get("usage"))
        self._stopped(message.get("stop_reason"))
        self.done = True

    def _start(self, index: int, block: JsonObject) -> Iterator[ChatChunk]:
        match block.get("type"):
            case "thinking" | "redacted_thinking":
                self._blocks[index] = dict(block)
                yield from _reasoning(block.get("thinking"))
            case "text":
                yield from _text(block.get("text"))
            case "tool_use":
                given = block.get("input")
                fragment: JsonObject = {
                    "index": index,
                    "id": block.get("id"),
                    "function": {
                        "name": block.get("name"),
                        "arguments": compact_json(given) if given else "",
                    },
                }
                yield ChatChunk(tool_call_progress=self._calls.add(fragment))
            case _:
                pass

    def _delta(self, index: int, delta: JsonObject) -> Iterator[ChatChunk]:
        match delta.get("type"):
            case "text_delta":
                yield from _text(delta.get("text"))
            case "thinking_delta":
                self._grow(index, "thinking", delta.get("thinking"))
                yield from _reasoning(delta.get("thinking"))
            case "signature_delta":
                self._grow(index, "signature", delta.get("signature"))
            case "input_json_delta":
                fragment: JsonObject = {
                    "index": index,
                    "function": {"arguments": delta.get("partial_json")},
                }
                yield ChatChunk(tool_call_progress=self._calls.add(fragment))
            case _:
                pass

    def _grow(self, index: int, key: str, piece: object) -> None:
        block = self._blocks.setdefault(index, {"type": "thinking", "thinking": ""})
        if isinstance(piece, str):
            block[key] = str(block.get(key) or "") + piece

    def _signed(self) -> list[JsonObject]:
        """Return the reasoning blocks, if all may be sent back byte for byte."""
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        whole = all(
            block.get("signature") or block.get("type") == "redacted_thinking" for block in blocks
        )
        return blocks if whole and well_formed_json(blocks) == blocks else []

    def _stopped(self, reason: object) -> None:
        if isinstance(reason, str) and reason:
            self._stop = reason

    def _count(self, usage: object) -> None:
        for key, value in _dict(usage).items():
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                self._counts[key] = value

    def _usage(self) -> Usage | None:
        """Return the counts; the cached ones are reported beside the others (SPEC LLM-8)."""
        counts = self._counts
        if not counts.keys() & {"input_tokens", "output_tokens"}:
            return None
        read = counts.get("cache_read_input_tokens")
        written = counts.get("cache_creation_input_tokens", 0)
        prompt = counts.get("input_tokens", 0) + written + (read or 0)
        completion = counts.get("output_tokens", 0)
        return Usage(
            prompt_tokens=prompt,
            completion_tokens=completion,
            total_tokens=prompt + completion,
            cached_prompt_tokens=read,
        )


def _reasoning(text: object) -> Iterator[ChatChunk]:
    if isinstance(text, str) and text:
        yield ChatChunk(reasoning_delta=text)


def _text(text: object) -> Iterator[ChatChunk]:
    if isinstance(text, str) and text:
        yield ChatChunk(content_delta=text)


def _index(event: JsonObject) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else 0


def _dict(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}
