"""This is about offers: whose a name is, when it changes hands, and what leaving leaves behind."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from aalis_contracts.registry import ServiceEntry, ToolEntry
from aalis_contracts.subjects import hook_key, service_key, tool_call, tool_key
from aalis_contracts.tools import ToolCallContext, ToolCallRequest, ToolResult
from aalis_sdk import offers
from aalis_sdk.buckets import Bucket
from aalis_sdk.hooks import Hooks
from aalis_sdk.mesh import Absent
from aalis_sdk.plugin import Plugin
from aalis_sdk.registry import Registry
from aalis_sdk.topology import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aalis_contracts.text import JsonObject
    from aalis_sdk.mesh import Mesh
    from aalis_sdk.testing.meshes import Meshes
    from aalis_sdk.testing.servers import NatsServer

    Attach = Callable[..., Awaitable[Mesh]]
    Start = Callable[[Mesh], Awaitable[Registry]]
    Warned = Callable[[str], list[dict[str, object]]]

KEY = tool_key("t")
TAKEN = "name is taken; will try again until its holder is gone"
PATIENCE = 20.0


@pytest.fixture
def nats_server(fresh_nats: NatsServer) -> NatsServer:
    """Give each test a registry of its own."""
    return fresh_nats


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test see a few refreshes without waiting ten seconds for each."""
    monkeypatch.setattr(offers, "REFRESH_SECONDS", 0.1)


