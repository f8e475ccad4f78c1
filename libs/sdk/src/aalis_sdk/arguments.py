"""This is about arguments: whether a call's arguments fit a tool's JSON Schema (SPEC TOOL-5).

Both sides check, the caller before it sends and the host before it runs. Compiled schemas are
kept, since the same few are used again and again.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from aalis_contracts.text import compact_json

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

    from aalis_contracts.text import JsonObject

_KEPT = 256


def schema_problems(schema: JsonObject, args: JsonObject) -> str:
    """Return all problems of `args` against a JSON Schema as one text; empty = none.

    Types are not coerced. Raises nothing for a bad schema: that is refused at registration.
    """
    found = _validator(compact_json(schema)).iter_errors(args)
    lines = sorted((_path(problem), problem.message) for problem in found)
    return "; ".join(f"{path}: {message}" for path, message in lines)


def _path(problem: ValidationError) -> str:
    return ".".join(str(part) for part in problem.absolute_path) or "arguments"


@lru_cache(maxsize=_KEPT)
def _validator(schema_json: str) -> Draft202012Validator:
    # Imported here: it takes a fifth of a process's start, and only callers of tools need it.
    import json  # noqa: PLC0415

    from jsonschema import Draft202012Validator  # noqa: PLC0415
    from referencing import Registry  # noqa: PLC0415

    # An empty registry: a schema must not make us fetch what it refers to.
    return Draft202012Validator(json.loads(schema_json), registry=Registry())
