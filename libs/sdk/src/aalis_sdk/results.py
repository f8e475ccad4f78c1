"""This is about results of tools: whatever a handler returns becomes text (SPEC TOOL-8)."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, cast

from pydantic import BaseModel

from aalis_contracts.contract import Contract
from aalis_contracts.text import compact_json, well_formed
from aalis_contracts.tools import ToolResult

if TYPE_CHECKING:
    from aalis_contracts.catalogue import Catalogue

_REPR_LIMIT = 200


def as_result(value: object, catalogue: Catalogue) -> ToolResult:
    """Turn what a handler returned into a result; None becomes `noOutput`."""
    if isinstance(value, ToolResult):
        return value.model_copy(update={"content": well_formed(value.content)})
    if value is None:
        return ToolResult(content=catalogue.text("noOutput"))
    if isinstance(value, str):
        return ToolResult(content=well_formed(value))
    if isinstance(value, Contract):
        return ToolResult(content=value.to_json().decode())
    return ToolResult(content=well_formed(compact_json(_plain(value, ()))))


def failure_text(error: BaseException) -> str:
    """Return an exception's message, or its class name when that is blank."""
    return str(error).strip() or type(error).__name__


def fit(result: ToolResult, limit: int, catalogue: Catalogue) -> ToolResult:
    """Cut a result whose body would exceed `limit` bytes, saying how long it was (TOOL-8)."""
    if len(result.to_json()) <= limit:
        return result
    length = len(result.content)
    marker = catalogue.text("toolResultCut", length=length)
    keep = limit // 8
    return ToolResult(
        content=result.content[:keep] + marker,
        original_length=length if length > keep else None,
    )


def _plain(value: object, above: tuple[int, ...]) -> object:  # noqa: PLR0911 - one line a type
    """Return `value` as something that is JSON; cycles and unknown objects by their repr."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{memoryview(cast('bytes', value)).nbytes} bytes>"
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if id(value) in above:
        return _short(value)
    inside = (*above, id(value))
    if isinstance(value, BaseModel):
        return _plain(value.model_dump(mode="python"), inside)
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {str(key): _plain(item, inside) for key, item in items}
    if isinstance(value, AbstractSet):
        plain = [_plain(item, inside) for item in cast("AbstractSet[object]", value)]
        return sorted(plain, key=lambda item: json.dumps(item, sort_keys=True))
    if isinstance(value, Sequence):
        return [_plain(item, inside) for item in cast("Sequence[object]", value)]
    return _short(value)


def _short(value: object) -> str:
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - a broken __repr__ must not fail the call
        text = f"<{type(value).__name__}: repr failed: {type(error).__name__}>"
    return text[:_REPR_LIMIT]
