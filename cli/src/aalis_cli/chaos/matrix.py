"""This is about the matrix: a process is killed at each failpoint of each service, one by one."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aalis_cli.chaos.errands import KINDS, Errand
from aalis_cli.chaos.evidence import Evidence, Span
from aalis_cli.chaos.invariants import Violation, violations

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from aalis_cli.chaos.arena import Arena


@dataclass(frozen=True)
class Trial:
    """One point of one service, and what is said so that it is passed."""

    service: str
    point: str
    kind: str = "chain"
    orders: str = "kill"

    @property
    def name(self) -> str:
        """How it is called in the table."""
        return f"{self.service} {self.point}"


@dataclass
class Verdict:
    """What came of one trial."""

    trial: Trial
    seconds: float
    violations: list[Violation] = field(default_factory=list[Violation])
    evidence: Evidence | None = None


_AGENT: Final = (
    "delivery.arrived",
    "agent.append.turn.started",
    "agent.appended.turn.started",
    "agent.input.hooked",
    "agent.input.archived",
    "agent.append.model.started",
    "agent.appended.model.started",
    "agent.model.streaming",
    "agent.model.answered",
    "agent.append.tool.started",
    "agent.appended.tool.started",
    "agent.tool.answered",
    "agent.append.tool.finished",
    "agent.appended.tool.finished",
    "agent.rows.saving",
    "agent.rows.saved",
    "agent.append.turn.replying",
    "agent.appended.turn.replying",
    "agent.done.telling",
    "agent.done.told",
    "agent.reply.sending",
    "agent.reply.sent",
    "agent.append.turn.ended",
    "agent.appended.turn.ended",
    "agent.after.telling",
    "agent.after.told",
    "delivery.handled",
    "delivery.acknowledged",
)
_HOST: Final = ("tool.asked", "tool.recorded", "tool.ran", "tool.finished")
TRIALS: Final = (
    *(Trial("agent", point) for point in _AGENT),
    *(Trial("workshop", point, "stamp") for point in _HOST),
)


async def matrix(arena: Arena, trials: Sequence[Trial] = TRIALS) -> AsyncGenerator[Verdict]:
    """Try each, and yield what came of it."""
    for number, trial in enumerate(trials, start=1):
        yield await _try(arena, trial, number)


async def _try(arena: Arena, trial: Trial, number: int) -> Verdict:
    errand = Errand(f"m{number:03}", f"matrix-{number}", KINDS[trial.kind])
    armed = arena.fleet.armory(trial.service) / trial.point
    await arena.fleet.await_ready(arena.registry)
    armed.write_text(trial.orders, encoding="utf-8")
    began, wall = time.monotonic(), time.time()
    await arena.say(errand)
    ended = await arena.until(lambda: errand.word in arena.ended and not armed.exists())
    reached = not armed.exists()
    armed.unlink(missing_ok=True)
    quiet = await arena.quiet()
    if trial.service == "workshop":
        arena.hosts_hit.append(Span(wall, time.time()))
    verdict = Verdict(trial, time.monotonic() - began)
    verdict.evidence = await arena.evidence([errand])
    verdict.violations = violations(verdict.evidence)
    if not reached:
        verdict.violations.append(Violation("not reached", errand.session_id, trial.point))
    if not ended or not quiet:
        verdict.violations.append(Violation("not over", errand.session_id, "work is left"))
    return verdict
