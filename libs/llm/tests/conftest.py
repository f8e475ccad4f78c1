"""A server that answers with given bytes, for what no well-behaved server would send."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

import pytest

Serve = Callable[[Sequence[bytes]], "asyncio.Future[str]"]


@pytest.fixture
async def serve_bytes() -> AsyncIterator[object]:
    """Give a function that serves a raw HTTP answer, portion by portion, and returns its URL.

    A portion b"HANG" waits until the client leaves.
    """
    servers: list[asyncio.Server] = []

    async def serve(portions: Sequence[bytes]) -> str:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await reader.readuntil(b"\r\n\r\n")
                for portion in portions:
                    if portion == b"HANG":
                        while await reader.read(65536):
                            pass
                    else:
                        writer.write(portion)
                        await writer.drain()
                        await asyncio.sleep(0)
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        servers.append(server)
        port = server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/v1"

    yield serve
    for server in servers:
        server.close()
        await server.wait_closed()


@pytest.fixture
def dead_url() -> str:
    """Return an address where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/v1"
