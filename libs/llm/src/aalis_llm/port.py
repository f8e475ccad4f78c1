"""This is about what a model provider is: entries to choose from, and one question streamed.

The agent, the summary and the command line know models through this page only; `openai`,
`anthropic` and `scripted` implement it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from aalis_contracts.models import ChatChunk, ChatRequest, ModelEntry
from aalis_llm.errors import ModelError

__all__ = ["ModelError", "ModelProvider", "RefreshReport"]


@dataclass(frozen=True)
class RefreshReport:
    """What a refresh changed; `problem` is one line without addresses and keys (SPEC LLM-3)."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    total: int = 0
    problem: str | None = None


class ModelProvider(Protocol):
    """A configured provider instance (SPEC §3.1)."""

    provider_id: str

    async def entries(self) -> list[ModelEntry]:
        """Return the models known now, sorted by id; asking does not touch the network."""
        ...

    def stream(self, entry_id: str, request: ChatRequest) -> AsyncGenerator[ChatChunk]:
        """Ask one question. One call is one attempt: no retry, no reshaping.

        The messages are in the shape of the entry's profile (`aalis_llm.shape`). The last chunk
        has `done` with calls, finish reason, usage and provider data; an answer that ends before
        it raises `ModelError`. Closing the iterator aborts the call.
        """
        ...

    async def refresh(self) -> RefreshReport:
        """Ask the provider again for its models; a failure is reported and removes nothing."""
        ...

    async def close(self) -> None:
        """Give back connections."""
        ...
