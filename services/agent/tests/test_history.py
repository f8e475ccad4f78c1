"""Which stored rows a model is shown, and how."""

from datetime import UTC, timedelta, timezone

import pytest

from aalis_agent.history import shown_history, time_label
from aalis_contracts.messages import FunctionCall, Message, ToolCall

NOON = 1_899_979_200_000  # 2030-03-17 12:00 UTC
YEAR = 365 * 86_400_000
TOKYO = timezone(timedelta(hours=9))


def user(text: str | None, **fields: object) -> Message:
    return Message.model_validate({"role": "user", "content": text, **fields})


def caller(*ids: str, **fields: object) -> Message:
    calls = [ToolCall(id=i, function=FunctionCall(name="f")) for i in ids]
    return Message.model_validate({"role": "assistant", "tool_calls": calls, **fields})


def result(call_id: str | None, **fields: object) -> Message:
    return Message.model_validate(
        {"role": "tool", "content": "r", "tool_call_id": call_id, **fields}
    )


def shown(*rows: Message, before: int | None = None) -> list[Message]:
    return shown_history(rows, now=NOON, zone=UTC, before=before).messages


def test_control_kinds_and_injected_rows_are_not_shown_and_not_counted_as_dropped() -> None:
    marker = Message(role="notice", content="compressed", kind="event-marker")
    injected = Message(role="system", content="x", metadata={"injector": "a/b"})
    notice = Message(role="notice", content="poke", kind="poke")
    history = shown_history([marker, injected, notice], now=NOON, zone=UTC)
    assert history.messages == [notice]
    assert history.dropped == 0


def test_a_control_row_inside_a_group_does_not_break_it() -> None:
    marker = Message(role="notice", kind="event-marker")
    assert len(shown(caller("a"), marker, result("a"))) == 2


def test_the_input_being_answered_and_what_followed_are_left_out_by_key() -> None:
    rows = [
        user("same", input_seq=4, index=0),
        user("same", input_seq=5, index=0),
        caller("a", input_seq=5, index=1),
        user("later", input_seq=6, index=0),
    ]
    assert shown(*rows, before=5) == rows[:1]


def test_rows_without_a_key_are_shown_and_keep_their_order() -> None:
    rows = [user("b", input_seq=9), user("a"), user("c", input_seq=1)]
    assert shown(*rows, before=10) == rows


def test_rows_are_put_in_the_order_of_their_keys() -> None:
    rows = [
        result("a", input_seq=1, index=2, timestamp=1),
        user("q", input_seq=1, index=0, timestamp=None),
        caller("a", input_seq=1, index=1, timestamp=2),
        user("before", input_seq=0),
    ]
    assert shown(*rows) == [rows[3], rows[1], rows[2], rows[0]]


@pytest.mark.parametrize(
    ("rows", "kept", "dropped"),
    [
        ([caller("a", "b"), result("b"), result("a")], 3, 0),
        ([caller("a", "b"), result("b")], 0, 2),
        ([caller("a"), user("hm"), result("a")], 1, 2),
        ([caller("a"), result("x"), result("a")], 0, 3),
        ([caller("a"), result("a"), result("a")], 2, 1),
        ([caller("a", "a"), result("a"), result("a")], 3, 0),
        ([caller("a", "a"), result("a")], 0, 2),
        ([result("a"), user("q")], 1, 1),
        ([caller("a"), caller("b"), result("b")], 2, 1),
        ([caller(""), result(None)], 2, 0),
        ([caller("a"), result(None)], 0, 2),
        ([Message(role="assistant", content="hi", tool_calls=[]), result("a")], 1, 1),
    ],
)
def test_only_whole_groups_are_shown(rows: list[Message], kept: int, dropped: int) -> None:
    history = shown_history(rows, now=NOON, zone=UTC)
    assert len(history.messages) == kept
    assert history.dropped == dropped


def test_user_texts_carry_their_time_in_the_zone_of_the_agent() -> None:
    assert time_label(NOON, NOON, UTC) == "(3/17 12:00) "
    assert time_label(NOON, NOON, TOKYO) == "(3/17 21:00) "
    assert time_label(NOON - YEAR, NOON, UTC) == "(2029/3/17 12:00) "


def test_the_year_is_the_one_of_the_zone() -> None:
    new_year = 1_893_456_000_000  # 2030-01-01 00:00 UTC
    assert time_label(new_year - 1, new_year, UTC) == "(2029/12/31 23:59) "
    assert time_label(new_year - 1, new_year, TOKYO) == "(1/1 08:59) "


def test_a_label_is_put_once() -> None:
    row = user("hello", timestamp=NOON - YEAR)
    (once,) = shown(row)
    assert once.content == "(2029/3/17 12:00) hello"
    assert shown(once) == [once]
    assert shown_history([once], now=NOON - YEAR, zone=UTC).messages == [once]


def test_a_time_that_a_person_wrote_does_not_stand_for_the_real_one() -> None:
    (row,) = shown(user("(1/2 03:04) hello", timestamp=NOON))
    assert row.content == "(3/17 12:00) (1/2 03:04) hello"


def test_only_user_texts_with_a_time_get_a_label() -> None:
    rows = [
        user("no time"),
        user("", timestamp=NOON),
        user(None, timestamp=NOON),
        Message(role="assistant", content="hi", timestamp=NOON),
        Message(role="notice", content="hi", timestamp=NOON),
    ]
    assert shown(*rows) == rows


@pytest.mark.parametrize("timestamp", [10**17, -(10**17), 253_402_300_799_999])
def test_a_time_outside_of_any_calendar_has_no_label(timestamp: int) -> None:
    assert shown_history([user("x", timestamp=timestamp)], now=NOON, zone=TOKYO).messages == [
        user("x", timestamp=timestamp)
    ]
    assert time_label(timestamp, NOON, TOKYO) == ""


def test_a_clock_outside_of_any_calendar_leaves_the_full_label() -> None:
    assert time_label(NOON, 10**17, UTC) == "(2030/3/17 12:00) "


def test_nothing_is_shared_with_what_memory_returned() -> None:
    row = Message.from_object(
        {
            "role": "assistant",
            "content": "hi",
            "segments": [{"type": "text", "content": "hi"}],
            "images": ["a"],
            "metadata": {"list": [{"deep": [1]}], "n": 1},
            "providerData": {"blocks": []},
        }
    )
    (copy,) = shown(row)
    assert copy == row
    assert copy is not row
    for name in ("segments", "images", "metadata", "provider_data"):
        assert getattr(copy, name) is not getattr(row, name)
    assert (copy.metadata or {})["list"] is not (row.metadata or {})["list"]
