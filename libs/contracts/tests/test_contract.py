"""How every body is read and written (SPEC CON-1, 2, 5, 6, 8)."""

from __future__ import annotations

import json
import math
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from aalis_contracts.contract import Contract, InvalidBody
from aalis_contracts.events import SessionCompress, TokenRequest, UsageBreakdown
from aalis_contracts.examples import EXAMPLES, example
from aalis_contracts.journal import InputPrepared, JournalEntry
from aalis_contracts.messages import FunctionCall, IncomingMessage, Message, ToolCall
from aalis_contracts.models import ChatResponse
from aalis_contracts.rpc import HistoryGet, MetadataPut
from aalis_contracts.schemas import contracts
from aalis_contracts.sessions import SessionConfig, SessionDefaults, SessionInfo
from aalis_contracts.text import MAX_CARRIED, JsonObject

EVERY = sorted(contracts().items())
EVERY_NAME = [name for name, _ in EVERY]
every_contract = pytest.mark.parametrize("cls", [cls for _, cls in EVERY], ids=EVERY_NAME)

any_text = st.text(st.characters())
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
json_objects = st.dictionaries(st.text(), json_values, max_size=5)


FIELDS = sorted(
    {
        field.alias or name
        for cls in (Message, IncomingMessage, SessionInfo)
        for name, field in cls.model_fields.items()
    }
)


def compact(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def respelt(body: bytes) -> bytes:
    """Spell the floats of a body as Python does: 6.1e-05 where pydantic has 0.000061."""
    return compact(json.loads(body))


def message_with(metadata: bytes) -> bytes:
    return b'{"role":"user","content":"x","metadata":' + metadata + b"}"


# Null and absent ---------------------------------------------------------------------------------


@every_contract
def test_a_null_for_any_optional_field_reads_as_if_it_were_absent(cls: type[Contract]) -> None:
    body = cast("JsonObject", EXAMPLES[cls.__name__].to_object())
    optional = [f.alias or n for n, f in cls.model_fields.items() if not f.is_required()]
    without = {key: value for key, value in body.items() if key not in optional}
    nulls = without | dict.fromkeys(optional)
    assert cls.from_json(compact(nulls)) == cls.from_json(compact(without))
    assert cls.from_object(nulls) == cls.from_object(without)


@every_contract
def test_a_null_for_a_required_field_is_refused_by_name_or_taken_as_empty(
    cls: type[Contract],
) -> None:
    body = cast("JsonObject", EXAMPLES[cls.__name__].to_object())
    for name, field in cls.model_fields.items():
        alias = field.serialization_alias or name
        if not field.is_required() or (cls is IncomingMessage and name == "content"):
            continue
        with pytest.raises(InvalidBody) as refusal:
            cls.from_json(compact(body | {alias: None}))
        assert alias in str(refusal.value)


@every_contract
def test_no_null_is_written_for_a_field_that_is_not_set(cls: type[Contract]) -> None:
    body = EXAMPLES[cls.__name__].to_object()
    unset = [n for n, f in cls.model_fields.items() if not f.is_required() and f.default is None]
    bare = EXAMPLES[cls.__name__].model_copy(update=dict.fromkeys(unset))
    aliases = {cls.model_fields[name].alias for name in unset}
    assert not aliases & bare.to_object().keys()
    assert not aliases & json.loads(bare.to_json()).keys()
    assert bare.to_object().keys() == body.keys() - aliases


def test_only_a_patch_writes_an_explicit_null() -> None:
    patch = SessionConfig(persona=None, session_defaults=SessionDefaults(think=None))
    assert patch.to_patch_json() == b'{"persona":null,"sessionDefaults":{"think":null}}'
    assert patch.to_json() == b'{"sessionDefaults":{}}'


@pytest.mark.parametrize(
    "body", [b"{}", b'{"persona":null}', b'{"think":false,"sessionDefaults":{"llm":null}}']
)
def test_a_patch_that_was_read_is_written_as_it_came(body: bytes) -> None:
    assert SessionConfig.from_json(body).to_patch_json() == body


def test_a_patch_is_mended_like_every_other_body() -> None:
    patch = SessionConfig(persona="x").model_copy(update={"persona": "a\ud800"})
    assert patch.to_patch_json() == '{"persona":"a\ufffd"}'.encode()


def test_a_null_default_is_kept_when_a_session_is_read() -> None:
    body = b'{"id":"s","name":"n","children":null,"status":null,"createdAt":1,"updatedAt":2}'
    session = SessionInfo.from_json(body)
    assert (session.children, session.status) == ([], "active")


# Unicode -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "content"),
    [
        (rb'{"role":"user","content":"a\ud800b"}', "a\ufffdb"),
        (rb'{"role":"user","content":"a\udc00"}', "a\ufffd"),
        (rb'{"role":"user","content":"\ud83d\ude42"}', "🙂"),
        (rb'{"role":"user","content":"\ud800\ud83d\ude42"}', "\ufffd🙂"),
        (b'{"role":"user","content":"\xed\xa0\x80"}', "\ufffd"),
        (b'{"role":"user","content":"\xed\xa0\xbd\xed\xb9\x82"}', "🙂"),
        ('{"role":"user","content":"a\ud800"}', "a\ufffd"),
        ('{"role":"user","content":"中🙂"}', "中🙂"),
    ],
)
def test_a_lone_surrogate_in_a_body_becomes_a_replacement(body: bytes | str, content: str) -> None:
    assert Message.from_json(body).content == content


