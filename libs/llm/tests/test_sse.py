"""Server-sent events, split anywhere (LLM-7)."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aalis_llm.sse import Frames, SseEvent, SseParser

MESSY = (
    "\ufeff: a comment\r\n"
    "retry: 10\n"
    'data: {"n": 1}\n\n'
    'data:{"n": 2}\r\n\r\n'
    "event: named\rdata: a\rdata: b\r\r"
    "event: without data\n\n"
    "data: 好👍\n\n"
    "data\n\n"
    "\n\n\n"
    "id: 7\ndata: last"
).encode()
EVENTS = [
    SseEvent("", '{"n": 1}'),
    SseEvent("", '{"n": 2}'),
    SseEvent("named", "a\nb"),
    SseEvent("", "好👍"),
    SseEvent("", ""),
    SseEvent("", "last"),
]


def parsed(portions: list[bytes]) -> list[SseEvent]:
    parser = SseParser()
    events = [event for portion in portions for event in parser.feed(portion)]
    return events + parser.close()


@given(st.lists(st.integers(0, len(MESSY)), max_size=30))
def test_events_split_anywhere_are_the_same_events(places: list[int]) -> None:
    cuts = [0, *sorted(places), len(MESSY)]
    portions = [MESSY[a:b] for a, b in pairwise(cuts)]

    assert parsed(portions) == EVENTS


def test_one_byte_at_a_time_is_the_same() -> None:
    assert parsed([MESSY[at : at + 1] for at in range(len(MESSY))]) == EVENTS


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_no_bytes_ever_raise(portions: list[bytes]) -> None:
    frames = Frames()
    for portion in portions:
        frames.feed(portion)
    frames.close()

    assert frames.unreadable >= 0


def test_a_very_long_line_takes_linear_work() -> None:
    parser = SseParser()
    body = b"data: " + b"x" * 2_000_000 + b"\n\n"
    events = [
        event for at in range(0, len(body), 100) for event in parser.feed(body[at : at + 100])
    ]

    assert len(events[0].data) == 2_000_000


@pytest.mark.parametrize(
    ("body", "objects", "unreadable", "done"),
    [
        ('data: {"a": 1}\n\ndata: [DONE]\n\ndata: {"b": 2}\n\n', [{"a": 1}], 0, True),
        ('data: {"a": 1}\ndata: {"b": 2}\ndata: [DONE]\n', [{"a": 1}, {"b": 2}], 0, True),
        ('data: {"a": 1}\n\ndata: {"a": \n\ndata: {"b": 2}\n\n', [{"a": 1}, {"b": 2}], 1, False),
        ("data: oops\n\ndata: 3\n\ndata: [1]\n\n", [], 3, False),
        ('data: {"a":\ndata: 1}\n\n', [{"a": 1}], 0, False),
        ("data:\n\n: ping\n\n", [], 0, False),
        ('event: ping\ndata: {"x": 1}\n\n', [{"type": "ping", "x": 1}], 0, False),
        ('event: ping\ndata: {"type": "y"}\n\n', [{"type": "y"}], 0, False),
        ('data: {"a": 1}', [{"a": 1}], 0, False),
        ("data: " + "[" * 100_000 + "\n\n", [], 1, False),
    ],
)
def test_frames_are_the_readable_objects(
    body: str, objects: list[object], unreadable: int, *, done: bool
) -> None:
    frames = Frames()
    found = frames.feed(body.encode()) + frames.close()

    assert found == objects
    assert (frames.unreadable, frames.done) == (unreadable, done)


def test_a_character_split_between_portions_is_whole() -> None:
    frames = Frames()
    raw = json.dumps({"a": "👍"}, ensure_ascii=False).encode()
    at = raw.index("👍".encode()) + 2

    assert frames.feed(b"data: " + raw[:at]) == []
    assert frames.feed(raw[at:] + b"\n\n") == [{"a": "👍"}]
