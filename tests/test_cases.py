"""The eighty cases: each is a test that names its id, or the page says why it cannot occur."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "tests" / "data" / "context_cases.jsonl"
PAGE = ROOT / "docs" / "cases.md"


def in_tests() -> set[str]:
    """Return the ids in the names of tests, `ctx_036_and_039` naming two."""
    found: set[str] = set()
    for pattern in ("libs/*/tests/test_*.py", "services/*/tests/test_*.py", "tests/**/test_*.py"):
        for file in ROOT.glob(pattern):
            for name in re.findall(r"def test_ctx_(\w+)", file.read_text(encoding="utf-8")):
                numbers = re.match(r"\d{3}(?:_and_\d{3})*", name)
                assert numbers is not None, name
                found.update(f"ctx-{number}" for number in numbers[0].split("_and_"))
    return found


def test_every_case_is_a_test_or_cannot_occur() -> None:
    lines = CASES.read_text(encoding="utf-8").splitlines()
    cases = {json.loads(line)["id"] for line in lines}
    excused = set(re.findall(r"^\| (ctx-\d{3}) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    tested = in_tests()

    assert len(cases) == 80
    assert sorted(cases - tested - excused) == []
    assert sorted(excused & tested) == []
    assert sorted((excused | tested) - cases) == []
