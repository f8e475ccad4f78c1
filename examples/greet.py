"""A slash command. Try: ./aalis ask '/greet Ann'."""

from aalis_contracts.registry import CommandArg
from aalis_contracts.rpc import CommandRun
from aalis_sdk.plugin import Plugin

plugin = Plugin("greet")


@plugin.command("greet", "Greet somebody", args=[CommandArg(name="name")], risk="safe")
async def greet(run: CommandRun) -> str:
    return f"Hello, {run.args.get('name', 'stranger')}!"


plugin.run()
