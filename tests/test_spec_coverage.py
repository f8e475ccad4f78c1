"""The page that says what proves each seed statement: whole, and about tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "spec-coverage.md"
STATEMENTS = [*(f"S1-{n:02}" for n in range(1, 50)), *(f"S2-{n:02}" for n in range(1, 15))]


def rows() -> dict[str, list[str]]:
    """Return the tests that stand beside each statement."""
    found: dict[str, list[str]] = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if re.fullmatch(r"S\d-\d\d", cells[0]):
            assert cells[0] not in found, f"{cells[0]} stands twice"
            found[cells[0]] = re.findall(r"`([^`]+::[^`]+)`", cells[-1])
    return found


def test_every_statement_has_its_row_and_every_row_a_test() -> None:
    assert list(rows()) == STATEMENTS
    assert [row for row, tests in rows().items() if not tests] == []


def test_every_test_that_is_named_exists() -> None:
    absent: list[str] = []
    for row, tests in rows().items():
        for test in tests:
            file, _, name = test.partition("::")
            path = ROOT / file
            if not path.is_file() or not re.search(
                rf"^(async )?def {re.escape(name)}\(",
                path.read_text(encoding="utf-8"),
                re.MULTILINE,
            ):
                absent.append(f"{row}: {test}")
    assert absent == []
