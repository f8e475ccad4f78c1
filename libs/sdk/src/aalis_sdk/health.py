"""This is about being seen: `/healthz` (alive), `/readyz` (takes work), `/metrics`."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from aalis_sdk.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request


class Health:
    """A small HTTP server that says how this process is doing."""

    def __init__(self, host: str, port: int, problems: Callable[[], list[str]]) -> None:
        self._problems = problems
        try:
            self._socket = socket.create_server((host, port))
        except OSError as error:
            message = f"AALIS_HEALTH_PORT={port}: cannot listen on {host}: {error.strerror}"
            raise SettingsError(message) from None
        self.port = int(self._socket.getsockname()[1])
        application = Starlette(
            routes=[
                Route("/healthz", self._alive),
                Route("/readyz", self._ready),
                Route("/metrics", self._metrics),
            ]
        )
        config = uvicorn.Config(application, log_config=None, access_log=False, lifespan="off")
        self._server = uvicorn.Server(config)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to answer."""
        # The process handles signals itself; uvicorn's own handlers would swallow SIGTERM.
        self._server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]))

    async def stop(self) -> None:
        """Stop answering."""
        self._server.should_exit = True
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _alive(self, _: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def _ready(self, _: Request) -> Response:
        problems = self._problems()
        body = {"status": "ready"} if not problems else {"status": "unready", "why": problems}
        return JSONResponse(body, status_code=503 if problems else 200)

    async def _metrics(self, _: Request) -> Response:
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)
