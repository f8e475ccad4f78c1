"""What is missing degrades: the turn still answers, says so once, and recovers by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aalis_sdk.testing.person import Person
    from aalis_sdk.testing.servers import NatsServer, ValkeyServer
    from aalis_sdk.testing.stack import Stack

pytestmark = pytest.mark.timeout(240)


def _about(stack: Stack, service: str, word: str) -> list[str]:
    return [line["event"] for line in stack.warnings(service) if word in line["event"]]


async def test_without_memory_it_answers_and_the_rows_are_saved_later(
    stack: Stack, person: Callable[..., Awaitable[Person]]
) -> None:
    somebody = await person()
    await somebody.ask("hello")
    await stack.one("memory").terminate()
    while_away = await somebody.ask("do you still answer?")
    assert while_away.content
    assert len(_about(stack, "agent", "memory is absent")) == 1
    await stack.start("memory")
    await somebody.ask("hello again")
    history = await _history(somebody)
    assert [row["content"] for row in history if row["role"] == "user"] == [
        "hello",
        "do you still answer?",
        "hello again",
    ]
    assert [row["content"] for row in history if row["role"] == "assistant"] == [
        message.content for message in somebody.heard
    ]


async def test_without_prompt_budget_the_tool_is_absent_and_the_turn_answers(
    stack: Stack, person: Callable[..., Awaitable[Person]]
) -> None:
    somebody = await person()
    stack.one("prompt_budget").kill()
    reply = await somebody.ask("how full is your context?")
    assert reply.source == "agent"
    assert len(_about(stack, "agent", "tool is absent")) == 1
    await stack.start("prompt_budget")
    again = await somebody.ask("how full is your context?")
    assert "32000" in again.content


async def test_without_a_gateway_the_reply_is_published_directly(
    stack: Stack, person: Callable[..., Awaitable[Person]]
) -> None:
    somebody = await person()
    await somebody.say("!slow 400\n!say one two three four five six seven eight nine ten")
    await somebody.until(lambda: bool(somebody.frames))
    stack.one("gateway").kill()
    await somebody.until(lambda: bool(somebody.heard))
    assert len(_about(stack, "agent", "gateway is absent")) == 1
    # What is said while no gateway runs waits in the stream.
    await somebody.say("hello")
    await stack.start("gateway")
    await somebody.until(lambda: len(somebody.heard) == 2)


async def test_without_valkey_the_budget_is_answered_from_the_stream(
    stack: Stack,
    person: Callable[..., Awaitable[Person]],
    valkey_server: ValkeyServer,
) -> None:
    somebody = await person()
    await somebody.ask("how full is your context?")
    valkey_server.kill()
    reply = await somebody.ask("how full is your context?")
    assert "32000" in reply.content
    assert len(stack.warnings("prompt_budget")) == 1
    valkey_server.start()
    again = await somebody.ask("how full is your context?")
    assert "32000" in again.content


async def test_after_a_restart_of_nats_the_next_message_works(
    stack: Stack, person: Callable[..., Awaitable[Person]], nats_server: NatsServer
) -> None:
    somebody = await person()
    await somebody.ask("hello")
    nats_server.restart()
    reply = await somebody.ask("how full is your context?")
    assert "32000" in reply.content
    for service in ("agent", "gateway", "memory", "prompt_budget"):
        assert stack.one(service).alive


async def _history(somebody: Person) -> list[dict[str, str]]:
    from aalis_contracts import subjects  # noqa: PLC0415 - one test looks into the store
    from aalis_contracts.rpc import HistoryGet, Rows  # noqa: PLC0415

    request = HistoryGet(session_id=somebody.session_id, limit=50)
    rows = await somebody.mesh.request(subjects.request(subjects.HISTORY_GET), request, Rows)
    return [{"role": row.role, "content": row.content or ""} for row in rows.messages]
