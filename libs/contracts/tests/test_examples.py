"""One realistic value of each contract: it reads, writes, and fits the checked-in schema."""

from __future__ import annotations

import json
from typing import Protocol, cast, get_args

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import Schema, SchemaRegistry

from aalis_contracts.contract import Contract
from aalis_contracts.examples import EXAMPLES, example
from aalis_contracts.journal import Fact
from aalis_contracts.messages import Message
from aalis_contracts.schemas import DIRECTORY, contracts

CHECKED_IN: dict[str, dict[str, object]] = {
    path.name: json.loads(path.read_text("utf-8"))
    for path in DIRECTORY.glob("*.json")
    if path.name != "asyncapi.json"
}
REGISTRY: SchemaRegistry = Registry[Schema]().with_resources(
    (name, Resource[Schema].from_contents(schema)) for name, schema in CHECKED_IN.items()
)
FACTS = cast("tuple[type[Contract], ...]", get_args(get_args(Fact)[0]))


class Validator(Protocol):
    def validate(self, instance: object) -> None: ...

    def is_valid(self, instance: object) -> bool: ...


every_example = pytest.mark.parametrize("value", EXAMPLES.values(), ids=EXAMPLES.keys())


def validator(name: str) -> Validator:
    schema = CHECKED_IN[f"{name}.json"]
    return cast("Validator", Draft202012Validator(schema, registry=REGISTRY))


def test_every_contract_has_one_example() -> None:
    assert sorted(EXAMPLES) == sorted(contracts())
    assert example(Message) is EXAMPLES["Message"]


@every_example
def test_an_example_reads_back_as_what_was_written(value: Contract) -> None:
    assert type(value).from_json(value.to_json()) == value
    assert type(value).from_object(value.to_object()) == value
    assert type(value).from_json(value.to_json()).to_json() == value.to_json()


@every_example
def test_an_example_is_written_as_compact_json_in_camel_case(value: Contract) -> None:
    body = value.to_json()
    parsed = json.loads(body)
    assert json.dumps(parsed, ensure_ascii=False, separators=(",", ":")).encode() == body
    assert parsed == value.to_object()
    assert all("_" not in key for key in parsed)


@every_example
def test_an_example_fits_the_checked_in_schema(value: Contract) -> None:
    validator(type(value).__name__).validate(json.loads(value.to_json()))


@every_example
def test_a_null_for_an_optional_field_fits_the_schema(value: Contract) -> None:
    cls = type(value)
    optional = [f.alias or n for n, f in cls.model_fields.items() if not f.is_required()]
    if cls in FACTS:
        optional.remove("type")
    body = {**value.to_object(), **dict.fromkeys(optional)}
    validator(cls.__name__).validate(body)


@every_example
def test_an_object_without_its_required_fields_does_not_fit_the_schema(value: Contract) -> None:
    name = type(value).__name__
    for field in cast("list[str]", CHECKED_IN[f"{name}.json"].get("required", [])):
        body = {key: item for key, item in value.to_object().items() if key != field}
        assert not validator(name).is_valid(body)
    assert not validator(name).is_valid([])
