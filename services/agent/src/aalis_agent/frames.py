"""This is about frames: a turn's text while it is written, numbered and merged (SPEC §2.14)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aalis_agent.reply import frame_number
from aalis_contracts.messages import StreamFrame, ToolCallProgress
from aalis_contracts.text import well_formed

if TYPE_CHECKING:
    from aalis_agent.ports import Outbound
    from aalis_contracts.models import ChatChunk

MERGE_SECONDS = 0.02
"""Deltas of one kind that come this close together become one frame (SPEC STR-1)."""


class FrameWriter:
    """Writes the frames of one turn's owner."""

    def __init__(
        self, outbound: Outbound, session_id: str, platform: str, answer_id: str, block: int
    ) -> None:
        self._outbound = outbound
        self._session_id = session_id
        self._platform = platform
        self._answer_id = answer_id
        self._block = block
        self._count = 0
        self._iteration = 0
        self._attempt = 1
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._progress: ToolCallProgress | None = None
        self._flusher: asyncio.Task[None] | None = None

    def begin(self, iteration: int, attempt: int) -> None:
        """Begin a model call; readers drop what an earlier attempt of it had written (STR-3)."""
        self.drop()
        self._iteration, self._attempt = iteration, attempt

    async def write(self, chunk: ChatChunk) -> None:
        """Take one chunk; it goes out at once, or within 20 ms merged with its neighbours."""
        if chunk.content_delta:
            if self._reasoning:
                await self.flush()
            self._content.append(chunk.content_delta)
        if chunk.reasoning_delta:
            if self._content:
                await self.flush()
            self._reasoning.append(chunk.reasoning_delta)
        if chunk.tool_call_progress is not None:
            if (
                self._progress is not None
                and self._progress.index != chunk.tool_call_progress.index
            ):
                await self.flush()
            self._progress = chunk.tool_call_progress
        if self._pending and self._flusher is None:
            self._flusher = asyncio.create_task(self._flush_soon())

    async def flush(self) -> None:
        """Publish what has been collected."""
        content, reasoning = "".join(self._content), "".join(self._reasoning)
        progress = self._progress
        self._content, self._reasoning, self._progress = [], [], None
        if not (content or reasoning or progress is not None):
            return
        self._count += 1
        await self._outbound.frame(
            StreamFrame(
                session_id=self._session_id,
                platform=self._platform,
                turn_id=self._answer_id,
                seq=frame_number(self._block, self._count),
                iteration=self._iteration,
                attempt=self._attempt,
                content_delta=well_formed(content) or None,
                reasoning_delta=well_formed(reasoning) or None,
                tool_call_progress=progress,
            )
        )

    async def close(self) -> None:
        """Publish the rest and stop."""
        self._stop_waiting()
        await self.flush()

    def drop(self) -> None:
        """Forget what has not been published: the turn is over, or the attempt failed."""
        self._stop_waiting()
        self._content, self._reasoning, self._progress = [], [], None

    def _stop_waiting(self) -> None:
        # Only a flusher that still sleeps is here: one that writes has let go of its name first.
        if self._flusher is not None:
            self._flusher.cancel()
            self._flusher = None

    @property
    def _pending(self) -> bool:
        return bool(self._content or self._reasoning or self._progress is not None)

    async def _flush_soon(self) -> None:
        await asyncio.sleep(MERGE_SECONDS)
        self._flusher = None
        await self.flush()
