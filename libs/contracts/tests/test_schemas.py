"""The contracts as documents: JSON Schema for each, AsyncAPI for all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from jsonschema import Draft202012Validator

from aalis_contracts.examples import EXAMPLES
from aalis_contracts.schemas import (
    DIRECTORY,
    asyncapi,
    contracts,
    documents,
    drift,
    main,
    schema_of,
    write,
)
from aalis_contracts.subjects import ROUTES
from aalis_contracts.text import JsonObject

DOCUMENTS = documents()


def references(value: object) -> Iterator[str]:
    if isinstance(value, list):
        for item in cast("list[object]", value):
            yield from references(item)
    elif isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        if isinstance(target := fields.get("$ref"), str):
            yield target
        for item in fields.values():
            yield from references(item)


def resolve(document: object, pointer: str) -> object:
    for key in pointer.removeprefix("#/").split("/"):
        document = cast("dict[str, object]", document)[key]
    return document


def test_the_checked_in_documents_are_what_the_contracts_say() -> None:
    assert list(drift(DIRECTORY)) == []


def test_the_documents_are_the_same_in_another_process_with_another_hash_seed(
    tmp_path: Path,
) -> None:
    subprocess.run(
        [sys.executable, "-m", "aalis_contracts.schemas", str(tmp_path)],
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": ":".join(sys.path)},
    )
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == DOCUMENTS


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_a_document_is_sorted_and_ends_with_a_newline(name: str) -> None:
    body = DOCUMENTS[name].decode()
    assert body.endswith("}\n")
    assert body == json.dumps(json.loads(body), ensure_ascii=False, indent=2, sort_keys=True) + "\n"


@pytest.mark.parametrize("name", sorted(contracts()))
def test_a_schema_is_a_schema_and_refers_only_to_files_beside_it(name: str) -> None:
    schema = json.loads(DOCUMENTS[f"{name}.json"])
    Draft202012Validator.check_schema(schema)
    assert set(references(schema)) <= DOCUMENTS.keys()
    assert "$defs" not in json.dumps(schema)
    assert schema["title"] == name
    assert schema["description"]


def test_every_body_and_answer_has_a_schema() -> None:
    names = {route.body for route in ROUTES} | {r.answer for r in ROUTES if r.answer is not None}
    assert {f"{name}.json" for name in names} <= DOCUMENTS.keys()


def test_a_schema_can_be_made_for_another_place() -> None:
    refs = set(references(schema_of(contracts()["Rows"], "#/components/schemas/", "")))
    assert refs == {"#/components/schemas/Message"}


# AsyncAPI ----------------------------------------------------------------------------------------

API = asyncapi()


def part(*path: str) -> JsonObject:
    return cast("JsonObject", resolve(API, "/".join(path)))


def test_every_reference_of_the_asyncapi_document_leads_somewhere() -> None:
    for reference in set(references(API)):
        assert reference.startswith("#/")
        assert resolve(API, reference)


def test_every_subject_is_a_channel_with_its_body() -> None:
    channels = cast("dict[str, dict[str, object]]", part("channels"))
    by_address = {channel["address"]: channel for channel in channels.values()}
    for route in ROUTES:
        channel = by_address[route.template.replace(">}", "}")]
        assert channel["messages"] == {route.body: {"$ref": f"#/components/messages/{route.body}"}}
    assert len([c for c in channels.values() if c["address"] is not None]) == len(ROUTES)


def test_every_parameter_of_an_address_is_explained() -> None:
    for channel in cast("dict[str, dict[str, object]]", part("channels")).values():
        address = str(channel["address"])
        parameters = cast("dict[str, object]", channel.get("parameters", {}))
        assert [f"{{{name}}}" in address for name in parameters] == [True] * len(parameters)
        assert address.count("{") == len(parameters)


def test_every_request_names_its_answer_and_the_error_answer() -> None:
    operations = cast("dict[str, JsonObject]", part("operations"))
    assert len(operations) == len(ROUTES)
    answered = {name for name, operation in operations.items() if "reply" in operation}
    assert len(answered) == len([route for route in ROUTES if route.kind == "request"])
    reply = cast("JsonObject", operations["memory.history.get"]["reply"])
    assert reply["messages"] == [
        {"$ref": "#/channels/memory.history.get.reply/messages/Rows"},
        {"$ref": "#/channels/memory.history.get.reply/messages/ErrorReply"},
    ]


def test_a_message_shows_an_example_and_names_its_contract_in_a_header() -> None:
    message = part("components", "messages", "TokenUsage")
    assert message["examples"] == [{"payload": EXAMPLES["TokenUsage"].to_object()}]
    assert message["headers"] == {
        "type": "object",
        "properties": {"aalis-contract": {"const": "TokenUsage.v1"}},
    }


def test_a_dead_letter_travels_as_the_body_that_it_was() -> None:
    message = part("components", "messages", "DeadLetter")
    assert "$ref" not in cast("JsonObject", message["payload"])
    assert "aalis-dead-reason" in str(message["headers"])


# The command -------------------------------------------------------------------------------------


def test_writing_makes_a_directory_hold_exactly_the_documents(tmp_path: Path) -> None:
    target = tmp_path / "new" / "schemas"
    write(target)
    (target / "Gone.json").write_text("{}")
    (target / "notes.txt").write_text("mine")
    write(target)
    assert {path.name for path in target.iterdir()} == {*DOCUMENTS, "notes.txt"}
    assert list(drift(target)) == []


def test_the_check_names_each_file_that_drifted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 0
    assert main(["--check", str(tmp_path)]) == 0
    assert capsys.readouterr().out == ""
    (tmp_path / "Message.json").write_text("{}\n")
    (tmp_path / "Rows.json").unlink()
    (tmp_path / "Gone.json").write_text("{}\n")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert main(["--check", str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "Message.json: differs from the contract",
        "Rows.json: missing",
        "Gone.json: belongs to no contract",
        "Write them again with: python -m aalis_contracts.schemas",
    ]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
