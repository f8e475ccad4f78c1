"""This is about the models of `aalis_llm`, shaped and retried for the agent."""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing
from typing import TYPE_CHECKING

from aalis_llm.errors import ModelError
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
    """The models port on the configured providers."""

    def __init__(self, providers: Providers, texts: Catalogue) -> None:
        self._texts = texts
        self._providers = providers
        self._entries: list[ModelEntry] = []

    async def load(self) -> None:
        """Ask the providers which models there are; one that does not answer keeps what it had."""
        await self._providers.refresh()
        self._entries = await self._providers.entries()

    async def close(self) -> None:
        """Give back connections."""
        await self._providers.close()

    def entries(self) -> list[ModelEntry]:
        """Return the models as `/model` lists them."""
        return self._entries

    def failed(self) -> list[str]:
        """Return the provider instances that cannot serve, by name only."""
        return sorted(self._providers.problems)

    async def stream(
        self, entry: ModelEntry, request: ChatRequest
    ) -> AsyncGenerator[Attempt | ChatChunk]:
        """Ask one question, again where that may help."""
        model = await self._providers.resolve(entry.context_id)
        if model is None:
            raise ModelError("notFound", f"{entry.context_id} is not offered any more")
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
            model.provider,
            entry.id,
            request.model_copy(update={"messages": shaped.messages}),
            sleep=asyncio.sleep,
            random=random.random,
        )
        async with aclosing(asked) as events:
            async for event in events:
                yield event
