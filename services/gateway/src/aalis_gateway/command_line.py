"""This is about command lines: from text to a command and its arguments (CMD-1 to CMD-5). Pure.

Nothing here raises for what a person types: a line is no command (None), or a command with its
arguments, or a command with a problem that names what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from aalis_contracts.registry import CommandArg, CommandEntry, CommandOption
from aalis_contracts.text import JsonObject

Value = str | int | float | bool

_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True)
class Word:
    """One token of a line; a `literal` one was quoted or escaped at its start: never an option."""

    text: str
    literal: bool = False


@dataclass(frozen=True)
class Problem:
    """What is wrong with a line: a key of the catalogue and its values."""

    key: str
    values: dict[str, str]


@dataclass(frozen=True)
class Arguments:
    """The values of a line, keyed by declared name."""

    args: JsonObject
    options: JsonObject


@dataclass(frozen=True)
class Found:
    """The command that a line names, and the words that follow; no entry = a mere parent."""

    path: str
    entry: CommandEntry | None
    rest: tuple[Word, ...]


@dataclass(frozen=True)
class Index:
    """All commands: by path, with the parents that exist only because of them."""

    entries: dict[str, CommandEntry]
    nodes: frozenset[str]
    aliases: dict[str, str]

    def children(self, path: str) -> list[str]:
        """Return the paths one step below `path` ('' = the top), sorted."""
        depth = len(path.split(".")) if path else 0
        prefix = f"{path}." if path else ""
        return sorted(
            node for node in self.nodes if node.startswith(prefix) and node.count(".") == depth
        )

    def along(self, path: str) -> list[CommandEntry]:
        """Return the entries on the way to `path`, itself last."""
        return [self.entries[node] for node in lineage(path) if node in self.entries]


def lineage(path: str) -> list[str]:
    """Return a path's parents and the path itself, top first."""
    steps = path.split(".")
    return [".".join(steps[:count]) for count in range(1, len(steps) + 1)]


def index(entries: Iterable[CommandEntry]) -> Index:
    """Index commands; a real name wins over an alias, of two aliases the smaller path's."""
    by_path = {entry.path: entry for entry in sorted(entries, key=lambda e: e.path)}
    nodes = frozenset(node for path in by_path for node in lineage(path))
    aliases: dict[str, str] = {}
    for path, entry in by_path.items():
        for alias in entry.aliases:
            if alias not in nodes:
                aliases.setdefault(alias, path)
    return Index(by_path, nodes, aliases)


def words(line: str) -> list[Word]:
    """Split a line into words (CMD-2): quotes group, a backslash takes the next character."""
    found: list[Word] = []
    text, literal, open_quote, begun = "", False, "", False
    characters = iter(line)
    for character in characters:
        if character == "\\":
            literal, begun = literal or not begun, True
            text += next(characters, "\\")
        elif open_quote:
            if character == open_quote:
                open_quote = ""
            else:
                text += character
        elif character in "\"'":
            literal, begun, open_quote = literal or not begun, True, character
        elif character.isspace():
            if text:
                found.append(Word(text, literal))
            text, literal, begun = "", False, False
        else:
            text += character
            begun = True
    if text:
        found.append(Word(text, literal))
    return found


def find(line: str, prefix: str, commands: Index) -> Found | None:
    """Return the command that a text names, or None if it is ordinary chat."""
    line = line.strip()
    if not line.startswith(prefix) or line[len(prefix) : len(prefix) + 1].isspace():
        return None
    head, *rest = words(line[len(prefix) :]) or [Word("", literal=True)]
    path = None if head.literal else _resolve(head.text, commands)
    if path is None:
        return None
    while rest and not rest[0].literal and f"{path}.{rest[0].text}" in commands.nodes:
        path = f"{path}.{rest.pop(0).text}"
    return Found(path, commands.entries.get(path), tuple(rest))


def _resolve(head: str, commands: Index) -> str | None:
    if head in commands.nodes:
        return head
    if head in commands.aliases:
        return commands.aliases[head]
    first, dot, rest = head.partition(".")
    if first in commands.aliases:
        path = f"{commands.aliases[first]}{dot}{rest}"
        return path if path in commands.nodes else None
    return None


@dataclass
class _Reading:
    """The words of a line while they are read."""

    options: Sequence[CommandOption]
    left: list[Word]
    given: JsonObject = field(default_factory=dict)
    positional: list[str] = field(default_factory=list)


def parse(entry: CommandEntry, rest: Sequence[Word]) -> Arguments | Problem:
    """Read a command's arguments and options (CMD-4); extra positionals are ignored."""
    reading = _Reading(entry.options, list(rest))
    while reading.left:
        word = reading.left.pop(0)
        if not _is_option(word):
            reading.positional.append(word.text)
        elif word.text == "--":
            reading.positional += [after.text for after in reading.left]
            reading.left = []
        elif (problem := _read_option(reading, word.text)) is not None:
            return problem
    problem = _complete(reading)
    if problem is not None:
        return problem
    args = _positionals(entry.args, reading.positional)
    return args if isinstance(args, Problem) else Arguments(args, reading.given)


