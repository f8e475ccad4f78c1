"""This is about all model providers together: one list to choose from, one name to resolve (LLM-1).

Listing, `/model`, `/v1/models` and resolution go through here, and so see the same set. An
instance that cannot serve is a problem with a name, never the end of the service (LLM-3).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from aalis_contracts.models import ModelEntry
from aalis_llm.config import InstanceSettings, LlmSettings, ScriptedSettings
from aalis_llm.port import ModelProvider, RefreshReport
from aalis_llm.scripted import ScriptedProvider
from aalis_llm.settings import AnthropicSettings, OpenAISettings

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class Model:
    """A model that may be asked: its entry and who serves it."""

    provider: ModelProvider
    entry: ModelEntry


class Providers:
    """The provider instances of this process, in configured order."""

    def __init__(
        self, providers: Sequence[ModelProvider], problems: dict[str, str] | None = None
    ) -> None:
        self._providers = list(providers)
        self._unusable = dict(problems or {})
        self._failed: dict[str, str] = {}

    @property
    def instances(self) -> list[ModelProvider]:
        """The providers that serve, in configured order."""
        return list(self._providers)

    @property
    def problems(self) -> dict[str, str]:
        """What is wrong with which instance; the names may be shown to a person (AG-66)."""
        return {**self._unusable, **self._failed}

    async def entries(self) -> list[ModelEntry]:
        """Return all entries, by configured instance, then model id (SPEC LLM-1)."""
        listed = [await provider.entries() for provider in self._providers]
        return [entry for entries in listed for entry in entries]

    async def resolve(self, context_id: str) -> Model | None:
        """Return the model with exactly this contextId, None if there is none."""
        for provider in self._providers:
            for entry in await provider.entries():
                if entry.context_id == context_id:
                    return Model(provider, entry)
        return None

    async def refresh(self) -> RefreshReport:
        """Ask every provider for its models, side by side; names in the report are contextIds."""
        reports = await asyncio.gather(*(provider.refresh() for provider in self._providers))
        added: list[str] = []
        removed: list[str] = []
        self._failed = {}
        for provider, report in zip(self._providers, reports, strict=True):
            added += (f"{provider.provider_id}/{name}" for name in report.added)
            removed += (f"{provider.provider_id}/{name}" for name in report.removed)
            if report.problem:
                self._failed[provider.provider_id] = report.problem
                _log.warning("model provider %s: %s", provider.provider_id, report.problem)
        told = "; ".join(f"{name}: {problem}" for name, problem in self.problems.items())
        total = sum(report.total for report in reports)
        return RefreshReport(tuple(added), tuple(removed), total, told or None)

    async def close(self) -> None:
        """Give back all connections."""
        await asyncio.gather(*(provider.close() for provider in self._providers))


def build_providers(settings: LlmSettings) -> Providers:
    """Make the configured providers; call `refresh` once before the first use."""
    made: list[ModelProvider] = []
    problems: dict[str, str] = {}
    for instance in settings.instances:
        problem = None if isinstance(instance, ScriptedSettings) else instance.problem
        if problem:
            problems[instance.provider_id] = problem
            _log.warning("model provider %s: %s", instance.provider_id, problem)
        else:
            made.append(_provider(instance))
    return Providers(made, problems)


def _provider(settings: InstanceSettings) -> ModelProvider:
    # The SDKs take a second to import: only where they are used.
    match settings:
        case ScriptedSettings():
            return ScriptedProvider(settings.script, settings.provider_id)
        case OpenAISettings():
            from aalis_llm.openai import OpenAIProvider  # noqa: PLC0415

            return OpenAIProvider(settings)
        case AnthropicSettings():
            from aalis_llm.anthropic import AnthropicProvider  # noqa: PLC0415

            return AnthropicProvider(settings)
        case _:
            assert_never(settings)
