"""This is about JSON that a model wrapped in prose or cut off (SPEC TXT-3). Pure, linear."""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple, cast

from aalis_contracts.text import JsonObject

_START: Final = re.compile(r'\{(?=\s*+["}])|\{\s*+\Z')
_TOKEN: Final = re.compile(
    r"""
    (?P<string>"(?:[^"\\]++|\\.)*+(?:(?P<closed>")|\\?\Z))
    | (?P<open>[{\[])
    | (?P<close>[}\]])
    | (?P<comma>,)
    | [^"{}\[\],]++
    """,
    re.VERBOSE | re.DOTALL,
)
_HALF_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_CLOSER: Final = {"{": "}", "[": "]"}
_OPENER: Final = {"}": "{", "]": "["}


def extract_object(text: str) -> JsonObject | None:
    """Return the object that a text holds, None if it holds none.

    The last balanced object that contains a colon counts; an outer object that was cut off beats
    the balanced ones inside it. Missing brackets are closed in stack order, trailing commas and
    half tokens dropped.
    """
    at = 0
    outermost: list[_Scanned] = []
    while (start := _START.search(text, at)) is not None:
        outermost.append(_scan(text, start.start()))
        at = outermost[-1].end
    # One that was cut off is the last, and counts only if no whole one can be read.
    outermost.sort(key=lambda scanned: scanned.balanced)
    values = (_first_that_parses(scanned.readings) for scanned in reversed(outermost))
    return next(filter(None, values), None)


class _Scanned(NamedTuple):
    """One outermost object: where it ends, whether it ended, and how it may be read."""

    end: int
    balanced: bool
    readings: list[str]


def _scan(text: str, start: int) -> _Scanned:
    """Read one object from its opening brace to its end, or to the end of the text."""
    written = _Written()
    for token in _TOKEN.finditer(text, start):
        piece = token[0]
        if token["open"]:
            written.open(piece)
        elif token["close"]:
            written.close(piece)
            if not written.stack:
                return _Scanned(token.end(), balanced=True, readings=written.readings())
        elif token["comma"]:
            written.comma()
        elif token["string"] and not token["closed"]:
            written.out.append(_HALF_ESCAPE.sub("", piece) + '"')
        else:
            written.out.append(piece)
    return _Scanned(len(text), balanced=False, readings=written.readings())


class _Written:
    """The object as it is written again, with its brackets closed."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self.stack: list[str] = []
        self._open = {"{": 0, "[": 0}
        self._safe = 0  # pieces of `out` after which closing all brackets gives JSON

    def open(self, bracket: str) -> None:
        self.stack.append(bracket)
        self._open[bracket] += 1
        self.out.append(bracket)
        self._safe = len(self.out)

    def close(self, bracket: str) -> None:
        """Close down to the bracket that is meant; a stray one is dropped."""
        opener = _OPENER[bracket]
        if not self._open[opener]:
            return
        self._drop_comma()
        while True:
            last = self.stack.pop()
            self._open[last] -= 1
            self.out.append(_CLOSER[last])
            if last == opener:
                break
        self._safe = len(self.out)

    def comma(self) -> None:
        self._safe = len(self.out)
        self.out.append(",")

    def readings(self) -> list[str]:
        """Return the ways to read it: with all that was written, and without its last half."""
        closers = "".join(_CLOSER[bracket] for bracket in reversed(self.stack))
        shorter = "".join(self.out[: self._safe]) + closers
        self._drop_comma()
        return ["".join(self.out) + closers, shorter]

    def _drop_comma(self) -> None:
        last = len(self.out)
        while last and self.out[last - 1].isspace():
            last -= 1
        if last and self.out[last - 1] == ",":
            del self.out[last - 1]


def _first_that_parses(readings: list[str]) -> JsonObject | None:
    for reading in readings:
        try:
            value: object = json.loads(reading, strict=False)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and value:
            return cast("JsonObject", value)
    return None
