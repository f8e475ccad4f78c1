"""This is about the bound that spares a look into the stream."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aalis_gateway.flow import Traffic, minute_of
from aalis_gateway.passage import Passage
from aalis_gateway.testing import said


def passage(time_ms: int, seq: int, number: int, session: str = "a") -> Passage:
    return Passage(said(), str(seq), f"inbound.7.message.chat.{session}", seq, time_ms, number)


def bound(traffic: Traffic, each: Passage) -> int | None:
    elsewhere, here = traffic.delivered(each), traffic.before(each)
    return None if elsewhere is None or here is None else here + elsewhere


def test_nothing_is_known_of_the_minute_in_which_a_replica_begins() -> None:
    traffic = Traffic()

    assert bound(traffic, passage(1, 1, 1)) is None
    assert bound(traffic, passage(2, 2, 2)) is None
    assert bound(traffic, passage(60_000, 3, 3)) == 0


def test_what_went_elsewhere_counts_as_if_it_were_the_groups() -> None:
    traffic = Traffic()
    bound(traffic, passage(1, 1, 1))

    assert bound(traffic, passage(60_000, 2, 2)) == 0
    assert bound(traffic, passage(60_001, 9, 6)) == 1 + 3
    assert bound(traffic, passage(60_002, 10, 7, session="b")) == 3


def test_a_message_that_comes_again_is_asked_about() -> None:
    traffic = Traffic()
    bound(traffic, passage(1, 1, 1))
    bound(traffic, passage(60_000, 2, 2))

    assert bound(traffic, passage(60_000, 2, 3)) is None


def test_a_consumer_that_begins_anew_makes_the_minute_unknown() -> None:
    traffic = Traffic()
    bound(traffic, passage(1, 1, 50))
    bound(traffic, passage(60_000, 2, 51))

    assert bound(traffic, passage(60_001, 3, 1)) is None
    assert bound(traffic, passage(120_000, 4, 2)) == 0


def test_a_group_that_was_forgotten_is_asked_about_until_the_minute_is_over() -> None:
    traffic = Traffic()
    bound(traffic, passage(1, 1, 1))
    for number in range(501):
        bound(traffic, passage(60_000, number + 2, number + 2, session=str(number)))

    assert bound(traffic, passage(60_001, 900, 503, session="0")) is None
    assert bound(traffic, passage(120_000, 901, 504, session="0")) == 0


steps = st.tuples(st.integers(0, 20_000), st.sampled_from("abc"), st.booleans(), st.integers(0, 2))


@given(st.lists(steps, min_size=1, max_size=200))
def test_the_bound_is_never_below_the_truth(
    history: list[tuple[int, str, bool, int]],
) -> None:
    traffic, now, number = Traffic(), 0, 0
    stored: list[tuple[int, str]] = []
    for seq, (gap, session, here, repeats) in enumerate(history, 1):
        now += gap
        truth = sum((minute_of(at), who) == (minute_of(now), session) for at, who in stored)
        stored.append((now, session))
        for _ in range(1 + repeats):
            number += 1
            if here:
                found = bound(traffic, passage(now, seq, number, session))
                assert found is None or found >= truth
