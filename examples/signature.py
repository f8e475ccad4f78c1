"""An interceptor that changes something. Try: ./aalis ask hello."""

from aalis_contracts.hooks import REPLY_BEFORE, ReplyBeforeData
from aalis_sdk.plugin import Plugin

plugin = Plugin("signature")


@plugin.intercept(REPLY_BEFORE)
async def sign(reply: ReplyBeforeData) -> dict[str, object]:
    return {"content": f"{reply.content}\n— Aalis"}


plugin.run()
