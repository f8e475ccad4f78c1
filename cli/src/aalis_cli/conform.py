"""This is about `aalis conform`: a vector file against the agent's pure parts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from aalis_cli.failure import Failed

if TYPE_CHECKING:
    from pathlib import Path


def conform(kind: str, file: Path) -> int:
    """Print how many lines of `file` hold, then the id of each that does not; 1 if there is one."""
    from aalis_agent.conform import run

    try:
        outcome = run(kind, file.read_bytes().splitlines())
    except OSError as error:
        raise Failed(f"{file}: {error.strerror}", 2) from None
    except ValueError as error:
        raise Failed(str(error), 2) from None
    sys.stdout.write(f"{outcome.passed} passed, {len(outcome.failed)} failed\n")
    for name in outcome.failed:
        sys.stdout.write(f"{name}\n")
    if outcome.passed == 0 and not outcome.failed:
        raise Failed(f"{file} holds no line, so nothing was checked")
    return 1 if outcome.failed else 0
