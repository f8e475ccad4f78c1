"""This is about answers: the JSON in a model's text, held against a format (SPEC PER-6)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from pydantic import JsonValue

from aalis_contracts.text import JsonObject, compact_json
from aalis_llm.json_repair import extract_object
from aalis_persona.formats import FieldType, Format

_ALIASES: Final = ("response", "reply", "content", "answer", "text", "msg")
"""What models call the reply, whatever they were told."""
_WRAPPERS: Final = (*_ALIASES, "message")
_NUMBER: Final = re.compile(r"-?\d{1,300}(?:\.\d{1,300})?(?:[eE][+-]?\d{1,3})?")
_FRACTION: Final = re.compile(r"[.eE]")
_LARGEST: Final = 1e300
_BOOLEANS: Final = {"true": True, "false": False}


@dataclass(frozen=True)
class Answer:
    """An answer of the right format: what is said, and all declared fields as they were meant."""

    reply: str
    fields: Mapping[str, JsonValue]


@dataclass(frozen=True)
class Mismatch:
    """An answer that does not fit; `found` is false when there was no JSON object at all."""

    found: bool
    missing: tuple[str, ...] = ()
    mistyped: tuple[str, ...] = ()


def read_answer(text: str, demanded: Format) -> Answer | Mismatch:
    """Read an answer: every declared field there and of its type, the reply maybe by an alias.

    Fields that nobody declared are left out; the others stay in the order in which they came.
    """
    found = extract_object(text)
    if found is None:
        return Mismatch(found=False)
    said = _reply_key(found, demanded)
    named = {demanded.reply if key == said else key: value for key, value in found.items()}
    missing = tuple(name for name in demanded.fields if name not in named)
    fields = {
        name: _as_meant(value, demanded.fields[name])
        for name, value in named.items()
        if name in demanded.fields
    }
    mistyped = tuple(name for name in demanded.fields if fields.get(name, "") is None)
    if missing or mistyped:
        return Mismatch(found=True, missing=missing, mistyped=mistyped)
    reply = fields[demanded.reply]
    return Answer(reply if isinstance(reply, str) else compact_json(reply), fields)


def unwrapped(text: str) -> str | None:
    """Return what a model said inside JSON that nobody asked for; None for any other text."""
    stripped = text.strip()
    if not stripped.startswith("{"):
        return None
    try:
        found = cast("JsonObject", json.loads(stripped))
    except (ValueError, RecursionError):
        return None
    said = (found.get(name) for name in _WRAPPERS)
    return next((value for value in said if isinstance(value, str)), None)


def _reply_key(found: Mapping[str, JsonValue], demanded: Format) -> str:
    """Return the key under which the reply stands: its own, an alias, or the only text left."""
    if demanded.reply in found:
        return demanded.reply
    kind = demanded.fields[demanded.reply]
    others = {key: value for key, value in found.items() if key not in demanded.fields}
    for alias in _ALIASES:
        if alias in others and _as_meant(others[alias], kind) is not None:
            return alias
    texts = [key for key, value in others.items() if isinstance(value, str)]
    return texts[0] if len(texts) == 1 else demanded.reply


def _as_meant(value: JsonValue, kind: FieldType) -> str | int | float | bool | None:
    """Return a value of the type that is wanted, None if it is of another."""
    if kind == "string":
        return value if isinstance(value, str) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else _BOOLEANS.get(_lowered(value))
    return _number(value)


def _number(value: JsonValue) -> int | float | None:
    """Return a number that JSON can say and anybody can read, None for any other value."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value) if _FRACTION.search(value) else int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) <= _LARGEST else None


def _lowered(value: JsonValue) -> str:
    return value.strip().lower() if isinstance(value, str) else ""
