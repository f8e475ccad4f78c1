"""Tool calls put together from fragments (LLM-6), with the streams that broke other programs."""

import json
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aalis_contracts.text import JsonObject
from aalis_llm.assembly import CallAssembly

Fragments = list[dict[str, object]]


def part(arguments: object = None, **fields: object) -> dict[str, object]:
    """Return a fragment; None means that the key is absent."""
    function = {"name": fields.pop("name", None), "arguments": arguments}
    kept = {key: value for key, value in function.items() if value is not None}
    return {**{k: v for k, v in fields.items() if v is not None}, "function": kept}


def assembled(fragments: Fragments) -> list[tuple[str, str, str]]:
    assembly = CallAssembly()
    for fragment in fragments:
        assembly.add(cast("JsonObject", fragment))
    return [(c.id, c.function.name, c.function.arguments) for c in assembly.calls()]


CASES: list[tuple[str, Fragments, list[tuple[str, str, str]]]] = [
    (
        "fragments of two calls, interleaved",
        [
            part("", index=0, id="a", name="f"),
            part("", index=1, id="b", name="g"),
            part('{"x"', index=0),
            part('{"y"', index=1),
            part(":1}", index=0),
            part(":2}", index=1),
        ],
        [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')],
    ),
    (
        "the list grows and repeats itself",
        [
            part("{}", index=0, id="t1", name="f"),
            part("{}", index=0, id="t1", name="f"),
            part("{}", index=1, id="t2", name="g"),
            part("{}", index=0, id="t1", name="f"),
            part("{}", index=1, id="t2", name="g"),
            part("{}", index=2, id="t3", name="h"),
        ],
        [("t1", "f", "{}"), ("t2", "g", "{}"), ("t3", "h", "{}")],
    ),
    (
        "a call sent whole again with more in it",
        [
            part('{"a":1', index=0, id="t", name="f"),
            part('{"a":1,"b":2}', index=0, id="t", name="f"),
        ],
        [("t", "f", '{"a":1,"b":2}')],
    ),
    (
        "no index at all, two ids",
        [part('{"a":1}', id="g1", name="f"), part('{"a":2}', id="g2", name="f")],
        [("g1", "f", '{"a":1}'), ("g2", "f", '{"a":2}')],
    ),
    (
        "no index, the rest without id",
        [part("", id="g1", name="f"), part('{"a"'), part(":1}"), part("{}", id="g2", name="g")],
        [("g1", "f", '{"a":1}'), ("g2", "g", "{}")],
    ),
    (
        "neither index nor id, two names",
        [part("{}", name="f"), part("{}", name="g"), part('{"a":1}', name="g")],
        [("call_0", "f", "{}"), ("call_1", "g", "{}"), ("call_2", "g", '{"a":1}')],
    ),
    (
        "gaps, and a first index of 1",
        [part("{}", index=3, id="p3", name="g"), part("{}", index=1, id="p1", name="f")],
        [("p1", "f", "{}"), ("p3", "g", "{}")],
    ),
    (
        "two ids under one index",
        [
            part('{"n":1}', index=0, id="x1", name="f"),
            part('{"n":', index=0, id="x2", name="g"),
            part("2}", index=0),
        ],
        [("x1", "f", '{"n":1}'), ("x2", "g", '{"n":2}')],
    ),
    (
        "one id under growing indexes",
        [
            part('{"n"', index=0, id="x", name="f"),
            part(":", index=1, id="x"),
            part("1}", index=1),
        ],
        [("x", "f", '{"n":1}')],
    ),
    (
        "two calls that share an id",
        [
            part('{"a":1}', index=0, id="call_1", name="f"),
            part('{"b":2}', index=1, id="call_1", name="g"),
            part('{"a":3}', index=2, id="call_1", name="g"),
        ],
        [
            ("call_1", "f", '{"a":1}'),
            ("call_1-2", "g", '{"b":2}'),
            ("call_1-3", "g", '{"a":3}'),
        ],
    ),
    (
        "a first fragment without its id",
        [part("", index=0, name="f"), part("{}", index=0, id="late")],
        [("late", "f", "{}")],
    ),
    (
        "the name in every fragment",
        [
            part('{"a":"}', index=0, id="n", name="f"),
            part('"}', index=0, id="n", name="f"),
        ],
        [("n", "f", '{"a":"}"}')],
    ),
    (
        "arguments as an object, indexes as text, numbers as ids",
        [part({"a": "é"}, index="0", id=7, name="f"), part([1], index=True, id="l", name="g")],
        [("7", "f", '{"a":"é"}'), ("l", "g", "[1]")],
    ),
    ("a slot without name and arguments is no call", [part("", index=0, id="x")], []),
    ("a blank name with arguments is one", [part("{}", name="  ")], [("call_0", "  ", "{}")]),
    ("a cut call stays cut", [part('{"a":"b', id="rw", name="f")], [("rw", "f", '{"a":"b')]),
    ("a fragment of nothing", [{"function": None}, {}], []),
]


@pytest.mark.parametrize(
    ("fragments", "calls"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_the_calls_that_were_meant_come_out(
    fragments: Fragments, calls: list[tuple[str, str, str]]
) -> None:
    assert assembled(fragments) == calls


ARGUMENTS = st.dictionaries(st.text(max_size=5), st.text(max_size=8), max_size=3).map(json.dumps)


@given(st.lists(ARGUMENTS, min_size=1, max_size=4), st.data(), st.booleans())
def test_arguments_split_anywhere_are_whole_again(
    arguments: list[str],
    data: st.DataObject,
    indexed: bool,
) -> None:
    fragments: Fragments = []
    for number, text in enumerate(arguments):
        index = number if indexed else None
        fragments.append(part("", index=index, id=f"c{number}", name="f"))
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
        for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
            fragments.append(part(text[start:end], index=index))

    assert [call[2] for call in assembled(fragments)] == arguments


def test_progress_names_the_call_and_counts_its_characters() -> None:
    assembly = CallAssembly()
    first = assembly.add({"index": 4, "id": "a", "function": {"name": "f", "arguments": '{"a'}})
    second = assembly.add({"index": 4, "function": {"arguments": '":1}'}})

    assert (first.index, first.name, first.chars_accumulated) == (0, "f", 3)
    assert (second.index, second.name, second.chars_accumulated) == (0, "f", 7)


def test_what_else_a_provider_says_about_a_call_is_kept() -> None:
    assembly = CallAssembly()
    assembly.add(
        {
            "id": "a",
            "extra_content": {"google": {"thought_signature": "S"}},
            "function": {"name": "f", "arguments": "{}", "note": "n\ud83d"},
        }
    )

    assert assembly.calls()[0].to_object() == {
        "id": "a",
        "type": "function",
        "extra_content": {"google": {"thought_signature": "S"}},
        "function": {"name": "f", "arguments": "{}", "note": "n\ufffd"},
    }


def test_many_fragments_take_linear_work() -> None:
    many: Fragments = [part("x", index=0, id="a", name="f") for _ in range(100_000)]

    assert len(assembled(many)[0][2]) == 100_000