@given(any_text, any_text)
def test_whatever_text_a_body_holds_it_is_read_and_written_well_formed(text: str, key: str) -> None:
    raw: JsonObject = {"role": "user", "content": text, "metadata": {key: [text]}}
    escaped = Message.from_json(json.dumps(raw))
    assert escaped == Message.from_object(raw)
    assert escaped == Message.from_json(json.dumps(raw, ensure_ascii=False))
    assert Message.from_json(escaped.to_json()) == escaped


@given(any_text)
def test_text_that_was_set_inside_is_mended_when_it_is_written(text: str) -> None:
    message = Message(role="user", content="x").model_copy(
        update={"content": text, "metadata": {text: text}}
    )
    written = message.to_json()
    assert written.decode().encode() == written
    assert json.loads(written) == message.to_object()


def test_text_in_an_extra_key_of_a_call_is_mended_when_it_is_written() -> None:
    call = ToolCall.model_validate(
        {"id": "1", "function": {"name": "f"}, "note": "\ud800", "none": None}
    )
    assert json.loads(call.to_json())["note"] == "\ufffd"
    assert call.to_object()["none"] is None


# What passes through -----------------------------------------------------------------------------


def test_unknown_fields_are_ignored() -> None:
    body = b'{"sessionId":"s","platform":"p","later":{"a":[1]}}'
    assert TokenRequest.from_json(body) == TokenRequest(session_id="s", platform="p")


@given(json_objects, json_objects)
def test_metadata_and_provider_data_survive_with_their_nulls_and_their_order(
    metadata: JsonObject, provider_data: JsonObject
) -> None:
    raw: JsonObject = {
        "role": "assistant",
        "content": "x",
        "metadata": metadata,
        "providerData": provider_data,
    }
    assert respelt(Message.from_json(compact(raw)).to_json()) == compact(raw)
    assert compact(Message.from_object(raw).to_object()) == compact(raw)
    answer = ChatResponse.from_json(compact({"providerData": provider_data}))
    assert respelt(answer.to_json()) == compact(
        {"providerData": provider_data, "finishReason": "stop"}
    )


@pytest.mark.parametrize(
    "metadata",
    [
        b'{"z":null,"a":{"y":null,"x":[null,{"w":null}]},"m":1}',
        b'{"big":123456789012345678901234567890,"neg":-9223372036854775809}',
        b'{"f":0.1,"g":1.0,"h":-0.0,"i":1e-7,"j":5e-324,"k":1.7976931348623157e+308}',
        b'{"":{"":[]},"e":{},"t":true,"s":"\xf0\x9f\x99\x82\\n\\u0000\\"\\\\"}',
        b'{"inputSeq":"not a field here","toolCalls":null}',
    ],
)
def test_odd_metadata_survives_byte_for_byte_on_the_fast_and_on_the_slow_path(
    metadata: bytes,
) -> None:
    fast = message_with(metadata)
    assert Message.from_json(fast).to_json() == fast
    slow = fast.replace(b'"x"', rb'"\ud800"')
    assert Message.from_json(slow).to_json() == fast.replace(b'"x"', '"\ufffd"'.encode())


extra_keys = st.dictionaries(
    st.text().filter(lambda key: key not in {"id", "type", "function", "name", "arguments"}),
    json_values,
    max_size=5,
)


@given(extra_keys, extra_keys)
def test_extra_keys_of_a_tool_call_survive_with_their_nulls_and_their_order(
    outer: JsonObject, inner: JsonObject
) -> None:
    call: JsonObject = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "f", "arguments": "{}", **inner},
        **outer,
    }
    body = compact({"role": "assistant", "toolCalls": [call]})
    assert respelt(Message.from_json(body).to_json()) == body
    assert compact(Message.from_json(body).to_object()) == body


def test_a_bucket_that_a_later_version_adds_survives() -> None:
    body = example(UsageBreakdown).to_object() | {"tasks": 7}
    assert UsageBreakdown.from_object(body).to_object()["tasks"] == 7


# Refusals ----------------------------------------------------------------------------------------