@pytest.fixture
def only_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be refreshed by itself: what changes was heard of."""
    monkeypatch.setattr(offers, "REFRESH_SECONDS", 3600.0)


def offering(plugin: str, answer: str | None = None) -> Plugin:
    """Return a plugin that offers the tool `t`, which answers with `answer` or its name."""
    made = Plugin(plugin)
    declare(made, answer or plugin)
    return made


def declare(plugin: Plugin, answer: str) -> None:
    @plugin.tool("t", answer, retry="safe")
    async def t(_: JsonObject, __: ToolCallContext) -> str:  # pyright: ignore[reportUnusedFunction]
        return answer


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            await asyncio.sleep(0.02)


_calls = iter(range(10**9))


async def ask(mesh: Mesh) -> str:
    """Call the tool `t` under a key of its own."""
    key = f"call-{next(_calls)}"
    context = ToolCallContext(
        session_id="s", platform="p", turn_id="t", call_id="c", key=key, enabled_groups=[]
    )
    request = ToolCallRequest(name="t", args={}, context=context)
    return (await mesh.request(tool_call("t"), request, ToolResult)).content


async def holder(mesh: Mesh) -> str | None:
    """Return whose the entry in the bucket is."""
    record = await Bucket(mesh, REGISTRY).get(KEY)
    return None if record is None else ToolEntry.from_json(record.value).plugin


@pytest.mark.usefixtures("only_heard")
async def test_a_second_plugin_is_refused_by_name_and_has_its_turn_when_the_first_leaves(
    mesh: Meshes, attach: Attach, warned: Warned
) -> None:
    first, second = offering("first"), offering("a-second")
    await attach(first)
    await attach(second)
    asker = await mesh()
    assert [await ask(asker) for _ in range(5)] == ["first"] * 5
    assert [line["holder"] for line in warned(TAKEN)] == ["first"]

    await first.detach()

    await until(lambda: _answers(asker, "a-second"))
    assert await holder(asker) == "a-second"
    assert len(warned(TAKEN)) == 1


@pytest.mark.usefixtures("quick")
async def test_a_refused_plugin_has_its_turn_when_the_entry_of_a_dead_one_has_expired(
    mesh: Meshes, attach: Attach, warned: Warned
) -> None:
    asker = await mesh()
    dead = ToolEntry.from_object(
        {"definition": {"type": "function", "function": {"name": "t"}}, "plugin": "dead"}
    )
    await Bucket(asker, REGISTRY).put(KEY, dead, 2)
    await attach(offering("heir"))
    with pytest.raises(Absent, match="no responder"):
        await ask(asker)
    await until(lambda: _answers(asker, "heir"))
    assert [line["holder"] for line in warned(TAKEN)] == ["dead"]


@pytest.mark.usefixtures("only_heard")
@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
async def test_of_two_that_take_a_name_at_once_the_smaller_keeps_it(
    mesh: Meshes, attach: Attach, warned: Warned, order: tuple[str, str]
) -> None:
    asker = await mesh()
    await attach(offering(order[0]))
    # The other does not hear of it until it has offered the same: that is "at once".
    late = await mesh("late")
    deaf = Registry(late)
    other = offering(order[1])
    await other.attach(late, deaf)
    await deaf.start()
    try:
        await until(lambda: _all_answer(asker, "a"))
        await until(lambda: _holds(asker, "a"))
        assert [line["holder"] for line in warned(TAKEN)] == ["a"]
    finally:
        await other.detach()


async def test_the_same_plugin_replaces_its_offer_and_the_old_handle_takes_nothing_away(
    mesh: Meshes, attach: Attach
) -> None:
    plugin = offering("p", "old")
    await attach(plugin)
    asker = await mesh()
    old = await plugin.offer(KEY)
    assert await ask(asker) == "old"

    declare(plugin, "new")
    new = await plugin.offer(KEY)
    assert [await ask(asker) for _ in range(5)] == ["new"] * 5
    await old.withdraw()
    assert await ask(asker) == "new"
    assert await holder(asker) == "p"

    await new.withdraw()
    with pytest.raises(Absent, match="no responder"):
        await ask(asker)
    assert await holder(asker) is None


async def test_an_offer_is_replaced_without_waiting_for_what_still_runs(
    mesh: Meshes, attach: Attach
) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()
    plugin = Plugin("p")

    @plugin.tool("t", "slow")
    async def slow(_: JsonObject, __: ToolCallContext) -> str:  # pyright: ignore[reportUnusedFunction]
        begun.set()
        await may_end.wait()
        return "slow"

    await attach(plugin)
    asker = await mesh()
    running = asyncio.create_task(ask(asker))
    await begun.wait()
    declare(plugin, "new")
    await plugin.offer(KEY)
    assert await ask(asker) == "new"
    may_end.set()
    assert await running == "slow"


async def test_withdrawing_leaves_an_entry_that_is_somebody_elses_by_now(
    mesh: Meshes, attach: Attach, registry: Start
) -> None:
    plugin = offering("z")
    asker = await mesh()
    seen = await registry(asker)
    await attach(plugin)
    await Bucket(asker, REGISTRY).put(KEY, ToolEntry.from_object(_entry("a")), 30)
    assert await seen.wait_for(lambda: _plugin_in(seen) == "a", PATIENCE)
    await plugin.detach()
    assert await holder(asker) == "a"


@pytest.mark.usefixtures("quick")
async def test_a_preprocessor_is_not_in_the_way_of_its_own_plugin(
    mesh: Meshes, attach: Attach, registry: Start, warned: Warned
) -> None:
    plugin = Plugin("zoo")

    @plugin.preprocessor("ant")
    async def ant(_: object) -> None:  # pyright: ignore[reportUnusedFunction]
        return None

    await attach(plugin)
    asker = await mesh()
    seen = await registry(asker)
    bucket, key = Bucket(asker, REGISTRY), hook_key("agent:input:before", "ant")
    first = await bucket.get(key)
    assert first is not None

    async def written_three_times_more() -> bool:
        record = await bucket.get(key)
        return record is not None and record.revision >= first.revision + 3

    await until(written_three_times_more)
    assert warned(TAKEN) == []
    assert Hooks(asker, seen).anyone("agent:input:before")


async def test_a_replica_that_leaves_takes_nothing_away_from_the_others(
    mesh: Meshes, attach: Attach, registry: Start
) -> None:
    asker = await mesh()
    seen = await registry(asker)
    replicas = [offering("p"), offering("p")]
    for number, replica in enumerate(replicas):
        connected = await attach(replica)
        key = service_key("p", connected.settings.instance)
        running = ServiceEntry(
            service="p", instance=connected.settings.instance, version="1", since=number
        )
        await Bucket(asker, REGISTRY).put(key, running, 30)
    assert await seen.wait_for(lambda: len(seen.services("p")) == 2, PATIENCE)
    deleted: list[str] = []
    seen.changed.append(lambda key: deleted.append(key) if seen.get(key) is None else None)

    await replicas[0].detach()

    assert await ask(asker) == "p"
    assert await holder(asker) == "p"
    assert deleted == []


@pytest.mark.usefixtures("only_heard")
async def test_what_one_replica_withdraws_another_goes_on_offering(
    mesh: Meshes, attach: Attach
) -> None:
    asker = await mesh()
    first, second = offering("p"), offering("p")
    await attach(first)
    await attach(second)
    await (await first.offer(KEY)).withdraw()
    await until(lambda: _holds(asker, "p"))
    assert await ask(asker) == "p"


async def test_leaving_ends_everything_side_by_side(mesh: Meshes, attach: Attach) -> None:
    plugin, names = Plugin("p"), ["h1", "h2", "h3"]
    begun: list[str] = []
    may_end = asyncio.Event()

    for name in names:

        @plugin.tool(name, "waits")
        async def wait(_: JsonObject, context: ToolCallContext) -> str:  # pyright: ignore[reportUnusedFunction]
            begun.append(context.key)
            await may_end.wait()
            return context.key

    await attach(plugin, grace_seconds=60.0)
    asker = await mesh()
    calls = [asyncio.create_task(_call(asker, name)) for name in names]
    async with asyncio.timeout(PATIENCE):
        while len(begun) < len(names):
            await asyncio.sleep(0.02)

    leaving = asyncio.create_task(plugin.detach())
    # Each has stopped taking calls although none of them has ended what it runs.
    for name in names:
        await until(lambda name=name: _is_gone(asker, name))
    may_end.set()
    await leaving
    assert [(await call).content for call in calls] == names


async def _call(mesh: Mesh, name: str, seconds: float = 20.0) -> ToolResult:
    context = ToolCallContext(
        session_id="s", platform="p", turn_id="t", call_id="c", key=name, enabled_groups=[]
    )
    request = ToolCallRequest(name=name, args={}, context=context)
    return await mesh.request(tool_call(name), request, ToolResult, seconds)


async def _answers(mesh: Mesh, expected: str) -> bool:
    try:
        return await ask(mesh) == expected
    except Absent:
        return False


async def _is_gone(mesh: Mesh, name: str) -> bool:
    try:
        await _call(mesh, name, seconds=0.1)
    except Absent as error:
        return error.why == "no responder"
    return False


async def _all_answer(mesh: Mesh, expected: str) -> bool:
    return all([await _answers(mesh, expected) for _ in range(10)])


async def _holds(mesh: Mesh, plugin: str) -> bool:
    return await holder(mesh) == plugin


def _entry(plugin: str) -> dict[str, object]:
    return {"definition": {"type": "function", "function": {"name": "t"}}, "plugin": plugin}


def _plugin_in(seen: Registry) -> str | None:
    entries = seen.tools()
    return entries[0].plugin if entries else None
