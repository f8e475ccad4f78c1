"""This is about scenes: what has to happen around a failpoint so that somebody passes it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aalis_cli.chaos.errands import KINDS, PLATFORM, Errand
from aalis_cli.chaos.evidence import lines_of
from aalis_cli.chaos.invariants import Violation
from aalis_contracts import subjects
from aalis_contracts.messages import IncomingMessage

if TYPE_CHECKING:
    from aalis_cli.chaos.arena import Arena


@dataclass
class Stage:
    """Where a scene is played: a session of its own, and the errands that were said in it."""

    arena: Arena
    session_id: str
    kind: str
    arm: Callable[[], None]
    """Arms the trial's failpoint: at once, or when the scene has come that far."""
    errands: list[Errand] = field(default_factory=list[Errand])
    found: list[Violation] = field(default_factory=list[Violation])

    async def say(self, kind: str) -> Errand:
        """Say the next errand."""
        word = f"{self.session_id}.{len(self.errands) + 1}"
        errand = Errand(word, self.session_id, KINDS[kind])
        self.errands.append(errand)
        await self.arena.say(errand)
        return errand

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait; what does not come about is a violation."""
        if not await self.arena.until(condition):
            self.found.append(Violation("not over", self.session_id, what))

    async def writing(self, errand: Errand) -> None:
        """Wait until the model has begun to write the answer to an errand."""
        await self.until(
            lambda: any(frame.session_id == errand.session_id for frame in self.arena.heard),
            "no text came",
        )

    async def stamping(self, errand: Errand) -> None:
        """Wait until the tool of an errand is at work."""
        file = self.arena.place.directory / "effects.jsonl"
        await self.until(
            lambda: any(line["word"] == errand.word for line in lines_of(file)), "no tool began"
        )


Scene = Callable[[Stage], Awaitable[None]]


async def plain(stage: Stage) -> None:
    """Say one thing."""
    stage.arm()
    await stage.say(stage.kind)


async def interrupted(stage: Stage) -> None:
    """Say a second thing while the first is being answered."""
    first = await stage.say("slow")
    stage.arena.overtaken.add(first.word)
    await stage.writing(first)
    stage.arm()
    await stage.say(stage.kind)


async def stopped(stage: Stage) -> None:
    """Abort a turn whose tool is at work, then say another thing."""
    first = await stage.say("long")
    stage.arena.overtaken.add(first.word)
    await stage.stamping(first)
    stage.arm()
    await stage.arena.abort(first)
    await stage.until(lambda: first.word in stage.arena.ended, "the aborted turn has no end")
    await stage.say(stage.kind)


async def told_to_stop(stage: Stage) -> None:
    """Say /stop while a tool is at work, then another thing."""
    first = await stage.say("long")
    stage.arena.overtaken.add(first.word)
    await stage.stamping(first)
    stage.arm()
    await stage.arena.tell(_incoming(stage.session_id, "/stop", f"{stage.session_id}.stop"))
    await stage.until(lambda: first.word in stage.arena.ended, "the stopped turn has no end")
    await stage.say(stage.kind)


async def dying_twice(stage: Stage) -> None:
    """Let an owner die early, so that another one takes the turn up."""
    (stage.arena.fleet.armory("agent") / "agent.model.streaming").write_text("kill")
    stage.arm()
    await stage.say(stage.kind)


async def without_memory(stage: Stage) -> None:
    """Answer while memory is away, and have it come back."""
    fleet = stage.arena.fleet
    async with fleet.without("memory-1"):
        stage.arm()
        errand = await stage.say(stage.kind)
        await stage.until(lambda: errand.word in stage.arena.ended, "no answer without memory")
    await fleet.await_ready(stage.arena.registry)


async def with_a_critic(stage: Stage) -> None:
    """Have a plugin refuse the first form of a reply."""
    fleet = stage.arena.fleet
    critic = fleet.add("critic")
    await fleet.await_ready(stage.arena.registry)
    stage.arm()
    errand = await stage.say(stage.kind)
    await stage.until(lambda: errand.word in stage.arena.ended, "no answer for the critic")
    await fleet.dismiss(critic.instance)


async def leaving(stage: Stage) -> None:
    """Have every agent leave while it works."""
    errand = await stage.say(stage.kind)
    await stage.stamping(errand)
    stage.arm()
    fleet = stage.arena.fleet
    agents = [child.instance for child in fleet.replicas("agent")]
    await asyncio.gather(*(fleet.restart(name) for name in agents))


async def unheard(stage: Stage) -> None:
    """Say something in a group that is not for the assistant: it is archived, once."""
    stage.arm()
    word = f"{stage.session_id}.aside"
    await stage.arena.tell(_incoming(stage.session_id, "an aside", word, "group"))
    seen = await stage.arena.archived(stage.session_id, word)
    if seen != 1:
        stage.found.append(Violation("user row", stage.session_id, f"{seen} rows of an aside"))


async def unreadable(stage: Stage) -> None:
    """Publish what nobody can read: it is one dead letter."""
    stage.arm()
    subject = subjects.inbound(PLATFORM, stage.session_id)
    await stage.arena.mesh.store(subject, b"{", f"{stage.session_id}.bad")
    letters = await stage.arena.buried(stage.session_id)
    if letters != 1:
        why = f"{letters} dead letters of one message"
        stage.found.append(Violation("dead letter", stage.session_id, why))


SCENES: Final[dict[str, Scene]] = {
    scene.__name__: scene
    for scene in (
        plain,
        interrupted,
        stopped,
        told_to_stop,
        dying_twice,
        without_memory,
        with_a_critic,
        leaving,
        unheard,
        unreadable,
    )
}


def _incoming(
    session_id: str, text: str, word: str, session_type: str = "private"
) -> IncomingMessage:
    return IncomingMessage(
        content=text,
        session_id=session_id,
        platform=PLATFORM,
        user_id="u1",
        session_type="group" if session_type == "group" else "private",
        message_id=word,
    )
