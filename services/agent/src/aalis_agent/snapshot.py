"""This is about snapshots: what a session's context would cost now, for a page (USE-7, USE-8)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aalis_agent.contributions import build
from aalis_agent.history import shown_history
from aalis_agent.model import aside
from aalis_agent.planning import budgets_of, offered, read_history
from aalis_agent.ports import ChainFailed, Unavailable
from aalis_agent.prompt import assemble, main_prompt
from aalis_agent.resolution import Unresolved, resolve
from aalis_agent.usage import CallIdentity, break_down, token_usage
from aalis_contracts.hooks import LLM_BEFORE, LlmBeforeData, PromptBuild
from aalis_contracts.messages import IncomingMessage

if TYPE_CHECKING:
    from aalis_agent.parts import Parts
    from aalis_contracts.events import TokenRequest, TokenUsage
    from aalis_contracts.messages import Message
    from aalis_contracts.tools import ToolDefinition

DEFAULT_PLATFORM = "webui"
_END_OF_HISTORY = 2**53


async def snapshot(parts: Parts, request: TokenRequest) -> TokenUsage | None:
    """Return the usage of the session as it is now; None when no model can be resolved.

    Same resolution, budgets, tools and persona as a real turn, but built from the system prompt
    and the history alone, with `dryRun`, and neither trimmed nor sent to a model.
    """
    session_id, platform = request.session_id, request.platform or DEFAULT_PLATFORM
    config = await parts.settings.effective(session_id, platform)
    options = parts.options
    entry = resolve(
        [config.llm],
        options.default_llm,
        parts.models.entries(),
        parts.models.failed(),
        parts.texts,
    )
    if isinstance(entry, Unresolved):
        return None
    nobody = IncomingMessage(content="", session_id=session_id, platform=platform)
    try:
        persona = await parts.personas.prompt(config, nobody)
    except Unavailable:
        persona = None
    system = main_prompt(
        persona.system_prompt if persona else "", options.system_prompt, parts.texts
    )
    messages: list[Message] = [system, *await _history(parts, session_id)]
    messages = await _with_contributions(parts, session_id, platform, messages)
    tools = [one.definition for one in offered(parts.tools.entries(), config.enabled_tool_groups)]
    messages, tools = await _intercepted(parts, session_id, platform, messages, tools)
    counter = await parts.counter_for(entry.id)
    budgets = budgets_of(parts, entry)
    costs = await aside(messages, lambda: counter.messages(messages))
    return token_usage(
        CallIdentity(session_id=session_id, platform=platform),
        budgets,
        break_down(messages, costs, counter.tools(tools), budgets.max_tokens),
        parts.calibrations.get(entry.context_id),
    )


async def _history(parts: Parts, session_id: str) -> list[Message]:
    limit = parts.options.history_limit
    if limit <= 0:
        return []
    rows = await read_history(parts, session_id, limit, _END_OF_HISTORY)
    return shown_history(rows, now=parts.now(), zone=parts.zone).messages


async def _with_contributions(
    parts: Parts, session_id: str, platform: str, messages: list[Message]
) -> list[Message]:
    request = PromptBuild(
        session_id=session_id, platform=platform, dry_run=True, messages=messages, iteration=0
    )
    entries = parts.contributors.entries()
    built = await asyncio.gather(*(build(parts, entry, request) for entry in entries))
    return assemble(messages, [one for one in built if one is not None]).messages


async def _intercepted(
    parts: Parts,
    session_id: str,
    platform: str,
    messages: list[Message],
    tools: list[ToolDefinition],
) -> tuple[list[Message], list[ToolDefinition]]:
    if not parts.interceptors.anyone(LLM_BEFORE):
        return messages, tools
    data = LlmBeforeData(
        messages=messages,
        tools=tools,
        session_id=session_id,
        platform=platform,
        dry_run=True,
        iteration=0,
    )
    try:
        chain = await parts.interceptors.run(LLM_BEFORE, data)
    except ChainFailed:
        return messages, tools
    return chain.data.messages, chain.data.tools
