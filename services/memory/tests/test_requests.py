"""What memory does for each `memory.*` subject (SPEC §6.1, §6.2)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aalis_contracts import subjects
from aalis_contracts.catalogue import Catalogue
from aalis_contracts.contract import Contract
from aalis_contracts.errors import InvalidRequest
from aalis_contracts.events import HistoryChanged, InboundArchived, MessagesDeleted
from aalis_contracts.hooks import ClearReport, MemoryClearData
from aalis_contracts.messages import Message
from aalis_contracts.rpc import (
    Archived,
    ClearResults,
    MemoryClear,
    MetadataItems,
    NoticeArchived,
    Rows,
)
from aalis_memory.adapters.database import Database
from aalis_memory.adapters.fakes import LocalClearing, NotedEvents
from aalis_memory.adapters.store_sql import SqlStore
from aalis_memory.requests import HANDLERS, Memory, clear, how_many_fit, newest_that_fit
from aalis_memory.rows import AFTER_TURN

Ask = Callable[..., Any]


@pytest.fixture
def events() -> NotedEvents:
    return NotedEvents()


@pytest.fixture
def clearing() -> LocalClearing:
    return LocalClearing()


@pytest.fixture
def memory(
    store: SqlStore, events: NotedEvents, clearing: LocalClearing, clock: Callable[[], int]
) -> Memory:
    return Memory(store, events, clearing, Catalogue("zh"), clock)


@pytest.fixture
def ask(memory: Memory) -> Ask:
    """Ask as the mesh does: JSON in, JSON out."""

    async def asked(subject: str, **fields: Any) -> Any:
        handler = HANDLERS[subject]
        answer: Contract = await handler.answer(memory, handler.request.from_object(fields))
        return type(answer).from_json(answer.to_json())

    return asked


def user(seq: int, content: str = "hi", **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, "inputSeq": seq, "index": 0, **more}


def said(**fields: Any) -> dict[str, Any]:
    return {"content": "hello", "sessionId": "s", "platform": "qq", "userId": "42", **fields}


def texts(rows: Rows) -> list[str | None]:
    return [each.content for each in rows.messages]


def test_every_memory_subject_of_the_contracts_has_a_handler() -> None:
    declared = {
        route.template: route.body
        for route in subjects.ROUTES
        if route.kind == "request" and route.template.startswith("memory.") and route.answer
        and "{" not in route.template
    }  # fmt: skip
    assert {name: each.request.__name__ for name, each in HANDLERS.items()} == declared


async def test_rows_are_saved_read_and_trimmed(ask: Ask) -> None:
    injected = {"role": "system", "content": "x", "metadata": {"injector": "p"}}
    rows = [user(1), {**injected, "inputSeq": 1, "index": 1}, user(2, images=["data:x"])]
    saved = await ask(subjects.MESSAGE_SAVE, sessionId="s", messages=rows)
    assert [each.input_seq for each in saved.messages] == [1, 2]
    assert saved.messages[1].images is None
    assert len((await ask(subjects.HISTORY_GET, sessionId="s", limit=50)).messages) == 2
    assert (await ask(subjects.HISTORY_TRIM, sessionId="s", keepRecent=1)).count == 1
    assert len((await ask(subjects.HISTORY_GET, sessionId="s", limit=50)).messages) == 1
    assert len((await ask(subjects.HISTORY_FULL, sessionId="s")).messages) == 2
    before = {"inputSeq": 2, "index": 0}
    full = await ask(subjects.HISTORY_FULL, sessionId="s", before=before)
    assert [each.input_seq for each in full.messages] == [1]


async def test_one_bad_row_saves_none(ask: Ask) -> None:
    with pytest.raises(InvalidRequest):
        await ask(
            subjects.MESSAGE_SAVE,
            sessionId="s",
            messages=[user(1), {"role": "notice", "content": "no key"}],
        )
    assert (await ask(subjects.HISTORY_FULL, sessionId="s")).messages == []


async def test_a_history_too_large_for_one_message_loses_its_oldest_rows(ask: Ask) -> None:
    for seq in range(4):
        await ask(subjects.MESSAGE_SAVE, sessionId="s", messages=[user(seq, str(seq) * 2_500_000)])
    history = await ask(subjects.HISTORY_GET, sessionId="s", limit=50)
    assert [each.input_seq for each in history.messages] == [2, 3]
    ends = {"from": {"inputSeq": 0, "index": 0}, "to": {"inputSeq": 9, "index": 0}}
    found = await ask(subjects.MESSAGES_RANGE, sessionId="s", **ends)
    assert [each.input_seq for each in found.messages] == [0, 1]


def test_one_row_is_answered_however_large_it_is() -> None:
    large = Message(role="user", content="x" * 7_000_000)
    assert how_many_fit([large]) == 1
    assert newest_that_fit([large, large]) == [large]
    assert newest_that_fit(list[Message]()) == []


async def test_replacing_text_tells_only_when_something_changed(
    ask: Ask, events: NotedEvents
) -> None:
    await ask(subjects.MESSAGE_SAVE, sessionId="s", messages=[user(1, "a%b"), user(2, "axb")])
    changed = await ask(subjects.MESSAGE_UPDATE, sessionId="s", old="a%b", new="c")
    assert changed.count == 1
    assert (await ask(subjects.MESSAGE_UPDATE, sessionId="s", old="zzz", new="c")).count == 0
    assert events.told == [HistoryChanged(session_id="s")]


async def test_deleting_tells_what_is_gone_and_then_that_the_history_changed(
    ask: Ask, events: NotedEvents
) -> None:
    await ask(subjects.MESSAGE_SAVE, sessionId="s", messages=[user(1), user(2)])
    keys = [{"inputSeq": 2, "index": 0}, {"inputSeq": 9, "index": 0}]
    assert (await ask(subjects.MESSAGES_DELETE, sessionId="s", keys=keys)).count == 1
    assert (await ask(subjects.MESSAGES_DELETE, sessionId="s", keys=keys)).count == 0
    assert events.told == [
        MessagesDeleted(session_id="s", keys=[(2, 0)]),
        HistoryChanged(session_id="s"),
    ]


async def test_recent_rows_name_their_sessions(ask: Ask) -> None:
    await ask(subjects.MESSAGE_SAVE, sessionId="a", messages=[user(1)])
    await ask(subjects.MESSAGE_SAVE, sessionId="b", messages=[user(1)])
    found = await ask(subjects.MESSAGES_RECENT, excludeSessions=["b"])
    assert [each.session_id for each in found.messages] == ["a"]


async def test_metadata_is_put_read_listed_committed_and_deleted(ask: Ask) -> None:
    where = {"namespace": "n", "key": "k"}
    assert (await ask(subjects.METADATA_GET, **where)).items == []
    assert (await ask(subjects.METADATA_DELETE, **where)).count == 0
    assert (await ask(subjects.METADATA_PUT, **where, value={"a": [1]})).count == 1
    found: MetadataItems = await ask(subjects.METADATA_GET, **where)
    assert [item.value for item in found.items] == [{"a": [1]}]
    changes = [{"op": "delete", **where}, {"op": "put", "namespace": "n", "key": "x", "value": 0}]
    assert (await ask(subjects.METADATA_COMMIT, changes=changes)).count == 2
    listed: MetadataItems = await ask(subjects.METADATA_LIST, namespace="n")
    assert [(item.key, item.value) for item in listed.items] == [("x", 0)]
    assert (await ask(subjects.METADATA_COMMIT, changes=[])).count == 0


# archive ---------------------------------------------------------------------------------


async def test_archiving_twice_keeps_and_answers_one_row(ask: Ask, events: NotedEvents) -> None:
    first: Archived = await ask(subjects.ARCHIVE_INCOMING, incoming=said(), inputSeq=7)
    again: Archived = await ask(
        subjects.ARCHIVE_INCOMING, incoming=said(content="changed"), inputSeq=7
    )
    assert (first.created, again.created) == (True, False)
    assert first.message == again.message
    assert (first.message.input_seq, first.message.index) == (7, 0)
    assert len((await ask(subjects.HISTORY_FULL, sessionId="s")).messages) == 1
    # Both tell the same row under the same key, so that a stream keeps one of them.
    told = [event for event in events.told if isinstance(event, InboundArchived)]
    assert [(event.input_seq, event.archived_message) for event in told] == [
        (7, first.message),
        (7, first.message),
    ]


async def test_the_time_of_a_message_is_the_requests_or_its_own_or_now(
    ask: Ask, clock: Any
) -> None:
    async def archived(seq: int, **fields: Any) -> int | None:
        own = fields.pop("own", None)
        answer: Archived = await ask(
            subjects.ARCHIVE_INCOMING, incoming=said(timestamp=own), inputSeq=seq, **fields
        )
        return answer.message.timestamp

    assert await archived(1, own=5, timestamp=6) == 6
    assert await archived(2, own=5) == 5
    assert await archived(3) == clock.now


async def test_a_shadow_archive_stands_behind_the_newest_input_and_is_idempotent(
    ask: Ask, events: NotedEvents
) -> None:
    await ask(subjects.ARCHIVE_INCOMING, incoming=said(), inputSeq=7)
    shadow = said(messageId="m1")
    first: Archived = await ask(subjects.ARCHIVE_INCOMING, incoming=shadow)
    again: Archived = await ask(subjects.ARCHIVE_INCOMING, incoming=shadow)
    keyed: Archived = await ask(
        subjects.ARCHIVE_INCOMING, incoming=shadow, idempotencyKey="qq:s:m1"
    )
    assert (first.message.input_seq, first.message.index) == (7, AFTER_TURN)
    assert (again.message, again.created) == (first.message, False)
    assert keyed.message.index == AFTER_TURN + 1
    told = events.told[-1]
    assert isinstance(told, InboundArchived)
    assert (told.input_seq, told.archived_message.index) == (7, AFTER_TURN + 1)


async def test_a_shadow_archive_without_any_id_is_kept_each_time(ask: Ask) -> None:
    for _ in range(2):
        await ask(subjects.ARCHIVE_INCOMING, incoming=said())
    assert len((await ask(subjects.HISTORY_FULL, sessionId="s")).messages) == 2


async def test_an_idle_trigger_is_refused(ask: Ask) -> None:
    with pytest.raises(InvalidRequest):
        await ask(subjects.ARCHIVE_INCOMING, incoming=said(source="idle-trigger"), inputSeq=7)


async def test_a_notice_is_kept_once_and_tells_nobody(ask: Ask, events: NotedEvents) -> None:
    body = {"sessionId": "s", "noticeType": "poke", "content": "poked", "idempotencyKey": "k"}
    first: NoticeArchived = await ask(subjects.ARCHIVE_NOTICE, **body)
    again: NoticeArchived = await ask(subjects.ARCHIVE_NOTICE, **body)
    assert first.message == again.message
    blank: NoticeArchived = await ask(subjects.ARCHIVE_NOTICE, **{**body, "content": " "})
    assert blank.message is None
    del body["idempotencyKey"]
    await ask(subjects.ARCHIVE_NOTICE, **body)
    assert len((await ask(subjects.HISTORY_FULL, sessionId="s")).messages) == 2
    assert events.told == []


async def test_sent_attachments_leave_marker_rows_once(ask: Ask) -> None:
    attachments = [{"kind": "image", "ref": "r"}, {"kind": "video"}]
    for _ in range(2):
        rows = await ask(
            subjects.ARCHIVE_OUTGOING, sessionId="s", idempotencyKey="k", attachments=attachments
        )
        assert texts(rows) == ["[图片 | ref:r]", "[视频]"]
    assert len((await ask(subjects.HISTORY_FULL, sessionId="s")).messages) == 2


async def test_an_archived_message_is_found_by_its_platform_id(ask: Ask) -> None:
    await ask(subjects.ARCHIVE_INCOMING, incoming=said(messageId="m1"), inputSeq=1)
    found = await ask(subjects.ARCHIVE_FIND, sessionId="s", messageId="m1")
    assert texts(found) == ["[42]: hello"]
    assert (await ask(subjects.ARCHIVE_FIND, sessionId="s", messageId="m2")).messages == []


# clearing --------------------------------------------------------------------------------


async def fill(ask: Ask) -> None:
    for session in ("s", "t"):
        await ask(subjects.MESSAGE_SAVE, sessionId=session, messages=[user(1), user(2)])
        await ask(subjects.HISTORY_TRIM, sessionId=session, keepRecent=1)
        for namespace in ("summary", "todo-list"):
            await ask(subjects.METADATA_PUT, namespace=namespace, key=session, value=1)
    await ask(subjects.METADATA_PUT, namespace="other", key="s", value=1)


async def left(ask: Ask) -> dict[str, Any]:
    rows = {
        session: len((await ask(subjects.HISTORY_FULL, sessionId=session)).messages)
        for session in ("s", "t")
    }
    keys = {
        namespace: [
            item.key for item in (await ask(subjects.METADATA_LIST, namespace=namespace)).items
        ]
        for namespace in ("summary", "todo-list", "other")
    }
    return {**rows, **keys}


async def test_clearing_a_session_takes_its_rows_summary_and_todo_list(
    ask: Ask, events: NotedEvents
) -> None:
    await fill(ask)
    answer: ClearResults = await ask(subjects.MEMORY_CLEAR, sessionId="s")
    assert [(each.source, each.success) for each in answer.results] == [
        ("context", True),
        ("summary", True),
    ]
    assert await left(ask) == {
        "s": 0,
        "t": 2,
        "summary": ["t"],
        "todo-list": ["t"],
        "other": ["s"],
    }
    assert events.told == [HistoryChanged(session_id="s")]


async def test_clearing_everything_takes_all_metadata_too(ask: Ask, events: NotedEvents) -> None:
    await fill(ask)
    await ask(subjects.MEMORY_CLEAR, scope="all", sessionId="s")
    assert await left(ask) == {"s": 0, "t": 0, "summary": [], "todo-list": [], "other": []}
    assert events.told == [HistoryChanged(session_id="s"), HistoryChanged(session_id="t")]


async def test_clearing_one_type_leaves_the_others(ask: Ask, events: NotedEvents) -> None:
    await fill(ask)
    answer: ClearResults = await ask(subjects.MEMORY_CLEAR, sessionId="s", types=["vector"])
    assert answer.results == []
    await ask(subjects.MEMORY_CLEAR, sessionId="s", types=["summary"])
    found = await left(ask)
    assert (found["s"], found["summary"], found["todo-list"]) == (2, ["t"], ["s", "t"])
    assert events.told == []
    await ask(subjects.MEMORY_CLEAR, scope="all", types=["context"])
    found = await left(ask)
    assert (found["s"], found["t"], found["summary"], found["todo-list"]) == (0, 0, ["t"], [])


async def test_participants_report_and_may_narrow_what_is_cleared(
    ask: Ask, clearing: LocalClearing
) -> None:
    await fill(ask)
    report = ClearReport(source="vector", success=False, message="index is down")

    def narrow(data: MemoryClearData) -> tuple[MemoryClearData, bool]:
        return data.model_copy(update={"results": [report], "types": ["summary"]}), True

    clearing.interceptor = narrow
    answer: ClearResults = await ask(subjects.MEMORY_CLEAR, sessionId="s")
    assert [each.source for each in answer.results] == ["vector", "summary"]
    assert (await left(ask))["s"] == 2


async def test_a_participant_that_stops_keeps_everything(ask: Ask, clearing: LocalClearing) -> None:
    await fill(ask)
    clearing.interceptor = lambda data: (data, False)
    answer: ClearResults = await ask(subjects.MEMORY_CLEAR, sessionId="s")
    assert answer.results == []
    assert (await left(ask))["s"] == 2


async def test_what_could_not_be_cleared_is_reported(
    tmp_path: Path, clock: Callable[[], int]
) -> None:
    path = tmp_path / "memory.db"
    database = Database(f"sqlite:///{path}")
    await database.open()
    store = SqlStore(database, clock)
    events = NotedEvents()
    memory = Memory(store, events, LocalClearing(), Catalogue("zh"), clock)
    path.rename(tmp_path / "gone.db")
    answer = await clear(memory, MemoryClear(session_id="s"))
    assert [(each.source, each.success) for each in answer.results] == [
        ("context", False),
        ("summary", False),
    ]
    assert events.told == []
    await database.close()


async def test_a_session_to_clear_must_be_named(ask: Ask, clearing: LocalClearing) -> None:
    with pytest.raises(InvalidRequest):
        await ask(subjects.MEMORY_CLEAR)
    clearing.interceptor = lambda data: (data.model_copy(update={"session_id": None}), True)
    with pytest.raises(InvalidRequest):
        await ask(subjects.MEMORY_CLEAR, sessionId="s")
