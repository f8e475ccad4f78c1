"""This is about the contracts as documents: JSON Schema for each, AsyncAPI for all of them.

They are checked in (`libs/contracts/schemas`), so that a plugin in any language can be written
from them and a change of a contract shows in review. `python -m aalis_contracts.schemas` writes
them; with `--check` it only says which of them differ.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final, cast, get_args

from pydantic import JsonValue

from aalis_contracts import (
    contract,
    dead,
    errors,
    events,
    hooks,
    journal,
    messages,
    models,
    registry,
    rpc,
    sessions,
    tools,
)
from aalis_contracts.contract import Contract, OpenContract
from aalis_contracts.dead import CONTRACT_HEADER, DEAD_HEADERS, DeadLetter
from aalis_contracts.examples import EXAMPLES
from aalis_contracts.subjects import ROUTES, Kind, Route
from aalis_contracts.text import JsonObject

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
DIRECTORY: Final = Path(__file__).parents[2] / "schemas"
"""Where the documents are checked in, in a checkout of the repository."""

_MODULES: Final[tuple[ModuleType, ...]] = (
    contract,
    dead,
    errors,
    events,
    hooks,
    journal,
    messages,
    models,
    registry,
    rpc,
    sessions,
    tools,
)
_BASES: Final = frozenset({Contract, OpenContract})
_FACTS: Final = frozenset(get_args(get_args(journal.Fact)[0]))
_PURPOSE: Final[dict[Kind, str]] = {
    "stream": "Kept by a stream: published durably, read by whoever needs it.",
    "event": "A core event: nobody keeps it, and it never affects the flow of a turn.",
    "request": "A request: exactly one process of the queue group answers.",
}


def contracts() -> dict[str, type[Contract]]:
    """Return every contract by its name, sorted."""
    found = {
        name: cls
        for module in _MODULES
        for name, cls in inspect.getmembers(module, inspect.isclass)
        if issubclass(cls, Contract) and cls.__module__ == module.__name__
    }
    return {name: found[name] for name in sorted(found) if found[name] not in _BASES}


def schema_of(cls: type[Contract], prefix: str = "", suffix: str = ".json") -> JsonObject:
    """Return the schema of one contract; `prefix` + name + `suffix` refers to another one.

    It describes what a reader takes: an optional field may be null (SPEC CON-2), and further
    fields are allowed (CON-6).
    """
    return cast("JsonObject", _tidy(_schema(cls), prefix, suffix))


@cache
def _schema(cls: type[Contract]) -> JsonObject:
    """Return the schema as pydantic refers to others; each costs milliseconds, so made once."""
    schema = cast("JsonObject", cls.model_json_schema())
    schema.pop("$defs", None)
    if cls in _FACTS:  # the tag has a default for who writes it, but a reader cannot do without
        schema = _with_required(schema, "type")
    return _nullable(schema)


def asyncapi() -> JsonObject:
    """Return the AsyncAPI 3.0 document: every subject, its body, and the answer of a request."""
    channels: JsonObject = {}
    operations: JsonObject = {}
    for route in ROUTES:
        name = _name_of(route)
        channels[name] = _channel(route)
        operations[name] = _operation(route, name)
        if route.answer is not None:
            channels[f"{name}.reply"] = _reply_channel(route, route.answer)
    bodies = {route.body for route in ROUTES}
    bodies |= {route.answer for route in ROUTES if route.answer is not None} | {"ErrorReply"}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Aalis",
            "version": "1",
            "description": (
                "What the services of Aalis say to each other over NATS. Each operation is "
                "written for the process that begins: it publishes, or sends a request and "
                "takes the answer. A parameter is an id as one token: every character outside "
                "[A-Za-z0-9_-] is percent-encoded."
            ),
        },
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": operations,
        "components": {
            "messages": {name: _message(name) for name in sorted(bodies)},
            "schemas": {
                name: schema_of(cls, "#/components/schemas/", "")
                for name, cls in contracts().items()
            },
        },
    }


def documents() -> dict[str, bytes]:
    """Return every document as it is checked in: file name to bytes, sorted."""
    files: dict[str, JsonObject] = {
        f"{name}.json": {"$schema": DIALECT, **schema_of(cls)} for name, cls in contracts().items()
    }
    files["asyncapi.json"] = asyncapi()
    return {
        name: (
            json.dumps(files[name], ensure_ascii=False, indent=2, sort_keys=True) + "\n"
        ).encode()
        for name in sorted(files)
    }


def drift(directory: Path) -> Iterator[str]:
    """Yield one line for each file in `directory` that is not what the contracts say."""
    wanted = documents()
    for name, body in wanted.items():
        path = directory / name
        if not path.is_file():
            yield f"{name}: missing"
        elif path.read_bytes() != body:
            yield f"{name}: differs from the contract"
    for path in sorted(directory.glob("*.json")):
        if path.name not in wanted:
            yield f"{path.name}: belongs to no contract"


def write(directory: Path) -> None:
    """Make `directory` hold exactly the documents; other `*.json` files there are removed."""
    directory.mkdir(parents=True, exist_ok=True)
    wanted = documents()
    for path in directory.glob("*.json"):
        if path.name not in wanted:
            path.unlink()
    for name, body in wanted.items():
        (directory / name).write_bytes(body)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the documents, or with `--check` name those that drifted and return 1."""
    parser = argparse.ArgumentParser(
        prog="python -m aalis_contracts.schemas", description="Write the contracts as documents."
    )
    parser.add_argument("--check", action="store_true", help="write nothing, name what differs")
    parser.add_argument("directory", nargs="?", type=Path, default=DIRECTORY)
    options = parser.parse_args(arguments)
    directory = cast("Path", options.directory)
    if not cast("bool", options.check):
        write(directory)
        return 0
    differing = list(drift(directory))
    for line in differing:
        sys.stdout.write(f"{line}\n")
    if differing:
        sys.stdout.write("Write them again with: python -m aalis_contracts.schemas\n")
    return 1 if differing else 0


