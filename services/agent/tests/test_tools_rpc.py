"""Calls over the mesh: asked for again while a host restarts, and unknown where one is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from aalis_agent.adapters.tools_rpc import MeshTools
from aalis_agent.ports import Unanswered, Unavailable
from aalis_contracts import subjects
from aalis_contracts.errors import Fault
from aalis_contracts.registry import ToolEntry
from aalis_contracts.tools import (
    FunctionDefinition,
    InboundOrigin,
    ToolCallContext,
    ToolCallRequest,
    ToolDefinition,
    ToolResult,
)
from aalis_sdk.buckets import Bucket
from aalis_sdk.topology import REGISTRY

if TYPE_CHECKING:
    from aalis_sdk.mesh import Mesh, Offer
    from aalis_sdk.registry import Registry
    from aalis_sdk.testing.meshes import Meshes

pytestmark = pytest.mark.timeout(60)
NAME = "lathe"
ENTRY = ToolEntry(
    definition=ToolDefinition(function=FunctionDefinition(name=NAME, parameters={})), plugin="p"
)
REQUEST = ToolCallRequest(
    name=NAME,
    args={},
    context=ToolCallContext(
        session_id="s",
        platform="cli",
        turn_id="t",
        call_id="c",
        key="k",
        enabled_groups=[],
        accepts_images=False,
        inbound=InboundOrigin(),
    ),
)
Serving = Callable[[Callable[[ToolCallRequest], Awaitable[ToolResult]]], Awaitable["Offer"]]


@pytest_asyncio.fixture
async def caller(
    mesh: Meshes, registry: Callable[[Mesh], Awaitable[Registry]]
) -> tuple[MeshTools, Bucket]:
    """Give a caller of tools that gives up after a second, and the bucket of what is offered."""
    connected = await mesh("agent")
    known = await registry(connected)
    bucket = Bucket(connected, REGISTRY)
    await bucket.put(subjects.tool_key(NAME), ENTRY)
    await known.wait_for(lambda: bool(known.tools()), 20.0)
    return MeshTools(connected, known, patience=1.0), bucket


@pytest_asyncio.fixture
async def serve(mesh: Meshes) -> Serving:
    """Give a way to be the tool's host."""
    host = await mesh("host")

    async def begin(handler: Callable[[ToolCallRequest], Awaitable[ToolResult]]) -> Offer:
        subject = subjects.tool_call(NAME)
        return await host.respond(subject.template, ToolCallRequest, handler, name=subject.name)

    return begin


async def _done(_: ToolCallRequest) -> ToolResult:
    return ToolResult(content="done")


async def test_a_host_that_restarts_is_waited_for(
    caller: tuple[MeshTools, Bucket], serve: Serving
) -> None:
    tools, _ = caller
    calling = asyncio.create_task(tools.call(ENTRY, REQUEST))
    await asyncio.sleep(0)
    await serve(_done)
    assert (await calling).content == "done"


async def test_a_host_that_never_comes_back_is_absent(caller: tuple[MeshTools, Bucket]) -> None:
    tools, _ = caller
    with pytest.raises(Unavailable) as raised:
        await tools.call(ENTRY, REQUEST)
    assert not isinstance(raised.value, Unanswered)


async def test_a_tool_that_was_withdrawn_is_not_waited_for(
    caller: tuple[MeshTools, Bucket],
) -> None:
    tools, bucket = caller
    await bucket.delete(subjects.tool_key(NAME))
    patient = MeshTools(tools._mesh, tools._registry, patience=1000.0)
    await patient._registry.wait_for(lambda: not patient.entries(), 20.0)
    with pytest.raises(Unavailable):
        await patient.call(ENTRY, REQUEST)


async def test_a_host_that_is_gone_in_the_middle_of_a_call_leaves_it_unanswered(
    caller: tuple[MeshTools, Bucket], mesh: Meshes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aalis_agent.adapters.tools_rpc.SLICE_SECONDS", 0.5)
    tools, _ = caller
    host, asked = await mesh("doomed", grace_seconds=0.1), asyncio.Event()

    async def die(_: ToolCallRequest) -> ToolResult:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    subject = subjects.tool_call(NAME)
    await host.respond(subject.template, ToolCallRequest, die, name=subject.name)
    calling = asyncio.create_task(tools.call(ENTRY, REQUEST))
    await asked.wait()
    await host.client.close()
    with pytest.raises(Unanswered):
        await calling


async def test_a_host_that_cannot_record_a_call_now_is_asked_again(
    caller: tuple[MeshTools, Bucket], serve: Serving
) -> None:
    tools, _ = caller
    times: list[str] = []

    async def at_last(request: ToolCallRequest) -> ToolResult:
        times.append(request.context.key)
        if len(times) == 1:
            raise Fault("the bucket does not answer", "timeout")
        return ToolResult(content="done")

    await serve(at_last)
    assert (await tools.call(ENTRY, REQUEST)).content == "done"
    assert times == ["k", "k"]
