"""This is about talkers: sessions that say one errand after the other, and sometimes too much."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

from aalis_cli.chaos.errands import KINDS, Errand

if TYPE_CHECKING:
    from aalis_cli.chaos.arena import Arena

_KINDS: Final = {"talk": 4, "slow": 3, "stamp": 5, "both": 4, "chain": 3, "long": 2, "budget": 2}
BURST: Final = 5
_BURSTS: Final = 0.04
_ABORTS: Final = 0.06
_COPIES: Final = 0.08


@dataclass(frozen=True)
class Move:
    """What a session does next: errands said at once, and what happens to them."""

    errands: tuple[Errand, ...]
    abort_after: float | None = None
    copy_after: float | None = None
    """Seconds after which the last one is said a second time, word for word."""


@dataclass
class Talk:
    """All that is to be said, by session, and when each was said."""

    moves: dict[str, list[Move]]
    said: dict[str, float] = field(default_factory=dict[str, float])
    unfinished: list[str] = field(default_factory=list[str])

    @property
    def errands(self) -> list[Errand]:
        """Everything that was said, in the order of each session."""
        every = [one for moves in self.moves.values() for move in moves for one in move.errands]
        return [one for one in every if one.word in self.said]


def planned(turns: int, sessions: int, random: Random, prefix: str = "s") -> Talk:
    """Return `turns` errands over `sessions` sessions."""
    moves: dict[str, list[Move]] = {f"{prefix}-{n:03}": [] for n in range(sessions)}
    names = list(moves)
    number = 0
    while number < turns:
        session = names[number % sessions] if number < sessions else random.choice(names)
        many = BURST if random.random() < _BURSTS and turns - number >= BURST else 1
        errands = tuple(_errand(session, number + extra, random) for extra in range(many))
        number += many
        moves[session].append(_move(errands, random))
    return Talk(moves)


def _errand(session: str, number: int, random: Random) -> Errand:
    (kind,) = random.choices(list(_KINDS), list(_KINDS.values()))
    return Errand(f"t{number:05}", session, KINDS[kind])


def _move(errands: tuple[Errand, ...], random: Random) -> Move:
    if len(errands) == 1 and random.random() < _ABORTS:
        slow = Errand(
            errands[0].word, errands[0].session_id, KINDS[random.choice(("slow", "long"))]
        )
        return Move((slow,), abort_after=random.uniform(0.05, 0.8))
    if random.random() < _COPIES:
        return Move(errands, copy_after=random.choice((0.0, 0.1, 1.0, 6.0)))
    return Move(errands)


async def talk(arena: Arena, said: Talk, rate: float) -> None:
    """Let all sessions talk at `rate` errands a second; returns when everything is answered."""
    gate = Gate(rate)
    await asyncio.gather(
        *(_session(arena, said, moves, gate) for moves in said.moves.values() if moves)
    )


class Gate:
    """Lets one pass every so often."""

    def __init__(self, rate: float) -> None:
        self._pause = 1 / rate
        self._next = time.monotonic()

    async def passed(self, number: int = 1) -> None:
        """Wait for one's turn."""
        now = time.monotonic()
        at = max(self._next, now)
        self._next = at + self._pause * number
        await asyncio.sleep(at - now)


async def _session(arena: Arena, said: Talk, moves: Sequence[Move], gate: Gate) -> None:
    for move in moves:
        await gate.passed(len(move.errands))
        await _make(arena, said, move)


async def _make(arena: Arena, said: Talk, move: Move) -> None:
    words = {one.word for one in move.errands}
    arena.overtaken.update({one.word for one in move.errands[:-1]})
    for errand in move.errands:
        said.said[errand.word] = time.time()
        await arena.say(errand)
    last = move.errands[-1]
    if move.copy_after is not None:
        arena.later(_say_again(arena, last, move.copy_after))
    if move.abort_after is not None:
        arena.overtaken.add(last.word)
        await asyncio.sleep(move.abort_after)
        await arena.abort(last)
    if not await arena.until(lambda: words <= arena.ended.keys()):
        said.unfinished += sorted(words - arena.ended.keys())


async def _say_again(arena: Arena, errand: Errand, after: float) -> None:
    await asyncio.sleep(after)
    await arena.say_again(errand)
