"""This is about `aalis bench`: running one of the measuring scripts of the checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from aalis_cli.failure import Failed

_DIRECTORY: Final = Path(__file__).resolve().parents[3] / "benchmarks"


def bench(name: str, arguments: list[str]) -> int:
    """Run `benchmarks/NAME.py` with the rest of the arguments; return its exit code."""
    known = sorted(file.stem for file in _DIRECTORY.glob("*.py"))
    if name not in known:
        some = f"there is {', '.join(known)}" if known else f"there is none in {_DIRECTORY}"
        raise Failed(f"no benchmark {name!r}; {some}", 2)
    command = [sys.executable, "-P", str(_DIRECTORY / f"{name}.py"), *arguments]
    return subprocess.run(command, check=False).returncode
