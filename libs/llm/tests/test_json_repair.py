"""JSON out of what a model wrote around it, or did not finish (TXT-3)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aalis_llm.json_repair import extract_object


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('Sure! ```json\n{"a": 1}\n``` Done.', {"a": 1}),
        ('{"a": 1} then {"b": 2}', {"b": 2}),
        ('{"a": 1} then {}', {"a": 1}),
        ('use { for blocks, {"a": {"b": "}"}}', {"a": {"b": "}"}}),
        ('{"outer": {"inner": 1}, "text": "cut of', {"outer": {"inner": 1}, "text": "cut of"}),
        ('{"a": 1} and {"b": 2, "c', {"a": 1}),
        ('{"a": [1, 2}', {"a": [1, 2]}),
        ('{"a": {"b": [1, {"c": 2', {"a": {"b": [1, {"c": 2}]}}),
        ('{"a": 1,}', {"a": 1}),
        ('{"a": [1, 2, ], }', {"a": [1, 2]}),
        ('{"a": 1, "b"', {"a": 1}),
        ('{"a": 1, "b":', {"a": 1}),
        ('{"a": 1, "b": tru', {"a": 1}),
        ('{"a": 1,', {"a": 1}),
        ('{"a": "x\\', {"a": "x"}),
        ('{"a": "x\\u00', {"a": "x"}),
        ('{"a": "x\\n', {"a": "x\n"}),
        ('{"a": "line\nbreak"}', {"a": "line\nbreak"}),
        ('{"a": 1]}', {"a": 1}),
        ('{"a": "say \\"hi\\" {"}', {"a": 'say "hi" {'}),
        ('{"a": b} {"c": 1', {"c": 1}),
        ("no json", None),
        ("", None),
        ("{", None),
        ("{}", None),
        ("[1, 2]", None),
        ('{"a" 1}', None),
        ('{"a":' * 100_000, None),
        ('{"a": ' + "9" * 5000 + "}", None),
    ],
)
def test_the_object_that_was_meant_is_found(text: str, value: object) -> None:
    assert extract_object(text) == value


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-999, 999) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=4), VALUES, min_size=1, max_size=3)


@given(OBJECTS, st.sampled_from(["", "Here: ", "```json\n", "{ "]))
def test_any_object_is_found_in_prose(value: dict[str, object], before: str) -> None:
    assert extract_object(f"{before}{json.dumps(value)}\n```") == value


@given(OBJECTS, st.data())
def test_an_object_cut_anywhere_raises_nothing_and_invents_no_key(
    value: dict[str, object], data: st.DataObject
) -> None:
    text = json.dumps(value)
    found = extract_object(text[: data.draw(st.integers(0, len(text)))])

    assert found is None or set(found) <= set(value)


@given(st.text(alphabet='{}[]",:\\a1 \n', max_size=60))
def test_no_text_raises(text: str) -> None:
    found = extract_object(text)

    assert found is None or isinstance(json.dumps(found), str)


@pytest.mark.parametrize(
    "unit",
    ['{"', "{", '{"a":', "[", '{"a":[', "]", '{"a":1,', "\\", '"', '{"a":1}', "},", '{"":[}'],
)
def test_no_text_makes_it_slow(unit: str) -> None:
    text = unit * 50_000

    assert extract_object(text) is None or len(text) > 0
    assert extract_object('{"a": ' + unit * 20_000) is None or len(text) > 0
