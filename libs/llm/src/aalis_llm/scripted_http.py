"""This is about the scripted model behind HTTP, in the OpenAI and Anthropic formats (LLM-47).

For tests of the real adapters, and for whoever wants to try a client without a key. It remembers
what it was sent. Needs starlette and uvicorn, which the gateway has anyway.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self, cast

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from aalis_contracts.models import ChatRequest
from aalis_contracts.text import JsonObject
from aalis_llm import scripted_anthropic, scripted_openai
from aalis_llm.script import FailSpec, Script
from aalis_llm.script_file import demo_script
from aalis_llm.script_rules import Plan, plan
from aalis_llm.scripted_wire import BadWire


@dataclass(frozen=True)
class Recorded:
    """A request as it came in; header names are lower-case."""

    path: str
    headers: dict[str, str]
    body: JsonObject


class ScriptedServer:
    """The scripted model on a free port of loopback, as an async context manager.

    `url` is the prefix of both formats: `/chat/completions`, `/messages` and `/models` follow it.
    """

    def __init__(self, script: Script | None = None) -> None:
        self._script = demo_script() if script is None else script
        self.requests: list[Recorded] = []
        self.url = ""
        self._socket = socket.socket()
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def bodies(self) -> list[JsonObject]:
        """The bodies of the questions asked so far."""
        return [each.body for each in self.requests if not each.path.endswith("/models")]

    async def __aenter__(self) -> Self:
        self._socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        config = uvicorn.Config(
            Starlette(routes=self._routes()),
            lifespan="off",
            log_config=None,
            log_level="critical",
            timeout_graceful_shutdown=1,
        )
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        await self._server.ready.wait()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await self._task
        self._socket.close()

    def _routes(self) -> list[Route]:
        return [
            Route("/v1/chat/completions", self._answerer(_OPENAI), methods=["POST"]),
            Route("/v1/messages", self._answerer(_ANTHROPIC), methods=["POST"]),
            Route("/v1/models", self._models, methods=["GET"]),
        ]

    async def _models(self, request: Request) -> Response:
        self._record(request, {})
        ids = [model.id for model in self._script.all_models()]
        wire = _ANTHROPIC if "anthropic-version" in request.headers else _OPENAI
        return JSONResponse(wire.models(ids))

    def _answerer(self, wire: _Wire) -> Callable[[Request], object]:
        async def answer(request: Request) -> Response:
            body = cast("JsonObject", json.loads(await request.body()))
            self._record(request, body)
            model = str(body.get("model"))
            if all(model != known.id for known in self._script.all_models()):
                return _failed(wire, FailSpec(status=404, message=f"no model {model}"))
            try:
                asked = wire.read_request(body, request.headers)
            except BadWire as error:
                return _failed(wire, FailSpec(status=400, message=str(error)))
            planned = plan(self._script, model, asked)
            if planned.hang:
                await _disconnect(request)
            if planned.fail or planned.hang:
                return _failed(wire, planned.fail or FailSpec(status=500))
            if not body.get("stream"):
                return JSONResponse(wire.whole_answer(planned, model))
            return StreamingResponse(
                _stream(wire, planned, model, body), media_type="text/event-stream"
            )

        return answer

    def _record(self, request: Request, body: JsonObject) -> None:
        self.requests.append(Recorded(request.url.path, dict(request.headers), body))


class _Wire(Protocol):
    """What the modules of the two formats have in common."""

    @staticmethod
    def read_request(body: JsonObject, headers: Mapping[str, str]) -> ChatRequest: ...
    @staticmethod
    def whole_answer(planned: Plan, model: str) -> JsonObject: ...
    @staticmethod
    def deltas(planned: Plan, model: str) -> Iterator[bytes]: ...
    @staticmethod
    def ending(planned: Plan, model: str, *, usage: bool, terminator: bool) -> Iterator[bytes]: ...
    @staticmethod
    def models(ids: list[str]) -> JsonObject: ...
    @staticmethod
    def error_body(status: int, message: str, code: str | None) -> JsonObject: ...


_OPENAI: Final = cast("_Wire", scripted_openai)
_ANTHROPIC: Final = cast("_Wire", scripted_anthropic)


class _Server(uvicorn.Server):
    """A server that says when it listens, and leaves the signals of the process alone."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class _Dropped(Exception):
    """Ends a response in the middle, so that the connection is lost."""


async def _stream(
    wire: _Wire, planned: Plan, model: str, body: JsonObject
) -> AsyncGenerator[bytes]:
    await asyncio.sleep(planned.stream.first_ms / 1000)
    if wire is _ANTHROPIC:
        for event in scripted_anthropic.opening(planned, model):
            yield event
    chunks = list(wire.deltas(planned, model))
    shown = chunks if planned.cut is None else chunks[: planned.cut.after]
    for chunk in shown:
        yield chunk
        await asyncio.sleep(planned.stream.delay_ms / 1000)
    if planned.cut and planned.cut.how == "drop":
        raise _Dropped
    if planned.cut is None or len(shown) == len(chunks):
        options = cast("JsonObject", body.get("stream_options") or {})
        usage = bool(options.get("include_usage"))
        for event in wire.ending(planned, model, usage=usage, terminator=planned.cut is None):
            yield event


def _failed(wire: _Wire, spec: FailSpec) -> Response:
    headers = {} if spec.retry_after is None else {"retry-after": f"{spec.retry_after:g}"}
    body = wire.error_body(spec.status, spec.message, spec.code)
    return JSONResponse(body, status_code=spec.status, headers=headers)


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
