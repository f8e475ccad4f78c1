"""An interceptor that stops something. Beside weather.py, ask for {"city": "Atlantis"}."""

from aalis_contracts.hooks import TOOL_BEFORE, ToolBeforeData
from aalis_sdk.plugin import Plugin, Stop

plugin = Plugin("guard")


@plugin.intercept(TOOL_BEFORE, order=-10, on_failure="fail")
async def refuse(call: ToolBeforeData) -> None:
    if call.args.get("city") == "Atlantis":
        raise Stop(result="Nobody has been to Atlantis; do not ask again.")


plugin.run()