def _name_of(route: Route) -> str:
    """Return the channel's name, `agent.inbox.session.lane`: no braces are legal there."""
    return re.sub(r"[{}>]", "", route.template)


def _channel(route: Route) -> JsonObject:
    address = route.template.replace(">}", "}")
    channel: JsonObject = {
        "address": address,
        "description": _PURPOSE[route.kind],
        "messages": {route.body: {"$ref": f"#/components/messages/{route.body}"}},
    }
    tokens = re.findall(r"\{([^}]*)\}", route.template)
    if tokens:
        channel["parameters"] = {token.rstrip(">"): _parameter(token) for token in tokens}
    return channel


def _parameter(token: str) -> JsonObject:
    if token.endswith(">"):
        return {"description": "The rest of the subject: one or more tokens."}
    return {"description": f"The {token}, as one token."}


def _reply_channel(route: Route, answer: str) -> JsonObject:
    return {
        "address": None,
        "description": f"The inbox that a request on {route.template} names.",
        "messages": {
            name: {"$ref": f"#/components/messages/{name}"} for name in (answer, "ErrorReply")
        },
    }


def _operation(route: Route, name: str) -> JsonObject:
    channel = f"#/channels/{name}"
    operation: JsonObject = {
        "action": "send",
        "channel": {"$ref": channel},
        "messages": [{"$ref": f"{channel}/messages/{route.body}"}],
    }
    if route.answer is not None:
        reply = f"#/channels/{name}.reply"
        operation["reply"] = {
            "channel": {"$ref": reply},
            "messages": [
                {"$ref": f"{reply}/messages/{answer}"} for answer in (route.answer, "ErrorReply")
            ],
        }
    return operation


def _message(name: str) -> JsonObject:
    headers: JsonObject = {CONTRACT_HEADER: {"const": f"{name}.v1"}}
    payload: JsonObject = {"$ref": f"#/components/schemas/{name}"}
    examples: JsonValue = [{"payload": cast("JsonObject", EXAMPLES[name].to_object())}]
    if name == DeadLetter.__name__:  # on the wire it is the original body, explained by headers
        headers = {header: {"type": "string"} for header in DEAD_HEADERS}
        payload, examples = {"description": "The body as it came, JSON or not."}, []
    return {
        "name": name,
        "contentType": "application/json",
        "headers": {"type": "object", "properties": headers},
        "payload": payload,
        "examples": examples,
    }


def _nullable(schema: JsonObject) -> JsonObject:
    """Allow null wherever a field may be absent: for a reader they are the same (CON-2)."""
    required = cast("list[str]", schema.get("required", []))
    properties = cast("dict[str, JsonObject]", schema.get("properties", {}))
    taken: JsonObject = {
        name: _untitled(field) if name in required else _or_null(_untitled(field))
        for name, field in properties.items()
    }
    return {**schema, "properties": taken}


def _or_null(field: JsonObject) -> JsonObject:
    if field.get("$ref") == _ANY:
        return field
    choices = cast("list[JsonObject]", field.get("anyOf", [field]))
    choices = [choice for choice in choices if choice != _NULL]
    about = {key: field[key] for key in ("default", "description") if key in field}
    only = {key: item for key, item in choices[0].items() if key not in about}
    if len(choices) == 1 and "type" in only and not only.keys() & {"const", "enum"}:
        return {**about, **only, "type": [only["type"], "null"]}
    return {**about, "anyOf": [*([only] if len(choices) == 1 else choices), _NULL]}


def _with_required(schema: JsonObject, name: str) -> JsonObject:
    required = cast("list[JsonValue]", schema.get("required", []))
    return {**schema, "required": [name, *required]}


_NULL: Final[JsonObject] = {"type": "null"}
_LOCAL: Final = "#/$defs/"
_ANY: Final = f"{_LOCAL}JsonValue"


def _tidy(value: JsonValue, prefix: str, suffix: str) -> JsonValue:
    """Point references to where the contracts stand, and leave out what says nothing."""
    if isinstance(value, list):
        return [_tidy(item, prefix, suffix) for item in value]
    if isinstance(value, str) and value.startswith(_LOCAL):
        return f"{prefix}{value.removeprefix(_LOCAL)}{suffix}"
    if not isinstance(value, dict):
        return value
    if value.get("$ref") == _ANY:
        return {key: item for key, item in value.items() if key not in {"$ref", "default", "title"}}
    tidy: JsonObject = {}
    for key, item in value.items():
        if key == "properties":
            fields = cast("dict[str, JsonObject]", item)
            tidy[key] = {name: _tidy(f, prefix, suffix) for name, f in fields.items()}
        elif key != "default" or item is not None:
            tidy[key] = _tidy(item, prefix, suffix)
    return tidy


def _untitled(field: JsonObject) -> JsonObject:
    """Drop the title that pydantic makes from a field's name."""
    return {key: item for key, item in field.items() if key != "title"}


if __name__ == "__main__":
    sys.exit(main())
