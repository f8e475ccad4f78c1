"""A preprocessor: what people say is rewritten first of all. Try: ./aalis ask '!say brb'."""

from aalis_contracts.hooks import InputBeforeData
from aalis_sdk.plugin import Plugin

plugin = Plugin("writing")


@plugin.preprocessor("abbreviations")
async def spell_out(data: InputBeforeData) -> dict[str, object]:
    text = data.message.content.replace("brb", "be right back")
    return {"message": data.message.model_copy(update={"content": text})}


plugin.run()
