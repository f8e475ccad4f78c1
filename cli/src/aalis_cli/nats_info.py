"""This is about who listens: a NATS server introduces itself before anybody has said a word.

Its greeting is read without any client library, so that asking costs a millisecond, and a wrong
address is said at once instead of being retried for ever.
"""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from aalis_cli.failure import Failed

_PATIENCE: Final = 3.0


@dataclass(frozen=True)
class Greeting:
    """What the server said: its id, its version, the bytes one message may have."""

    server_id: str
    version: str
    max_payload: int
    jetstream: bool


def greet(url: str) -> Greeting:
    """Return the greeting of the first of the comma-separated `url`s that answers."""
    why = ""
    for one in url.split(","):
        try:
            return _greet(one.strip())
        except (OSError, ValueError, KeyError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
    raise Failed(f"no NATS server answers at {url} ({why}); is it running, is the address right?")


def _greet(url: str) -> Greeting:
    parts = urlsplit(url if "://" in url else f"nats://{url}")
    address = (parts.hostname or "127.0.0.1", parts.port or 4222)
    with socket.create_connection(address, timeout=_PATIENCE) as link, link.makefile("rb") as lines:
        line = lines.readline(65536)
    if not line.startswith(b"INFO "):
        raise ValueError("what answers there is not NATS")
    info = json.loads(line[5:])
    return Greeting(
        str(info["server_id"]),
        str(info["version"]),
        int(info["max_payload"]),
        bool(info.get("jetstream", False)),
    )
