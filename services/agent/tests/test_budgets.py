"""How many tokens a call may take, and how many its answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aalis_agent.budgets import Budgets, plan_budgets


def planned(window: int, output: int | None, ratio: float = 1) -> Budgets:
    return plan_budgets(window, output, threshold_ratio=ratio, memory_budget=4096)


@pytest.mark.parametrize(
    ("window", "output", "ratio", "max_tokens", "token_budget", "hard_limit"),
    [
        (32_000, None, 1, 4096, 27_392, 27_392),
        (32_000, 4096, 0.5, 4096, 11_392, 27_392),
        (128_000, 128_000, 1, 64_000, 63_488, 63_488),
        (8_000, 2_000, 0.3, 2_000, 1024, 5_488),
        (1_000, 4096, 1, 500, 999, 999),
        (1, None, 1, 1, 0, 0),
    ],
)
def test_budgets_follow_the_formula(
    window: int,
    output: int | None,
    ratio: float,
    max_tokens: int,
    token_budget: int,
    hard_limit: int,
) -> None:
    budgets = planned(window, output, ratio)
    assert budgets.max_tokens == max_tokens
    assert budgets.token_budget == token_budget
    assert budgets.hard_limit == hard_limit


def test_only_an_entry_that_asks_for_too_much_is_reported_as_clamped() -> None:
    assert planned(1_000, 501).clamped
    assert not planned(1_000, 500).clamped
    assert not planned(1_000, None).clamped


def test_tool_definitions_take_their_part_and_leave_at_least_one_token() -> None:
    assert planned(32_000, None).for_messages(7_392) == 20_000
    assert planned(32_000, None).for_messages(99_999) == 1


def test_the_retry_after_an_overflow_has_a_fifth_less() -> None:
    lowered = planned(32_000, None, 0.5).lowered()
    assert (lowered.token_budget, lowered.hard_limit) == (9_113, 21_913)
    assert (lowered.window, lowered.max_tokens) == (32_000, 4096)
    assert planned(1, None).lowered().token_budget == planned(1, None).token_budget


@given(
    st.integers(1, 300_000),
    st.none() | st.integers(1, 300_000),
    st.floats(0.01, 1),
    st.integers(0, 400_000),
)
def test_budgets_are_sane_for_every_window(
    window: int, output: int | None, ratio: float, used: int
) -> None:
    budgets = planned(window, output, ratio)
    assert 0 <= budgets.token_budget <= budgets.hard_limit < max(window, 2)
    assert 1 <= budgets.max_tokens <= max(1, window // 2)
    assert 1 <= budgets.outgoing_max_tokens(used) <= budgets.max_tokens
