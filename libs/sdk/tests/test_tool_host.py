"""This is about tool calls: each happens once, whoever asks how often, and whoever dies."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from aalis_contracts.catalogue import Catalogue
from aalis_contracts.errors import ErrorReply, Fault
from aalis_contracts.registry import ToolEntry
from aalis_contracts.subjects import tool_call, tool_cancel, tool_key
from aalis_contracts.tools import (
    FunctionDefinition,
    ToolCallContext,
    ToolCallRequest,
    ToolCancel,
    ToolDefinition,
    ToolResult,
)
from aalis_sdk import tool_host
from aalis_sdk.buckets import Bucket
from aalis_sdk.failures import Remote
from aalis_sdk.plugin import Plugin
from aalis_sdk.tool_host import CallRecord, Tool, ToolHost, record_key
from aalis_sdk.topology import TOOL_RESULTS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aalis_contracts.text import JsonObject
    from aalis_sdk.mesh import Mesh
    from aalis_sdk.testing.meshes import Meshes

    Attach = Callable[..., Awaitable[Mesh]]
    Handler = Callable[[JsonObject, ToolCallContext], Awaitable[object]]

TEXTS = Catalogue("zh")
PATIENCE = 20.0


class Counted:
    """A tool's handler that counts its effects and waits until it may end."""

    def __init__(self, value: object = "done", *, waits: bool = False) -> None:
        self.value = value
        self.keys: list[str] = []
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()
        if not waits:
            self.may_end.set()

    async def __call__(self, args: JsonObject, context: ToolCallContext) -> object:
        self.keys.append(context.key)
        self.begun.set()
        await self.may_end.wait()
        if isinstance(self.value, BaseException):
            raise self.value
        return args if self.value is args else self.value


def offering(handler: Handler, **more: Any) -> Plugin:
    plugin = Plugin("p")
    plugin.tool("t", "a tool", **more)(handler)
    return plugin


def request(key: str, args: JsonObject | None = None, *groups: str) -> ToolCallRequest:
    context = ToolCallContext(
        session_id="s", platform="p", turn_id="t", call_id="c", key=key, enabled_groups=[*groups]
    )
    return ToolCallRequest(name="t", args=args or {}, context=context)


async def call(mesh: Mesh, asked: ToolCallRequest, timeout: float = PATIENCE) -> str:
    return (await mesh.request(tool_call("t"), asked, ToolResult, timeout)).content


async def state(mesh: Mesh, key: str) -> str | None:
    record = await Bucket(mesh, TOOL_RESULTS).get(record_key(key))
    return None if record is None else CallRecord.from_json(record.value).state


def failure(content: str) -> str:
    return json.loads(content)["error"]


# once -----------------------------------------------------------------------------------


async def test_a_repeated_key_gets_the_stored_result_from_whichever_host(
    mesh: Meshes, attach: Attach, session_id: str
) -> None:
    first, second = Counted({"n": 1}), Counted({"n": 2})
    plugin = offering(first)
    await attach(plugin)
    asker = await mesh()
    assert await call(asker, request(session_id)) == '{"n":1}'
    assert await call(asker, request(session_id)) == '{"n":1}'
    await plugin.detach()
    await attach(offering(second))
    assert await call(asker, request(session_id)) == '{"n":1}'
    assert await call(asker, request(f"{session_id}.other")) == '{"n":2}'
    assert (first.keys, second.keys) == ([session_id], [f"{session_id}.other"])


async def test_a_repeated_key_joins_the_call_that_is_still_running(
    mesh: Meshes, attach: Attach, session_id: str
) -> None:
    handler = Counted(waits=True)
    await attach(offering(handler))
    asker = await mesh()
    with pytest.raises(Exception, match="no answer"):
        await call(asker, request(session_id), timeout=0.2)
    joined = [asyncio.create_task(call(asker, request(session_id))) for _ in range(3)]
    await handler.begun.wait()
    handler.may_end.set()
    assert [await one for one in joined] == ["done"] * 3
    assert handler.keys == [session_id]


async def test_a_call_that_runs_on_another_host_is_joined_there(
    mesh: Meshes, attach: Attach, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_host, "BEAT_SECONDS", 0.1)
    monkeypatch.setattr(tool_host, "DEAD_AFTER_SECONDS", 2.5)
    here, there = Counted("here", waits=True), Counted("there", waits=True)
    plugin = offering(here)
    await attach(plugin)
    asker = await mesh()
    running = asyncio.create_task(call(asker, request(session_id)))
    await here.begun.wait()
    leaving = asyncio.create_task(plugin.detach())
    await attach(offering(there))
    joined = asyncio.create_task(call(asker, request(session_id)))
    # Its record is written again and again, so it is not taken for dead.
    beats = Bucket(asker, TOOL_RESULTS)
    async with asyncio.timeout(PATIENCE):
        while True:
            record = await beats.get(record_key(session_id))
            if record is not None and CallRecord.from_json(record.value).beat >= 30:
                break
            await asyncio.sleep(0.05)
    here.may_end.set()
    assert [await running, await joined] == ["here", "here"]
    assert there.keys == []
    await leaving


