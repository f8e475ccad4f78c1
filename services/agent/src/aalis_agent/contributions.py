"""This is about contributions: having other processes build their blocks, all at once (HOOK-11)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aalis_agent.ports import Unavailable
from aalis_agent.prompt import Contribution, assemble, injected_keys
from aalis_contracts.hooks import PromptBuild

if TYPE_CHECKING:
    from aalis_agent.parts import Parts
    from aalis_agent.planning import Bench
    from aalis_agent.steps import Turn
    from aalis_contracts.registry import PromptEntry


async def contribute(parts: Parts, turn: Turn, bench: Bench, iteration: int) -> None:
    """Build what is not in the list yet, in parallel on one snapshot, and put it in its place."""
    present = injected_keys(bench.messages)
    pending = [entry for entry in parts.contributors.entries() if entry.key not in present]
    if not pending:
        return
    incoming = turn.answered.message
    request = PromptBuild(
        session_id=turn.session_id,
        user_id=incoming.user_id,
        platform=incoming.platform,
        trigger_type=incoming.trigger_type,
        messages=bench.messages,
        iteration=iteration,
    )
    built = await asyncio.gather(*(build(parts, entry, request) for entry in pending))
    assembled = assemble(bench.messages, [one for one in built if one is not None])
    bench.messages = assembled.messages
    for key in set(assembled.unplaced) - bench.unplaced:
        parts.log.warning("contribution dropped: its anchor is unknown", plugin=key)
        bench.unplaced.add(key)


async def build(parts: Parts, entry: PromptEntry, request: PromptBuild) -> Contribution | None:
    """Have one contribution built; None when it is absent this round (SPEC HOOK-12)."""
    timeout = parts.options.prompt_build_timeout
    try:
        blocks = await parts.contributors.build(entry, request, timeout)
    except Unavailable as error:
        parts.log.warning("contribution is absent this round", plugin=entry.key, why=str(error))
        return None
    return Contribution(entry.key, entry.anchor, blocks)
