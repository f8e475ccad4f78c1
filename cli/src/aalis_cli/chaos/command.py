"""This is about `aalis chaos`: a stack of its own, trouble, and one verdict."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from aalis_cli.chaos.arena import arena_in
from aalis_cli.chaos.matrix import TRIALS, Verdict, matrix
from aalis_cli.chaos.storm import Weather, storm
from aalis_cli.failure import Failed
from aalis_cli.interrupts import Interrupts, run
from aalis_cli.place import Place

if TYPE_CHECKING:
    from aalis_cli.chaos.invariants import Violation


@dataclass(frozen=True)
class Wish:
    """What is asked for; a matrix where there is no weather."""

    weather: Weather | None = None
    only: str = ""


def chaos(wish: Wish) -> int:
    """Make trouble, print what came of it, and return 1 if anything is not as it must be."""

    async def story(_: Interrupts) -> int:
        place = Place(Path(tempfile.mkdtemp(prefix="aalis-chaos-")))
        place.make()
        began = time.monotonic()
        if wish.weather is not None:
            summary = await _storm(place, wish.weather)
        else:
            summary = await _matrix(place, wish.only)
        failed = bool(summary["violations"])
        summary["seconds"] = round(time.monotonic() - began, 1)
        summary["kept"] = str(place.directory) if failed else None
        if not failed:
            shutil.rmtree(place.directory, ignore_errors=True)
        _print(json.dumps(summary))
        return 1 if failed else 0

    return run(story)


async def _matrix(place: Place, only: str) -> dict[str, object]:
    trials = [trial for trial in TRIALS if only in trial.name]
    if not trials:
        raise Failed(f"no failpoint has {only!r} in its name", 2)
    verdicts: list[Verdict] = []
    async with arena_in(place) as arena:
        async for verdict in matrix(arena, trials):
            verdicts.append(verdict)
            mark = "FAILED" if verdict.violations else "ok"
            _print(f"{mark:7} {verdict.trial.name:45} {verdict.seconds:6.1f} s")
            _tell(verdict.violations)
    return {
        "mode": "matrix",
        "trials": len(verdicts),
        "violations": sum(len(one.violations) for one in verdicts),
        "failed": [one.trial.name for one in verdicts if one.violations],
    }


async def _storm(place: Place, weather: Weather) -> dict[str, object]:
    async with arena_in(place) as arena:
        outcome = await storm(arena, weather, _print)
    _tell(outcome.violations)
    for name, value in outcome.figures.items():
        _print(f"{name:12} {value}")
    return {
        "mode": "storm",
        **asdict(weather),
        "violations": len(outcome.violations),
        "rules": sorted({one.rule for one in outcome.violations}),
        **outcome.figures,
    }


def _tell(violations: list[Violation]) -> None:
    for one in violations:
        _print(f"        {one.rule}: {one.session_id} {one.text}")


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
