"""This is about reading command lines: tables of what people type, and what holds for any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aalis_contracts.catalogue import TEXTS
from aalis_contracts.registry import CommandArg, CommandEntry, CommandOption
from aalis_gateway.command_line import (
    Arguments,
    Index,
    Problem,
    Word,
    find,
    index,
    parse,
    usage,
    words,
)


def entry(path: str, **more: object) -> CommandEntry:
    return CommandEntry.from_object({"path": path, "plugin": "p", **more})


SESSION_SET = entry(
    "session.set",
    options=[
        {"name": "model", "short": "m", "type": "string"},
        {"name": "think", "short": "t", "type": "boolean"},
        {"name": "name", "short": "n", "type": "string"},
    ],
)
COMMANDS = index(
    [
        entry("help", args=[{"name": "name", "type": "text"}], aliases=["h"]),
        entry("session", aliases=["s", "help"]),
        SESSION_SET,
        entry("clear.all", aliases=["wipe"]),
        entry("deep.er.still"),
    ]
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", []),
        ("   ", []),
        ("a  b\tc\nd", ["a", "b", "c", "d"]),
        ("a\u3000b", ["a", "b"]),
        ("\"a b\" 'c d'", ["a b", "c d"]),
        ("x\"a b\"y'c'", ["xa byc"]),
        (r"a\ b \"c", ["a b", '"c']),
        (r'"a\"b"', ['a"b']),
        ('"takes the rest', ["takes the rest"]),
        ("'' \"\" a", ["a"]),
        ("a\\", ["a\\"]),
        ("--name='a b'", ["--name=a b"]),
    ],
)
def test_a_line_is_split_into_words(line: str, expected: list[str]) -> None:
    assert [word.text for word in words(line)] == expected


@pytest.mark.parametrize(
    ("line", "literal"),
    [("-x", False), ("'-x'", True), (r"\-x", True), ("--a='-x'", False), ('-"x"', False)],
)
def test_a_word_that_begins_quoted_is_no_option(line: str, *, literal: bool) -> None:
    assert [word.literal for word in words(line)] == [literal]


@given(st.text())
def test_any_text_splits_into_words_that_are_not_empty(text: str) -> None:
    assert all(word.text for word in words(text))


@given(st.lists(st.text(alphabet="abc-=.1", min_size=1)))
def test_plain_words_come_back_as_they_were(parts: list[str]) -> None:
    assert [word.text for word in words("  ".join(parts))] == parts


@pytest.mark.parametrize(
    ("line", "path", "rest"),
    [
        ("/help", "help", []),
        ("  /help  me  ", "help", ["me"]),
        ("/session", "session", []),
        ("/session set -t on", "session.set", ["-t", "on"]),
        ("/session.set -t on", "session.set", ["-t", "on"]),
        ("/session settle", "session", ["settle"]),
        ("/session 'set'", "session", ["set"]),
        ("/s set", "session.set", []),
        ("/s.set", "session.set", []),
        ("/h", "help", []),
        ("/wipe now", "clear.all", ["now"]),
        ("/clear", "clear", []),
        ("/deep er.still x", "deep.er.still", ["x"]),
        ("/deep", "deep", []),
    ],
)
def test_the_longest_path_names_the_command(line: str, path: str, rest: list[str]) -> None:
    found = find(line, "/", COMMANDS)

    assert found is not None
    assert (found.path, [word.text for word in found.rest]) == (path, rest)
    assert found.entry == COMMANDS.entries.get(path)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "/",
        "help",
        "/ help",
        "/unknown",
        "/session.unknown",
        "/s.unknown",
        "//help",
        "/'help'",
        "/Help",
        "/帮助",
        "/.",
        "/session.",
        "/usr/bin/python",
    ],
)
def test_what_names_no_command_is_chat(line: str) -> None:
    assert find(line, "/", COMMANDS) is None


@pytest.mark.parametrize(
    ("prefix", "line", "path"),
    [
        ("", "help me", "help"),
        ("", "please help", None),
        ("!", "!help", "help"),
        ("!", "/help", None),
        ("ai ", "ai help", "help"),
    ],
)
def test_the_prefix_is_a_setting(prefix: str, line: str, path: str | None) -> None:
    found = find(line, prefix, COMMANDS)

    assert (found.path if found else None) == path


def test_a_real_name_wins_over_an_alias() -> None:
    found = find("/help", "/", COMMANDS)

    assert found is not None
    assert found.path == "help"


def test_a_parent_exists_by_itself_and_knows_its_children() -> None:
    assert COMMANDS.children("") == ["clear", "deep", "help", "session"]
    assert COMMANDS.children("deep") == ["deep.er"]
    assert COMMANDS.children("deep.er.still") == []
    assert [each.path for each in COMMANDS.along("session.set")] == ["session", "session.set"]


def test_a_command_that_goes_takes_its_aliases_along() -> None:
    left = index(e for path, e in COMMANDS.entries.items() if path != "clear.all")

    assert find("/wipe", "/", left) is None
    assert find("/clear", "/", left) is None


def command(args: list[CommandArg] | None = None, /, **options: CommandOption) -> CommandEntry:
    return CommandEntry(
        path="do",
        plugin="p",
        args=args or [],
        options=[option.model_copy(update={"name": name}) for name, option in options.items()],
    )


def option(kind: str | None = None, **more: object) -> CommandOption:
    fields: dict[str, object] = {"name": "x", "type": kind, **more}
    return CommandOption.from_object(fields)


def read(entry_: CommandEntry, line: str) -> Arguments | Problem:
    return parse(entry_, words(line))


GIVEN: list[tuple[dict[str, CommandOption], str, dict[str, object]]] = [
    ({"v": option()}, "--v", {"v": True}),
    ({"v": option(short="v")}, "-v", {"v": True}),
    ({"v": option()}, "--no-v", {"v": False}),
    ({"v": option()}, "--v=off", {"v": False}),
    ({"v": option("boolean")}, "--v=yes", {"v": True}),
    ({"v": option("boolean")}, "--v OFF", {"v": False}),
    ({"v": option("boolean")}, "--no-v", {"v": False}),
    ({"v": option("boolean", valueRequired=False)}, "--v", {"v": True}),
    ({"v": option("boolean", valueRequired=False)}, "--v word", {"v": True}),
    ({"v": option("string", short="v")}, "-v a", {"v": "a"}),
    ({"v": option("string")}, "--v=a=b", {"v": "a=b"}),
    ({"v": option("string")}, "--v '--other'", {"v": "--other"}),
    ({"v": option("string")}, "--v a --v b", {"v": "b"}),
    ({"v": option("string")}, "--v -5", {"v": "-5"}),
    ({"v": option("string", valueRequired=False, default="d")}, "--v", {"v": "d"}),
    ({"v": option("string", valueRequired=False)}, "--v", {"v": True}),
    ({"v": option("number")}, "--v -5", {"v": -5}),
    ({"v": option("number")}, "--v 2.5e3", {"v": 2500.0}),
    ({"v": option("number", valueRequired=False, default=1)}, "--v word", {"v": 1}),
    ({"v": option("string[]")}, "--v a,b --v c", {"v": ["a", "b", "c"]}),
    ({"v": option("string[]")}, "--v=a,,b,", {"v": ["a", "b"]}),
    ({"v": option("string", choices=["a", "b"])}, "--v b", {"v": "b"}),
    ({"v": option("string", default="d")}, "", {"v": "d"}),
    ({"v": option("number", default=0)}, "", {"v": 0}),
    ({"v": option("string")}, "-- --v x", {}),
]


@pytest.mark.parametrize(("options", "line", "expected"), GIVEN)
def test_options_are_read(
    options: dict[str, CommandOption], line: str, expected: dict[str, object]
) -> None:
    found = read(command(**options), line)

    assert isinstance(found, Arguments)
    assert found.options == expected


def argument(name: str, kind: str = "string", *, required: bool = False) -> CommandArg:
    return CommandArg.from_object({"name": name, "type": kind, "required": required})


@pytest.mark.parametrize(
    ("args", "line", "expected"),
    [
        ([argument("a")], "x y", {"a": "x"}),
        ([argument("a"), argument("b")], "x", {"a": "x"}),
        ([argument("a", "text")], "x  y 'z w'", {"a": "x y z w"}),
        ([argument("a"), argument("b", "text")], "x y z", {"a": "x", "b": "y z"}),
        ([argument("a", "text")], "买牛奶 - -5 --", {"a": "买牛奶 - -5"}),
        ([argument("a", "number"), argument("b", "boolean")], "007 on", {"a": 7, "b": True}),
        ([argument("a", "text")], "-- --x -y", {"a": "--x -y"}),
        ([], "more than wanted", {}),
    ],
)
def test_arguments_are_read(args: list[CommandArg], line: str, expected: dict[str, object]) -> None:
    found = read(command(args), line)

    assert isinstance(found, Arguments)
    assert found.args == expected


WRONG = [
    (command(), "-x", "problemUnknownOption", {"option": "-x"}),
    (command(), "--x=1", "problemUnknownOption", {"option": "--x"}),
    (command(), "--no-x", "problemUnknownOption", {"option": "--no-x"}),
    (command(v=option("string")), "--no-v", "problemUnknownOption", {"option": "--no-v"}),
    (command(v=option("string")), "--v", "problemMissingValue", {"option": "--v"}),
    (command(v=option("string")), "--v --v", "problemMissingValue", {"option": "--v"}),
    (command(v=option("boolean")), "--v", "problemMissingValue", {"option": "--v"}),
    (command(v=option("number")), "--v x", "problemNotANumber", {"name": "--v", "value": "x"}),
    (command(v=option("number")), "--v nan", "problemNotANumber", {"name": "--v", "value": "nan"}),
    (command(v=option("number")), "--v 1e999", "problemNotANumber", None),
    (command(v=option("number")), "--v " + "9" * 5000, "problemNotANumber", None),
    (command(v=option("number")), "--v ٣", "problemNotANumber", None),
    (command(v=option("number")), "--v 1-1", "problemNotANumber", None),
    (command(v=option("boolean")), "--v x", "problemNotABoolean", {"name": "--v", "value": "x"}),
    (
        command(v=option("string", choices=["a", "b"])),
        "--v c",
        "problemNotAChoice",
        {"name": "--v", "value": "c", "choices": "a, b"},
    ),
    (command(v=option("string[]", choices=["a"])), "--v a,c", "problemNotAChoice", None),
    (command(v=option("string", required=True)), "", "problemMissingOption", {"option": "--v"}),
    (command([argument("a", required=True)]), "", "problemMissingArgument", {"name": "a"}),
    (command([argument("a", "number")]), "x", "problemNotANumber", None),
]


@pytest.mark.parametrize(("entry_", "line", "key", "values"), WRONG)
def test_what_is_wrong_is_named(
    entry_: CommandEntry, line: str, key: str, values: dict[str, str] | None
) -> None:
    found = read(entry_, line)

    assert isinstance(found, Problem)
    assert found.key == key
    assert values is None or found.values == values
    for texts in TEXTS.values():
        assert texts[key].format(**found.values)


@given(st.lists(st.builds(Word, st.text(min_size=1), st.booleans())))
def test_any_words_are_arguments_or_a_problem(typed: list[Word]) -> None:
    every = command(
        [argument("a", "number"), argument("b", "text")],
        f=option(short="f"),
        n=option("number", short="n", valueRequired=False),
        s=option("string[]", short="s", choices=["a", "b"]),
    )

    assert isinstance(parse(every, typed), Arguments | Problem)


@given(st.text(), st.sampled_from(["/", "", "!"]))
def test_any_text_is_a_command_or_chat(text: str, prefix: str) -> None:
    found = find(text, prefix, COMMANDS)

    assert found is None or found.path in COMMANDS.nodes


def test_usage_shows_how_to_type_a_command() -> None:
    typed = command(
        [argument("who", required=True), argument("why", "text")],
        v=option("string", short="v", required=True),
        n=option("number", valueRequired=False),
        f=option(short="f"),
    )

    assert usage("do", typed, "/") == "/do -v <v> [--n [n:number]] [-f] <who> [why:text]"
    assert usage("session", None, "/") == "/session"


def test_no_commands_at_all_is_fine() -> None:
    assert find("/help", "/", Index({}, frozenset(), {})) is None
