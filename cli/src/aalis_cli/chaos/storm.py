"""This is about the storm: many sessions talk while faults come at random, from a seed."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from aalis_cli.chaos import faults, talkers
from aalis_cli.chaos.errands import KINDS, Errand
from aalis_cli.chaos.figures import percentile, resumes
from aalis_cli.chaos.invariants import Violation, violations

if TYPE_CHECKING:
    from collections.abc import Callable

    from aalis_cli.chaos.arena import Arena
    from aalis_cli.chaos.evidence import Evidence

_SLOW = 10.0
"""Seconds within which a turn whose owner died is taken up again (DESIGN §5)."""


@dataclass(frozen=True)
class Weather:
    """How much is said, how much goes wrong, and the seed that decides the rest."""

    turns: int
    faults: int
    seed: int
    sessions: int = 24
    pace: float = 3.0
    """Seconds between two faults, on average."""

    @property
    def rate(self) -> float:
        """Errands a second, so that the last fault comes with the last of them."""
        return self.turns / max(1.0, self.faults * self.pace)


@dataclass
class Outcome:
    """What came of a storm."""

    evidence: Evidence
    violations: list[Violation]
    figures: dict[str, float | int | None] = field(default_factory=dict[str, "float | int | None"])


async def storm(arena: Arena, weather: Weather, say: Callable[[str], None]) -> Outcome:
    """Talk, break things, wait until it is calm, and judge."""
    random = Random(weather.seed)  # noqa: S311 - a seed repeats the run
    said = talkers.planned(weather.turns, weather.sessions, random)
    coming = faults.planned(weather.faults, weather.pace, random)
    began = time.monotonic()
    await asyncio.gather(
        talkers.talk(arena, said, weather.rate), _break_things(arena, coming, say, began)
    )
    await arena.aftermath()
    await arena.fleet.await_ready(arena.registry)
    last = await _last_words(arena, said)
    calm = await arena.quiet()
    evidence = await arena.evidence([*said.errands, *last])
    found = violations(evidence)
    found += [Violation("not over", "", word) for word in said.unfinished]
    found += [Violation("process", "", line) for line in arena.failures]
    if not calm:
        found.append(Violation("not over", "", "messages are left"))
    return Outcome(evidence, found, _figures(arena, said, evidence, say))


async def _break_things(
    arena: Arena, coming: list[faults.Fault], say: Callable[[str], None], began: float
) -> None:
    for fault in coming:
        await asyncio.sleep(fault.after)
        at = time.monotonic() - began
        say(f"{at:7.1f} s  {await faults.commit(arena, fault)}")


async def _last_words(arena: Arena, said: talkers.Talk) -> list[Errand]:
    """Have each session say one thing more: what its lane owes is paid by its next turn."""
    last = [
        Errand(f"last-{session}", session, KINDS["talk"])
        for session, moves in said.moves.items()
        if moves
    ]
    for errand in last:
        await arena.say(errand)
    await arena.until(lambda: all(one.word in arena.ended for one in last))
    return last


def _figures(
    arena: Arena, said: talkers.Talk, evidence: Evidence, say: Callable[[str], None]
) -> dict[str, float | int | None]:
    deaths: dict[str, list[float]] = {}
    for death in arena.fleet.deaths:
        deaths.setdefault(death.instance, []).append(death.at)
    resumed = resumes(evidence, deaths)
    for turn, seconds in resumed.items():
        if seconds > _SLOW:
            say(f"resumed after {seconds:.1f} s: {turn}")
    aborts = [
        heard - at
        for word, at in arena.aborted.items()
        if (end := arena.ended.get(word)) is not None
        and (heard := arena.last_frames.get(end.turn_id)) is not None
    ]
    outcomes = [end.outcome for session in evidence.sessions.values() for end in session.ends]
    return {
        "turns": len(said.errands),
        "replied": outcomes.count("replied"),
        "aborted": outcomes.count("aborted"),
        "errors": outcomes.count("error"),
        "deaths": len(arena.fleet.deaths),
        "resumed": len(resumed),
        "resumeP95": percentile(list(resumed.values()), 0.95),
        "slowResumes": sum(seconds > _SLOW for seconds in resumed.values()),
        "aborts": len(aborts),
        "abortP95": percentile(aborts, 0.95),
        "slowestAbort": max(aborts, default=None),
    }
