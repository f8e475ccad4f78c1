"""This is about the bound that spares a look into the stream."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aalis_gateway.flow import Traffic, minute_of


def test_nothing_is_known_before_an_earlier_minute_was_seen() -> None:
    traffic = Traffic()
    traffic.saw(0, 5)

    assert traffic.at_most(0, 5) is None


def test_the_growth_since_the_last_minute_bounds_the_count() -> None:
    traffic = Traffic()
    traffic.saw(59_999, 100)
    traffic.saw(60_000, 101)

    assert traffic.at_most(60_500, 107) == 7


@given(st.lists(st.tuples(st.integers(0, 20_000), st.booleans()), min_size=1, max_size=300))
def test_the_bound_is_never_below_the_truth(gaps: list[tuple[int, bool]]) -> None:
    traffic, now = Traffic(), 0
    stored: list[int] = []
    for seq, (gap, seen) in enumerate(gaps, 1):
        now += gap
        stored.append(now)
        if not seen:
            continue
        traffic.saw(now, seq)
        bound = traffic.at_most(now, seq)
        truth = sum(minute_of(at) == minute_of(now) for at in stored)
        assert bound is None or bound >= truth
