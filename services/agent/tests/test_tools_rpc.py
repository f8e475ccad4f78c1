"""Tools on a real server: one call, whatever happens to its host while it is waited for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from aalis_agent.adapters import tools_rpc
from aalis_agent.adapters.tools_rpc import MeshTools
from aalis_agent.ports import Unavailable
from aalis_contracts.errors import ErrorBody, ErrorReply
from aalis_contracts.registry import ToolEntry
from aalis_contracts.subjects import tool_call, tool_key
from aalis_contracts.tools import ToolCallContext, ToolCallRequest, ToolResult
from aalis_sdk.buckets import Bucket
from aalis_sdk.plugin import Plugin
from aalis_sdk.topology import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nats.aio.msg import Msg

    from aalis_contracts.text import JsonObject
    from aalis_sdk.mesh import Mesh
    from aalis_sdk.registry import Registry
    from aalis_sdk.testing.meshes import Meshes

    Attach = Callable[..., Awaitable[Mesh]]
    Start = Callable[[Mesh], Awaitable[Registry]]

PATIENCE = 20.0


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a call asked for again after a moment."""
    monkeypatch.setattr(tools_rpc, "SLICE_SECONDS", 0.3)


@pytest.fixture
def tool(session_id: str) -> str:
    """Give the name of a tool that no other test offers."""
    return f"tool-{session_id}"


def request(tool: str) -> ToolCallRequest:
    context = ToolCallContext(
        session_id="s", platform="p", turn_id="t", call_id="c", key=f"{tool}.1", enabled_groups=[]
    )
    return ToolCallRequest(name=tool, args={}, context=context)


def entry(tool: str, timeout_ms: int = 20_000) -> ToolEntry:
    return ToolEntry.from_object(
        {
            "definition": {"type": "function", "function": {"name": tool}},
            "plugin": "p",
            "timeoutMs": timeout_ms,
        }
    )


class Waiting:
    """A tool that waits until it may end."""

    def __init__(self, tool: str) -> None:
        self.begun, self.may_end, self.runs = asyncio.Event(), asyncio.Event(), 0
        self.plugin = Plugin("p")
        self.plugin.tool(tool, "waits")(self._run)

    async def _run(self, _: JsonObject, __: ToolCallContext) -> str:
        self.runs += 1
        self.begun.set()
        await self.may_end.wait()
        return "done"


async def tools_of(mesh: Meshes, registry: Start, name: str) -> MeshTools:
    """Return the tools of a process that has heard of this one."""
    connected = await mesh()
    seen = await registry(connected)
    await seen.wait_for(lambda: seen.get(tool_key(name)) is not None, PATIENCE)
    return MeshTools(connected, seen)


async def test_a_long_call_is_asked_for_again_and_runs_once(
    mesh: Meshes, attach: Attach, registry: Start, tool: str
) -> None:
    host = Waiting(tool)
    await attach(host.plugin)
    tools = await tools_of(mesh, registry, tool)
    calling = asyncio.create_task(tools.call(entry(tool), request(tool)))
    await host.begun.wait()
    await asyncio.wait({calling}, timeout=1.0)
    host.may_end.set()
    assert (await calling).content == "done"
    assert host.runs == 1


async def test_nobody_there_is_absent_at_once_and_has_begun_nothing(
    mesh: Meshes, registry: Start, tool: str
) -> None:
    connected = await mesh()
    await Bucket(connected, REGISTRY).put(tool_key(tool), entry(tool), 30)
    tools = await tools_of(mesh, registry, tool)
    with pytest.raises(Unavailable) as absent:
        await tools.call(entry(tool), request(tool))
    assert not absent.value.begun


async def test_a_call_that_was_sent_before_waits_for_a_host_that_restarts(
    mesh: Meshes, attach: Attach, registry: Start, tool: str
) -> None:
    connected = await mesh()
    await Bucket(connected, REGISTRY).put(tool_key(tool), entry(tool), 30)
    tools = await tools_of(mesh, registry, tool)
    calling = asyncio.create_task(tools.call(entry(tool), request(tool), begun=True))
    await asyncio.wait({calling}, timeout=0.3)
    assert not calling.done()
    host = Waiting(tool)
    host.may_end.set()
    await attach(host.plugin)
    assert (await calling).content == "done"


async def test_a_host_that_leaves_in_the_middle_for_good_may_have_done_it(
    mesh: Meshes, attach: Attach, registry: Start, tool: str
) -> None:
    host = Waiting(tool)
    await attach(host.plugin, grace_seconds=0.1)
    tools = await tools_of(mesh, registry, tool)
    calling = asyncio.create_task(tools.call(entry(tool), request(tool)))
    await host.begun.wait()
    await host.plugin.detach()
    with pytest.raises(Unavailable) as absent:
        await calling
    assert absent.value.begun


async def test_a_host_that_died_in_the_middle_is_waited_for_while_it_is_registered(
    mesh: Meshes, attach: Attach, registry: Start, tool: str
) -> None:
    connected = await mesh()
    taken = asyncio.Event()

    async def die(_: Msg) -> None:
        taken.set()

    dying = await connected.client.subscribe(tool_call(tool).name, cb=die)
    await connected.settle()
    await Bucket(connected, REGISTRY).put(tool_key(tool), entry(tool), 30)
    tools = await tools_of(mesh, registry, tool)
    calling = asyncio.create_task(tools.call(entry(tool), request(tool)))
    await taken.wait()
    await dying.unsubscribe()
    await asyncio.wait({calling}, timeout=1.0)
    assert not calling.done()
    back = Waiting(tool)
    back.may_end.set()
    await attach(back.plugin)
    assert (await calling).content == "done"


async def test_a_host_that_never_answers_costs_its_timeout_even_if_it_cannot_be_asked(
    mesh: Meshes, attach: Attach, registry: Start, tool: str
) -> None:
    host = Waiting(tool)
    await attach(host.plugin, grace_seconds=0.1)
    tools = await tools_of(mesh, registry, tool)
    with pytest.raises(TimeoutError):
        await tools.call(entry(tool, timeout_ms=700), request(tool))
    await tools.cancel(tool, f"{tool}.1", "timeout")
    # Without a connection each question fails at once; that must not stop the event loop.
    gone = await mesh()
    cut_off = MeshTools(gone, await registry(gone))
    await gone.close()
    with pytest.raises(TimeoutError):
        await cut_off.call(entry(tool, timeout_ms=300), request(tool))
    await cut_off.cancel(tool, "x", "timeout")


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        (ToolResult(content="fine").to_json(), "fine"),
        (ErrorReply(error=ErrorBody(code="refused", message="not you")).to_json(), "not you"),
        (b"not json", "unreadable answer"),
        (b"null", "unreadable answer"),
        (b'{"content":5}', "unreadable answer"),
    ],
)
async def test_whatever_a_host_answers_is_a_result(
    mesh: Meshes, registry: Start, tool: str, answer: bytes, content: str
) -> None:
    connected = await mesh()

    async def respond(message: Msg) -> None:
        await message.respond(answer)

    await connected.client.subscribe(tool_call(tool).name, cb=respond)
    await connected.settle()
    await Bucket(connected, REGISTRY).put(tool_key(tool), entry(tool), 30)
    tools = await tools_of(mesh, registry, tool)
    assert content in (await tools.call(entry(tool), request(tool))).content
