"""This is about putting chunks together: the whole answer that a stream amounts to (SPEC STR-4)."""

from __future__ import annotations

from collections.abc import AsyncIterable

from aalis_contracts.models import ChatChunk, ChatResponse
from aalis_contracts.text import well_formed
from aalis_llm.errors import ModelError


class Collected:
    """What has arrived of one attempt. A new attempt gets a new one: texts are never joined."""

    def __init__(self) -> None:
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._last: ChatChunk | None = None
        self.begun = False

    def add(self, chunk: ChatChunk) -> None:
        """Take one chunk; `begun` is true from the first delta on (SPEC LLM-10)."""
        if chunk.content_delta:
            self._content.append(chunk.content_delta)
        if chunk.reasoning_delta:
            self._reasoning.append(chunk.reasoning_delta)
        if chunk.content_delta or chunk.reasoning_delta or chunk.tool_call_progress is not None:
            self.begun = True
        if chunk.done:
            self._last = chunk

    @property
    def done(self) -> bool:
        """Whether the chunk with `done` has arrived."""
        return self._last is not None

    @property
    def content(self) -> str:
        """The text so far."""
        return "".join(self._content)

    @property
    def reasoning(self) -> str:
        """The reasoning so far."""
        return "".join(self._reasoning)

    def response(self) -> ChatResponse:
        """Return the whole answer; without the `done` chunk it is `cut` (SPEC CON-38, STR-4)."""
        last = self._last
        if last is None:
            raise ModelError("cut", "the stream ended before the answer did")
        calls = last.tool_calls or None
        return ChatResponse(
            content=well_formed(self.content) or None,
            tool_calls=calls,
            reasoning_content=well_formed(self.reasoning) or None,
            provider_data=last.provider_data,
            finish_reason=last.finish_reason or ("tool_calls" if calls else "stop"),
            usage=last.usage,
        )


async def collect(chunks: AsyncIterable[ChatChunk]) -> ChatResponse:
    """Read a stream to its end and return the whole answer."""
    collected = Collected()
    async for chunk in chunks:
        collected.add(chunk)
    return collected.response()
