"""An observer: it is told, and nobody waits for it. It prints a line for every turn."""

from aalis_contracts.events import TurnAfter
from aalis_sdk.plugin import Plugin

plugin = Plugin("watch")


@plugin.observe("agent:turn:after")
async def watch(turn: TurnAfter) -> None:
    print(f"{turn.session_id}: {turn.message.content!r} -> {turn.outcome}", flush=True)


plugin.run()
