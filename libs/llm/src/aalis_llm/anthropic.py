"""This is about the Anthropic Messages API (SPEC §3.3).

The official SDK builds and sends the requests; its own retries are off and its stream parser is
not used (see `transport`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import httpx2
from anthropic import APIConnectionError, APIStatusError, AsyncAnthropic, AsyncStream, Omit

from aalis_contracts.models import ChatChunk, ChatRequest, ModelEntry
from aalis_contracts.text import JsonObject
from aalis_llm.anthropic_body import request_body
from aalis_llm.anthropic_stream import AnthropicStream
from aalis_llm.errors import ModelError
from aalis_llm.listing import Listing
from aalis_llm.port import RefreshReport
from aalis_llm.settings import AnthropicSettings, clean_base_url
from aalis_llm.shape_reasoning import prefix_digest
from aalis_llm.sse import Frames
from aalis_llm.transport import (
    Watch,
    call_headers,
    connection_error,
    read_frames,
    status_error,
)


class AnthropicProvider:
    """A configured account of the Messages API."""

    def __init__(self, settings: AnthropicSettings) -> None:
        self.provider_id = settings.provider_id
        self._settings = settings
        self._listing = Listing(settings, settings.profile)
        self._auth = _auth_headers(settings)
        self._client = AsyncAnthropic(
            api_key=settings.api_key or "none",
            base_url=clean_base_url(settings.base_url),
            max_retries=0,
            timeout=httpx2.Timeout(None, connect=15.0),
        )

    async def entries(self) -> list[ModelEntry]:
        """Return the models known now, sorted by id."""
        return self._listing.entries()

    async def stream(self, entry_id: str, request: ChatRequest) -> AsyncGenerator[ChatChunk]:
        """Ask one question (SPEC LLM-34)."""
        entry = self._listing.entry(entry_id)
        if entry is None:
            raise ModelError("notFound", f"there is no model {entry_id}", status=404)
        body = request_body(request, entry, self._settings)
        answer = AnthropicStream()
        watch = Watch(entry.context_id, self._settings.patience)
        headers = call_headers(request)

        async def send() -> httpx2.Response:
            return await self._send("/messages", body, headers)

        async with aclosing(read_frames(send, watch, Frames())) as received:
            async for event in received:
                for chunk in answer.add(event):
                    yield chunk
                if answer.done:
                    break
        yield self._signed(answer.finish(), entry_id, request)

    async def refresh(self) -> RefreshReport:
        """Fetch the model list; a failure is reported and removes nothing (SPEC LLM-3)."""
        return await self._listing.refresh(self._list)

    async def close(self) -> None:
        """Give back connections."""
        await self._client.close()

    def _signed(self, last: ChatChunk, model: str, request: ChatRequest) -> ChatChunk:
        """Say who wrote the blocks of reasoning, and after what (SPEC SHAPE-7)."""
        if last.provider_data is None:
            return last
        data: JsonObject = {
            "provider": self.provider_id,
            "model": model,
            **last.provider_data,
            "prefix": prefix_digest(request.messages),
        }
        return last.model_copy(update={"provider_data": data})

    async def _list(self, after: str | None) -> httpx2.Response:
        query = "?limit=1000" if after is None else f"?limit=1000&after_id={after}"
        return await self._send(f"/models{query}", None, {})

    async def _send(
        self, path: str, body: JsonObject | None, headers: dict[str, str]
    ) -> httpx2.Response:
        sent = {**headers, **self._auth}
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


def _auth_headers(settings: AnthropicSettings) -> dict[str, str | Omit]:
    """Return what the SDK does not say by itself about the key.

    It sends a bearer token; servers that only speak like Anthropic still look for `X-Api-Key`.
    """
    if not settings.api_key:
        return {"Authorization": Omit()}
    return {} if settings.is_official else {"X-Api-Key": settings.api_key}
