"""This is about the critic: a plugin that hears every hook of a turn, and refuses some replies.

With it the journal is written at other places, since an interceptor may take its time. Run as a
process: `python -m aalis_cli.chaos.critic`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aalis_contracts.hooks import (
    INPUT_BEFORE,
    LLM_BEFORE,
    REPLY_BEFORE,
    TOOL_AFTER,
    TOOL_BEFORE,
    ReplyBeforeData,
)
from aalis_sdk.plugin import Plugin

if TYPE_CHECKING:
    from aalis_contracts.contract import Contract
    from aalis_contracts.text import JsonObject

FEEDBACK: Final = "Say it again, please."

plugin = Plugin("critic")


async def _look(_: Contract) -> JsonObject | None:
    return None


for _hook in (INPUT_BEFORE, LLM_BEFORE, TOOL_BEFORE, TOOL_AFTER):
    plugin.intercept(_hook)(_look)


@plugin.intercept(REPLY_BEFORE)
async def refuse_once(data: ReplyBeforeData) -> JsonObject | None:
    """Refuse the first form of each reply, and let the second one pass."""
    if data.attempt:
        return None
    return {"retryRequested": True, "retryFeedback": FEEDBACK, "maxRetries": 1}


if __name__ == "__main__":
    plugin.run()
