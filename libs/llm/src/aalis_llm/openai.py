"""This is about OpenAI and the many servers that speak its chat completions (SPEC §3.2).

The official SDK builds and sends the requests; its own retries are off and its stream parser is
not used (see `transport`).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import httpx2
from openai import APIConnectionError, APIStatusError, AsyncOpenAI, AsyncStream, Omit

from aalis_contracts.models import ChatChunk, ChatRequest, ModelEntry
from aalis_contracts.text import JsonObject
from aalis_llm.errors import ModelError
from aalis_llm.listing import Listing
from aalis_llm.openai_body import request_body
from aalis_llm.openai_stream import OpenAIStream
from aalis_llm.port import RefreshReport
from aalis_llm.settings import OpenAISettings, clean_base_url
from aalis_llm.sse import Frames
from aalis_llm.transport import (
    Watch,
    call_headers,
    connection_error,
    read_frames,
    status_error,
)

_log: Final = logging.getLogger(__name__)


class OpenAIProvider:
    """A configured OpenAI-compatible server."""

    def __init__(self, settings: OpenAISettings) -> None:
        self.provider_id = settings.provider_id
        self._settings = settings
        self._listing = Listing(settings, settings.profile)
        self._no_key = {} if settings.api_key else {"Authorization": Omit()}
        self._client = AsyncOpenAI(
            api_key=settings.api_key or "none",
            base_url=clean_base_url(settings.base_url),
            max_retries=0,
            timeout=httpx2.Timeout(None, connect=15.0),
        )

    async def entries(self) -> list[ModelEntry]:
        """Return the models known now, sorted by id."""
        return self._listing.entries()

    async def stream(self, entry_id: str, request: ChatRequest) -> AsyncGenerator[ChatChunk]:
        """Ask one question (SPEC LLM-22)."""
        entry = self._listing.entry(entry_id)
        if entry is None:
            raise ModelError("notFound", f"there is no model {entry_id}", status=404)
        body = request_body(request, entry, self._settings)
        answer, frames = self._answer(entry_id), Frames()
        watch = Watch(entry.context_id, self._settings.patience)
        headers = call_headers(request)

        async def send() -> httpx2.Response:
            return await self._send("/chat/completions", body, headers)

        async with aclosing(read_frames(send, watch, frames)) as received:
            async for frame in received:
                for chunk in answer.add(frame):
                    yield chunk
        last = answer.finish(terminated=frames.done)
        if answer.leaked_markers:
            _log.warning("%s: %d leaked tool markers removed", entry_id, answer.leaked_markers)
        yield last

    async def refresh(self) -> RefreshReport:
        """Fetch the model list; a failure is reported and removes nothing (SPEC LLM-3)."""
        return await self._listing.refresh(self._list)

    async def close(self) -> None:
        """Give back connections."""
        await self._client.close()

    def _answer(self, model: str) -> OpenAIStream:
        leaks = self._settings.profile == "deepseek"
        return OpenAIStream(self.provider_id, model, recovers_leaks=leaks)

    async def _list(self, page: str | None) -> httpx2.Response:
        del page  # this API lists everything at once
        return await self._send("/models", None, {})

    async def _send(
        self, path: str, body: JsonObject | None, headers: dict[str, str]
    ) -> httpx2.Response:
        sent = {**headers, **self._no_key}
        try:
            if body is None:
                return await self._client.get(
                    path, cast_to=httpx2.Response, options={"headers": sent}
                )
            response = await self._client.post(
                path,
                cast_to=httpx2.Response,
                body=body,
                options={"headers": sent},
                stream=bool(body.get("stream")),
                stream_cls=AsyncStream[object],
            )
        except APIStatusError as error:
            raise status_error(error.response, (self._settings.api_key,)) from error
        except APIConnectionError as error:
            raise connection_error(error.__cause__) from error
        if not isinstance(response, httpx2.Response):
            raise TypeError("the SDK gave something else than the response asked for")
        return response
