"""This is about the agent's slash commands (SPEC §2.15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aalis_sdk.plugin import Plugin

if TYPE_CHECKING:
    from aalis_agent.aborts import Aborts
    from aalis_contracts.catalogue import Catalogue
    from aalis_contracts.rpc import CommandRun


def agent_commands(aborts: Aborts, texts: Catalogue) -> Plugin:
    """Return the plugin that offers them."""
    plugin = Plugin("agent")

    @plugin.command("stop", texts.text("stopHelp"), risk="safe")
    async def stop(run: CommandRun) -> str:  # pyright: ignore[reportUnusedFunction]
        """Abort the session's lanes (SPEC CMD-26)."""
        lanes = await aborts.abort(run.context.session_id)
        if not lanes:
            return texts.text("nothingToStop")
        return texts.text("stopped", count=len(lanes))

    return plugin
