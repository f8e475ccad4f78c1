"""This is about the workshop: a tool host whose effects are counted, one line of a file each.

Run as a process: `python -m aalis_cli.chaos.workshop`.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aalis_sdk.plugin import Plugin

if TYPE_CHECKING:
    from aalis_contracts.text import JsonObject
    from aalis_contracts.tools import ToolCallContext

EFFECTS: Final = "AALIS_CHAOS_EFFECTS"
"""The file that effects are written to."""
_PROPERTIES: Final[JsonObject] = {"word": {"type": "string"}, "ms": {"type": "integer"}}

plugin = Plugin("workshop")


@plugin.tool("stamp", "Stamp a word", _PROPERTIES, required=["word"])
async def stamp(args: JsonObject, context: ToolCallContext) -> str:
    """Leave a mark that cannot be taken back."""
    return await _mark("stamp", args, context)


@plugin.tool("restamp", "Stamp a word, again if need be", _PROPERTIES, retry="safe")
async def restamp(args: JsonObject, context: ToolCallContext) -> str:
    """Leave a mark; a second one under the same key does no harm."""
    return await _mark("restamp", args, context)


async def _mark(tool: str, args: JsonObject, context: ToolCallContext) -> str:
    line = {"tool": tool, "word": args["word"], "key": context.key, "at": time.time()}
    append(Path(os.environ[EFFECTS]), line)
    await asyncio.sleep(float(str(args.get("ms", 0))) / 1000)
    return f"{tool}ed {args['word']}"


def append(file: Path, line: Mapping[str, object]) -> None:
    """Append a line that is there whatever happens to this process next."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, json.dumps(line).encode() + b"\n")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    plugin.run()
