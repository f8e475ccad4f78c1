"""Every case has a test that names it, or a reason why it cannot occur here (docs/cases.md)."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aalis_sdk.testing.cases import case, cases

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[1]
ROW: Final = re.compile(r"^\| (ctx-\d{3}) \| (\w+) \| (.+) \|$", re.MULTILINE)


def ids_in_tests() -> set[str]:
    """Return the ids in the names of tests: `test_ctx_036_and_039_…` names two."""
    found: set[str] = set()
    for name in names_of_tests():
        named = re.match(r"test_ctx_(\d{3}(?:_and_\d{3})*)_", name)
        if named is not None:
            found.update(f"ctx-{number}" for number in named[1].split("_and_"))
    return found


def names_of_tests() -> Iterator[str]:
    for top in ("libs", "services", "tests"):
        for file in sorted((ROOT / top).rglob("test_*.py")):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            for node in tree.body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield node.name


def excused() -> dict[str, tuple[str, str]]:
    """Return kind and reason of the cases that cannot occur, by id."""
    page = (ROOT / "docs/cases.md").read_text(encoding="utf-8")
    section = page.partition("## Cannot occur here")[2].partition("\n## ")[0]
    return {name: (kind, reason) for name, kind, reason in ROW.findall(section)}


def test_every_case_is_tested_or_excused_and_none_is_both() -> None:
    assert len(cases()) == 80
    assert ids_in_tests() | set(excused()) == set(cases())
    assert ids_in_tests() & set(excused()) == set()


def test_an_excuse_names_the_kind_of_its_case_and_says_why() -> None:
    for name, (kind, reason) in excused().items():
        assert kind == cases()[name]["kind"]
        assert len(reason) > 40


def test_every_case_can_be_written_out() -> None:
    for name in cases():
        assert "$repeat" not in str(case(name))[:10_000]
