"""This is about a message on its way through the phases, and how a phase may end it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from aalis_contracts.messages import IncomingMessage
from aalis_contracts.text import JsonObject


@dataclass
class Passage:
    """One inbound message: what it says now, and the ids and times of its storing."""

    message: IncomingMessage
    key: str
    subject: str
    seq: int
    time_ms: int
    number: int = 0
    """How many deliveries its partition has seen, this one included."""
    search_from_ms: int | None = None
    """Copies may be older than the dedupe window: look for them from here on."""
    metadata: JsonObject = field(default_factory=dict)


@dataclass(frozen=True)
class Ended:
    """The phase has ended the message's way: handled, or kept from the agent but archived."""

    how: Literal["handled", "kept"]
    why: str


def handled(why: str) -> Ended:
    """End the way here; nothing more happens to the message."""
    return Ended("handled", why)


def kept(why: str) -> Ended:
    """Keep the message from the agent; it is still archived (SPEC GW-7)."""
    return Ended("kept", why)
