"""A short matrix and a short storm on a real stack; `make chaos` runs the long ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]


def chaos(*arguments: str) -> tuple[int, list[str], dict[str, Any]]:
    """Run `aalis chaos`; return its exit code, its lines and its last one as an object."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "aalis_cli", "chaos", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=380,
    )
    assert done.stdout, done.stderr
    *lines, last = done.stdout.splitlines()
    return done.returncode, lines, json.loads(last)


def test_who_dies_at_a_step_of_a_turn_loses_nothing_and_does_nothing_twice() -> None:
    tried = (
        "agent.appended.tool.started (plain, chain)",
        "tool.ran (plain, stamp)",
        "gateway.sent",
    )
    code, lines, told = chaos("--matrix", *(word for name in tried for word in ("--only", name)))
    assert (code, told["violations"], told["kept"]) == (0, 0, None), lines
    assert told["trials"] == len(lines) == 3
    assert all(line.startswith("ok ") for line in lines)


def test_a_storm_of_faults_loses_nothing_and_does_nothing_twice() -> None:
    weather = ("--turns", "15", "--faults", "3", "--seed", "7", "--sessions", "4", "--pace", "1")
    code, lines, told = chaos(*weather)
    assert (code, told["violations"]) == (0, 0), lines
    assert told["turns"] == 15
    assert told["errors"] == 0


def test_a_trial_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "aalis_cli", "chaos", "--matrix", "--only", "nothing.here"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr == "aalis: no trial has any of nothing.here in its name\n"
