"""This is about the bounded map of snapshots."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aalis_prompt_budget.snapshots import RecentSnapshots, Snapshot, Usage


def of(session: str, at: int = 1, seq: int = 1) -> Snapshot:
    return Snapshot(Usage(session_id=session), b"", at, seq)


def test_the_newest_of_a_session_is_found() -> None:
    recent = RecentSnapshots()
    recent.keep(of("s", seq=1), 0.0)
    recent.keep(of("s", seq=2), 0.0)
    assert recent.find("s", 0.0) == of("s", seq=2)
    assert recent.find("other", 0.0) is None


def test_an_older_one_never_replaces_a_newer_one() -> None:
    recent = RecentSnapshots()
    recent.keep(of("s", at=5, seq=9), 0.0)
    recent.keep(of("s", at=5, seq=8), 1.0)
    recent.keep(of("s", at=4, seq=10), 2.0)
    assert recent.find("s", 2.0) == of("s", at=5, seq=9)


def test_a_stream_that_was_made_anew_counts_by_its_time() -> None:
    recent = RecentSnapshots()
    recent.keep(of("s", at=5, seq=900), 0.0)
    recent.keep(of("s", at=6, seq=1), 0.0)
    assert recent.find("s", 0.0) == of("s", at=6, seq=1)


def test_the_least_recently_used_goes_first() -> None:
    recent = RecentSnapshots(limit=2)
    recent.keep(of("a"), 0.0)
    recent.keep(of("b"), 1.0)
    recent.find("a", 2.0)
    recent.keep(of("c"), 3.0)
    assert recent.find("b", 3.0) is None
    assert recent.find("a", 3.0) is not None
    assert recent.find("c", 3.0) is not None


def test_what_nobody_used_for_its_time_is_swept_when_something_happens() -> None:
    recent = RecentSnapshots(ttl=10.0)
    recent.keep(of("a"), 0.0)
    recent.keep(of("b"), 5.0)
    assert len(recent) == 2
    assert recent.find("b", 10.0) is not None
    assert len(recent) == 1
    assert recent.find("b", 19.9) is not None
    assert recent.find("b", 29.9) is None


@pytest.mark.parametrize("bound", [0, -1, math.inf, math.nan])
def test_a_bound_that_is_no_positive_finite_number_is_refused(bound: float) -> None:
    with pytest.raises(ValueError, match="limit"):
        RecentSnapshots(limit=bound)
    with pytest.raises(ValueError, match="ttl"):
        RecentSnapshots(ttl=bound)


@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 5), st.booleans())),
    st.integers(1, 4),
)
def test_it_never_holds_more_than_its_limit_and_never_goes_back(
    steps: list[tuple[str, int, bool]], limit: int
) -> None:
    recent = RecentSnapshots(limit=limit)
    held: dict[str, int] = {}
    for time, (session, seq, asks) in enumerate(steps):
        if asks:
            found = recent.find(session, float(time))
            if found is None:
                held.pop(session, None)
            else:
                assert found.seq == held[session]
        else:
            before = recent.find(session, float(time))
            recent.keep(of(session, seq=seq), float(time))
            held[session] = max(seq, before.seq) if before else seq
        assert len(recent) <= limit
