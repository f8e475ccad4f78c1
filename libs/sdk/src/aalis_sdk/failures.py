"""This is about how talking over the mesh fails: nobody there, refused, too late, too big."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

import nats.errors

from aalis_contracts.contract import Contract

if TYPE_CHECKING:
    from aalis_contracts.errors import ErrorBody

Body = TypeVar("Body", bound=Contract)
Answer = TypeVar("Answer", bound=Contract)

UNREACHABLE: Final = (nats.errors.Error, asyncio.TimeoutError, OSError)
"""What the client raises when the server, or the way to it, is gone."""


class Absent(Exception):
    """Nobody answered: no responder or no answer in time (SPEC RPC-1)."""

    def __init__(self, subject: str, why: str) -> None:
        super().__init__(f"{subject}: {why}")
        self.subject = subject
        self.why = why


class Remote(Exception):
    """The other side answered with an error (SPEC ERR-1)."""

    def __init__(self, subject: str, error: ErrorBody) -> None:
        super().__init__(f"{subject}: {error.code}: {error.message}")
        self.error = error


class Conflict(Exception):
    """A compare-and-set was refused: somebody else wrote first."""


class TooLarge(Exception):
    """A body exceeds the server's `max_payload`, or a subject its line; the message says which."""
