"""This is about arguments: whether a call's arguments fit a tool's JSON Schema (SPEC TOOL-5).

Both sides check, the caller before it sends and the host before it runs. Compiled schemas are
kept, since the same few are used again and again.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

from aalis_contracts.text import compact_json, one_line

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

    from aalis_contracts.text import JsonObject

_KEPT = 256


def schema_problems(schema: JsonObject, args: JsonObject) -> str:
    """Return all problems of `args` against a JSON Schema as one text; empty = none.

    Types are not coerced. A schema that turns out to be unusable (a reference to nowhere, or to
    itself) is a problem of the call, never an exception.
    """
    try:
        found = list(_validator(compact_json(schema)).iter_errors(args))
    except Exception as error:  # noqa: BLE001 - whatever a foreign schema makes the library raise
        return f"the tool's own schema cannot be used: {one_line(str(error), 200)}"
    lines = sorted((_path(problem), problem.message) for problem in found)
    return "; ".join(f"{path}: {message}" for path, message in lines)


def schema_fault(schema: JsonObject) -> str:
    """Say in one line why a tool cannot be registered with this schema; empty = it can (TOOL-1)."""
    return _fault(compact_json(schema))


def _path(problem: ValidationError) -> str:
    return ".".join(str(part) for part in problem.absolute_path) or "arguments"


@lru_cache(maxsize=_KEPT)
def _fault(schema_json: str) -> str:
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - see _validator
    from jsonschema.exceptions import SchemaError  # noqa: PLC0415

    schema = json.loads(schema_json)
    if schema.get("type") != "object":
        return 'a tool\'s parameters are a JSON Schema with "type": "object"'
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        where = ".".join(str(part) for part in error.absolute_path) or "schema"
        return one_line(f"no JSON Schema: {where}: {error.message}", 300)
    return ""


@lru_cache(maxsize=_KEPT)
def _validator(schema_json: str) -> Draft202012Validator:
    # Imported here: it takes a fifth of a process's start, and only tools need it.
    from jsonschema import Draft202012Validator  # noqa: PLC0415
    from referencing import Registry  # noqa: PLC0415

    # An empty registry: a schema must not make us fetch what it refers to.
    return Draft202012Validator(json.loads(schema_json), registry=Registry())