NOT_A_BODY = [
    pytest.param(b"", id="empty"),
    pytest.param(b"   ", id="blank"),
    pytest.param(b"nonsense", id="no JSON"),
    pytest.param(b'{"role":"user"', id="cut off"),
    pytest.param(b"[]", id="a list"),
    pytest.param(b'[{"role":"user"}]', id="a list of bodies"),
    pytest.param(b"5", id="a number"),
    pytest.param(b"null", id="null"),
    pytest.param(b'"role"', id="a string"),
    pytest.param(b'{"role":"\xff\xfe"}', id="not UTF-8"),
    pytest.param(b'{"role":"\xc3"}', id="half a character"),
    pytest.param('{"role":"user"}'.encode("utf-16"), id="UTF-16"),
    pytest.param(b'\xef\xbb\xbf{"role":"user"}', id="byte order mark"),
    pytest.param(b'{"role":"user"} {"role":"user"}', id="two bodies"),
    pytest.param(b"[" * 10_000, id="deep and open"),
    pytest.param(b"[" * 10_000 + b"]" * 10_000, id="a deep list"),
    pytest.param(message_with(b'{"a":' + b"[" * 10_000 + b"]" * 10_000 + b"}"), id="deep"),
    pytest.param(message_with(b'{"a":' * 100_000 + b"1" + b"}" * 100_000), id="very deep"),
    pytest.param(message_with(b'{"a":' + b"[" * 300 + b"]" * 300 + b"}"), id="300 levels"),
    pytest.param(message_with(b'{"a":' + b"9" * 5_000 + b"}"), id="5,000 digits"),
]


@pytest.mark.parametrize("body", NOT_A_BODY)
def test_what_is_no_body_is_refused_in_one_line_that_names_the_contract(body: bytes) -> None:
    with pytest.raises(InvalidBody) as refusal:
        Message.from_json(body)
    reason = str(refusal.value)
    assert reason.startswith("Message: ")
    assert len(reason.splitlines()) == 1
    assert len(reason) <= 301


def reason_of(cls: type[Contract], data: bytes) -> str:
    """Return why `data` is refused, or the start of any reason if it is read."""
    try:
        cls.from_json(data)
    except InvalidBody as refusal:
        return str(refusal)
    return f"{cls.__name__}: "


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    assert reason_of(TokenRequest, data).startswith("TokenRequest: ")


@given(json_values | st.dictionaries(st.sampled_from(FIELDS), json_values))
def test_any_json_value_is_read_or_refused(value: object) -> None:
    for cls in (Message, IncomingMessage, SessionInfo):
        assert reason_of(cls, compact(value)).startswith(f"{cls.__name__}: ")


@pytest.mark.parametrize("levels", [10, MAX_CARRIED - 1])
def test_a_body_that_can_be_read_can_be_written(levels: int) -> None:
    body = message_with(b'{"a":' + b"[" * levels + b"]" * levels + b"}")
    message = Message.from_json(body)
    assert message.to_json() == body
    assert compact(message.to_object()) == body


def deep(levels: int) -> dict[str, object]:
    """Return an object of so many levels."""
    return cast("dict[str, object]", json.loads('{"a":' * levels + "1" + "}" * levels))


@pytest.mark.parametrize(
    ("cls", "fields"),
    [
        (Message, {"role": "user", "metadata": deep(MAX_CARRIED + 1)}),
        (Message, {"role": "user", "providerData": deep(MAX_CARRIED + 1)}),
        (
            IncomingMessage,
            {"content": "", "sessionId": "s", "platform": "p", "metadata": deep(MAX_CARRIED + 1)},
        ),
        (
            ToolCall,
            {"id": "i", "function": {"name": "f"}, "extra": deep(MAX_CARRIED + 1)},
        ),
    ],
)
def test_what_a_body_carries_is_refused_when_nobody_could_pass_it_on(
    cls: type[Contract], fields: dict[str, object]
) -> None:
    with pytest.raises(InvalidBody, match="nested more than 200 levels deep"):
        cls.from_object(fields)


def test_the_deepest_that_is_taken_from_a_person_can_be_read_back_from_the_journal() -> None:
    said = IncomingMessage.from_object(
        {"content": "x", "sessionId": "s", "platform": "p", "metadata": deep(MAX_CARRIED)}
    )
    fact = InputPrepared(
        input_seq=1, arrived_at=1, message=said, metadata=cast("Any", deep(MAX_CARRIED))
    )
    entry = JournalEntry(
        session_id="s", lane="user", turn_id="t", covered_to=1, carrier=1, ended=False, facts=[fact]
    )
    assert JournalEntry.from_json(entry.to_json()) == entry


def test_a_value_nested_too_deeply_for_the_fast_check_is_refused_by_name() -> None:
    with pytest.raises(InvalidBody, match=r"^Message: the body is nested too deeply$"):
        Message.from_object({"role": "user", "metadata": json.loads("[" * 500 + "]" * 500)})


