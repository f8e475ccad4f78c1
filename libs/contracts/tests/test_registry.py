"""The entries of KV `registry` (SPEC §1.5)."""

from __future__ import annotations

import pytest

from aalis_contracts.contract import InvalidBody
from aalis_contracts.examples import example
from aalis_contracts.registry import (
    CommandArg,
    CommandEntry,
    CommandOption,
    HookEntry,
    PromptEntry,
    ToolEntry,
)


def test_defaults_of_an_interceptor_are_those_of_the_specification() -> None:
    entry = HookEntry.from_json(b'{"hook":"agent:llm:before","plugin":"p"}')
    assert (entry.order, entry.timeout_ms, entry.on_failure, entry.mode) == (
        0,
        5000,
        "skip",
        "intercept",
    )


def test_defaults_of_a_tool_are_those_of_the_specification() -> None:
    entry = ToolEntry.from_json(b'{"definition":{"function":{"name":"t"}},"plugin":"p"}')
    assert (entry.name, entry.groups, entry.timeout_ms, entry.retry) == ("t", [], 60_000, "never")
    assert (entry.visibility, entry.risk, entry.confirm) == ("public", None, None)


@pytest.mark.parametrize("identifier", ["", "a/b", "/", " "])
def test_a_contribution_id_is_non_empty_and_without_a_slash(identifier: str) -> None:
    with pytest.raises(InvalidBody, match="id"):
        PromptEntry.from_object({"plugin": "p", "id": identifier, "anchor": "context"})


def test_the_key_of_a_contribution_names_plugin_and_id() -> None:
    assert example(PromptEntry).key == "weather/today"


def test_an_unknown_anchor_can_be_read_since_it_is_only_warned_about() -> None:
    assert PromptEntry(plugin="p", id="i", anchor="nowhere").anchor == "nowhere"


@pytest.mark.parametrize("path", ["Model", "a b", "a..b", ".a", "a.", "1a", ""])
def test_a_command_path_that_nobody_can_type_is_refused(path: str) -> None:
    with pytest.raises(InvalidBody, match="path"):
        CommandEntry.from_object({"path": path, "plugin": "p"})


@pytest.mark.parametrize("default", ["x", "1", "true", 1, 0, 1.5, True, False], ids=repr)
def test_a_default_of_an_option_keeps_its_type(default: str | float) -> None:
    option = CommandOption(name="n", default=default)
    read = CommandOption.from_json(option.to_json())
    assert (read.default, type(read.default)) == (default, type(default))


def test_usage_shows_how_a_command_is_typed() -> None:
    entry = CommandEntry(
        path="do.it",
        plugin="p",
        args=[CommandArg(name="who", required=True), CommandArg(name="why", type="text")],
        options=[
            CommandOption(name="v", short="v", type="string", required=True),
            CommandOption(name="number", type="number", value_required=False),
            CommandOption(name="state", short="s", type="string", choices=["on", "off"]),
            CommandOption(name="force", short="f"),
        ],
    )
    assert entry.usage("!") == (
        "!do.it -v <v> [--number [number:number]] [-s <on|off>] [-f] <who> [why:text]"
    )
