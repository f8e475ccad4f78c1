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
    from collections.abc import AsyncGenerator, Sequence

    from aalis_contracts.catalogue import Catalogue
    from aalis_contracts.models import ChatChunk, ChatRequest, ModelEntry
    from aalis_llm.port import ModelProvider

log = Log(__name__)


class LlmModels:
    """The models port on model providers."""

    def __init__(self, providers: Sequence[ModelProvider], texts: Catalogue) -> None:
        self._texts = texts
        self._providers = {provider.provider_id: provider for provider in providers}
        self._entries: list[ModelEntry] = []
        self._failed: list[str] = []

    async def load(self) -> None:
        """Learn which models there are, in the order of the providers."""
        entries: list[ModelEntry] = []
        failed: list[str] = []
        for provider in self._providers.values():
            found = await provider.entries()
            entries += sorted(found, key=lambda entry: entry.id)
            if not found:
                failed.append(provider.provider_id)
        self._entries, self._failed = entries, failed

    def entries(self) -> list[ModelEntry]:
        """Return the models as `/model` lists them."""
        return self._entries

    def failed(self) -> list[str]:
        """Return the providers without a model."""
        return self._failed

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
