"""The same turn against servers that speak the real streaming formats, tools included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from aalis_llm.scripted_http import ScriptedServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aalis_sdk.testing.person import Person
    from aalis_sdk.testing.processes import Spawner

pytestmark = pytest.mark.timeout(180)


async def _ask_through(
    spawn: Spawner,
    environment: dict[str, str],
    person: Callable[..., Awaitable[Person]],
    **provider: str,
) -> Person:
    from aalis_sdk.testing.stack import Stack  # noqa: PLC0415 - not the fixture: other settings

    stack = Stack(spawn, {**environment, **provider})
    await stack.start_all()
    somebody = await person()
    reply = await somebody.ask("how full is your context?", timeout=60)
    turn = await somebody.turn_of("m1")
    first = next(usage for usage in somebody.usages if usage.turn_id == turn.turn_id)
    assert f"{first.used}" in reply.content
    assert [event.phase for event in somebody.tools] == ["start", "end"]
    assert reply.model_info is not None
    assert reply.model_info.total_tokens
    return somebody


def _objects(value: object) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", value)


async def test_a_turn_with_a_tool_over_the_openai_format(
    spawn_service: Spawner, environment: dict[str, str], person: Callable[..., Awaitable[Person]]
) -> None:
    async with ScriptedServer() as server:
        await _ask_through(
            spawn_service,
            environment,
            person,
            OPENAI_API_KEY="sk-test-key-0001",
            OPENAI_BASE_URL=server.url,
            AALIS_DEFAULT_LLM="openai/demo",
        )
        first, second = server.bodies
    assert first["stream"] is True
    assert first["stream_options"] == {"include_usage": True}
    tools = {tool["function"]["name"] for tool in _objects(first["tools"])}
    assert "prompt_budget_info" in tools
    roles = [message["role"] for message in _objects(first["messages"])]
    assert roles == ["system", "user"]
    assistant, result = _objects(second["messages"])[-2:]
    assert assistant["role"] == "assistant"
    assert assistant["tool_calls"][0]["function"]["name"] == "prompt_budget_info"
    assert result["role"] == "tool"
    assert result["tool_call_id"] == assistant["tool_calls"][0]["id"]
    assert "metadata" not in result


async def test_a_turn_with_a_tool_over_the_anthropic_format(
    spawn_service: Spawner, environment: dict[str, str], person: Callable[..., Awaitable[Person]]
) -> None:
    async with ScriptedServer() as server:
        await _ask_through(
            spawn_service,
            environment,
            person,
            ANTHROPIC_API_KEY="sk-ant-test-0001",
            ANTHROPIC_BASE_URL=server.url,
            AALIS_DEFAULT_LLM="anthropic/demo",
        )
        first, second = server.bodies
    assert first["stream"] is True
    assert isinstance(first["max_tokens"], int)
    assert _objects(first["system"])[0]["type"] == "text"
    assert [message["role"] for message in _objects(first["messages"])] == ["user"]
    assert all("input_schema" in tool for tool in _objects(first["tools"]))
    assistant, result = _objects(second["messages"])[-2:]
    use = next(block for block in assistant["content"] if block["type"] == "tool_use")
    answer = result["content"][0]
    assert use["name"] == "prompt_budget_info"
    assert answer["type"] == "tool_result"
    assert answer["tool_use_id"] == use["id"]


async def test_what_a_person_reads_of_a_refused_key_is_one_line_without_it(
    spawn_service: Spawner, environment: dict[str, str], person: Callable[..., Awaitable[Person]]
) -> None:
    from aalis_sdk.testing.stack import Stack  # noqa: PLC0415 - not the fixture: other settings

    async with ScriptedServer() as server:
        settings = {
            "OPENAI_API_KEY": "sk-very-secret-0002",
            "OPENAI_BASE_URL": server.url,
            "AALIS_DEFAULT_LLM": "openai/demo",
        }
        await Stack(spawn_service, {**environment, **settings}).start_all()
        somebody = await person()
        reply = await somebody.ask("!fail 401", timeout=60)
    assert reply.source == "system"
    assert reply.content.startswith("[Error] 401")
    assert "\n" not in reply.content
    assert "sk-very-secret-0002" not in reply.content
    assert server.url not in reply.content
    assert (await somebody.turn_of("m1")).outcome == "error"
