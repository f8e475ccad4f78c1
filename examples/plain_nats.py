"""A tool in plain NATS, without the SDK. Try: ./aalis ask '!call roman {"number": 1984}'."""

import asyncio
import json
import os

import nats
from nats.aio.msg import Msg

URL = os.environ.get("AALIS_NATS_URL", "nats://127.0.0.1:4222")
NUMBER = {"type": "integer", "minimum": 1, "maximum": 3999}
SCHEMA = {"type": "object", "properties": {"number": NUMBER}, "required": ["number"]}
ENTRY = {
    "plugin": "roman",
    "retry": "safe",  # Asked twice it answers the same, so it need not remember its calls.
    "definition": {
        "type": "function",
        "function": {"name": "roman", "description": "Write Roman numerals", "parameters": SCHEMA},
    },
}
NUMERALS = "M:1000 CM:900 D:500 CD:400 C:100 XC:90 L:50 XL:40 X:10 IX:9 V:5 IV:4 I:1"


async def answer(message: Msg) -> None:
    number, text = int(json.loads(message.data)["args"]["number"]), ""
    for letters, value in (pair.split(":") for pair in NUMERALS.split()):
        text += letters * (number // int(value))
        number %= int(value)
    await message.respond(json.dumps({"content": text}).encode())


async def main() -> None:
    client = await nats.connect(URL)
    await client.subscribe("tool.call.roman", queue="tool.call.roman", cb=answer)
    while True:  # An entry lives for 30 seconds.
        await client.jetstream().publish(
            "$KV.registry.tool.roman", json.dumps(ENTRY).encode(), headers={"Nats-TTL": "30s"}
        )
        await asyncio.sleep(10)


asyncio.run(main())
