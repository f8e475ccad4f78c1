"""This is about `aalis chaos`: a stack of its own, trouble, and one verdict."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from aalis_cli.chaos.arena import arena_in
from aalis_cli.chaos.matrix import TRIALS, Verdict, matrix
from aalis_cli.failure import Failed
from aalis_cli.interrupts import Interrupts, run
from aalis_cli.place import Place


@dataclass(frozen=True)
class Wish:
    """What is asked for."""

    matrix: bool
    only: str = ""
    keep: Path | None = None


def chaos(wish: Wish) -> int:
    """Make trouble, print what came of it, and return 1 if anything is not as it must be."""

    async def story(_: Interrupts) -> int:
        directory = Path(tempfile.mkdtemp(prefix="aalis-chaos-"))
        place = Place(directory)
        place.make()
        began = time.monotonic()
        trials = [trial for trial in TRIALS if wish.only in trial.name]
        if not trials:
            raise Failed(f"no failpoint has {wish.only!r} in its name", 2)
        verdicts: list[Verdict] = []
        async with arena_in(place) as arena:
            async for verdict in matrix(arena, trials):
                verdicts.append(verdict)
                _say(verdict)
        failed = [one for one in verdicts if one.violations]
        summary = {
            "mode": "matrix",
            "trials": len(verdicts),
            "failed": [one.trial.name for one in failed],
            "violations": sum(len(one.violations) for one in verdicts),
            "seconds": round(time.monotonic() - began, 1),
            "kept": str(directory) if failed else None,
        }
        if not failed:
            shutil.rmtree(directory, ignore_errors=True)
        sys.stdout.write(json.dumps(summary) + "\n")
        return 1 if failed else 0

    return run(story)


def _say(verdict: Verdict) -> None:
    mark = "FAILED" if verdict.violations else "ok"
    sys.stdout.write(f"{mark:7} {verdict.trial.name:45} {verdict.seconds:6.1f} s\n")
    for one in verdict.violations:
        sys.stdout.write(f"        {one.rule}: {one.session_id} {one.text}\n")
    sys.stdout.flush()
