"""This is about faults: which one comes when, from a seed (pure), and doing it to a fleet."""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final, Literal

from aalis_cli.chaos.evidence import Span
from aalis_cli.chaos.fleet import REPLICAS
from aalis_sdk.topology import ACK_WAIT

if TYPE_CHECKING:
    from aalis_cli.chaos.arena import Arena

Deed = Literal["kill", "freeze", "restart", "wipe", "more", "less"]
FROZEN_SECONDS: Final = ACK_WAIT + 2.0
"""Longer than a message waits for a sign of life, so that a frozen owner is replaced."""
_AFTERMATH: Final = 12.0
"""Seconds after a tool host's death during which its calls may still be told as unknown."""
_WEIGHTS: Final[dict[tuple[Deed, str], int]] = {
    ("kill", "agent"): 24,
    ("kill", "gateway"): 12,
    ("kill", "memory"): 8,
    ("kill", "workshop"): 8,
    ("kill", "prompt-budget"): 4,
    ("kill", "recorder"): 6,
    ("freeze", "agent"): 12,
    ("freeze", "gateway"): 6,
    ("freeze", "memory"): 3,
    ("freeze", "workshop"): 3,
    ("restart", "nats"): 4,
    ("kill", "nats"): 2,
    ("kill", "valkey"): 3,
    ("wipe", "valkey"): 3,
    ("more", "agent"): 3,
    ("less", "agent"): 3,
    ("more", "gateway"): 2,
    ("less", "gateway"): 2,
}
_FEWEST, _MOST = 2, 4
"""Replicas: with a single one, nobody could take over what it leaves."""


@dataclass(frozen=True)
class Fault:
    """What happens to whom, and how long after the fault before."""

    deed: Deed
    target: str
    after: float
    which: float
    """Which of the replicas, as a share of them."""

    def __str__(self) -> str:
        return f"{self.deed} {self.target}"


def planned(number: int, pace: float, random: Random) -> list[Fault]:
    """Return `number` faults, `pace` seconds apart on average."""
    kinds = list(_WEIGHTS)
    chosen = random.choices(kinds, list(_WEIGHTS.values()), k=number)
    return [
        Fault(deed, target, random.uniform(0.2, 1.8) * pace, random.random())
        for deed, target in chosen
    ]


async def commit(arena: Arena, fault: Fault) -> str:
    """Do it; return what was done in words. What takes its time goes on by itself."""
    match fault.target:
        case "nats":
            return await _to_nats(arena, fault)
        case "valkey":
            return await _to_valkey(arena, fault)
        case _:
            return await _to_replica(arena, fault)


async def _to_nats(arena: Arena, fault: Fault) -> str:
    fleet = arena.fleet
    await asyncio.to_thread(fleet.renew_nats, politely=fault.deed == "restart")
    return str(fault)


async def _to_valkey(arena: Arena, fault: Fault) -> str:
    if fault.deed == "wipe":
        await asyncio.to_thread(_flush, arena.fleet.valkey_port)
    else:
        await asyncio.to_thread(arena.fleet.renew_valkey)
    return str(fault)


def _flush(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as link:
        link.sendall(b"FLUSHALL\r\n")
        link.recv(64)


async def _to_replica(arena: Arena, fault: Fault) -> str:
    fleet = arena.fleet
    replicas = fleet.well(fault.target)
    if fault.deed == "more":
        if len(replicas) >= _MOST:
            return f"{fault}: there are {len(replicas)}"
        return f"more {fleet.add(fault.target).instance}"
    needs = {"less": _FEWEST + 1, "freeze": 2 if fault.target in REPLICAS else 1}
    if len(replicas) < needs.get(fault.deed, 1):
        return f"{fault}: there are {len(replicas)}"
    chosen = replicas[int(fault.which * len(replicas))].instance
    if fault.deed == "less":
        arena.later(fleet.dismiss(chosen))
    elif fault.deed == "freeze":
        arena.later(freeze_for_a_while(arena, chosen))
    else:
        fleet.kill(chosen)
        if fault.target == "workshop":
            arena.hosts_hit.append(Span(time.time(), time.time() + _AFTERMATH))
    return f"{fault.deed} {chosen}"


async def freeze_for_a_while(arena: Arena, instance: str) -> None:
    """Freeze a process for longer than a message waits, then wake it."""
    arena.fleet.freeze(instance)
    began = time.time()
    if instance.startswith("workshop"):
        arena.hosts_hit.append(Span(began, began + FROZEN_SECONDS + _AFTERMATH))
    await asyncio.sleep(FROZEN_SECONDS)
    arena.fleet.wake(instance)