@pytest.mark.parametrize("retry", ["safe", "never"])
async def test_the_call_of_a_dead_host_runs_again_only_if_that_is_safe(
    mesh: Meshes, attach: Attach, session_id: str, monkeypatch: pytest.MonkeyPatch, retry: str
) -> None:
    monkeypatch.setattr(tool_host, "DEAD_AFTER_SECONDS", 0.3)
    handler = Counted()
    await attach(offering(handler, retry=retry))
    asker = await mesh()
    dead = CallRecord(state="started", host="dead", beat=7)
    await Bucket(asker, TOOL_RESULTS).create(record_key(session_id), dead, f"{session_id}.dead")
    answers = [await call(asker, request(session_id)) for _ in range(2)]
    if retry == "safe":
        assert answers == ["done", "done"]
        assert handler.keys == [session_id]
    else:
        assert [failure(answer) for answer in answers] == [TEXTS.text("outcomeUnknown")] * 2
        assert handler.keys == []
    assert await state(asker, session_id) == "finished"


async def test_of_two_hosts_that_find_a_dead_one_only_one_runs_the_call(
    mesh: Meshes, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_host, "DEAD_AFTER_SECONDS", 0.3)
    handler = Counted()
    tool = entry(handler, retry="safe")
    connected = await mesh()
    dead = CallRecord(state="started", host="dead")
    await Bucket(connected, TOOL_RESULTS).create(record_key(session_id), dead, f"{session_id}.d")
    hosts = [ToolHost(await mesh(), TEXTS) for _ in range(4)]
    answers = await asyncio.gather(*(host.call(tool, request(session_id)) for host in hosts))
    assert [answer.content for answer in answers] == ["done"] * 4
    assert handler.keys == [session_id]


async def test_a_call_whose_record_has_expired_is_a_new_one(
    mesh: Meshes, attach: Attach, session_id: str
) -> None:
    handler = Counted()
    await attach(offering(handler))
    asker = await mesh()
    await call(asker, request(session_id))
    bucket = Bucket(asker, TOOL_RESULTS)
    await asker.js.purge_stream(bucket.stream, subject=bucket.subject(record_key(session_id)).name)
    assert await call(asker, request(session_id)) == "done"
    await bucket.delete(record_key(session_id))
    assert await call(asker, request(session_id)) == "done"
    assert handler.keys == [session_id] * 3


async def test_a_key_of_any_length_and_any_characters_is_one_key(
    mesh: Meshes, attach: Attach, session_id: str
) -> None:
    handler = Counted()
    await attach(offering(handler))
    asker = await mesh()
    for key in (f"{session_id} %.*>", session_id + "长" * 2000):
        assert await call(asker, request(key)) == await call(asker, request(key)) == "done"
    assert len(handler.keys) == 2


async def test_a_call_asked_for_again_and_again_keeps_only_some_askers_waiting(
    mesh: Meshes, session_id: str
) -> None:
    handler = Counted(waits=True)
    host, tool = ToolHost(await mesh(), TEXTS), entry(handler)
    askers = [
        asyncio.create_task(host.call(tool, request(session_id)))
        for _ in range(3 * tool_host.MOST_ASKERS)
    ]
    early, late = askers[: -tool_host.MOST_ASKERS], askers[-tool_host.MOST_ASKERS :]
    async with asyncio.timeout(PATIENCE):
        outcomes = await asyncio.gather(*early, return_exceptions=True)
    assert all(isinstance(outcome, Fault) for outcome in outcomes)
    handler.may_end.set()
    assert [(await asker).content for asker in late] == ["done"] * tool_host.MOST_ASKERS
    assert handler.keys == [session_id]
    assert (await host.call(tool, request(session_id))).content == "done"


# ended from outside ---------------------------------------------------------------------


async def test_a_cancelled_call_ends_and_stays_cancelled(
    mesh: Meshes, attach: Attach, session_id: str
) -> None:
    handler = Counted(waits=True)
    await attach(offering(handler))
    asker = await mesh()
    running = asyncio.create_task(call(asker, request(session_id)))
    await handler.begun.wait()
    await asker.publish(tool_cancel("t"), ToolCancel(key="another", reason="x"))
    await asker.publish(tool_cancel("t"), ToolCancel(key=session_id, reason="timeout"))
    assert failure(await running) == TEXTS.text("cancelled")
    handler.may_end.set()
    assert failure(await call(asker, request(session_id))) == TEXTS.text("cancelled")
    assert len(handler.keys) == 1


async def test_a_host_that_leaves_finishes_what_it_runs(
    mesh: Meshes, attach: Attach, session_id: str
) -> None:
    handler = Counted(waits=True)
    plugin = offering(handler)
    await attach(plugin)
    asker = await mesh()
    running = asyncio.create_task(call(asker, request(session_id)))
    await handler.begun.wait()
    leaving = asyncio.create_task(plugin.detach())
    await asyncio.sleep(0)
    handler.may_end.set()
    assert await running == "done"
    await leaving
    assert await state(asker, session_id) == "finished"


