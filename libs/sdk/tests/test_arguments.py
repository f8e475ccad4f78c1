"""This is about arguments: which fit a schema, and schemas that are no good themselves."""

from __future__ import annotations

from typing import Any

import pytest

from aalis_sdk.arguments import schema_fault, schema_problems

CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}


def test_arguments_that_fit_have_no_problems_and_no_type_is_coerced() -> None:
    assert schema_problems(CITY, {"city": "Lisbon", "days": 3}) == ""
    assert schema_problems(CITY, {"city": "Lisbon", "days": "3"}) != ""


def test_all_problems_are_in_one_text_each_with_its_place() -> None:
    text = schema_problems(CITY, {"days": "3", "x": 1})
    assert text.startswith("arguments: ")
    assert "'city' is a required property" in text
    assert "'x' was unexpected" in text
    assert "days: '3' is not of type 'integer'" in text


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/$defs/nowhere"},
        {"$ref": "http://127.0.0.1:1/schema.json"},
        {"properties": {"city": {"type": "strin"}}},
        {"properties": []},
        {"properties": {"city": {"pattern": "("}}},
    ],
    ids=repr,
)
def test_a_schema_that_cannot_be_used_is_a_problem_and_never_an_exception(
    schema: dict[str, Any],
) -> None:
    text = schema_problems({"type": "object", **schema}, {"city": "Lisbon"})
    assert text.startswith("the tool's own schema cannot be used: ")
    assert "\n" not in text


@pytest.mark.parametrize(
    ("schema", "word"),
    [
        ({}, '"type": "object"'),
        ({"type": ["object", "null"]}, '"type": "object"'),
        ({"type": "object", "properties": {"a": {"type": "strin"}}}, "properties.a.type"),
        ({"type": "object", "required": "a"}, "required"),
    ],
)
def test_a_schema_that_is_none_is_told_by_its_place(schema: dict[str, Any], word: str) -> None:
    assert word in schema_fault(schema)


def test_a_proper_schema_has_no_fault() -> None:
    assert schema_fault(CITY) == ""
