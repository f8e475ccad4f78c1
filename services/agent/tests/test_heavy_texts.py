"""Texts that are hard to count, wherever they come in: linear work, off the event loop (TOK-6)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import pytest

from aalis_agent.adapters.vocabulary_tiktoken import encoder
from aalis_agent.tokens import HEAVY, SLICE, TiktokenCounter

if TYPE_CHECKING:
    from aalis_agent.tokens import Encoder
    from aalis_contracts.hooks import PromptBuild
    from aalis_contracts.text import JsonObject
    from aalis_contracts.tools import ToolCallContext

    from .conftest import World

MILLION: Final = 1_000_000
UNITS: Final = ["a", " ", "字", "👨‍👩‍👧", "<|endoftext|>"]
TEXTS: Final = [*((unit * (MILLION // len(unit) + 1))[:MILLION] for unit in UNITS), " " * 1_000_001]


class Watched:
    """An encoder that keeps where, and on how much text, it was at work."""

    def __init__(self, encode: Encoder) -> None:
        self._encode = encode
        self.here = threading.get_ident()
        self.on_the_loop = 0
        self.longest = 0
        self.total = 0

    def __call__(self, text: str) -> int:
        if threading.get_ident() == self.here:
            self.on_the_loop += len(text)
        self.longest = max(self.longest, len(text))
        self.total += len(text)
        return self._encode(text)


def by_bytes(text: str) -> int:
    return len(text.encode()) // 4 + 1


def assert_counted_aside(watched: Watched, text: str) -> None:
    assert watched.longest <= SLICE
    # What stays on the loop is short: a list that is weighed before each call.
    assert watched.on_the_loop <= HEAVY
    # The text, the pieces that are tried for it, and a rest that does not grow with it.
    assert watched.total <= 3 * len(text) + MILLION // 5


def named(text: str) -> str:
    return f"{len(text)}-{text[:1]!a}"


@pytest.mark.parametrize("text", TEXTS, ids=named)
async def test_a_message_of_a_million_characters_is_answered(world: World, text: str) -> None:
    encode = encoder("o200k_base")
    assert encode is not None
    watched = Watched(encode)
    world.counter = TiktokenCounter(watched)
    await world.open({"reply": "read it"})

    assert await world.ask(text) == "read it"

    assert_counted_aside(watched, text)
    (usage,) = world.outbound.usages
    assert 0 < usage.used <= usage.context_window - usage.max_tokens


@pytest.mark.parametrize("text", TEXTS, ids=named)
async def test_a_tool_may_return_a_million_characters(world: World, text: str) -> None:
    async def talks(_: JsonObject, __: ToolCallContext) -> str:
        return text

    watched = Watched(by_bytes)
    world.counter = TiktokenCounter(watched)
    world.tools.add("talks", talks)
    call: dict[str, Any] = {"when": {"iteration": 0}, "call": [{"tool": "talks"}]}
    await world.open(call, {"reply": "heard it"})

    assert await world.ask("go") == "heard it"

    assert_counted_aside(watched, text)
    assert world.rows()[2][1].startswith(text[:1_000])


@pytest.mark.parametrize("text", TEXTS, ids=named)
async def test_a_plugin_may_add_a_million_characters(world: World, text: str) -> None:
    async def quotes(_: PromptBuild) -> str:
        return text

    watched = Watched(by_bytes)
    world.counter = TiktokenCounter(watched)
    world.contributors.add("books", "all", "knowledge", quotes)
    await world.open({"reply": "known"})

    assert await world.ask("go") == "known"

    assert_counted_aside(watched, text)
    (usage,) = world.outbound.usages
    assert 0 < usage.used <= usage.context_window - usage.max_tokens