# what is asked --------------------------------------------------------------------------

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city"],
    "additionalProperties": False,
}


async def test_arguments_that_do_not_fit_are_refused_with_every_reason(
    mesh: Meshes, attach: Attach, session_id: str
) -> None:
    handler = Counted()
    await attach(offering(handler, schema=SCHEMA))
    asker = await mesh()
    problems = failure(await call(asker, request(session_id, {"days": "3", "x": 1})))
    for word in ("city", "days", "'x'"):
        assert word in problems
    assert handler.keys == []
    # Nothing was recorded: the same call with better arguments is made.
    assert await state(asker, session_id) is None
    assert await call(asker, request(session_id, {"city": "Lisbon", "days": 3})) == "done"


async def test_a_tool_outside_the_groups_of_the_caller_is_not_found(
    mesh: Meshes, attach: Attach, session_id: str
) -> None:
    handler = Counted()
    await attach(offering(handler, groups=["web", "files"]))
    asker = await mesh()
    for groups in ((), ("other",), ("WEB",)):
        answer = failure(await call(asker, request(session_id, {}, *groups)))
        assert answer == TEXTS.text("toolNotFound", name="t")
    assert handler.keys == []
    assert await call(asker, request(session_id, {}, "files")) == "done"
    assert await call(asker, request(f"{session_id}.2", {}, "*")) == "done"


@pytest.mark.parametrize(
    "body",
    [b"", b"no json", b"null", b"[]", b"{}", b'{"name":"t","args":[],"context":{}}', b"\xff" * 9],
)
async def test_a_body_that_is_no_call_is_answered_so_and_the_host_goes_on(
    mesh: Meshes, attach: Attach, session_id: str, body: bytes
) -> None:
    handler = Counted()
    await attach(offering(handler))
    asker = await mesh()
    reply = await asker.client.request(tool_call("t").name, body, timeout=PATIENCE)
    assert ErrorReply.from_json(reply.data).error.code == "invalid"
    with pytest.raises(Remote, match="key is empty"):
        await call(asker, request(""))
    assert await call(asker, request(session_id)) == "done"


# what is answered -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (None, TEXTS.text("noOutput")),
        ("", ""),
        ("text \ud83d", "text \ufffd"),
        ([1, {"a": None}], '[1,{"a":null}]'),
        (ToolResult(content="as it is"), "as it is"),
        (ValueError("no such city"), '{"error":"no such city"}'),
        (KeyError(), '{"error":"KeyError"}'),
        (TimeoutError(), '{"error":"TimeoutError"}'),
    ],
)
async def test_whatever_a_handler_does_is_a_text(
    mesh: Meshes, attach: Attach, session_id: str, value: object, content: str
) -> None:
    await attach(offering(Counted(value)))
    asker = await mesh()
    assert [await call(asker, request(session_id)) for _ in range(2)] == [content] * 2


async def test_a_result_too_big_for_a_message_is_cut_and_says_how_long_it_was(
    mesh: Meshes, attach: Attach, session_id: str
) -> None:
    handler = Counted("字" * 5_000_000)
    await attach(offering(handler))
    asker = await mesh()
    results = [
        await asker.request(tool_call("t"), request(session_id), ToolResult, PATIENCE)
        for _ in range(2)
    ]
    assert results[0] == results[1]
    marker = TEXTS.text("toolResultCut", length=5_000_000)
    assert results[0].content.endswith("字" + marker)
    assert results[0].original_length == 5_000_000
    assert len(handler.keys) == 1


# what is offered ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "string"},
        {"type": "object", "properties": {"a": {"type": "strin"}}},
        {"type": "object", "properties": []},
        {"type": "object", "required": "a"},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
    ],
)
def test_a_tool_without_a_proper_schema_is_refused_where_it_is_declared(
    schema: dict[str, Any],
) -> None:
    with pytest.raises(ValueError, match="tool 't': ") as refused:
        Plugin("p").tool("t", "x", schema={"x": 1, **schema})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["", "a b", "a.b", "x" * 65, "工具"])
def test_a_tool_whose_name_no_model_may_say_is_refused_where_it_is_declared(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        Plugin("p").tool(name, "x")


async def test_a_process_that_was_never_attached_serves_nothing(mesh: Meshes) -> None:
    plugin = offering(Counted())
    with pytest.raises(RuntimeError, match="not attached"):
        _ = plugin.mesh
    handle = await plugin.offer(tool_key("t"))
    await handle.withdraw()
    await plugin.detach()


def entry(handler: Handler, **more: Any) -> Tool:
    definition = ToolDefinition(function=FunctionDefinition(name="t"))
    return Tool(ToolEntry(definition=definition, plugin="p", **more), handler)
