"""A tool. Try: ./aalis ask '!call weather {"city": "Lisbon"}'."""

from aalis_contracts.text import JsonObject
from aalis_contracts.tools import ToolCallContext
from aalis_sdk.plugin import Plugin

plugin = Plugin("weather")
CITY: JsonObject = {"city": {"type": "string", "description": "Where, in English"}}


@plugin.tool("weather", "Tell the weather of a city", CITY, required=["city"], retry="safe")
async def weather(args: JsonObject, context: ToolCallContext) -> str:
    return f"It is sunny in {args['city']}."


plugin.run()
