"""The vector files, each line of them; and what a runner says about files that are not right."""

import gzip
import json
import re
from pathlib import Path
from typing import Final

import pytest

from aalis_agent.conform import CHECKS, run
from aalis_contracts.messages import Message
from aalis_llm.testing import broken_rules

DATA: Final = Path(__file__).parent / "data"


def lines(kind: str) -> list[bytes]:
    plain = DATA / f"{kind}.jsonl"
    packed = DATA / f"{kind}.jsonl.gz"
    data = plain.read_bytes() if plain.exists() else gzip.decompress(packed.read_bytes())
    return data.splitlines()


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("estimate", 106),
        ("trim", 160),
        ("history", 60),
        ("usage", 50),
        ("assembly", 60),
        ("provider", 221),
    ],
)
def test_every_vector_passes(kind: str, count: int) -> None:
    assert run(kind, lines(kind)) == (count, [])


@pytest.mark.parametrize("kind", ["estimate", "trim", "history", "usage", "assembly"])
def test_a_vector_with_another_expectation_fails_under_its_own_name(kind: str) -> None:
    first, second = lines(kind)[:2]
    broken = second.replace(b'"tokens": ', b'"tokens": 9').replace(
        b'"expected": ', b'"expected": [], "was": '
    )
    passed, failed = run(kind, [first, broken])
    assert passed == 1
    assert failed == ["line 2"] if kind == "estimate" else failed[0].startswith(f"{kind}-")


def test_a_log_line_that_differs_fails() -> None:
    line = lines("usage")[0].replace(b"[token-usage:OK]", b"[token-usage:ok]")
    assert run("usage", [line]).failed == ["usage-10"]


def test_provider_lines_stand_for_every_rule_and_every_profile() -> None:
    rows = [json.loads(line) for line in lines("provider")]
    named = {(re.match(r"shape-\d+", row["id"]), row["profile"]) for row in rows}
    rules = {(match[0], profile) for match, profile in named if match is not None}

    assert rules >= {
        (f"shape-{number}", profile)
        for number in range(1, 12)
        for profile in ("openai", "deepseek", "anthropic", "strict")
    }


def test_what_a_provider_line_expects_obeys_the_rules() -> None:
    broken: dict[str, list[str]] = {}
    for row in map(json.loads, lines("provider")):
        expected = [Message.from_object(one) for one in row["expected"]]
        rules = broken_rules(expected, row["profile"], vision=row.get("vision", False))
        if rules:
            broken[row["id"]] = rules

    assert broken == {}


def test_provider_lines_are_shaped_for_their_profile() -> None:
    line = (
        '{"id": "p-1", "messages": [{"role": "user", "content": "hi"}], "profile": "strict",'
        ' "expected": [{"role": "user", "content": "hi"}]}'
    )
    assert run("provider", [line, line.replace("hi", "ho", 1)]) == (1, ["p-1"])


def test_blank_lines_are_skipped_and_unreadable_ones_fail() -> None:
    assert run("estimate", ["", "  \n", "{", '{"text": 1}', '{"id": 7}']) == (
        0,
        ["line 3", "line 4", "7"],
    )


def test_an_unknown_kind_is_refused_with_the_kinds_there_are() -> None:
    with pytest.raises(ValueError, match="estimate, trim, history, usage, assembly, provider"):
        run("nothing", [])
    assert list(CHECKS) == ["estimate", "trim", "history", "usage", "assembly", "provider"]
