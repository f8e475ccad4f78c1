"""This is about one HTTP exchange with a provider: its limits and its end (LLM-7, LLM-9).

The SDKs build and send requests; reading is done here, so that both providers are read by the same
tolerant parser and fail with the same errors.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Final, TypeVar, cast

import httpx2

from aalis_contracts.models import ChatRequest
from aalis_contracts.text import JsonObject, one_line
from aalis_llm.classify import failure, retry_after_seconds
from aalis_llm.errors import ModelError
from aalis_llm.settings import Patience
from aalis_llm.sse import Frames

_log: Final = logging.getLogger(__name__)
_Value = TypeVar("_Value")


class Watch:
    """The clock of one call: ends it after `patience.whole`, warns while nothing comes.

    Each wait is limited by itself: between two waits the reader's own code runs, which a limit
    around the whole call would interrupt.
    """

    def __init__(self, name: str, patience: Patience) -> None:
        self._name = name
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._alarms = [
            self._warn_after(patience.headers_warning, "no answer"),
            self._warn_after(patience.frame_warning, "no first frame"),
        ]

    async def wait(self, awaitable: Awaitable[_Value]) -> _Value:
        """Wait within what is left of the whole call; raises a `timeout` when that is over."""
        whole = self._patience.whole
        try:
            async with asyncio.timeout_at(self._began + whole if whole else None):
                return await awaitable
        except TimeoutError:
            raise ModelError("timeout", f"no complete answer within {whole:g} s") from None

    def headers_came(self) -> None:
        """Stop waiting for headers with suspicion."""
        self._alarms[0].cancel()

    def frame_came(self) -> None:
        """Stop waiting for the first frame with suspicion."""
        self._alarms[1].cancel()

    def stop(self) -> None:
        """Warn no more: the call is over."""
        for alarm in self._alarms:
            alarm.cancel()

    def _warn_after(self, seconds: float, what: str) -> asyncio.TimerHandle:
        return self._loop.call_later(
            seconds, _log.warning, "%s: %s for %g s, still waiting", self._name, what, seconds
        )


async def read_frames(
    send: Callable[[], Awaitable[httpx2.Response]],
    watch: Watch,
    frames: Frames,
) -> AsyncGenerator[JsonObject]:
    """Send a request and yield the JSON objects of its answer as they arrive.

    An answer that is plain JSON is one object. Errors are `ModelError`s; the response is closed on
    every way out.
    """
    try:
        response = await watch.wait(send())
        watch.headers_came()
        try:
            if _is_json(response):
                yield await _whole(response, watch, frames)
                return
            async with aclosing(_portions(response)) as portions:
                async for portion in _watched(portions, watch):
                    for frame in frames.feed(portion):
                        watch.frame_came()
                        yield frame
                    if frames.done:
                        return
            for frame in frames.close():
                yield frame
        finally:
            with suppress(httpx2.HTTPError):
                await response.aclose()
    except httpx2.HTTPError as error:
        raise connection_error(error) from error
    finally:
        watch.stop()
        if frames.unreadable:
            _log.warning("%d unreadable frames of a model's answer skipped", frames.unreadable)


def call_headers(request: ChatRequest) -> dict[str, str]:
    """Say in headers what a log, a proxy or the scripted server may want to know of a call."""
    return {
        "x-aalis-attempt": str(request.attempt or 1),
        "x-aalis-purpose": request.purpose or "chat",
    }


def status_error(response: httpx2.Response, secrets: tuple[str, ...]) -> ModelError:
    """Turn an error answer, already read, into a `ModelError`."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    return failure(
        response.status_code,
        response.text,
        retry_after=retry_after_seconds(headers, time.time()),
        secrets=secrets,
    )


def connection_error(error: BaseException | None) -> ModelError:
    """Turn a failure below HTTP into a `ModelError`: refused, lost, or silent for too long."""
    told = one_line(str(error) or type(error).__name__)
    slow = isinstance(error, httpx2.TimeoutException)
    if slow and not isinstance(error, httpx2.ConnectTimeout):
        return ModelError("timeout", told)
    return ModelError("connection", told)


async def _watched(portions: AsyncGenerator[bytes], watch: Watch) -> AsyncGenerator[bytes]:
    while True:
        try:
            portion = await watch.wait(anext(portions))
        except StopAsyncIteration:
            return
        yield portion


async def _portions(response: httpx2.Response) -> AsyncGenerator[bytes]:
    async for portion in response.aiter_bytes():
        yield portion


def _is_json(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").lower().startswith("application/json")


async def _whole(response: httpx2.Response, watch: Watch, frames: Frames) -> JsonObject:
    body = await watch.wait(response.aread())
    watch.frame_came()
    frames.done = True
    try:
        value: object = json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ModelError("upstream", "the answer is not a JSON object", raw=response.text)
    return cast("JsonObject", value)
