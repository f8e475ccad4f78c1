"""Text at the edges: well-formed Unicode, one way to cut, one way to write JSON."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aalis_contracts.text import (
    MAX_NESTING,
    JsonObject,
    any_json,
    compact_json,
    cut,
    one_line,
    parse_object,
    well_formed,
    well_formed_json,
)

any_text = st.text(st.characters())
"""Lone surrogates included."""


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", {}),
        (' {"a": [1, null]} ', {"a": [1, None]}),
        (r'{"a": "x\ud83d", "\udc00": "\ud83d\ude42"}', {"a": "x\ufffd", "\ufffd": "🙂"}),
        ('{"a": 1e999}', {"a": None}),
        ('{"a":' * 240 + "1" + "}" * 240, ...),
    ],
)
def test_the_text_of_an_object_is_read(text: str, value: object) -> None:
    read = parse_object(text)
    assert value is ... or read == value
    compact_json(read).encode()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value"),
        ('{"a": ', "Expecting value"),
        ('{"a": 1} x', "Extra data"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": -Infinity}', "-Infinity is not JSON"),
        ("[]", "list instead of an object"),
        ("3", "int instead of an object"),
        ("null", "NoneType instead of an object"),
        ('"x"', "str instead of an object"),
        ('{"a":' * 241 + "1" + "}" * 241, "nested more than 240 levels deep"),
        ('{"a":' * 100_000, "nested more than 240 levels deep"),
        ('{"a": ' + "1" * 5_000 + "}", "limit"),
    ],
)
def test_what_is_no_object_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_object(text)


@pytest.mark.parametrize(
    ("broken", "mended"),
    [
        ("", ""),
        ("plain", "plain"),
        ("中文 🙂 é", "中文 🙂 é"),
        (chr(0xD800), "\ufffd"),
        (chr(0xDFFF), "\ufffd"),
        ("a\ud83db", "a\ufffdb"),
        ("\udc00\ud800", "\ufffd\ufffd"),
        ("\ud83d\ude42", "🙂"),
        ("\ud83d\ud83d\ude42", "\ufffd🙂"),
    ],
)
def test_a_lone_surrogate_becomes_a_replacement_and_a_pair_becomes_its_character(
    broken: str, mended: str
) -> None:
    assert well_formed(broken) == mended


@given(any_text)
def test_mended_text_can_be_written_as_utf8_and_stays_as_it_is(text: str) -> None:
    mended = well_formed(text)
    assert mended.encode().decode() == mended
    assert well_formed(mended) is mended


@given(st.text())
def test_well_formed_text_comes_back_as_the_same_object(text: str) -> None:
    assert well_formed(text) is text


def test_keys_and_values_are_mended_at_every_depth() -> None:
    value = {"a\ud800": ["\udc00", {"k": "\ud83d\ude42"}], "n": [1, 2.5, True, None]}
    assert well_formed_json(value) == {
        "a\ufffd": ["\ufffd", {"k": "🙂"}],
        "n": [1, 2.5, True, None],
    }


def test_nan_and_infinity_become_null() -> None:
    assert well_formed_json([math.nan, math.inf, -math.inf, 1.0]) == [None, None, None, 1.0]


def test_mending_leaves_its_input_alone() -> None:
    value = {"a": ["\ud800"]}
    well_formed_json(value)
    assert value == {"a": ["\ud800"]}


def test_the_limit_of_nesting_does_not_depend_on_the_stack() -> None:
    assert well_formed_json(nested(MAX_NESTING)) == nested(MAX_NESTING)
    with pytest.raises(RecursionError):
        well_formed_json(nested(MAX_NESTING + 1))


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("", 0, ""),
        ("abc", 3, "abc"),
        ("abcd", 3, "abc…"),
        ("abcd", 0, "…"),
        ("🙂🙂🙂", 2, "🙂🙂…"),
        ("中文字", 3, "中文字"),
    ],
)
def test_a_text_within_the_limit_is_unchanged_and_a_longer_one_is_head_plus_suffix(
    text: str, limit: int, expected: str
) -> None:
    assert cut(text, limit, "…") == expected


@given(st.text(), st.integers(0, 50), st.text(max_size=5))
def test_a_cut_text_is_at_most_the_limit_plus_the_suffix_and_stays_well_formed(
    text: str, limit: int, suffix: str
) -> None:
    result = cut(text, limit, suffix)
    assert result.encode().decode() == result
    if len(text) > limit:
        assert (result[:limit], result[limit:]) == (text[:limit], suffix)
    else:
        assert result is text


def test_one_line_folds_every_kind_of_white_space_and_is_cut() -> None:
    assert one_line("  a\r\n\tb  c\u2028d ") == "a b c d"
    assert one_line("abcdef", 3) == "abc…"


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values)
def test_compact_json_reads_back_as_the_same_value_and_holds_no_needless_byte(
    value: object,
) -> None:
    written = compact_json(value)
    assert json.loads(written) == value
    assert len(written) == len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def test_compact_json_keeps_the_order_of_keys_and_printable_characters() -> None:
    assert compact_json({"b": "中🙂", "a": [1, None]}) == '{"b":"中🙂","a":[1,null]}'


def test_compact_json_writes_null_for_what_json_has_no_number_for() -> None:
    assert compact_json({"a": [math.nan, math.inf], "b": 0.5}) == '{"a":[null,null],"b":0.5}'


class Opaque:
    pass


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": b"\x00\x01"}, '{"a":"<2 bytes>"}'),
        (bytearray(3), '"<3 bytes>"'),
        ({1, 2}, '"<set>"'),
        ([Opaque()], '["<Opaque>"]'),
        ({(1, 2): "x"}, '{"(1, 2)":"x"}'),
        (math.nan, "null"),
        ("\ud800", '"\ufffd"'),
        (nested(5_000), '"<list>"'),
    ],
)
def test_any_object_is_written_as_json_and_what_json_cannot_say_is_named(
    value: object, expected: str
) -> None:
    assert any_json(value) == expected


def test_a_value_that_contains_itself_is_named() -> None:
    loop: JsonObject = {}
    loop["self"] = loop
    assert any_json(loop) == '"<dict>"'


@given(json_values)
def test_any_json_writes_a_json_value_like_compact_json(value: object) -> None:
    assert any_json(value) == compact_json(well_formed_json(value))
