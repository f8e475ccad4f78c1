"""This is about tool markup that leaks into text: DSML, the special tokens of deepseek (TXT-2).

    <｜DSML｜function_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="true">x
    </｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>

Only this markup is ever read as a call, and only where a profile says so; no other text is. Pure
and linear.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Final, NamedTuple, cast

from pydantic import JsonValue

from aalis_contracts.messages import FunctionCall, ToolCall
from aalis_contracts.text import JsonObject, compact_json

WORD: Final = "DSML"
LONGEST_MARKER: Final = 300
LONGEST_BLOCK: Final = 65_536
"""Characters of a leaked block that are held back; what is longer is no call of a model."""

_MARKER: Final = re.compile(
    rf"<(?P<close>/?)[|｜]++\s*+{WORD}\s*+[|｜]++\s*+(?P<what>\w*+)(?P<rest>[^<>]{{0,{LONGEST_MARKER}}})>"
)
_UNFINISHED: Final = re.compile(
    rf"<(?:/?(?:[|｜]++(?:\s*+(?:D(?:S(?:M)?)?|{WORD}\s*+[|｜]*+[^<>]*+)?)?)?)?\Z"
)
_NAME: Final = re.compile(r'\bname="([^"<>]*)"')
_IS_TEXT: Final = 'string="true"'
_BLOCKS: Final = frozenset({"function_calls", "tool_calls"})


class Recovered(NamedTuple):
    """A text without leaked markup, the calls that stood in it, and how many markers went."""

    text: str
    calls: list[ToolCall]
    removed: int


def without_markers(text: str) -> tuple[str, int]:
    """Return `text` without leaked markers, and their number; 0 = the text is unchanged."""
    if WORD not in text:
        return text, 0
    return _MARKER.subn("", text)


def recover_calls(text: str) -> Recovered:
    """Take complete leaked calls out of `text`, identical ones once; remove stray markers."""
    if WORD not in text:
        return Recovered(text, [], 0)
    watch = LeakFilter()
    shown = watch.feed(text) + watch.close()
    return Recovered(shown, watch.calls, watch.removed)


class LeakFilter:
    """Keeps leaked markup out of a text that arrives in pieces.

    What may be the start of a marker, and a block of calls up to its end, is held back.
    """

    def __init__(self) -> None:
        self._held = ""
        self._in_block = False
        self._looked_at = 0
        self.calls: list[ToolCall] = []
        self.removed = 0

    def feed(self, delta: str) -> str:
        """Take the next piece; return what may be shown."""
        self._held += delta
        shown: list[str] = []
        while self._in_block or WORD in self._held:
            if not (self._block() if self._in_block else self._outside(shown)):
                break
        if not self._in_block:
            unfinished = _UNFINISHED.search(self._held[-LONGEST_MARKER:])
            keep = len(unfinished[0]) if unfinished else 0
            at = len(self._held) - keep
            shown.append(self._held[:at])
            self._held = self._held[at:]
        return "".join(shown)

    def close(self) -> str:
        """Return what is left at the end; complete calls of an unfinished block are kept."""
        if self._in_block:
            self._keep(read_calls(self._held))
            left = _outside_of_calls(self._held)
        else:
            left = self._held
        self._held, self._in_block = "", False
        text, removed = without_markers(left)
        self.removed += removed
        return text

    def _outside(self, shown: list[str]) -> bool:
        """Move on to the next marker; False when there is none that is whole."""
        marker = _MARKER.search(self._held)
        if marker is None:
            return False
        self.removed += 1
        shown.append(self._held[: marker.start()])
        opens = not marker["close"] and marker["what"] in _BLOCKS
        self._held = self._held[marker.end() :]
        self._in_block, self._looked_at = opens, 0
        return True

    def _block(self) -> bool:
        """Look for the end of a block; False when it has not come yet."""
        start = max(0, self._looked_at - LONGEST_MARKER)
        for marker in _MARKER.finditer(self._held, start):
            if marker["close"] and marker["what"] in _BLOCKS:
                inside = self._held[: marker.start()]
                self.removed += 1 + sum(1 for _ in _MARKER.finditer(inside))
                self._keep(read_calls(inside))
                self._held, self._in_block = self._held[marker.end() :], False
                return True
        self._looked_at = len(self._held)
        if len(self._held) > LONGEST_BLOCK:
            self._in_block = False
            return True
        return False

    def _keep(self, calls: Iterable[ToolCall]) -> None:
        known = {(call.function.name, call.function.arguments) for call in self.calls}
        for call in calls:
            what = (call.function.name, call.function.arguments)
            if what not in known:
                known.add(what)
                self.calls.append(call)


def read_calls(block: str) -> list[ToolCall]:
    """Read the complete calls of a leaked block; their ids derive from what they say."""
    calls: list[ToolCall] = []
    name: str | None = None
    arguments: JsonObject = {}
    parameter: tuple[str, bool] | None = None
    began = 0
    for marker in _MARKER.finditer(block):
        what, closes, rest = marker["what"], bool(marker["close"]), marker["rest"]
        if what == "invoke" and not closes:
            name, arguments, parameter = _name(rest), {}, None
        elif what == "parameter" and not closes:
            parameter, began = (_name(rest) or "", _IS_TEXT in rest), marker.end()
        elif what == "parameter" and parameter:
            key, is_text = parameter
            raw = block[began : marker.start()]
            arguments[key] = raw if is_text else _value(raw)
            parameter = None
        elif what == "invoke" and name:
            calls.append(_call(name, arguments))
            name = None
    return calls


def _outside_of_calls(block: str) -> str:
    """Return what an unfinished block holds behind its last complete call."""
    last = 0
    for marker in _MARKER.finditer(block):
        if marker["close"] and marker["what"] == "invoke":
            last = marker.end()
    return block[last:]


def _call(name: str, arguments: JsonObject) -> ToolCall:
    written = compact_json(arguments)
    digest = hashlib.sha256(f"{name}\n{written}".encode("utf-8", "replace")).hexdigest()
    return ToolCall(id=f"leaked-{digest[:16]}", function=FunctionCall(name=name, arguments=written))


def _name(attributes: str) -> str | None:
    found = _NAME.search(attributes)
    return found[1] if found else None


def _value(raw: str) -> JsonValue:
    try:
        return cast("JsonValue", json.loads(raw))
    except (ValueError, RecursionError):
        return raw
