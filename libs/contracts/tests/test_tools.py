"""Tools: how they are described, called and answered (SPEC CON-33 to CON-35)."""

from __future__ import annotations

import json

import pytest

from aalis_contracts.contract import InvalidBody
from aalis_contracts.tools import FunctionDefinition, ToolCallContext, ToolDefinition, error_result


@pytest.mark.parametrize("name", ["a", "get_weather-2", "A" * 64])
def test_a_legal_name_is_taken(name: str) -> None:
    definition = ToolDefinition.from_object({"function": {"name": name}})
    assert definition.name == name
    assert definition.function.parameters == {"type": "object", "properties": {}}


@pytest.mark.parametrize("name", ["", "a b", "a.b", "天气", "A" * 65, "a\n"])
def test_an_illegal_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidBody, match=r"^ToolDefinition: function\.name: "):
        ToolDefinition.from_object({"function": {"name": name}})


def test_a_schema_survives_with_its_nulls_and_its_order() -> None:
    body = (
        b'{"type":"function","function":{"name":"f","description":"","parameters":'
        b'{"type":"object","properties":{"z":{"default":null},"a":{"enum":["x",null]}},'
        b'"required":["z"],"additionalProperties":false},"strict":true,"x-later":null}}'
    )
    assert ToolDefinition.from_json(body).to_json() == body


def test_two_definitions_do_not_share_their_default_schema() -> None:
    first, second = FunctionDefinition(name="a"), FunctionDefinition(name="b")
    assert first.parameters is not second.parameters


def test_the_groups_of_a_call_are_always_a_list() -> None:
    context: dict[str, object] = {
        "sessionId": "s",
        "platform": "p",
        "turnId": "t",
        "callId": "c",
        "key": "k",
    }
    with pytest.raises(InvalidBody, match="enabledGroups"):
        ToolCallContext.from_object(context)
    assert ToolCallContext.from_object({**context, "enabledGroups": []}).enabled_groups == []


def test_a_failure_is_a_json_text_with_an_error() -> None:
    assert error_result('找不到 "x"').content == '{"error":"找不到 \\"x\\""}'
    assert json.loads(error_result("a\nb").content) == {"error": "a\nb"}
