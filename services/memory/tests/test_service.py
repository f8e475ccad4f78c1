"""Memory as a process on the mesh: what others can rely on (SPEC RPC-1, EVT-3, EVT-13, MEM-9)."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from aalis_contracts import subjects
from aalis_contracts.contract import Contract
from aalis_contracts.events import HistoryChanged, InboundArchived, MessagesDeleted, TodoUpdated
from aalis_contracts.hooks import MEMORY_CLEAR, MemoryClearData
from aalis_contracts.messages import IncomingMessage, Message, MessageAttachment
from aalis_contracts.registry import ToolEntry
from aalis_contracts.rpc import (
    Archived,
    ArchiveIncoming,
    ClearResults,
    Count,
    HistoryGet,
    MemoryClear,
    MessageSave,
    MessagesDelete,
    MetadataCommit,
    MetadataItems,
    MetadataKey,
    RowKey,
    Rows,
)
from aalis_contracts.tools import ToolCallContext, ToolCallRequest, ToolResult
from aalis_sdk import topology
from aalis_sdk.mesh import Absent, Mesh, Remote
from aalis_sdk.plugin import Plugin
from aalis_sdk.registry import Registry
from aalis_sdk.testing.meshes import Meshes
from aalis_sdk.testing.postgres import PostgresServer
from aalis_sdk.testing.processes import ServiceProcess, Spawner

Answer = TypeVar("Answer", bound=Contract)
Ask = Callable[..., Awaitable[Any]]
Start = Callable[..., Awaitable[ServiceProcess]]


@pytest.fixture
def start(spawn_service: Spawner, tmp_path: Path) -> Start:
    """Give a function that starts memory on a database of this test."""

    async def started(url: str | None = None, **more: Any) -> ServiceProcess:
        where = {"AALIS_DATABASE_URL": url} if url else {"AALIS_DATA_DIR": str(tmp_path / "data")}
        environment = {"AALIS_HEALTH_PORT": "0", **where}
        return await spawn_service("aalis_memory", environment, **more)

    return started


@pytest.fixture
async def caller(mesh: Meshes) -> Mesh:
    return await mesh("caller")


async def ask(caller: Mesh, subject: str, body: Contract, answer: type[Answer]) -> Answer:
    return await caller.request(subjects.request(subject), body, answer, timeout=30)


def said(session: str, content: str = "hello", **more: Any) -> IncomingMessage:
    return IncomingMessage(content=content, session_id=session, platform="qq", user_id="42", **more)


def user(seq: int, content: str = "hi") -> Message:
    return Message(role="user", content=content, input_seq=seq, index=0)


async def history(caller: Mesh, session: str, limit: int = 50) -> list[Message]:
    request = HistoryGet(session_id=session, limit=limit)
    return (await ask(caller, subjects.HISTORY_GET, request, Rows)).messages


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.05)


def readiness(service: ServiceProcess) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"{service.health_url}/readyz", timeout=5) as answer:  # noqa: S310 - our own address
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


async def test_what_is_saved_survives_a_kill_and_a_restart(
    start: Start, caller: Mesh, session_id: str
) -> None:
    service = await start()
    rows = [user(1), Message(role="assistant", content="yes", input_seq=1, index=1)]
    saved = await ask(
        caller, subjects.MESSAGE_SAVE, MessageSave(session_id=session_id, messages=rows), Rows
    )
    assert saved.messages == rows
    service.kill()
    await start()
    assert await history(caller, session_id) == rows


async def test_an_archived_message_is_told_once_to_the_stream(
    start: Start, caller: Mesh, session_id: str
) -> None:
    await start()
    request = ArchiveIncoming(incoming=said(session_id), input_seq=7)
    first = await ask(caller, subjects.ARCHIVE_INCOMING, request, Archived)
    again = await ask(caller, subjects.ARCHIVE_INCOMING, request, Archived)
    assert (first.created, again.created) == (True, False)
    subject = subjects.archived(session_id).name
    [entry] = await caller.range(topology.EVENTS, subject, 1)
    event = InboundArchived.from_json(entry.data)
    assert (event.input_seq, event.archived_message) == (7, first.message)
    assert event.incoming == request.incoming


async def test_a_message_that_fills_the_wire_is_told_without_its_files(
    start: Start, caller: Mesh, session_id: str
) -> None:
    await start()
    picture = MessageAttachment(kind="image", data="x" * 4_500_000, description="y" * 2_000_000)
    request = ArchiveIncoming(incoming=said(session_id, attachments=[picture]), input_seq=7)
    answer = await ask(caller, subjects.ARCHIVE_INCOMING, request, Archived)
    assert answer.created
    [entry] = await caller.range(topology.EVENTS, subjects.archived(session_id).name, 1)
    told = InboundArchived.from_json(entry.data).incoming.attachments
    assert told is not None
    assert told[0].data is None


async def test_changes_are_told_to_whoever_shows_the_history(
    start: Start, caller: Mesh, session_id: str
) -> None:
    await start()
    heard: asyncio.Queue[Contract] = asyncio.Queue()
    await caller.listen(subjects.HISTORY_CHANGED, HistoryChanged, heard.put)
    await caller.listen(subjects.MESSAGES_DELETED, MessagesDeleted, heard.put)
    rows = MessageSave(session_id=session_id, messages=[user(1), user(2)])
    await ask(caller, subjects.MESSAGE_SAVE, rows, Rows)
    keys = [RowKey(input_seq=1, index=0)]
    delete = MessagesDelete(session_id=session_id, keys=keys)
    assert (await ask(caller, subjects.MESSAGES_DELETE, delete, Count)).count == 1
    told = [await asyncio.wait_for(heard.get(), 5) for _ in range(2)]
    assert MessagesDeleted(session_id=session_id, keys=[(1, 0)]) in told
    assert HistoryChanged(session_id=session_id) in told


async def test_participants_of_a_clear_are_asked_first(
    start: Start,
    caller: Mesh,
    registry: Callable[[Mesh], Awaitable[Registry]],
    session_id: str,
) -> None:
    await start()
    plugin = Plugin("vector")

    @plugin.intercept(MEMORY_CLEAR)
    async def clear(data: MemoryClearData) -> Any:  # pyright: ignore[reportUnusedFunction]
        reports = [each.to_object() for each in data.results]
        return {"results": [*reports, {"source": "vector", "success": True}]}

    await plugin.attach(caller, await registry(caller))
    try:
        rows = MessageSave(session_id=session_id, messages=[user(1)])
        await ask(caller, subjects.MESSAGE_SAVE, rows, Rows)
        sources: list[str] = []

        async def everyone_was_asked() -> bool:
            # The registry is watched: a participant that has just arrived is seen soon.
            request = MemoryClear(session_id=session_id)
            answer = await ask(caller, subjects.MEMORY_CLEAR, request, ClearResults)
            sources[:] = [each.source for each in answer.results]
            return "vector" in sources

        await until(everyone_was_asked)
        assert sources == ["vector", "context", "summary"]
        assert await history(caller, session_id) == []
    finally:
        await plugin.detach()


async def test_the_tools_are_offered_and_answer(
    start: Start,
    caller: Mesh,
    registry: Callable[[Mesh], Awaitable[Registry]],
    session_id: str,
) -> None:
    await start()
    known = await registry(caller)

    async def offered() -> bool:
        return known.get(subjects.tool_key("session_get_history")) is not None

    await until(offered)
    todo = known.get(subjects.tool_key("todo_list"))
    other = known.get(subjects.tool_key("session_get_history"))
    assert isinstance(todo, ToolEntry)
    assert isinstance(other, ToolEntry)
    assert (todo.groups, todo.retry) == ([], "safe")
    assert (other.groups, other.risk) == (["session-history"], "sensitive")
    heard: asyncio.Queue[TodoUpdated] = asyncio.Queue()
    await caller.listen(subjects.TODO_UPDATED, TodoUpdated, heard.put)
    context = ToolCallContext(
        session_id=session_id,
        platform="qq",
        turn_id="t",
        call_id="c",
        key=f"{session_id}.0.0",
        enabled_groups=[],
    )
    request = ToolCallRequest(
        name="todo_list", args={"items": [{"title": "plan"}]}, context=context
    )
    result = await caller.request(subjects.tool_call("todo_list"), request, ToolResult)
    items = [{"title": "plan", "status": "not-started"}]
    assert json.loads(result.content) == {"items": items}
    assert (await asyncio.wait_for(heard.get(), 5)).items == items


async def test_what_cannot_be_served_is_an_error_answer(start: Start, caller: Mesh) -> None:
    await start()
    broken = MessageSave(session_id="s", messages=[Message(role="user", content="no key")])
    with pytest.raises(Remote) as refused:
        await ask(caller, subjects.MESSAGE_SAVE, broken, Rows)
    assert refused.value.error.code == "invalid"
    with pytest.raises(Remote) as refused:
        await ask(caller, subjects.HISTORY_GET, MetadataCommit(changes=[]), Rows)
    assert refused.value.error.code == "invalid"


async def test_a_database_that_cannot_be_used_stops_the_service_with_one_line(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "diary.db").write_text("dear diary " * 1000)
    service = await start(f"sqlite:///{tmp_path / 'diary.db'}", ready=False)
    assert await service.wait(30) == 1
    said_at_last = service.log.strip().splitlines()[-1]
    assert said_at_last.startswith("aalis-memory: the database sqlite+pysqlite:///")
    assert "not a database" in said_at_last
    assert "Traceback" not in service.log
    assert (tmp_path / "diary.db").read_text() == "dear diary " * 1000


async def test_a_database_that_goes_and_comes_back_needs_no_restart(
    start: Start,
    caller: Mesh,
    session_id: str,
    postgres_server: PostgresServer,
    new_postgres_database: Callable[[], str],
) -> None:
    service = await start(new_postgres_database())
    save = MessageSave(session_id=session_id, messages=[user(1)])
    await ask(caller, subjects.MESSAGE_SAVE, save, Rows)
    assert readiness(service) == (200, {"status": "ready"})

    async def unready() -> bool:
        return readiness(service)[0] == 503

    async def ready() -> bool:
        return readiness(service)[0] == 200

    postgres_server.kill()
    try:
        with pytest.raises(Remote) as failed:
            await history(caller, session_id)
        assert (failed.value.error.code, failed.value.error.retryable) == ("internal", True)
        await until(unready)
        assert "127.0.0.1" not in json.dumps(readiness(service)[1])
    finally:
        postgres_server.start()
    assert [row.content for row in await history(caller, session_id)] == ["hi"]
    await until(ready)
    assert service.alive


async def test_two_replicas_share_the_work_on_one_database(
    start: Start, spawn_service: Spawner, caller: Mesh, session_id: str
) -> None:
    for replica in [await start(ready=False), await start(ready=False)]:
        await spawn_service.wait_until_ready(replica)
    saves = [
        ask(
            caller,
            subjects.MESSAGE_SAVE,
            MessageSave(session_id=session_id, messages=[user(seq % 20, f"{seq}")]),
            Rows,
        )
        for seq in range(80)
    ]
    answers = await asyncio.gather(*saves)
    kept = {row.input_seq: row for row in await history(caller, session_id, 100)}
    assert len(kept) == 20
    # Whoever asked was told what is really stored, whichever replica answered.
    assert all(kept[row.input_seq] == row for rows in answers for row in rows.messages)


async def test_a_process_that_leaves_answers_what_it_has_taken(
    start: Start, caller: Mesh, session_id: str
) -> None:
    service = await start()
    save = MessageSave(session_id=session_id, messages=[user(1)])
    await ask(caller, subjects.MESSAGE_SAVE, save, Rows)
    assert await service.terminate() == 0
    with pytest.raises(Absent):
        await history(caller, session_id)
    missing = MetadataKey(namespace="n", key="k")
    await start()
    assert (await ask(caller, subjects.METADATA_GET, missing, MetadataItems)).items == []
    assert len(await history(caller, session_id)) == 1
