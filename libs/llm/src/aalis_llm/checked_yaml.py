"""This is about YAML that people write: read into a model, or refused with file, line and reason.

Scripts and persona cards are written by hand, so a mistake has to be found by whoever made it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, TypeVar, cast

import yaml
from pydantic import BaseModel, ValidationError

from aalis_contracts.text import one_line

Model = TypeVar("Model", bound=BaseModel)


class UnreadableYaml(ValueError):
    """A text that cannot be used; the message is one line: file, line and reason."""


def read_yaml_file(path: str | Path, model: type[Model]) -> Model:
    """Read and check a file; raise `UnreadableYaml` with file, line and reason."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise UnreadableYaml(f"{path}: {error.strerror}") from None
    return read_yaml(data, str(path), model)


def read_yaml(data: bytes | str, name: str, model: type[Model]) -> Model:
    """Check the text of a file; `name` stands for it in the message. No text is no field."""
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
    except UnicodeDecodeError:
        raise UnreadableYaml(f"{name}: not UTF-8 text") from None
    try:
        node = yaml.SafeLoader(text).get_single_node()
        value = cast("object", yaml.safe_load(text))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UnreadableYaml(f"{name}:{_error_line(error)}: {_reason(error)}") from None
    if node is not None:
        _no_key_twice(node, name)
    try:
        return model.model_validate({} if node is None else value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[0]
        place = _Place(1, "") if node is None else _locate(node, found["loc"])
        where = f" ({place.path})" if place.path else ""
        raise UnreadableYaml(f"{name}:{place.line}: {found['msg']}{where}") from None


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
                    raise UnreadableYaml(f"{name}:{_line(key)}: the key {key.value!r} stands twice")
                seen.add(str(key.value))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _error_line(error: BaseException) -> int:
    mark = getattr(error, "problem_mark", None)
    return int(mark.line) + 1 if mark is not None else 1


def _reason(error: BaseException) -> str:
    """Return what the parser complains of, without the excerpt that it draws on several lines."""
    said = [getattr(error, name, None) for name in ("context", "problem")]
    return one_line(", ".join(filter(None, said)) or str(error), 300)
