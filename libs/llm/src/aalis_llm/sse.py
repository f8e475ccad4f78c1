"""This is about server-sent events: bytes in any portions to JSON frames (SPEC LLM-7).

Pure: no input ever raises. Accepts what servers really send: events split anywhere, LF, CRLF and
CR, comments, `data:` without a blank, a missing blank line at the end, frames that are no JSON.
"""

from __future__ import annotations

import codecs
import json
from typing import Final, NamedTuple, cast

from aalis_contracts.text import JsonObject

DONE: Final = "[DONE]"


class SseEvent(NamedTuple):
    """One event: its name, if it has one, and its data lines joined by newlines."""

    name: str
    data: str


class SseParser:
    """Turns bytes into events, as they arrive."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._line: list[str] = []
        self._after_cr = False
        self._name = ""
        self._data: list[str] = []

    def feed(self, data: bytes) -> list[SseEvent]:
        """Take the next bytes; return the events that they complete."""
        return self._take(self._decoder.decode(data))

    def close(self) -> list[SseEvent]:
        """Return the event that only lacked its blank line, if there is one."""
        events = self._take(self._decoder.decode(b"", final=True) + "\n\n")
        self.__init__()
        return events

    def _take(self, text: str) -> list[SseEvent]:
        if self._after_cr and text:
            # The LF of a CRLF that was split between two portions.
            text = text.removeprefix("\n")
            self._after_cr = False
        if text.endswith("\r"):
            self._after_cr = True
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        events: list[SseEvent] = []
        for line in lines[:-1]:
            self._line.append(line)
            whole = "".join(self._line)
            self._line.clear()
            if whole:
                self._field(whole)
            elif self._data:
                events.append(self._event())
            else:
                self._name = ""
        if lines[-1]:
            self._line.append(lines[-1])
        return events

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value

    def _event(self) -> SseEvent:
        event = SseEvent(self._name, "\n".join(self._data))
        self._name = ""
        self._data.clear()
        return event


class Frames:
    """Turns bytes into JSON objects, and counts what could not be read.

    `done` is true from `[DONE]` on; nothing is read after it.
    """

    def __init__(self) -> None:
        self._parser = SseParser()
        self.unreadable = 0
        self.done = False

    def feed(self, data: bytes) -> list[JsonObject]:
        """Take the next bytes; return the objects that they complete."""
        return self._read(self._parser.feed(data))

    def close(self) -> list[JsonObject]:
        """Return what a missing blank line held back."""
        return self._read(self._parser.close())

    def _read(self, events: list[SseEvent]) -> list[JsonObject]:
        found: list[JsonObject] = []
        for event in events:
            whole = _object(event.data)
            # Some servers put no blank line between their frames: then each line is one.
            parts = [event.data] if whole is not None else event.data.split("\n")
            for part in parts:
                if self.done or not part.strip():
                    continue
                if part.strip() == DONE:
                    self.done = True
                    continue
                value = whole if whole is not None else _object(part)
                if value is None:
                    self.unreadable += 1
                else:
                    found.append(_named(event.name, value))
        return found


def _object(text: str) -> JsonObject | None:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("JsonObject", value) if isinstance(value, dict) else None


def _named(name: str, value: JsonObject) -> JsonObject:
    """Give an object without a `type` the name of its event, which says the same."""
    return value if not name or "type" in value else {"type": name, **value}
