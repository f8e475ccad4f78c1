"""This is about the registry: a live copy of what is offered, whoever writes what into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aalis_contracts.registry import (
    CommandEntry,
    HookEntry,
    PromptEntry,
    ServiceEntry,
    ToolEntry,
)
from aalis_contracts.subjects import command_key, hook_key, prompt_key, service_key, tool_key
from aalis_contracts.tools import FunctionDefinition, ToolDefinition
from aalis_sdk.buckets import Bucket
from aalis_sdk.topology import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aalis_contracts.text import JsonObject
    from aalis_sdk.mesh import Mesh
    from aalis_sdk.registry import Registry
    from aalis_sdk.testing.meshes import Meshes
    from aalis_sdk.testing.servers import NatsServer

    Start = Callable[[Mesh], Awaitable[Registry]]
    Warned = Callable[[str], list[dict[str, object]]]

HOOK = "agent:llm:before"
PATIENCE = 20.0


@pytest.fixture
def nats_server(fresh_nats: NatsServer) -> NatsServer:
    """Give each test a registry of its own."""
    return fresh_nats


def tool(name: str, plugin: str = "p", parameters: JsonObject | None = None) -> ToolEntry:
    schema: JsonObject = {"type": "object"} if parameters is None else parameters
    function = FunctionDefinition(name=name, parameters=schema)
    return ToolEntry(definition=ToolDefinition(function=function), plugin=plugin)


def interceptor(plugin: str, order: int = 0) -> tuple[str, HookEntry]:
    return hook_key(HOOK, plugin), HookEntry(hook=HOOK, plugin=plugin, order=order)


async def test_what_was_there_and_what_comes_is_seen_in_an_order_of_its_own(
    mesh: Meshes, registry: Start
) -> None:
    connected = await mesh()
    bucket = Bucket(connected, REGISTRY)
    await bucket.put(tool_key("z"), tool("z"), 30)
    await bucket.put(*interceptor("late", 5), 30)
    await bucket.put(*interceptor("b"), 30)

    seen = await registry(await mesh())
    await bucket.put(tool_key("a"), tool("a"), 30)
    await bucket.put(*interceptor("a"), 30)
    await bucket.put(prompt_key("q", "i"), PromptEntry(plugin="q", id="i", anchor="context"), 30)
    await bucket.put(prompt_key("p", "i"), PromptEntry(plugin="p", id="i", anchor="context"), 30)
    await bucket.put(command_key("b.c"), CommandEntry(path="b.c", plugin="p"), 30)
    await bucket.put(command_key("a"), CommandEntry(path="a", plugin="p"), 30)
    running = ServiceEntry(
        service="s", instance="i", version="1", since=1, capabilities=["memory", "x"]
    )
    await bucket.put(service_key("s", "i"), running, 30)

    assert await seen.wait_for(lambda: bool(seen.services("s")), PATIENCE)
    assert [entry.name for entry in seen.tools()] == ["a", "z"]
    assert [entry.plugin for entry in seen.hooks(HOOK)] == ["a", "b", "late"]
    assert [entry.key for entry in seen.prompts()] == ["p/i", "q/i"]
    assert [entry.path for entry in seen.commands()] == ["a", "b.c"]
    assert seen.capable("memory")
    assert not seen.capable("persona")
    assert seen.hooks(HOOK, "observe") == seen.hooks("agent:llm:after") == []


async def test_a_withdrawn_entry_is_gone_and_a_replaced_one_is_replaced(
    mesh: Meshes, registry: Start
) -> None:
    connected = await mesh()
    bucket = Bucket(connected, REGISTRY)
    seen = await registry(await mesh())
    await bucket.put(*interceptor("a", 1), 30)
    await bucket.put(*interceptor("b", 2), 30)
    assert await seen.wait_for(lambda: len(seen.hooks(HOOK)) == 2, PATIENCE)
    await bucket.put(*interceptor("a", 3), 30)
    assert await seen.wait_for(lambda: seen.hooks(HOOK)[0].plugin == "b", PATIENCE)
    await bucket.delete(hook_key(HOOK, "a"))
    assert await seen.wait_for(lambda: len(seen.hooks(HOOK)) == 1, PATIENCE)


async def test_an_entry_that_nobody_repeats_is_forgotten_after_its_own_time(
    mesh: Meshes, registry: Start
) -> None:
    seen = await registry(await mesh())
    bucket = Bucket(await mesh(), REGISTRY)
    await bucket.put(*interceptor("dies"), 1)
    await bucket.put(*interceptor("lives"), 30)
    assert await seen.wait_for(lambda: len(seen.hooks(HOOK)) == 2, PATIENCE)

    assert await seen.wait_for(
        lambda: [entry.plugin for entry in seen.hooks(HOOK)] == ["lives"], PATIENCE
    )
    assert seen.get(hook_key(HOOK, "dies")) is None


async def test_what_is_no_entry_or_not_under_its_own_key_is_left_out_with_one_warning(
    mesh: Meshes, registry: Start, warned: Warned
) -> None:
    bucket = Bucket(await mesh(), REGISTRY)
    seen = await registry(await mesh())
    await bucket.put(tool_key("good"), tool("good"), 30)
    bad: dict[str, bytes] = {
        "tool.rubbish": b"\x00 no json",
        "tool.null": b"null",
        tool_key("stolen"): tool("good", plugin="thief").to_json(),
        tool_key("typeless"): tool("typeless", parameters={}).to_json(),
        tool_key("misspelt"): tool(
            "misspelt", parameters={"type": "object", "properties": {"a": {"type": "strin"}}}
        ).to_json(),
        hook_key(HOOK, "a"): b'{"hook":"agent:llm:before","plugin":"a","timeoutMs":-1}',
        "hook.agent.llm.before.b": b'{"hook":"agent:llm:after","plugin":"b"}',
        "nobody.knows.this": b"{}",
    }
    for _ in range(2):
        for key, body in bad.items():
            await bucket.put(key, body, 30)
    await bucket.put(tool_key("good"), b"{}", 30)
    await bucket.put(tool_key("last"), tool("last"), 30)

    assert await seen.wait_for(lambda: seen.get(tool_key("last")) is not None, PATIENCE)
    assert [(entry.name, entry.plugin) for entry in seen.tools()] == [("good", "p"), ("last", "p")]
    assert seen.hooks(HOOK) == seen.hooks("agent:llm:after") == []
    named = [str(line["key"]) for line in warned("registry entry ignored")]
    assert sorted(named) == sorted([*(key for key in bad if key[0] != "n"), tool_key("good")])


async def test_a_condition_that_never_holds_is_waited_for_only_so_long(
    mesh: Meshes, registry: Start
) -> None:
    seen = await registry(await mesh())
    assert not await seen.wait_for(lambda: bool(seen.tools()), 0.05)
    assert seen.changed == []
