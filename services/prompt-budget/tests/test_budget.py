"""This is about the answer of the budget tool: tag, order, rounding, advice."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aalis_contracts.catalogue import Catalogue
from aalis_prompt_budget.budget import answer, iso_time, no_data, round_ratio, tag_of, top3
from aalis_prompt_budget.snapshots import Snapshot

ZH = Catalogue("zh")
BREAKDOWN: dict[str, Any] = {
    "system": 5200,
    "persona": 3000,
    "memorySummary": 800,
    "memoryVector": 0,
    "skills": 400,
    "platform": 0,
    "subtask": 0,
    "systemOther": 1000,
    "injectors": {"focus-guidance": 1000},
    "history": 9000,
    "toolResults": 9000,
    "toolDefs": 4192,
    "reservedForReply": 4096,
}


def event(**changes: object) -> bytes:
    fields: dict[str, Any] = {
        "sessionId": "s",
        "platform": "webui",
        "userId": "u",
        "contextWindow": 32000,
        "maxTokens": 4096,
        "tokenBudget": 27392,
        "used": 12345,
        "usageRatio": 12345 / 32000,
        "breakdown": BREAKDOWN,
    }
    fields |= changes
    return json.dumps({k: v for k, v in fields.items() if v is not ...}).encode()


def snapshot(at: int = 1_000, seq: int = 1, **changes: object) -> Snapshot:
    read = Snapshot.read(event(**changes), at, seq)
    assert read is not None
    return read


@pytest.mark.parametrize(
    ("ratio", "tag"),
    [
        (0.0, "OK"),
        (0.4999999, "OK"),
        (0.5, "INFO"),
        (0.69996, "INFO"),
        (0.7, "WARN"),
        (0.8499999, "WARN"),
        (0.85, "CRITICAL"),
        (7.0, "CRITICAL"),
    ],
)
def test_a_threshold_belongs_to_the_tag_above_it(ratio: float, tag: str) -> None:
    assert tag_of(ratio) == tag


@pytest.mark.parametrize(
    ("ratio", "printed"),
    [
        (12345 / 32000, "0.3858"),
        (0.69996, "0.7"),
        (0.38575, "0.3858"),
        (0.00005, "0.0001"),
        (0.00004999, "0"),
        (1.0, "1"),
        (1.00005, "1.0001"),
        (1e300, str(int(1e300))),
    ],
)
def test_a_ratio_is_printed_with_four_decimals_halves_up(ratio: float, printed: str) -> None:
    assert json.dumps(round_ratio(ratio)) == printed


@given(st.floats(0, 2))
def test_rounding_moves_a_ratio_by_at_most_half_a_digit(ratio: float) -> None:
    assert abs(round_ratio(ratio) - ratio) <= 0.000050000001


def test_the_three_largest_buckets_come_first_and_ties_as_they_came() -> None:
    assert top3(BREAKDOWN) == [("history", 9000), ("toolResults", 9000), ("system", 5200)]


def test_the_reserve_takes_part_and_injectors_never_do() -> None:
    assert top3({"injectors": 10**9, "reservedForReply": 5, "system": 4}) == [
        ("reservedForReply", 5),
        ("system", 4),
    ]


def test_what_is_no_number_is_no_bucket() -> None:
    odd: dict[str, Any] = {"a": True, "b": "9", "c": None, "d": {"x": 1}, "e": 2.5}
    assert top3(odd) == [("e", 2.5)]
    assert top3({}) == []


def test_the_answer_has_its_fields_in_order() -> None:
    text = answer(snapshot(at=1_700_000_000_123), 1_700_000_000_623, ZH)
    told = json.loads(text)
    assert list(told) == [
        "sessionId",
        "ageMs",
        "observedAt",
        "tag",
        "used",
        "contextWindow",
        "usageRatio",
        "maxTokens",
        "tokenBudget",
        "breakdown",
        "top3",
        "advice",
    ]
    assert told["ageMs"] == 500
    assert told["observedAt"] == "2023-11-14T22:13:20.123Z"
    assert told["usageRatio"] == 0.3858
    assert told["top3"][0] == {"name": "history", "tokens": 9000}
    assert list(told["breakdown"].items()) == list(BREAKDOWN.items())
    assert '"used":12345,"contextWindow":32000,' in text


def test_calibrated_usage_is_told_last_if_there_is_one() -> None:
    told = json.loads(answer(snapshot(calibratedUsed=13000), 1_000, ZH))
    assert list(told)[-1] == "calibratedUsed"
    assert told["calibratedUsed"] == 13000


def test_the_tag_is_of_the_ratio_before_it_is_rounded() -> None:
    told = json.loads(answer(snapshot(usageRatio=0.69996), 1_000, ZH))
    assert (told["tag"], told["usageRatio"]) == ("INFO", 0.7)


def test_a_clock_behind_the_servers_gives_no_negative_age() -> None:
    assert json.loads(answer(snapshot(at=2_000), 1_000, ZH))["ageMs"] == 0


@pytest.mark.parametrize(
    ("ratio", "words"),
    [(0.9, "memory_compress"), (0.75, "压力较高"), (0.6, "无需处理"), (0.1, "无需处理")],
)
def test_each_tag_has_its_advice(ratio: float, words: str) -> None:
    assert words in json.loads(answer(snapshot(usageRatio=ratio), 1_000, ZH))["advice"]


def test_no_data_is_an_answer_and_no_error() -> None:
    assert json.loads(no_data("会话.1", Catalogue("en"))) == {
        "noData": True,
        "sessionId": "会话.1",
        "advice": Catalogue("en").text("budgetNoData"),
    }


def test_a_bucket_of_a_later_version_is_passed_on_where_it_stood() -> None:
    odd = {"system": 1, "quantum": 99, "history": 2, "note": "x"}
    told = json.loads(answer(snapshot(breakdown=odd), 1_000, ZH))
    assert list(told["breakdown"].items()) == list(odd.items())
    assert told["top3"][0] == {"name": "quantum", "tokens": 99}


@pytest.mark.parametrize("missing", [..., None, "", 7, ["s"]])
def test_an_event_that_names_no_session_is_none(missing: object) -> None:
    assert Snapshot.read(event(sessionId=missing), 1, 1) is None


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"\xff", b'{"sessionId":'])
def test_a_body_that_is_no_event_is_none(body: bytes) -> None:
    assert Snapshot.read(body, 1, 1) is None


def test_an_event_with_nothing_but_a_session_is_answered() -> None:
    read = Snapshot.read(b'{"sessionId":"s"}', 1_000, 1)
    assert read is not None
    told = json.loads(answer(read, 1_000, ZH))
    assert (told["used"], told["tag"], told["breakdown"], told["top3"]) == (0, "OK", {}, [])


def test_times_are_written_in_utc_with_milliseconds() -> None:
    assert iso_time(0) == "1970-01-01T00:00:00.000Z"
    assert iso_time(1_700_000_000_007) == "2023-11-14T22:13:20.007Z"
