"""This is about text at the edges: well-formed Unicode, one way to cut, one way to write JSON."""

from __future__ import annotations

import json
import math
import re
from typing import Annotated, TypeVar, cast

from pydantic import AfterValidator, JsonValue

JsonObject = dict[str, JsonValue]
_Value = TypeVar("_Value")

_SURROGATE = re.compile("[\ud800-\udfff]")
REPLACEMENT = "\ufffd"
MAX_NESTING = 240
"""Levels of lists and objects in a body: the JSON writer of pydantic gives up at 254."""
MAX_CARRIED = 200
"""Levels of what a body carries for others, such as metadata and arguments.

Each body that it is passed on in, up to a fact of a journal, wraps it in a few more.
"""


def well_formed(text: str) -> str:
    """Return `text` with each lone surrogate replaced by U+FFFD (SPEC CON-5).

    A surrogate *pair* that arrived as two code units is one character and is joined.
    """
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def well_formed_json(value: _Value, room: int = MAX_NESTING) -> _Value:
    """Return a JSON value (nested dicts and lists included) with every string well-formed.

    JSON knows neither NaN nor infinity: both become null. A value with more than `room` levels
    raises RecursionError, whatever the caller's stack would have borne.
    """
    if isinstance(value, str):
        return cast("_Value", well_formed(value))
    if isinstance(value, float) and not math.isfinite(value):
        return cast("_Value", None)
    if not isinstance(value, dict | list):
        return value
    if room == 0:
        raise RecursionError("nested too deeply")
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value).items()
        return cast(
            "_Value", {well_formed(str(k)): well_formed_json(v, room - 1) for k, v in pairs}
        )
    items = cast("list[object]", value)
    return cast("_Value", [well_formed_json(item, room - 1) for item in items])


def not_too_deep(value: _Value, room: int = MAX_CARRIED) -> _Value:
    """Return `value`; raise ValueError for one with more than `room` levels."""
    if _is_deeper(value, room):
        message = f"nested more than {room} levels deep"
        raise ValueError(message)
    return value


def _is_deeper(value: object, room: int) -> bool:
    if isinstance(value, dict):
        items = list(cast("dict[object, object]", value).values())
    elif isinstance(value, list):
        items = cast("list[object]", value)
    else:
        return False
    return room == 0 or any(_is_deeper(item, room - 1) for item in items)


CarriedObject = Annotated[JsonObject, AfterValidator(not_too_deep)]
"""A JSON object that a body passes on without knowing what is in it."""
CarriedValue = Annotated[JsonValue, AfterValidator(not_too_deep)]
"""Any JSON value that a body passes on."""


def parse_object(text: str, room: int = MAX_NESTING) -> JsonObject:
    """Read the strict JSON text of an object, its strings made well-formed.

    ValueError with the reason when it is none: malformed, NaN or Infinity, another type, or
    nested more than `room` levels deep.
    """
    try:
        value: object = json.loads(text, parse_constant=_refuse)
        if not isinstance(value, dict):
            # For the caller all of this is one thing: a text that holds no object.
            raise ValueError(f"{type(value).__name__} instead of an object")  # noqa: TRY004
        return well_formed_json(cast("JsonObject", value), room)
    except RecursionError:
        raise ValueError(f"nested more than {room} levels deep") from None


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


def cut(text: str, limit: int, suffix: str) -> str:
    """Return `text` unchanged if it has at most `limit` characters, else its head + `suffix`.

    Characters are code points, and the result may be longer than `limit` (SPEC CON-4).
    """
    return text if len(text) <= limit else text[:limit] + suffix


def one_line(text: str, limit: int = 500) -> str:
    """Fold every run of white space to one blank and cut at `limit` characters."""
    return cut(" ".join(text.split()), limit, "…")


def compact_json(value: object) -> str:
    """Write JSON as SPEC CON-3 measures it: no spaces, printable characters unescaped."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:  # NaN or infinity: rare, so found out by trying
        return json.dumps(well_formed_json(value), ensure_ascii=False, separators=(",", ":"))


def any_json(value: object) -> str:
    """Write any object as compact JSON; what JSON cannot say is named, never raised.

    Bytes become `<n bytes>`, other unknown objects `<type>`; so does a whole value that is
    nested too deeply or contains itself.
    """
    try:
        tame = well_formed_json(value)
        return json.dumps(tame, ensure_ascii=False, separators=(",", ":"), default=_stand_in)
    except RecursionError:
        return compact_json(_stand_in(value))


def _stand_in(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        return f"<{len(value)} bytes>"
    return f"<{type(value).__name__}>"
