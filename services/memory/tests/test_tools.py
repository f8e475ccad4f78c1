"""The tools `todo_list` and `session_get_history` (SPEC MEM-11, MEM-12, PB-9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from aalis_contracts.catalogue import Catalogue
from aalis_contracts.errors import InvalidRequest
from aalis_contracts.events import TodoUpdated
from aalis_contracts.messages import Message
from aalis_contracts.tools import ToolCallContext
from aalis_memory.adapters.fakes import LocalClearing, NotedEvents
from aalis_memory.adapters.store_sql import SqlStore
from aalis_memory.ports import Draft
from aalis_memory.requests import Memory
from aalis_memory.tools import (
    HISTORY_SCHEMA,
    TODO_SCHEMA,
    Visibility,
    session_get_history,
    todo_items,
    todo_list,
)


@pytest.fixture
def memory(store: SqlStore, clock: Callable[[], int]) -> Memory:
    return Memory(store, NotedEvents(), LocalClearing(), Catalogue("zh"), clock)


def context(**fields: Any) -> ToolCallContext:
    body: dict[str, Any] = {
        "sessionId": "mine",
        "platform": "qq",
        "userId": "42",
        "turnId": "t",
        "callId": "c",
        "key": "k",
        "enabledGroups": [],
        **fields,
    }
    return ToolCallContext.from_object(body)


async def test_a_todo_list_is_replaced_read_and_told(memory: Memory) -> None:
    assert await todo_list(memory, {}, context()) == {"items": []}
    items: list[Any] = [
        {"title": " plan\nit ", "status": "completed", "note": "dropped"},
        {"title": "do it", "status": "someday"},
        {"title": "check"},
        "write it down",
    ]
    kept = [
        {"title": "plan it", "status": "completed"},
        {"title": "do it", "status": "not-started"},
        {"title": "check", "status": "not-started"},
        {"title": "write it down", "status": "not-started"},
    ]
    assert await todo_list(memory, {"items": items}, context()) == {"items": kept}
    assert await todo_list(memory, {}, context()) == {"items": kept}
    assert await todo_list(memory, {}, context(sessionId="other")) == {"items": []}
    assert await todo_list(memory, {"items": []}, context()) == {"items": []}
    assert isinstance(memory.events, NotedEvents)
    assert [event.to_object()["items"] for event in memory.events.told] == [kept, []]
    assert all(isinstance(event, TodoUpdated) for event in memory.events.told)


@pytest.mark.parametrize(
    ("items", "complaint"),
    [
        ([{"title": "x"}] * 51, "51 items; at most 50"),
        ([{"title": "x" * 121}], "more than 120"),
        ([{"title": " "}], "a title is missing"),
        ([{"status": "completed"}], "a title is missing"),
        ([7], "a title is missing"),
        ({"title": "x"}, "must be a list"),
    ],
)
def test_a_todo_list_that_does_not_fit_is_refused(items: Any, complaint: str) -> None:
    with pytest.raises(InvalidRequest, match=complaint):
        todo_items(items)


def test_the_schemas_are_valid_and_state_the_limits() -> None:
    for schema in (TODO_SCHEMA, HISTORY_SCHEMA):
        Draft202012Validator.check_schema(schema)
    todo = Draft202012Validator(TODO_SCHEMA)
    assert todo.is_valid({})
    assert todo.is_valid({"items": [{"title": "x", "status": "anything"}]})
    assert not todo.is_valid({"items": [{"title": "x"}] * 51})
    assert not Draft202012Validator(HISTORY_SCHEMA).is_valid({"sessionId": "s", "limit": 101})


async def say(memory: Memory, session: str, seq: int, user: str = "42", **more: Any) -> None:
    message = Message(
        role="user",
        content=f"text {seq}",
        name=user,
        timestamp=1_700_000_000_000,
        metadata={"platform": more.pop("platform", "qq"), "userId": user},
        input_seq=seq,
        index=0,
        **more,
    )
    await memory.store.save(session, [Draft(message)])


async def read(memory: Memory, session: str, *allowed: str, **fields: Any) -> list[Any]:
    limit = fields.pop("limit", None)
    args: dict[str, Any] = {"sessionId": session}
    if limit is not None:
        args["limit"] = limit
    visibility = Visibility(frozenset(allowed))
    answer: Any = await session_get_history(memory, visibility, args, context(**fields))
    assert list(answer) == ["sessionId", "messages"]
    assert answer["sessionId"] == session
    return answer["messages"]


async def test_a_session_of_the_same_person_can_be_read(memory: Memory) -> None:
    await say(memory, "theirs", 1)
    await memory.store.save(
        "theirs",
        [
            Draft(Message(role="assistant", content="x" * 5000, input_seq=1, index=1)),
            Draft(Message(role="notice", kind="event-marker", input_seq=1, index=2)),
            Draft(Message(role="tool", content="r", timestamp=10**18, input_seq=1, index=3)),
        ],
    )
    first, second, third = await read(memory, "theirs")
    assert first == {
        "role": "user",
        "name": "42",
        "time": "2023-11-14T22:13:20+00:00",
        "content": "text 1",
    }
    assert len(second["content"]) == 2001
    assert third == {"role": "tool", "content": "r"}


async def test_a_foreign_session_looks_like_one_that_does_not_exist(memory: Memory) -> None:
    await say(memory, "foreign", 1, user="7")
    await say(memory, "elsewhere", 1, platform="webui")
    await memory.store.save("silent", [Draft(Message(role="notice", content="x"), "k")])
    for session in ("foreign", "elsewhere", "silent", "unknown"):
        assert await read(memory, session) == []
    assert await read(memory, "foreign", userId=None) == []


async def test_a_session_where_others_spoke_is_not_shown_however_few_rows_are_asked_for(
    memory: Memory,
) -> None:
    await say(memory, "group", 1, user="7")
    await say(memory, "group", 2)
    assert await read(memory, "group", limit=1) == []
    assert len(await read(memory, "group", "qq:42", limit=1)) == 1


async def test_the_operators_list_names_identities_and_sessions(memory: Memory) -> None:
    await say(memory, "foreign", 1, user="7")
    assert len(await read(memory, "foreign", "qq:42")) == 1
    assert len(await read(memory, "foreign", "mine")) == 1
    assert await read(memory, "foreign", "foreign", "webui:42", "42") == []


async def test_the_own_session_and_the_delegating_one_can_always_be_read(memory: Memory) -> None:
    await say(memory, "mine", 1, user="7")
    assert len(await read(memory, "mine")) == 1
    await say(memory, "source", 1, user="7")
    delegated = {"source": "proactive:from:source"}
    assert len(await read(memory, "source", inbound=delegated)) == 1
    assert await read(memory, "source", inbound={"source": "proactive:from:sour"}) == []


@pytest.mark.parametrize(("limit", "count"), [(None, 20), (3, 3), (1000, 30), (0, 1), (-5, 1)])
async def test_the_limit_is_kept_within_bounds(
    memory: Memory, limit: int | None, count: int
) -> None:
    for seq in range(30):
        await say(memory, "theirs", seq)
    found = await read(memory, "theirs", limit=limit)
    assert len(found) == count
    assert found[-1]["content"] == "text 29"


async def test_a_session_to_read_must_be_named(memory: Memory) -> None:
    with pytest.raises(InvalidRequest):
        await session_get_history(memory, Visibility(), {"sessionId": ""}, context())