def _is_option(word: Word) -> bool:
    """Say whether a word is an option; `-`, `-5` and quoted words are values."""
    text = word.text
    if word.literal or not text.startswith("-") or text == "-":
        return False
    return not (text[1].isdigit() or text[1:2] == ".")


def _read_option(reading: _Reading, text: str) -> Problem | None:
    shown, equals, inline = text.partition("=")
    negated = False
    if shown.startswith("--"):
        option = _by_name(reading.options, shown[2:])
        if option is None and shown.startswith("--no-") and not equals:
            option, negated = _by_name(reading.options, shown[5:]), True
            if option is not None and option.type not in {None, "boolean"}:
                option = None
    else:
        option = next((o for o in reading.options if o.short and f"-{o.short}" == text), None)
    if option is None:
        return Problem("problemUnknownOption", {"option": shown})
    if negated:
        reading.given[option.name] = False
        return None
    value = inline if equals else _take_value(reading, option)
    if value is None:
        if option.type is not None and option.value_required:
            return Problem("problemMissingValue", {"option": shown})
        # Named without its value: the default counts if there is one.
        reading.given[option.name] = True if option.default is None else option.default
        return None
    return _keep(reading, option, shown, value)


def _by_name(options: Sequence[CommandOption], name: str) -> CommandOption | None:
    return next((option for option in options if option.name == name), None)


def _take_value(reading: _Reading, option: CommandOption) -> str | None:
    """Take the next word as the option's value, if it has one and the word can be it."""
    if option.type is None or not reading.left or _is_option(reading.left[0]):
        return None
    optional = not option.value_required
    if optional and isinstance(_convert(option.type, reading.left[0].text), Problem):
        return None
    return reading.left.pop(0).text


def _keep(reading: _Reading, option: CommandOption, shown: str, text: str) -> Problem | None:
    if option.type == "string[]":
        items = [item for part in text.split(",") if (item := part.strip())]
        wrong = [item for item in items if option.choices and item not in option.choices]
        if wrong:
            return _not_a_choice(shown, option, wrong[0])
        earlier = reading.given.get(option.name)
        kept = earlier if isinstance(earlier, list) else []
        reading.given[option.name] = [*kept, *items]
        return None
    value = _convert(option.type or "boolean", text)
    if isinstance(value, Problem):
        return Problem(value.key, {**value.values, "name": shown})
    if option.choices and text not in option.choices:
        return _not_a_choice(shown, option, text)
    reading.given[option.name] = value
    return None


def _not_a_choice(shown: str, option: CommandOption, text: str) -> Problem:
    choices = ", ".join(option.choices or [])
    return Problem("problemNotAChoice", {"name": shown, "value": text, "choices": choices})


def _complete(reading: _Reading) -> Problem | None:
    """Fill in defaults; name the first option that is required and missing."""
    for option in reading.options:
        if option.name in reading.given:
            continue
        if option.default is not None:
            reading.given[option.name] = option.default
        elif option.required:
            return Problem("problemMissingOption", {"option": f"--{option.name}"})
    return None


def _positionals(declared: Sequence[CommandArg], given: Sequence[str]) -> JsonObject | Problem:
    found: JsonObject = {}
    left = list(given)
    for argument in declared:
        if not left:
            if argument.required:
                return Problem("problemMissingArgument", {"name": argument.name})
            continue
        if argument.type == "text":
            found[argument.name] = " ".join(left)
            left = []
            continue
        value = _convert(argument.type, left.pop(0))
        if isinstance(value, Problem):
            return Problem(value.key, {**value.values, "name": argument.name})
        found[argument.name] = value
    return found


def _convert(kind: str, text: str) -> Value | Problem:
    if kind == "number":
        return _number(text)
    if kind == "boolean":
        word = text.lower()
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
        return Problem("problemNotABoolean", {"name": "", "value": text})
    return text


def _number(text: str) -> int | float | Problem:
    problem = Problem("problemNotANumber", {"name": "", "value": text})
    # The same characters that JSON allows, and no more digits than a number can carry.
    if len(text) > 40 or not set(text) <= set("0123456789+-.eE"):  # noqa: PLR2004 - said above
        return problem
    try:
        value = float(text)
    except ValueError:
        return problem
    if not math.isfinite(value):
        return problem
    return int(text) if text.lstrip("+-").isdigit() else value


def usage(path: str, entry: CommandEntry | None, prefix: str) -> str:
    """Return how a command is typed; a parent that exists only because of others is its path."""
    return entry.usage(prefix) if entry is not None else f"{prefix}{path}"
