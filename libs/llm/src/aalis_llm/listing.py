"""This is about the models of one provider instance: listed or configured (LLM-3, LLM-4)."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Final, cast

import httpx2

from aalis_contracts.models import Capability, ModelEntry, ProfileName
from aalis_contracts.text import JsonObject, well_formed
from aalis_llm.errors import ModelError, public_text
from aalis_llm.port import RefreshReport
from aalis_llm.settings import CustomModel, ProviderSettings

_log: Final = logging.getLogger(__name__)
_MOST_PAGES: Final = 50
_NO_CHAT: Final = re.compile(
    r"embed|whisper|tts|dall-e|moderation|transcri|rerank|realtime|sora|babbage|davinci"
    r"|-image|image-|-audio|-search-|computer-use",
    re.IGNORECASE,
)
"""Names of models that a list holds beside those one can talk to."""

_LENGTH_KEYS: Final = (
    "context_length",
    "max_model_len",
    "max_context_length",
    "context_window",
    "max_input_tokens",
)


class Listing:
    """The entries of one provider instance."""

    def __init__(self, settings: ProviderSettings, profile: ProfileName) -> None:
        self._settings = settings
        self._profile: ProfileName = profile
        self._entries: dict[str, ModelEntry] = {}
        self._join([])

    def entries(self) -> list[ModelEntry]:
        """Return the entries, sorted by model id."""
        return [self._entries[name] for name in sorted(self._entries)]

    def entry(self, model: str) -> ModelEntry | None:
        """Return the entry of `model`, None if there is none."""
        return self._entries.get(model)

    async def refresh(
        self, fetch: Callable[[str | None], Awaitable[httpx2.Response]]
    ) -> RefreshReport:
        """Fetch the list, page by page, and join it with the configured models.

        `fetch` gets the id after which to go on, None for the first page. A failure changes
        nothing.
        """
        before = set(self._entries)
        if self._settings.discover_models:
            try:
                async with asyncio.timeout(self._settings.patience.listing):
                    found = await _pages(fetch)
            except TimeoutError:
                limit = self._settings.patience.listing
                return self._failed(f"the model list did not come within {limit:g} s")
            except (ModelError, ValueError) as error:
                return self._failed(public_text(str(error)))
            self._join(found)
        problem = None if self._entries else "no model is listed or configured"
        after = set(self._entries)
        return RefreshReport(
            tuple(sorted(after - before)), tuple(sorted(before - after)), len(after), problem
        )

    def _failed(self, problem: str) -> RefreshReport:
        _log.warning("%s: model list not refreshed: %s", self._settings.provider_id, problem)
        return RefreshReport(total=len(self._entries), problem=problem)

    def _join(self, found: list[JsonObject]) -> None:
        custom: dict[str, CustomModel] = {}
        for model in self._settings.custom_models:
            if model.id in custom:
                self._warn_of_duplicate(model.id)
            custom[model.id] = model
        joined: dict[str, ModelEntry] = {}
        for item in found:
            name = _id(item)
            if not name:
                continue
            if name in joined or name in custom:
                self._warn_of_duplicate(name)
            joined[name] = self._entry(CustomModel(name, _length(item)), listed=True)
        for name, model in custom.items():
            listed = joined.get(name)
            length = model.context_length or (listed.context_length if listed else None)
            joined[name] = self._entry(CustomModel(name, length, model.max_output_tokens))
        self._entries = joined

    def _entry(self, model: CustomModel, *, listed: bool = False) -> ModelEntry:
        settings = self._settings
        capabilities: list[Capability] = list(
            settings.model_capabilities.get(model.id, settings.provider_capabilities)
        )
        if listed and model.id not in settings.model_capabilities and _NO_CHAT.search(model.id):
            capabilities = [each for each in capabilities if each != "chat"]
        return ModelEntry(
            provider_id=settings.provider_id,
            id=model.id,
            context_length=model.context_length or settings.context_length,
            max_output_tokens=model.max_output_tokens or settings.max_tokens,
            capabilities=capabilities,
            profile=self._profile,
        )

    def _warn_of_duplicate(self, name: str) -> None:
        _log.warning("%s: model %s is listed twice", self._settings.provider_id, name)


async def _pages(fetch: Callable[[str | None], Awaitable[httpx2.Response]]) -> list[JsonObject]:
    items: list[JsonObject] = []
    after: str | None = None
    for _ in range(_MOST_PAGES):
        response = await fetch(after)
        page: object = json.loads(response.content)
        items += _items(page)
        fields = cast("JsonObject", page) if isinstance(page, dict) else {}
        last = fields.get("last_id")
        if not fields.get("has_more") or not isinstance(last, str) or last == after:
            break
        after = last
    return items


def _items(page: object) -> list[JsonObject]:
    fields = cast("JsonObject", page) if isinstance(page, dict) else {}
    listed = cast(
        "object", page if isinstance(page, list) else fields.get("data") or fields.get("models")
    )
    if not isinstance(listed, list):
        return []
    return [
        cast("JsonObject", item) for item in cast("list[object]", listed) if isinstance(item, dict)
    ]


def _id(item: JsonObject) -> str:
    name = next((v for k in ("id", "model", "name") if isinstance(v := item.get(k), str) and v), "")
    return well_formed(name)


def _length(item: JsonObject) -> int | None:
    for key in _LENGTH_KEYS:
        value = item.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None
