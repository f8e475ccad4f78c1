"""The list of failpoints and the source agree, and each point is tried by the matrix."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from aalis_cli.chaos.matrix import TRIALS
from aalis_sdk.failpoints import FAILPOINTS

ROOT = Path(__file__).resolve().parent.parent
PASSER = """\
import sys
from pathlib import Path
from aalis_sdk import failpoints
failpoints.enable(Path(sys.argv[1]) if sys.argv[1:] else None)
for _ in range(3):
    failpoints.failpoint("tool.asked")
    print("passed", flush=True)
"""


def patterns() -> set[str]:
    """Return every name that is passed somewhere, a formatted one as a regular expression."""
    sources = [*ROOT.glob("libs/*/src"), *ROOT.glob("services/*/src"), ROOT / "cli" / "src"]
    files = [file for source in sources for file in source.rglob("*.py")]
    calls = [
        node
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "failpoint"
    ]
    assert len(calls) > 30
    return {pattern_of(call.args[0]) for call in calls}


def pattern_of(name: ast.expr) -> str:
    if isinstance(name, ast.Constant):
        return re.escape(str(name.value))
    if isinstance(name, ast.JoinedStr):
        parts = [
            re.escape(str(p.value)) if isinstance(p, ast.Constant) else ".+" for p in name.values
        ]
        return "".join(parts)
    # A table of points: what it holds is formatted beside it.
    return r"gateway\.passed\..+"


def test_every_listed_point_is_passed_somewhere_and_every_passed_one_is_listed() -> None:
    found = patterns()
    assert [name for name in FAILPOINTS if not any(re.fullmatch(p, name) for p in found)] == []
    assert [p for p in found if not any(re.fullmatch(p, name) for name in FAILPOINTS)] == []


def test_every_point_is_tried_by_the_matrix() -> None:
    assert set(FAILPOINTS) - {trial.point for trial in TRIALS} == set()
    assert {trial.point for trial in TRIALS} - set(FAILPOINTS) == set()


def passed(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(entry for entry in sys.path if Path(entry).name == "src")
    return subprocess.run(
        [sys.executable, "-P", "-c", PASSER, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


@pytest.mark.parametrize(
    ("orders", "times"), [("kill", 0), ("pass kill", 1), ("pass pass kill", 2), (None, 3)]
)
def test_a_process_dies_at_the_passing_that_was_ordered(
    tmp_path: Path, orders: str | None, times: int
) -> None:
    armed = tmp_path / "tool.asked"
    if orders is not None:
        armed.write_text(orders)
    done = passed(str(tmp_path))
    assert done.stdout.splitlines() == ["passed"] * times
    assert done.returncode == (0 if orders is None else -signal.SIGKILL)
    assert list(tmp_path.iterdir()) == []


def test_who_comes_after_one_that_died_does_not_die_of_the_same_order(tmp_path: Path) -> None:
    (tmp_path / "tool.asked").write_text("kill")
    assert passed(str(tmp_path)).returncode == -signal.SIGKILL
    assert passed(str(tmp_path)).returncode == 0


def test_without_a_directory_no_point_does_anything(tmp_path: Path) -> None:
    (tmp_path / "tool.asked").write_text("kill")
    assert passed().returncode == 0
