"""This is about figures: how long what took, from the evidence. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from aalis_cli.journals import facts_of
from aalis_contracts.journal import TurnResumed, TurnStarted

if TYPE_CHECKING:
    from aalis_cli.chaos.evidence import Evidence


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the value below which `share` of all values lie (nearest rank); None without any."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def resumes(evidence: Evidence, deaths: dict[str, list[float]]) -> dict[str, float]:
    """Return the seconds from each death of an owner to its turn's being taken up again, by turn.

    `deaths` are the times at which processes were killed, by instance. An owner's name begins
    with its instance.
    """
    found: dict[str, float] = {}
    for session in evidence.sessions.values():
        owner = ""
        for fact in facts_of(session.journal):
            if isinstance(fact, TurnResumed):
                instance = owner.rpartition(".")[0]
                before = [at for at in deaths.get(instance, ()) if at <= fact.at / 1000]
                if before:
                    found[f"{fact.turn_id} by {fact.owner}"] = fact.at / 1000 - max(before)
            if isinstance(fact, TurnStarted | TurnResumed):
                owner = fact.owner
    return found
