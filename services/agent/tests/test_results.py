"""How long a tool result may be, and what a failure says."""

from aalis_agent.results import cut_result, failure_of, result_limit
from aalis_contracts.catalogue import Catalogue

TEXTS = Catalogue("zh")


def test_a_result_may_have_its_share_of_the_window_in_characters() -> None:
    assert result_limit(32_000, 0.15) == 16_800
    assert result_limit(1_001, 0.1) == 350


def test_a_result_within_the_limit_is_unchanged() -> None:
    assert cut_result("x" * 10, 10, TEXTS) == "x" * 10


def test_a_longer_result_says_how_long_it_was() -> None:
    assert cut_result("x" * 11, 10, TEXTS) == "x" * 10 + TEXTS.text("toolResultCut", length=11)


def test_a_result_that_its_host_has_cut_still_says_how_long_it_was_at_first() -> None:
    marker = TEXTS.text("toolResultCut", length=5000)
    assert cut_result("x" * 11, 10, TEXTS, length=5000) == "x" * 10 + marker


def test_a_failure_says_what_was_raised() -> None:
    assert failure_of(ValueError("no such city")).content == '{"error":"no such city"}'
    assert failure_of(KeyError()).content == '{"error":"KeyError"}'
    assert failure_of(TimeoutError("  ")).content == '{"error":"TimeoutError"}'
