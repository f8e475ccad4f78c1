"""This is about rolling restarts: every process leaves and comes back, one by one, under load."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

from aalis_cli.chaos.errands import KINDS, Errand
from aalis_cli.chaos.evidence import lines_of
from aalis_cli.chaos.figures import percentile
from aalis_cli.chaos.fleet import GUESTS, MODULES
from aalis_cli.chaos.invariants import Violation, violations
from aalis_cli.chaos.storm import Outcome
from aalis_cli.chaos.talkers import Gate
from aalis_contracts.journal import TurnResumed

if TYPE_CHECKING:
    from collections.abc import Callable

    from aalis_cli.chaos.arena import Arena

_KINDS: Final = ("talk", "stamp", "both", "slow")
_STEADY_SECONDS: Final = 3.0
"""How long all are up before the next one leaves."""
SLOWEST: Final = 15.0
"""Seconds within which 95 of 100 replies must be there."""


@dataclass(frozen=True)
class Traffic:
    """How many turns a second are asked for, over how many sessions."""

    rate: float = 50.0
    seed: int = 1
    sessions: int = 150


@dataclass
class _Crowd:
    """Who talks, and what was said when."""

    arena: Arena
    random: Random
    gate: Gate
    over: bool = False
    errands: list[Errand] = field(default_factory=list[Errand])
    said: dict[str, float] = field(default_factory=dict[str, float])
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    async def talk(self, session_id: str) -> None:
        """Say one thing after the other, each when the one before is answered."""
        while True:
            await self.gate.passed()
            if self.over:
                return
            kind = KINDS[self.random.choice(_KINDS)]
            errand = Errand(f"r{next(self.numbers):06}", session_id, kind)
            self.errands.append(errand)
            self.said[errand.word] = time.time()
            await self.arena.say(errand)
            if not await self.arena.ends(errand.word):
                return


async def rolling(arena: Arena, traffic: Traffic, say: Callable[[str], None]) -> Outcome:
    """Restart everything once while a crowd talks, wait until it is calm, and judge."""
    random = Random(traffic.seed)  # noqa: S311 - a seed repeats the run
    crowd = _Crowd(arena, random, Gate(traffic.rate))
    sessions = [f"r-{number:03}" for number in range(traffic.sessions)]
    began = time.monotonic()
    talking = [asyncio.create_task(crowd.talk(session)) for session in sessions]
    exits = await _restart_all(arena, say, began)
    crowd.over = True
    seconds = time.monotonic() - began
    await asyncio.gather(*talking)
    calm = await arena.quiet()
    evidence = await arena.evidence(crowd.errands)
    found = violations(evidence)
    if not calm:
        found.append(Violation("not over", "", "messages are left"))
    delivered = lines_of(arena.place.directory / "deliveries.jsonl")
    words = {end.turn_id: word for word, end in arena.ended.items()}
    times = [
        line["at"] - crowd.said[words[line["turnId"]]]
        for line in delivered
        if words.get(line.get("turnId", "")) in crowd.said
    ]
    late = percentile(times, 0.95)
    if late is None or late > SLOWEST:
        found.append(Violation("slow replies", "", f"p95 is {late} s, wanted {SLOWEST:g} s"))
    resumed = sum(
        isinstance(fact, TurnResumed)
        for session in evidence.sessions.values()
        for one in session.journal
        for fact in one.entry.facts
    )
    figures = {
        "turns": len(crowd.errands),
        "turnsPerSecond": round(len(crowd.errands) / seconds, 1),
        "replyP50": percentile(times, 0.5),
        "replyP95": late,
        "replySlowest": max(times, default=None),
        "handedOver": resumed,
        "restarts": len(exits),
        "slowestExit": max(exits.values(), default=None),
    }
    return Outcome(evidence, found, figures)


async def _restart_all(arena: Arena, say: Callable[[str], None], began: float) -> dict[str, float]:
    """Restart one process after the other; return the seconds each took to leave."""
    exits: dict[str, float] = {}
    for service in MODULES:
        for child in [] if service in GUESTS else arena.fleet.replicas(service):
            await asyncio.sleep(_STEADY_SECONDS)
            gone = await arena.fleet.restart(child.instance)
            await arena.fleet.await_ready(arena.registry)
            exits[child.instance] = gone
            at = time.monotonic() - began
            say(f"{at:7.1f} s  {child.instance} left in {gone:.2f} s and is back")
    await asyncio.sleep(_STEADY_SECONDS)
    return exits
