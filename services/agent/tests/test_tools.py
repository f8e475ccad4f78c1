"""What becomes of the arguments of a call (SPEC AG-43, TOOL-5)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aalis_agent.tools import parse_arguments
from aalis_contracts.text import MAX_CARRIED, JsonObject
from aalis_contracts.tools import ToolCallContext

from .conftest import World


def nested(levels: int) -> str:
    """Write an object of so many levels; the outermost is one of them."""
    return '{"a":' * levels + "1" + "}" * levels


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ("", {}),
        (" \n", {}),
        ('{"a":1}', {"a": 1}),
        ('{"a":"\\ud800"}', {"a": "\ufffd"}),
        ("[1]", "list instead of an object"),
        ("3", "int instead of an object"),
        ("null", "NoneType instead of an object"),
        (nested(MAX_CARRIED + 1), "nested more than 200 levels deep"),
        (nested(900), "nested more than 200 levels deep"),
        (nested(100_000), "nested more than 200 levels deep"),
        ("[" * 900 + "]" * 900, "list instead of an object"),
    ],
)
def test_arguments_are_an_object_or_a_reason(arguments: str, read: JsonObject | str) -> None:
    assert parse_arguments(arguments) == read


def test_cut_off_arguments_are_said_to_be_no_json() -> None:
    assert "Expecting" in parse_arguments('{"a":')


async def test_deep_arguments_are_run_or_refused_and_the_turn_goes_on(world: World) -> None:
    depths: list[int] = []

    async def measure(args: JsonObject, _: ToolCallContext) -> str:
        depths.append(json.dumps(args).count("{"))
        return "measured"

    world.tools.add("measure", measure)
    script: list[dict[str, Any]] = [
        {"tool": "measure", "args": nested(levels)}
        for levels in (MAX_CARRIED, MAX_CARRIED + 1, 241, 600, 5000)
    ]
    await world.open({"when": {"iteration": 0}, "call": script}, {"reply": "done"})

    assert await world.ask("go") == "done"

    assert depths == [MAX_CARRIED]
    results = [row.content or "" for row in world.memory.of("s") if row.role == "tool"]
    assert results[0] == "measured"
    assert all("nested more than 200" in json.loads(text)["error"] for text in results[1:])
    assert await world.ask("and again") == "done (2)"


async def test_deep_arguments_of_a_schema_that_refers_to_itself_cost_their_call_at_most(
    world: World,
) -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {"$ref": "#"}}}
    world.tools.add("walk", _walk, schema=schema)
    await world.open(
        {"when": {"iteration": 0}, "call": [{"tool": "walk", "args": nested(MAX_CARRIED)}]},
        {"reply": "done"},
    )

    assert await world.ask("go") == "done"


async def _walk(_: JsonObject, __: ToolCallContext) -> str:
    return "walked"
