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
from aalis_cli.chaos.matrix import FREEZES, TRIALS, Trial, Verdict, matrix
from aalis_cli.chaos.rolling import Traffic, rolling
from aalis_cli.chaos.storm import Outcome, Weather, storm
from aalis_cli.failure import Failed
from aalis_cli.interrupts import Interrupts, run
from aalis_cli.place import Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aalis_cli.chaos.invariants import Violation


@dataclass(frozen=True)
class Tries:
    """Which trials of the matrix: those that kill, or those that freeze.

    Of these, the ones with one of the `only` in their names; all of them without any.
    """

    only: tuple[str, ...] = ()
    freeze: bool = False

    @property
    def chosen(self) -> list[Trial]:
        """The trials, in order."""
        known = FREEZES if self.freeze else TRIALS
        return [
            trial
            for trial in known
            if not self.only or any(text in trial.name for text in self.only)
        ]


def chaos(wish: Tries | Weather | Traffic) -> int:
    """Make trouble, print what came of it, and return 1 if anything is not as it must be."""
    if isinstance(wish, Tries) and not wish.chosen:
        raise Failed(f"no trial has any of {', '.join(wish.only)} in its name", 2)

    async def story(_: Interrupts) -> int:
        place = Place(Path(tempfile.mkdtemp(prefix="aalis-chaos-")))
        place.make()
        began = time.monotonic()
        summary = await _made(place, wish)
        failed = bool(summary["violations"])
        summary["seconds"] = round(time.monotonic() - began, 1)
        summary["kept"] = str(place.directory) if failed else None
        if not failed:
            shutil.rmtree(place.directory, ignore_errors=True)
        _print(json.dumps(summary))
        return 1 if failed else 0

    return run(story)


async def _made(place: Place, wish: Tries | Weather | Traffic) -> dict[str, object]:
    async with arena_in(place, watch_model=not isinstance(wish, Traffic)) as arena:
        match wish:
            case Tries():
                verdicts: list[Verdict] = []
                async for verdict in matrix(arena, wish.chosen):
                    verdicts.append(verdict)
                    mark = "FAILED" if verdict.violations else "ok"
                    _print(f"{mark:7} {verdict.trial.name:72} {verdict.seconds:6.1f} s")
                    _tell(verdict.violations)
                return _of_matrix(verdicts)
            case Weather():
                outcome = await storm(arena, wish, _print)
            case Traffic():
                outcome = await rolling(arena, wish, _print)
    _tell(outcome.violations)
    for name, value in outcome.figures.items():
        _print(f"{name:16} {value}")
    mode = "storm" if isinstance(wish, Weather) else "rolling"
    return {"mode": mode, **asdict(wish), **_of(outcome)}


def _of_matrix(verdicts: Sequence[Verdict]) -> dict[str, object]:
    return {
        "mode": "matrix",
        "trials": len(verdicts),
        "violations": sum(len(one.violations) for one in verdicts),
        "failed": [one.trial.name for one in verdicts if one.violations],
    }


def _of(outcome: Outcome) -> dict[str, object]:
    return {
        "violations": len(outcome.violations),
        "rules": sorted({one.rule for one in outcome.violations}),
        **outcome.figures,
    }


def _tell(violations: Sequence[Violation]) -> None:
    for one in violations:
        _print(f"        {one.rule}: {one.session_id} {one.text}")


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
