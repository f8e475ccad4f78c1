"""This is about building prompt-budget: it alone knows every part."""

from __future__ import annotations

import time
from typing import Final

from aalis_contracts.catalogue import Catalogue
from aalis_contracts.subjects import TOKEN_USAGE as USAGE_TEMPLATE
from aalis_prompt_budget.adapters.snapshots_redis import RedisSnapshots
from aalis_prompt_budget.adapters.usage_stream import UsageStream
from aalis_prompt_budget.lookup import Lookup
from aalis_prompt_budget.settings import BudgetSettings
from aalis_prompt_budget.snapshots import Cache, NoCache, RecentSnapshots
from aalis_prompt_budget.visibility import read_allowed
from aalis_sdk import topology
from aalis_sdk.mesh import Mesh
from aalis_sdk.plugin import Plugin
from aalis_sdk.registry import Registry
from aalis_sdk.service import PluginService, Service, run

NAME: Final = "prompt-budget"
TOOL: Final = "prompt_budget_info"
DESCRIPTION: Final = (
    "Look up what the last model call of this session consumed: used tokens, context window, "
    "where they went (breakdown, top3), a tag (OK, INFO, WARN, CRITICAL) and advice. Read-only."
)
SESSION: Final = "Session to look up; leave out for the current one."


def main() -> None:
    """Run prompt-budget until SIGTERM."""
    run(NAME, BudgetSettings, build)


async def build(settings: BudgetSettings, mesh: Mesh, registry: Registry) -> Service:
    """Put the parts together."""
    plugin = Plugin(NAME)
    ttl = settings.budget_ttl_seconds
    cache: Cache = NoCache()
    if settings.redis_url:
        cache = redis = RedisSnapshots(settings.redis_url, ttl)
        plugin.on_close(redis.close)
    lookup = Lookup(
        RecentSnapshots(settings.budget_sessions, ttl),
        cache,
        UsageStream(mesh),
        read_allowed(settings.budget_allow),
        Catalogue(settings.locale),
        time.time,
    )
    plugin.consume(topology.TOKEN_USAGE, topology.PROMPT_BUDGET, USAGE_TEMPLATE)(lookup.hear)
    plugin.tool(
        TOOL,
        DESCRIPTION,
        {"sessionId": {"type": "string", "description": SESSION}},
        risk="safe",
        timeout_ms=5000,
        retry="safe",
    )(lookup.tell)
    return PluginService(plugin, mesh, registry)
