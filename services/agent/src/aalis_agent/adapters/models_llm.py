"""This is about the models of `aalis_llm`, shaped and retried for the agent."""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing
from typing import TYPE_CHECKING

from aalis_llm.retry import Attempt, stream_with_retries
from aalis_llm.shape import shape
from aalis_sdk.logs import Log

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from aalis_contracts.catalogue import Catalogue
    from aalis_contracts.models import ChatChunk, ChatRequest, ModelEntry
    from aalis_llm.providers import Providers

log = Log(__name__)


class LlmModels:
    """The models port on model providers."""

    def __init__(self, providers: Providers, texts: Catalogue) -> None:
        self._texts = texts
        self._configured = providers
        self._providers = {one.provider_id: one for one in providers.instances}
        self._entries: list[ModelEntry] = []

    async def load(self) -> None:
        """Learn which models there are now; a failed provider keeps those it had (LLM-3)."""
        await self._configured.refresh()
        self._entries = await self._configured.entries()

    async def close(self) -> None:
        """Give back connections."""
        await self._configured.close()

    def entries(self) -> list[ModelEntry]:
        """Return the models as `/model` lists them."""
        return self._entries

    def failed(self) -> list[str]:
        """Return the providers that have a problem, by name only (SPEC AG-66)."""
        return sorted(self._configured.problems)

    async def stream(
        self, entry: ModelEntry, request: ChatRequest
    ) -> AsyncGenerator[Attempt | ChatChunk]:
        """Ask one question, again where that may help."""
        provider = self._providers[entry.provider_id]
        shaped = shape(
            request.messages,
            entry.profile,
            vision=entry.can("vision"),
            provider_id=entry.provider_id,
            model=entry.id,
            catalogue=self._texts,
        )
        if shaped.repairs:
            log.warning("the list needed repair before the call", repairs=dict(shaped.repairs))
        asked = stream_with_retries(
            provider,
            entry.id,
            request.model_copy(update={"messages": shaped.messages}),
            sleep=asyncio.sleep,
            random=random.random,
        )
        async with aclosing(asked) as events:
            async for event in events:
                yield event
