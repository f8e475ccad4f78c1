"""This is about the matrix: a process is killed at each failpoint of each service, one by one."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from aalis_cli.chaos.evidence import Evidence, Span
from aalis_cli.chaos.faults import FROZEN_SECONDS
from aalis_cli.chaos.invariants import Violation, violations
from aalis_cli.chaos.scenes import SCENES, Stage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from pathlib import Path

    from aalis_cli.chaos.arena import Arena


@dataclass(frozen=True)
class Trial:
    """One point of one service, and the scene in which it is passed.

    `orders` are what the point is armed with: `kill`, or `stop` for a process that is frozen for
    longer than a message waits, replaced, and woken.
    """

    service: str
    point: str
    scene: str = "plain"
    kind: str = "chain"
    orders: str = "kill"

    @property
    def name(self) -> str:
        """How it is called in the table."""
        return f"{self.orders} {self.service} {self.point} ({self.scene}, {self.kind})"


@dataclass
class Verdict:
    """What came of one trial."""

    trial: Trial
    seconds: float
    violations: list[Violation] = field(default_factory=list[Violation])
    evidence: Evidence | None = None


_STEPS: Final = (
    "delivery.arrived",
    "agent.append.turn.started",
    "agent.appended.turn.started",
    "agent.input.hooked",
    "agent.input.archived",
    "agent.append.input.prepared",
    "agent.appended.input.prepared",
    "agent.append.turn.planned",
    "agent.appended.turn.planned",
    "agent.append.model.started",
    "agent.appended.model.started",
    "agent.model.streaming",
    "agent.model.answered",
    "agent.append.model.responded",
    "agent.appended.model.responded",
    "agent.append.tool.started",
    "agent.appended.tool.started",
    "agent.tool.answered",
    "agent.append.tool.finished",
    "agent.appended.tool.finished",
    "agent.rows.saving",
    "agent.rows.saved",
    "agent.append.rows.saved",
    "agent.appended.rows.saved",
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
_LATE: Final = ("agent.model.answered", "agent.tool.answered", "agent.appended.tool.finished")
_CRITICAL: Final = (
    "agent.input.hooked",
    "agent.append.reply.retried",
    "agent.appended.reply.retried",
    "agent.append.model.responded",
    "agent.appended.model.responded",
)
_OVERTAKING: Final = (
    "agent.append.turn.started",
    "agent.appended.turn.started",
    "agent.settled",
    "agent.append.turn.ended",
    "agent.appended.turn.ended",
    "agent.done.telling",
    "agent.after.told",
)
_GATEWAY: Final = (
    "delivery.arrived",
    "gateway.passed.confirm",
    "gateway.passed.command",
    "gateway.passed.flow",
    "gateway.passed.trigger",
    "gateway.dispatching",
    "gateway.dispatched",
    "gateway.passed.dispatch",
    "delivery.handled",
    "delivery.acknowledged",
    "gateway.sending",
    "gateway.sent",
)
_MEMORY: Final = (
    "memory.archiving",
    "memory.archived",
    "memory.archived.told",
    "memory.reading",
    "memory.saving",
    "memory.saved",
)
_HOST: Final = ("tool.asked", "tool.recorded", "tool.ran", "tool.finished")
_ADAPTER: Final = (
    "delivery.arrived",
    "adapter.delivering",
    "adapter.delivered",
    "delivery.handled",
)
_BURYING: Final = ("delivery.burying", "delivery.buried")

TRIALS: Final = (
    *(Trial("agent", point) for point in _STEPS),
    *(Trial("agent", point, kind="both") for point in _LATE),
    *(Trial("agent", point, "with_a_critic") for point in _CRITICAL),
    *(Trial("agent", point, "interrupted") for point in _OVERTAKING),
    *(Trial("agent", f"agent.abort.{step}", "stopped") for step in ("recorded", "signalled")),
    *(
        Trial("agent", f"agent.{step}.turn.resumed", "dying_twice")
        for step in ("append", "appended")
    ),
    Trial("agent", "agent.debt.paid", "without_memory"),
    Trial("agent", "agent.handing.back", "leaving", "long"),
    *(Trial("gateway", point) for point in _GATEWAY),
    *(
        Trial("gateway", f"gateway.command.{step}", "told_to_stop")
        for step in ("recorded", "ran", "finished")
    ),
    Trial("gateway", "gateway.kept", "unheard"),
    *(Trial("gateway", point, "unreadable") for point in _BURYING),
    *(Trial("memory", point) for point in _MEMORY),
    Trial("memory", "memory.archived", "unheard"),
    *(Trial("workshop", point, kind="stamp") for point in _HOST),
    *(Trial("workshop", point, kind="both") for point in _HOST),
    *(Trial("prompt-budget", point, kind="budget") for point in _HOST),
    *(Trial("prompt-budget", f"budget.{step}", kind="budget") for step in ("heard", "kept")),
    *(Trial("recorder", point) for point in _ADAPTER),
)
FREEZES: Final = tuple(
    replace(trial, orders="stop")
    for trial in TRIALS
    if trial.service in {"agent", "gateway", "workshop", "recorder"} and trial.scene == "plain"
)
_CHANCES: Final = 40
"""Turns of which the one that was frozen must get one, beside another agent."""


async def matrix(arena: Arena, trials: Sequence[Trial] = TRIALS) -> AsyncGenerator[Verdict]:
    """Try each, and yield what came of it."""
    for number, trial in enumerate(trials, start=1):
        yield await _try(arena, trial, number)


async def _try(arena: Arena, trial: Trial, number: int) -> Verdict:
    await arena.fleet.await_ready(arena.registry)
    armed = arena.fleet.armory(trial.service) / trial.point
    began, wall = time.monotonic(), time.time()

    woken: list[str] = []

    def arm() -> None:
        armed.write_text(trial.orders, encoding="utf-8")
        if trial.orders == "stop":
            arena.later(_wake(arena, armed, trial.service, woken))

    stage = Stage(arena, f"m{number:03}", trial.kind, arm)
    await SCENES[trial.scene](stage)
    words = {errand.word for errand in stage.errands}
    await stage.until(lambda: words <= arena.ended.keys() and not armed.exists(), "work is left")
    if armed.exists():
        armed.unlink()
        stage.found.append(Violation("not reached", stage.session_id, trial.point))
    await arena.aftermath()
    if trial.service == "agent" and trial.orders == "stop":
        await _see_it_serve(stage, woken)
    if not await arena.quiet():
        stage.found.append(Violation("not over", stage.session_id, "messages are left"))
    if trial.service in {"workshop", "prompt-budget"}:
        arena.hosts_hit.append(Span(wall, time.time()))
    verdict = Verdict(trial, time.monotonic() - began)
    verdict.evidence = await arena.evidence(stage.errands)
    verdict.violations = [*stage.found, *violations(verdict.evidence)]
    return verdict


async def _wake(arena: Arena, armed: Path, service: str, woken: list[str]) -> None:
    """Wait until a process is frozen at its point, then until it is replaced, and wake it."""
    await arena.until(lambda: not armed.exists() and arena.fleet.frozen(service) is not None)
    child = arena.fleet.frozen(service)
    if child is not None:
        await asyncio.sleep(FROZEN_SECONDS)
        arena.fleet.wake(child.instance)
        woken.append(child.instance)


async def _see_it_serve(stage: Stage, woken: list[str]) -> None:
    """Talk in other sessions until the agent that was frozen has answered in one."""
    for number in range(_CHANCES):
        aside = replace(stage, session_id=f"{stage.session_id}-{number}", errands=[])
        errand = await aside.say("talk")
        await aside.until(lambda word=errand.word: word in stage.arena.ended, "an aside is left")
        owners = await stage.arena.owners(aside.session_id)
        if any(owner.rpartition(".")[0] in woken for owner in owners):
            return
    why = f"{woken or 'nobody'} was woken, and answers nobody"
    stage.found.append(Violation("does not go on", stage.session_id, why))
