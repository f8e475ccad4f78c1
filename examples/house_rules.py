"""A prompt contribution: a text at one of five places of every prompt."""

from aalis_contracts.hooks import PromptBuild
from aalis_sdk.plugin import Plugin

plugin = Plugin("house")


@plugin.contribute("rules", "knowledge")
async def rules(prompt: PromptBuild) -> str | None:
    if prompt.platform == "email":
        return None
    return "House rules: answer in at most three sentences."


plugin.run()