@pytest.mark.parametrize(
    ("cls", "body", "reason"),
    [
        (TokenRequest, b"{}", "TokenRequest: sessionId: Field required"),
        (
            TokenRequest,
            b'{"sessionId":""}',
            "TokenRequest: sessionId: String should have at least 1 character",
        ),
        (
            TokenRequest,
            b'{"sessionId":7}',
            "TokenRequest: sessionId: Input should be a valid string",
        ),
        (
            TokenRequest,
            b'{"sessionId":null,"platform":[]}',
            "TokenRequest: sessionId: Input should be a valid string (and 1 more)",
        ),
        (
            Message,
            b'{"role":"assistant","toolCalls":[{"id":"1","function":{}}]}',
            "Message: toolCalls.0.function.name: Field required",
        ),
        (
            HistoryGet,
            b'{"sessionId":"s","limit":1e999}',
            "HistoryGet: limit: Input should be a finite number",
        ),
        (
            SessionCompress,
            b'{"sessionId":"s","reason":"auto","usageRatio":NaN}',
            "SessionCompress: usageRatio: Input should be a finite number",
        ),
        (
            SessionCompress,
            b'{"sessionId":"s","reason":"auto","usageRatio":-1e999}',
            "SessionCompress: usageRatio: Input should be a finite number",
        ),
    ],
)
def test_a_refusal_is_one_line_that_names_the_field(
    cls: type[Contract], body: bytes, reason: str
) -> None:
    with pytest.raises(InvalidBody) as refusal:
        cls.from_json(body)
    assert str(refusal.value) == reason


def test_a_refusal_on_the_slow_path_names_the_field_as_well() -> None:
    with pytest.raises(InvalidBody, match=r"^TokenRequest: sessionId: Field required$"):
        TokenRequest.from_json(rb'{"platform":"\ud800"}')


def test_a_long_path_to_the_field_is_cut_so_that_the_reason_still_shows() -> None:
    deep: object = object()
    for _ in range(100):
        deep = [deep]
    with pytest.raises(
        InvalidBody, match=r"^Message: metadata\.a\..*…: input was not a valid JSON"
    ):
        Message.from_object({"role": "user", "metadata": {"a": deep}})


def test_the_last_of_two_equal_keys_counts() -> None:
    body = b'{"role":"a","role":"b","metadata":{"k":1,"k":2}}'
    assert Message.from_json(body) == Message(role="b", metadata={"k": 2})
    slow = Message.from_json(body.replace(b'"a"', rb'"\ud800"'))
    assert slow == Message(role="b", metadata={"k": 2})


def test_numbers_that_json_does_not_have_leave_as_null() -> None:
    message = Message.from_json(message_with(b'{"a":1e999,"b":NaN,"c":-Infinity}'))
    assert message.to_json() == message_with(b'{"a":null,"b":null,"c":null}')
    assert message.to_object()["metadata"] == {"a": None, "b": None, "c": None}


def test_numbers_that_json_does_not_have_may_be_in_metadata_until_it_is_written() -> None:
    message = Message(role="user", metadata={"a": math.inf, "b": [math.nan]})
    assert message.to_json() == b'{"role":"user","metadata":{"a":null,"b":[null]}}'
    assert message.to_object()["metadata"] == {"a": None, "b": [None]}


FLOATS = [
    (cls, field.alias or name)
    for _, cls in EVERY
    for name, field in cls.model_fields.items()
    if "float" in str(field.annotation)
]


@pytest.mark.parametrize(("cls", "alias"), FLOATS)
@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-1e999"])
def test_a_number_that_is_none_is_refused_in_every_field(
    cls: type[Contract], alias: str, number: bytes
) -> None:
    body = {**EXAMPLES[cls.__name__].to_object(), alias: "?"}
    with pytest.raises(InvalidBody, match=alias):
        cls.from_json(compact(body).replace(b'"?"', number))


def test_a_huge_integer_is_a_number_like_any_other() -> None:
    body = b'{"sessionId":"s","limit":' + b"9" * 400 + b"}"
    assert HistoryGet.from_json(body).to_json() == body


def test_a_stored_null_is_a_value() -> None:
    put = MetadataPut(namespace="n", key="k", value=None)
    assert MetadataPut.from_json(put.to_json()) == put


# Inside ------------------------------------------------------------------------------------------


def test_a_contract_is_built_by_python_names_or_by_those_of_the_wire() -> None:
    assert TokenRequest.model_validate({"sessionId": "s"}) == TokenRequest(session_id="s")


def test_a_contract_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        FunctionCall(name="f").name = "g"  # type: ignore[misc]


def test_building_a_contract_with_null_gives_the_default() -> None:
    assert FunctionCall.model_validate({"name": "f", "arguments": None}).arguments == ""
