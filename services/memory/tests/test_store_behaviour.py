"""One suite for both databases (SPEC MEM-9): what the store promises, on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aalis_contracts.errors import InvalidRequest
from aalis_contracts.messages import ContentSegment, Message, ToolCall
from aalis_contracts.rpc import MessagesRange, MessagesRecent, MetadataChange, RowKey
from aalis_memory.adapters.store_sql import SqlStore
from aalis_memory.adapters.tables import entries, messages
from aalis_memory.ports import Draft, Saved, Store
from aalis_memory.rows import AFTER_TURN
from aalis_sdk.testing.cases import case

Open = Callable[[], Awaitable[SqlStore]]


def row(seq: int, index: int = 0, content: str | None = "hi", **more: Any) -> Draft:
    role = more.pop("role", "user")
    return Draft(Message(role=role, content=content, input_seq=seq, index=index, **more))


def loose(key: str, content: str = "notice", **more: Any) -> Draft:
    return Draft(Message(role=more.pop("role", "notice"), content=content, **more), key)


def places(rows: Sequence[Message]) -> list[tuple[int | None, int | None]]:
    return [(each.input_seq, each.index) for each in rows]


def texts(rows: Sequence[Message]) -> list[str | None]:
    return [each.content for each in rows]


def stored(saved: Sequence[Saved]) -> list[Message]:
    return [each.message for each in saved]


def put(key: str, value: Any, namespace: str = "summary") -> MetadataChange:
    return MetadataChange(op="put", namespace=namespace, key=key, value=value)


def remove(key: str, namespace: str = "summary") -> MetadataChange:
    return MetadataChange(op="delete", namespace=namespace, key=key)


async def values(store: Store, namespace: str = "summary") -> dict[str, Any]:
    return {item.key: item.value for item in await store.metadata(namespace)}


# saving ----------------------------------------------------------------------------------


async def test_a_row_comes_back_as_it_was_saved(store: SqlStore) -> None:
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "f", "arguments": '{"a": 1.0}', "strict": None},
        "index": 3,
        "extra": {"signature": "é\u2028", "none": None},
    }
    message = Message(
        role="assistant",
        content="text",
        tool_calls=[ToolCall.from_object(call)],
        tool_call_id="t",
        name="u1",
        kind="outbound-image",
        timestamp=12,
        reasoning_content="why",
        segments=[ContentSegment(type="tool_call", name="f", args={"z": 1, "a": [None]})],
        metadata={"z": 1, "a": {"b": [1.0, None, True, 10**30, -0.0, 1e300]}},
        provider_data={"provider": "p", "blocks": [{"signature": "x=="}]},
        input_seq=1,
        index=2,
    )
    await store.save("s", [Draft(message)])
    [found] = await store.history("s", 10)
    assert found.to_json() == message.to_json()
    assert list(found.metadata or {}) == ["z", "a"]
    assert found.tool_calls is not None
    assert found.tool_calls[0].to_object() == ToolCall.from_object(call).to_object()


async def test_saving_a_key_again_changes_nothing_and_answers_the_stored_row(
    store: SqlStore,
) -> None:
    first = await store.save("s", [row(1, 0, "first")])
    again = await store.save("s", [row(1, 0, "second"), row(1, 1, "new")])
    assert [each.created for each in first] == [True]
    assert [(each.message.content, each.created) for each in again] == [
        ("first", False),
        ("new", True),
    ]
    assert texts(await store.history("s", 10)) == ["first", "new"]


async def test_the_first_of_two_rows_with_one_key_in_a_request_counts(store: SqlStore) -> None:
    saved = await store.save("s", [row(1, 0, "a"), row(1, 0, "b")])
    assert texts(stored(saved)) == ["a"]


async def test_saving_nothing_answers_nothing(store: SqlStore) -> None:
    assert await store.save("s", []) == []


async def test_more_rows_than_one_statement_takes_are_saved_whole(store: SqlStore) -> None:
    saved = await store.save("s", [row(1, index) for index in range(450)])
    assert len(saved) == 450
    assert all(each.created for each in saved)
    again = await store.save("s", [row(1, index) for index in range(450)])
    assert not any(each.created for each in again)


async def test_ctx_025_rows_are_ordered_by_key_whatever_their_time_and_insertion_say(
    store: SqlStore,
) -> None:
    # Assistant and result share a millisecond; a clock that steps back is worse still.
    for seq, index, timestamp in [(2, 0, 999), (1, 2, 1000), (1, 1, 1000), (1, 0, 2000)]:
        await store.save("s", [row(seq, index, timestamp=timestamp)])
    assert places(await store.history("s", 10)) == [(1, 0), (1, 1), (1, 2), (2, 0)]


async def test_a_turns_rows_stay_together_when_lanes_save_in_turns(store: SqlStore) -> None:
    for seq, index in [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2)]:
        await store.save("s", [row(seq, index)])
    assert places(await store.history("s", 10)) == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]


async def test_ctx_139_a_retried_input_leaves_one_user_row(store: SqlStore) -> None:
    # The failed turn's row stays, and the retry must not add a second one.
    await store.save("s", [row(1, 0, "plan trip", name="u1")])
    await store.save("s", [row(1, 0, "plan trip", name="u1")])
    assert texts(await store.history("s", 10)) == ["plan trip"]


async def test_ctx_113_a_row_saved_again_after_a_trim_is_still_one_row(store: SqlStore) -> None:
    # The tail was copied at each compaction, and recall then showed it several times.
    rows = [row(seq, 0, text) for seq, text in enumerate(case("ctx-113")["rows"])]
    await store.save("s", rows)
    for _ in range(case("ctx-113")["compactions"]):
        await store.trim("s", 1)
        await store.save("s", rows)
    whole = await store.history("s", 10, archived=True)
    assert texts(whole) == ["a", "b", "tail"]
    assert texts(await store.history("s", 10)) == ["tail"]


async def test_sessions_are_compared_whole(store: SqlStore) -> None:
    names = ["a", "a:b", "A", "a ", "a%", "a_", "á", "a\0", "a\x10", "a\x100", "a\x10\x10"]
    for name in names:
        await store.save(name, [row(1, 0, name)])
    for name in names:
        assert texts(await store.history(name, 10)) == [name]


@pytest.mark.parametrize("length", [84, 85, 86, 300, 5000])
async def test_an_id_may_be_long(store: SqlStore, length: int) -> None:
    head = "会" * (length - 1)
    one, other = head + "甲", head + "乙"
    await store.save(one, [row(1, 0, "one"), loose(one)])
    await store.save(other, [row(1, 0, "other"), loose(one), loose(other)])
    assert texts(await store.history(one, 10)) == ["one", "notice"]
    assert texts(await store.history(other, 10)) == ["other", "notice", "notice"]
    await store.commit([put(one, 1), put(other, 2)])
    assert await values(store) == {one: 1, other: 2}
    found = await store.recent(MessagesRecent(exclude_sessions=[one]))
    assert [each.session_id for each in found] == [other]


async def test_a_short_id_is_not_taken_for_a_long_one(store: SqlStore) -> None:
    long = "x" * 1000
    await store.save(long, [row(1)])
    [indexed] = await _column(store, sa.select(messages.c.session))
    await store.save(indexed, [row(1, 0, "imposter")])
    assert texts(await store.history(long, 10)) == ["hi"]
    assert texts(await store.history(indexed, 10)) == ["imposter"]


AWKWARD = [
    "",
    " \n\t\r\n ",
    "a\0b",
    "\0\0",
    "\x10",
    "\x100",
    "\x10\0\x10",
    "é e\u0301 👩‍👩‍👧 \u2028 \ufeff \U0010ffff",
    "%_\\'\"`;--",
    "x" * 100_000,
]


@pytest.mark.parametrize("text", AWKWARD, ids=range(len(AWKWARD)))
async def test_every_character_survives(store: SqlStore, text: str) -> None:
    draft = row(
        1,
        0,
        text,
        role=text or "r",
        kind=text,
        name=text,
        tool_call_id=text,
        reasoning_content=text,
        metadata={text: text, "platform": text},
        provider_data={"p": [text]},
        segments=[ContentSegment(type="text", content=text)],
    )
    await store.save("s", [draft])
    [found] = await store.history("s", 1)
    assert found == draft.message
    assert await store.commit([put(text or "k", {text: text}, namespace=text or "n")]) == 1
    [item] = await store.metadata(text or "n", text or "k")
    assert (item.key, item.value) == (text or "k", {text: text})


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=st.text(alphabet=st.sampled_from("\0\x1001a\ud800é"), max_size=12))
async def test_escaped_text_reads_back_as_it_was(store: SqlStore, text: str) -> None:
    await store.clear_messages(None)
    await store.save("s", [row(1, 0, text)])
    [found] = await store.history("s", 1)
    assert found.content == text.replace("\ud800", "\ufffd")


async def test_ctx_115_a_lone_surrogate_becomes_the_replacement_character(store: SqlStore) -> None:
    # An error text was cut inside a pair.
    bad = "<error>chart \ud83d… failed</error>"
    draft = row(1, 0, bad, role="tool", tool_call_id="sg\ud800", metadata={bad: [bad]})
    await store.save("s\udc00", [draft])
    [found] = await store.history("s\udc00", 1)
    good = bad.replace("\ud83d", "\ufffd")
    assert (found.content, found.metadata) == (good, {good: [good]})
    change = MetadataChange.model_construct(
        op="put", namespace="summary", key="k\ud800", value=[bad]
    )
    assert await store.commit([change]) == 1
    assert await values(store) == {"k\ufffd": [good]}


async def test_numbers_beyond_64_bits_are_the_callers_fault(store: SqlStore) -> None:
    with pytest.raises(InvalidRequest):
        await store.save("s", [row(2**63)])
    with pytest.raises(InvalidRequest):
        await store.save("s", [row(1, 0, timestamp=-(2**63) - 1)])
    assert await store.history("s", 2**70) == []
    assert await store.history("s", 10, RowKey(input_seq=2**70, index=2**70)) == []
    assert await store.delete("s", [RowKey(input_seq=-(2**70), index=0)]) == []


# rows without an input -------------------------------------------------------------------


async def test_a_row_without_an_input_stands_behind_the_newest_input(store: SqlStore) -> None:
    await store.save("s", [row(3), row(7), row(7, 1)])
    saved = await store.save("s", [loose("k")])
    assert places(stored(saved)) == [(7, AFTER_TURN)]
    assert places(await store.history("s", 10)) == [(3, 0), (7, 0), (7, 1), (7, AFTER_TURN)]


async def test_a_running_turn_loses_no_row_to_a_notice(store: SqlStore) -> None:
    await store.save("s", [row(7), row(7, 1)])
    await store.save("s", [loose("poke")])
    reply = await store.save("s", [row(7, 2, "reply")])
    assert [(each.message.content, each.created) for each in reply] == [("reply", True)]
    assert texts(await store.history("s", 10)) == ["hi", "hi", "reply", "notice"]


async def test_the_next_input_comes_after_all_notices(store: SqlStore) -> None:
    await store.save("s", [row(7), loose("a"), loose("b", "second")])
    await store.save("s", [row(8, 0, "next")])
    assert texts(await store.history("s", 10)) == ["hi", "notice", "second", "next"]
    assert places(stored(await store.save("s", [loose("c")]))) == [(8, AFTER_TURN)]


async def test_a_session_without_inputs_can_hold_notices(store: SqlStore) -> None:
    saved = await store.save("s", [loose("a"), loose("b")])
    assert places(stored(saved)) == [(0, AFTER_TURN), (0, AFTER_TURN + 1)]


async def test_an_idempotency_key_names_one_row_of_its_session(store: SqlStore) -> None:
    await store.save("s", [loose("k", "first")])
    await store.save("s", [row(9)])
    again = await store.save("s", [loose("k", "second"), loose("other")])
    assert [(each.message.content, each.created) for each in again] == [
        ("first", False),
        ("notice", True),
    ]
    assert [each.created for each in await store.save("t", [loose("k")])] == [True]


async def test_archived_rows_count_for_the_place_of_a_notice(store: SqlStore) -> None:
    await store.save("s", [row(5)])
    await store.trim("s", 0)
    assert places(stored(await store.save("s", [loose("k")]))) == [(5, AFTER_TURN)]


# reading ---------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, -1, -100])
async def test_ctx_082_a_limit_of_zero_or_less_reads_nothing(store: SqlStore, limit: int) -> None:
    # A negative number passed on as SQL LIMIT means "everything".
    await store.save("s", [row(seq) for seq in range(5)])
    assert await store.history("s", limit) == []
    assert await store.history("s", limit, archived=True) == []


async def test_the_newest_rows_are_read_in_ascending_order(store: SqlStore) -> None:
    await store.save("s", [row(seq, 0, str(seq)) for seq in range(10)])
    assert texts(await store.history("s", 3)) == ["7", "8", "9"]


async def test_only_rows_below_a_key_are_read(store: SqlStore) -> None:
    await store.save("s", [row(seq, index) for seq in (1, 2, 3) for index in (0, 1)])
    below = await store.history("s", 3, RowKey(input_seq=3, index=0))
    assert places(below) == [(1, 1), (2, 0), (2, 1)]
    assert places(await store.history("s", 9, RowKey(input_seq=2, index=1)))[-1] == (2, 0)


async def test_a_session_nobody_knows_is_empty(store: SqlStore) -> None:
    assert await store.history("s", 10) == []
    assert await store.trim("s", 0) == 0
    assert await store.replace_text("s", "a", "b", 10) == 0
    assert await store.clear_messages("s") == (0, ["s"])


async def test_what_is_read_is_a_copy(store: SqlStore) -> None:
    await store.save("s", [row(1, metadata={"list": [1]})])
    [found] = await store.history("s", 1)
    assert found.metadata is not None
    found.metadata["list"] = "changed"
    [again] = await store.history("s", 1)
    assert again.metadata == {"list": [1]}


async def test_unreadable_parts_are_absent_and_reported(
    store: SqlStore, caplog: pytest.LogCaptureFixture
) -> None:
    await store.save("s", [row(1, metadata={"a": 1}), row(2, content="whole")])
    broken = {
        "metadata": "{",
        "segments": '[{"type":"unknown"}]',
        "tool_calls": "[1]",
        "provider_data": "[]",
    }
    await _execute(store, sa.update(messages).where(messages.c.input_seq == 1).values(broken))
    first, second = await store.history("s", 10)
    assert first == Message(role="user", content="hi", input_seq=1, index=0)
    assert second.content == "whole"
    assert caplog.text.count("unreadable part of a row") == 4


async def test_escaped_surrogates_in_an_old_row_are_repaired(store: SqlStore) -> None:
    await store.save("s", [row(1)])
    await _execute(store, sa.update(messages).values(metadata='{"a":"\\ud83d"}'))
    [found] = await store.history("s", 1)
    assert found.metadata == {"a": "\ufffd"}


async def test_a_range_includes_both_ends_and_archived_rows(store: SqlStore) -> None:
    await store.save("s", [row(seq, index) for seq in (1, 2, 3) for index in (0, 1)])
    await store.trim("s", 1)
    found = await store.between(_range("s", (1, 1), (3, 0)))
    assert places(found) == [(1, 1), (2, 0), (2, 1), (3, 0)]


async def test_a_range_is_cut_at_500_rows_from_its_beginning(store: SqlStore) -> None:
    await store.save("s", [row(1, index) for index in range(510)])
    found = await store.between(_range("s", (0, 0), (9, 0)))
    assert len(found) == 500
    assert places(found)[0] == (1, 0)


async def test_a_range_can_name_roles_and_leave_out_kinds(store: SqlStore) -> None:
    await store.save(
        "s",
        [
            row(1),
            row(2, kind="poke", role="notice"),
            row(3, role="tool", kind="other"),
            row(4, role="assistant"),
        ],
    )
    everything = _range("s", (0, 0), (9, 0))
    without = everything.model_copy(update={"exclude_kinds": ["poke", "x"]})
    assert places(await store.between(without)) == [(1, 0), (3, 0), (4, 0)]
    roles = everything.model_copy(update={"roles": ["user", "tool"]})
    assert places(await store.between(roles)) == [(1, 0), (3, 0)]
    assert await store.between(everything.model_copy(update={"roles": list[str]()})) == []


async def test_recent_rows_come_from_all_sessions_in_order_of_insertion(
    store: SqlStore, clock: Any
) -> None:
    for session, seq, role in [("a", 9, "user"), ("b", 1, "assistant"), ("a", 2, "tool")]:
        clock.now += 1
        await store.save(session, [row(seq, 0, role, role=role)])
    await store.save("c", [row(1, 0, "old")])
    await store.trim("c", 0)
    found = await store.recent(MessagesRecent())
    assert [(each.session_id, each.message.content) for each in found] == [
        ("a", "user"),
        ("b", "assistant"),
    ]
    assert len(await store.recent(MessagesRecent(limit=1))) == 1
    assert await store.recent(MessagesRecent(limit=0)) == []


async def test_recent_rows_can_be_chosen(store: SqlStore, clock: Any) -> None:
    await store.save("a", [row(1, 0, "1", metadata={"platform": "qq"})])
    clock.now += 10
    await store.save("b", [row(1, 0, "2", metadata={"platform": "webui"}, kind="k")])
    await store.save("c", [row(1, 0, "3", role="notice", kind="poke")])

    async def chosen(**filters: Any) -> list[str | None]:
        found = await store.recent(MessagesRecent.from_object(filters))
        return [each.message.content for each in found]

    assert await chosen() == ["1", "2"]
    assert await chosen(platform="qq") == ["1"]
    assert await chosen(since=clock.now) == ["2"]
    assert await chosen(excludeSessions=["a"]) == ["2"]
    assert await chosen(kinds=["k"]) == ["2"]
    assert await chosen(excludeKinds=["k"]) == ["1"]
    assert await chosen(roles=["notice"]) == ["3"]


async def test_a_message_is_found_by_its_platform_id_newest_first(store: SqlStore) -> None:
    await store.save(
        "s",
        [
            row(1, 0, "old", metadata={"messageId": "42"}),
            row(2, 0, "number", metadata={"messageId": 42}),
            row(3, 0, "other", metadata={"messageId": "421"}),
            row(4, 0, "none"),
        ],
    )
    await store.trim("s", 0)

    async def content(message_id: str, scan: int = 100) -> str | None:
        found = await store.find("s", message_id, scan)
        return None if found is None else found.content

    assert await content("42") == "number"
    assert await content("421") == "other"
    assert await content("42", 2) is None
    assert await content("None") is None


# trimming, replacing, deleting -----------------------------------------------------------


async def test_trimming_archives_all_but_the_newest_and_deletes_nothing(store: SqlStore) -> None:
    await store.save("s", [row(seq) for seq in range(10)])
    await store.save("other", [row(1)])
    assert await store.trim("s", 4) == 6
    assert places(await store.history("s", 100)) == [(6, 0), (7, 0), (8, 0), (9, 0)]
    assert len(await store.history("s", 100, archived=True)) == 10
    assert await store.trim("s", 4) == 0
    assert await store.trim("s", 100) == 0
    assert await store.trim("s", 0) == 4
    assert await store.history("s", 100) == []
    assert len(await store.history("other", 100)) == 1


async def test_text_is_replaced_literally(store: SqlStore) -> None:
    await store.save(
        "s",
        [row(1, 0, "100% of a_b"), row(2, 0, "100x of acb"), row(3, 0, None, role="tool")],
    )
    assert await store.replace_text("s", "% of a_b", r"\1", 100) == 1
    assert texts(await store.history("s", 10)) == [r"100\1", "100x of acb", None]


async def test_only_the_newest_rows_are_searched_for_text(store: SqlStore) -> None:
    await store.save("s", [row(seq, 0, "x x") for seq in range(5)])
    assert await store.replace_text("s", "x", "yx", 2) == 2
    assert texts(await store.history("s", 10)) == ["x x", "x x", "x x", "yx yx", "yx yx"]


async def test_text_segments_mirror_the_replaced_text(store: SqlStore) -> None:
    segments = [
        ContentSegment(type="text", content="see X"),
        ContentSegment(type="tool_call", name="X", args={"content": "X"}, call_id="1"),
    ]
    await store.save("s", [row(1, 0, "see X", segments=segments), row(2, 0, "nothing")])
    assert await store.replace_text("s", "X", "\0Y", 10) == 1
    found = (await store.history("s", 10))[0]
    assert found.content == "see \0Y"
    assert found.segments is not None
    assert [each.content or each.name for each in found.segments] == ["see \0Y", "X"]


async def test_deleting_answers_the_keys_that_were_there(store: SqlStore) -> None:
    await store.save("s", [row(seq) for seq in range(450)])
    await store.save("t", [row(1)])
    keys = [RowKey(input_seq=seq, index=index) for seq in range(1, 449) for index in (1, 0)]
    gone = await store.delete("s", [*keys, *keys])
    assert [(key.input_seq, key.index) for key in gone] == [(seq, 0) for seq in range(1, 449)]
    assert places(await store.history("s", 10)) == [(0, 0), (449, 0)]
    assert len(await store.history("t", 10)) == 1
    assert await store.delete("s", []) == []


async def test_clearing_deletes_archived_rows_too(store: SqlStore) -> None:
    await store.save("s", [row(seq) for seq in range(3)])
    await store.save("t", [row(1), loose("k")])
    await store.trim("s", 1)
    assert await store.clear_messages("s") == (3, ["s"])
    assert await store.history("s", 10, archived=True) == []
    assert await store.clear_messages(None) == (2, ["t"])
    assert await store.clear_messages(None) == (0, [])


# metadata --------------------------------------------------------------------------------


async def test_a_value_is_put_read_replaced_and_deleted(store: SqlStore, clock: Any) -> None:
    assert await store.metadata("summary", "s") == []
    assert await store.commit([put("s", {"summary": "x", "n": None})]) == 1
    [item] = await store.metadata("summary", "s")
    assert (item.namespace, item.key, item.updated_at) == ("summary", "s", clock.now)
    assert item.value == {"summary": "x", "n": None}
    clock.now += 5
    await store.commit([put("s", None)])
    [item] = await store.metadata("summary", "s")
    assert (item.value, item.updated_at) == (None, clock.now)
    assert await store.commit([remove("s")]) == 1
    assert await store.commit([remove("s")]) == 0
    assert await store.metadata("summary", "s") == []


async def test_values_are_listed_by_key_of_one_namespace(store: SqlStore) -> None:
    await store.commit([put("b", 1), put("B", 2), put("a", 3), put("x", 4, "other")])
    assert [item.key for item in await store.metadata("summary")] == ["B", "a", "b"]


async def test_the_last_of_several_changes_of_a_key_counts(store: SqlStore) -> None:
    assert await store.commit([put("a", 1), remove("a"), put("b", 1), put("b", 2)]) == 1
    assert await values(store) == {"b": 2}


async def test_an_empty_batch_is_fine(store: SqlStore) -> None:
    assert await store.commit([]) == 0


async def test_an_unserialisable_value_applies_nothing(store: SqlStore) -> None:
    await store.commit([put("a", 1)])
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for bad in (float("nan"), object(), {"x": b"bytes"}, deep):
        broken = MetadataChange.model_construct(op="put", namespace="summary", key="c", value=bad)
        with pytest.raises(InvalidRequest):
            await store.commit([put("a", 2), remove("a"), broken])
    while deep:
        deep = deep.pop()
    assert await values(store) == {"a": 1}


async def test_an_unreadable_value_is_absent_and_reported(
    store: SqlStore, caplog: pytest.LogCaptureFixture
) -> None:
    await store.commit([put("a", 1), put("b", 2)])
    await _execute(store, sa.update(entries).where(entries.c.key == "a").values(value="{"))
    assert await values(store) == {"b": 2}
    assert "unreadable metadata" in caplog.text


async def test_clearing_namespaces_leaves_the_others(store: SqlStore) -> None:
    await store.commit([put("a", 1), put("b", 1, "todo-list"), put("c", 1, "other")])
    assert await store.clear_metadata(["todo-list", "unknown"]) == 1
    assert await store.clear_metadata(None) == 2


# several writers -------------------------------------------------------------------------


async def test_many_writers_of_the_same_keys_leave_one_row_each(
    store: SqlStore, open_another: Open
) -> None:
    stores = itertools.cycle([store, await open_another()])
    batches = [[row(seq, index) for index in range(4)] for seq in range(8)]
    jobs = [(next(stores), batch) for batch in batches * 6]
    random.Random(1).shuffle(jobs)
    saved = await asyncio.gather(*(each.save("s", batch) for each, batch in jobs))
    created = [key for rows in saved for key in places([s.message for s in rows if s.created])]
    assert sorted(created) == [(seq, index) for seq in range(8) for index in range(4)]
    assert len(await store.history("s", 100)) == 32


async def test_writers_in_opposite_order_do_not_wait_for_each_other(
    store: SqlStore, open_another: Open
) -> None:
    other = await open_another()
    rows = [row(seq) for seq in range(50)]
    for number in range(10):
        session = f"s{number}"
        await asyncio.gather(store.save(session, rows), other.save(session, rows[::-1]))
        assert len(await store.history(session, 100)) == 50


async def test_rows_without_an_input_get_places_of_their_own_from_many_writers(
    store: SqlStore, open_another: Open
) -> None:
    other = await open_another()
    await store.save("s", [row(4)])
    jobs = [
        each.save("s", [loose(f"{number}", f"call {number}"), loose(f"{number}r", "result")])
        for number in range(20)
        for each in (store, other)
    ]
    saved = await asyncio.gather(*jobs)
    assert sum(each.created for rows in saved for each in rows) == 40
    found = (await store.history("s", 100))[1:]
    assert places(found) == [(4, AFTER_TURN + offset) for offset in range(40)]
    # Rows that were saved together stand side by side: a call and its result are not parted.
    assert all(text == "result" for text in texts(found)[1::2])


async def test_notices_and_a_turn_do_not_disturb_each_other(
    store: SqlStore, open_another: Open
) -> None:
    other = await open_another()

    async def turn(seq: int) -> None:
        for index in range(6):
            await store.save("s", [row(seq, index, f"{seq}.{index}")])

    async def notices(seq: int) -> None:
        for number in range(6):
            await other.save("s", [loose(f"{seq}.{number}")])

    await asyncio.gather(*(work(seq) for seq in (1, 2, 3) for work in (turn, notices)))
    found = await store.history("s", 100)
    turns = [each.content for each in found if each.role == "user"]
    assert turns == [f"{seq}.{index}" for seq in (1, 2, 3) for index in range(6)]
    assert sum(each.role == "notice" for each in found) == 18


async def test_no_reader_sees_half_a_commit(store: SqlStore, open_another: Open) -> None:
    other = await open_another()
    await store.commit([put(key, 0) for key in "abc"])
    seen: set[tuple[Any, ...]] = set()

    async def write() -> None:
        for number in range(1, 30):
            await store.commit([put(key, number) for key in "abc"])

    async def read() -> None:
        for _ in range(60):
            seen.add(tuple((await values(other)).values()))

    await asyncio.gather(write(), read())
    assert all(len(set(each)) == 1 for each in seen)


async def test_concurrent_commits_of_the_same_keys_all_succeed(
    store: SqlStore, open_another: Open
) -> None:
    other = await open_another()
    keys = [f"k{number}" for number in range(20)]
    jobs = [
        each.commit([put(key, number) for key in (keys if number % 2 else keys[::-1])])
        for number in range(10)
        for each in (store, other)
    ]
    assert await asyncio.gather(*jobs) == [20] * 20
    assert len(set((await values(store)).values())) == 1


async def test_concurrent_trims_count_each_row_once(store: SqlStore, open_another: Open) -> None:
    other = await open_another()
    await store.save("s", [row(seq) for seq in range(30)])
    counts = await asyncio.gather(*(each.trim("s", 10) for each in (store, other) * 4))
    assert sum(counts) == 20


async def test_concurrent_replacements_lose_none(store: SqlStore, open_another: Open) -> None:
    other = await open_another()
    await store.save("s", [row(seq, 0, "a b") for seq in range(5)])
    counts = await asyncio.gather(
        store.replace_text("s", "a", "A", 10), other.replace_text("s", "b", "B", 10)
    )
    assert counts == [5, 5]
    assert texts(await store.history("s", 10)) == ["A B"] * 5


async def test_a_cancelled_save_leaves_all_or_nothing_and_a_usable_store(store: SqlStore) -> None:
    for number in range(20):
        task = asyncio.create_task(store.commit([put("a", number), put("b", number)]))
        for _ in range(number):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        found = await values(store)
        assert found.get("a") == found.get("b")
    assert await store.commit([put("a", "end"), put("b", "end")]) == 2


# plans -----------------------------------------------------------------------------------


async def test_reading_one_session_never_looks_at_the_others(store: SqlStore) -> None:
    for number in range(40):
        await store.save(f"s{number}", [row(seq) for seq in range(50)])
    mine = messages.c.session == "s1"
    plans = await _plan(
        store,
        sa.select(messages)
        .where(mine, messages.c.archived.is_(sa.false()))
        .order_by(messages.c.input_seq.desc(), messages.c.row_index.desc())
        .limit(10),
    )
    assert "SCAN messages" not in plans
    assert "Seq Scan" not in plans
    assert "ix_messages_live" in plans or "uq_messages_key" in plans


async def _plan(store: SqlStore, query: Any) -> str:
    database = store.database
    word = "EXPLAIN" if database.is_postgresql else "EXPLAIN QUERY PLAN"

    def explain(connection: Any) -> str:
        if database.is_postgresql:
            connection.exec_driver_sql("ANALYZE messages")
        text = query.compile(connection, compile_kwargs={"literal_binds": True})
        return str(connection.exec_driver_sql(f"{word} {text}").all())

    return await database.run(explain)


async def _execute(store: SqlStore, statement: Any) -> None:
    def work(connection: Any) -> None:
        connection.execute(statement)

    await store.database.run(work, writes=True)


async def _column(store: SqlStore, query: Any) -> list[Any]:
    def work(connection: Any) -> list[Any]:
        return list(connection.execute(query).scalars())

    return await store.database.run(work)


def _range(session: str, start: tuple[int, int], end: tuple[int, int]) -> MessagesRange:
    body = {
        "sessionId": session,
        "from": {"inputSeq": start[0], "index": start[1]},
        "to": {"inputSeq": end[0], "index": end[1]},
    }
    return MessagesRange.from_json(json.dumps(body))
