"""This is about reading a script file, and saying where it is wrong (SPEC LLM-40).

A script is read and checked once, at start; whatever is wrong with it is one `ScriptError` with
file, line and reason.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple, cast

import yaml
from pydantic import ValidationError

from aalis_contracts.text import one_line
from aalis_llm.script import Script

DEMO: Final = "demo.yaml"
"""The script that is built in, beside this module."""


class ScriptError(ValueError):
    """A script that cannot be used; the message names file, line and reason."""


def demo_script() -> Script:
    """Return the script that is built in (SPEC LLM-46)."""
    return parse_script(files("aalis_llm").joinpath(DEMO).read_text(encoding="utf-8"), DEMO)


def load_script(path: str | Path) -> Script:
    """Read and check a script file; raise `ScriptError` with file, line and reason."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ScriptError(f"{path}: {reason}") from None
    return parse_script(text, str(path))


def parse_script(text: str, name: str = "script") -> Script:
    """Check the text of a script; `name` stands for the file in error messages."""
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        value = cast("object", yaml.safe_load(text))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ScriptError(f"{name}:{_error_line(error)}: {one_line(str(error), 300)}") from None
    if node is None:
        return Script()
    _no_key_twice(node, name)
    try:
        return Script.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[0]
        place = _locate(node, found["loc"])
        where = f" ({place.path})" if place.path else ""
        raise ScriptError(f"{name}:{place.line}: {found['msg']}{where}") from None


class _Place(NamedTuple):
    line: int
    path: str


def _locate(node: yaml.Node, location: tuple[int | str, ...]) -> _Place:
    """Return where in the file a validation error is, as deep as its location can be followed."""
    current, line, path = node, _line(node), list[str]()
    for step in location:
        child = _child(current, step)
        if child is None:
            continue
        current, line = child
        path.append(str(step))
    return _Place(line, ".".join(path))


def _child(node: yaml.Node, step: int | str) -> tuple[yaml.Node, int] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            if key.value == str(step):
                return value, _line(key)
    elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
        items = cast("list[yaml.Node]", node.value)
        if step < len(items):
            return items[step], _line(items[step])
    return None


def _no_key_twice(node: yaml.Node, name: str) -> None:
    """Refuse a key that stands twice in one mapping: YAML would silently keep the last."""
    pending, met = [node], set[int]()
    while pending:
        current = pending.pop()
        if id(current) in met:
            continue
        met.add(id(current))
        if isinstance(current, yaml.SequenceNode):
            pending.extend(cast("list[yaml.Node]", current.value))
        elif isinstance(current, yaml.MappingNode):
            pairs = cast("list[tuple[yaml.Node, yaml.Node]]", current.value)
            pending.extend(value for _, value in pairs)
            seen = set[str]()
            for key, _ in pairs:
                if str(key.value) in seen:
                    raise ScriptError(f"{name}:{_line(key)}: the key {key.value!r} stands twice")
                seen.add(str(key.value))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _error_line(error: BaseException) -> int:
    mark = getattr(error, "problem_mark", None)
    return int(mark.line) + 1 if mark is not None else 1
