"""This is about the scripted provider: a deterministic model for demos and tests (SPEC §3.4).

It decides nothing by clock or chance and remembers nothing: the same request gives the same bytes.
Waiting is the only thing it does with time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from typing import Final

from aalis_contracts.messages import ToolCallProgress
from aalis_contracts.models import ChatChunk, ChatRequest, ModelEntry
from aalis_llm.classify import failure
from aalis_llm.errors import ModelError
from aalis_llm.port import RefreshReport
from aalis_llm.script import FailSpec, Script
from aalis_llm.script_file import demo_script
from aalis_llm.script_rules import Plan, plan

PROVIDER_ID: Final = "scripted"


class ScriptedProvider:
    """A model provider that plays a script (SPEC LLM-40)."""

    def __init__(self, script: Script | None = None, provider_id: str = PROVIDER_ID) -> None:
        self.provider_id = provider_id
        self._script = demo_script() if script is None else script
        self._entries = [
            ModelEntry(
                provider_id=provider_id,
                id=model.id,
                context_length=model.context_length,
                max_output_tokens=model.max_output_tokens,
                capabilities=model.capabilities,
                profile=model.profile,
            )
            for model in self._script.all_models()
        ]

    async def entries(self) -> list[ModelEntry]:
        """Return `demo`, `tiny` and the models of the script."""
        return list(self._entries)

    async def stream(self, entry_id: str, request: ChatRequest) -> AsyncGenerator[ChatChunk]:
        """Answer as the script says; closing ends a hanging answer too."""
        if all(entry.id != entry_id for entry in self._entries):
            raise ModelError("notFound", f"the script has no model {entry_id}", status=404)
        planned = plan(self._script, entry_id, request)
        if planned.hang:
            await asyncio.Event().wait()
        if planned.fail:
            raise failure_of(planned.fail)
        async for chunk in _play(planned):
            yield chunk

    async def refresh(self) -> RefreshReport:
        """Change nothing: a script lists what it lists."""
        return RefreshReport(total=len(self._entries))

    async def close(self) -> None:
        """Do nothing: there is nothing open."""


def failure_of(spec: FailSpec) -> ModelError:
    """Return the error that an adapter would make of this HTTP answer."""
    return failure(spec.status, fail_body(spec), retry_after=spec.retry_after)


def fail_body(spec: FailSpec) -> str:
    """Write the body of a scripted HTTP error, in the OpenAI form."""
    return json.dumps({"error": {"message": spec.message, "code": spec.code}})


def chunks_of(planned: Plan) -> Iterator[ChatChunk]:
    """Return the deltas of an answer: reasoning, text, then the progress of each call."""
    size = planned.stream.chunk
    for piece in pieces(planned.reasoning, size):
        yield ChatChunk(reasoning_delta=piece)
    for piece in pieces(planned.content, size):
        yield ChatChunk(content_delta=piece)
    for index, call in enumerate(planned.calls):
        progress = ToolCallProgress(
            index=index,
            name=call.function.name,
            chars_accumulated=len(call.function.arguments),
        )
        yield ChatChunk(tool_call_progress=progress)


def pieces(text: str, size: int) -> Iterator[str]:
    """Cut `text` into pieces of `size` characters."""
    return (text[start : start + size] for start in range(0, len(text), size))


async def _play(planned: Plan) -> AsyncGenerator[ChatChunk]:
    await _wait(planned.stream.first_ms)
    chunks = list(chunks_of(planned))
    shown = chunks if planned.cut is None else chunks[: planned.cut.after]
    for number, chunk in enumerate(shown):
        if number:
            await _wait(planned.stream.delay_ms)
        yield chunk
    # A whole answer that only lacks its terminator is an answer (SPEC STR-4).
    if planned.cut is None or (planned.cut.how == "noDone" and len(shown) == len(chunks)):
        yield last_chunk(planned)
    elif planned.cut.how == "noDone":
        raise ModelError("cut", "the stream ended before the answer did")
    else:
        raise ModelError("connection", "the connection was lost")


def last_chunk(planned: Plan) -> ChatChunk:
    """Return the chunk with `done`."""
    return ChatChunk(
        done=True,
        tool_calls=list(planned.calls) or None,
        finish_reason=planned.finish,
        usage=planned.usage,
    )


async def _wait(milliseconds: int) -> None:
    # Also without a delay: a reader must get its turn between two chunks, as with any model.
    await asyncio.sleep(milliseconds / 1000)
