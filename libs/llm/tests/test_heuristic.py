"""TOK-3 to TOK-5, by tables, against a slow definition, and on the texts that break counters."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aalis_contracts.messages import FunctionCall, Message, ToolCall
from aalis_contracts.tools import FunctionDefinition, ToolDefinition
from aalis_llm import heuristic
from aalis_llm.heuristic import message_cost, messages_cost, text_cost, tools_cost

WIDE = [
    (0x2E80, 0x9FFF),
    (0xA000, 0xA4FF),
    (0xAC00, 0xD7FF),
    (0xF900, 0xFAFF),
    (0xFE30, 0xFE4F),
    (0xFF00, 0xFFEF),
]


def slowly(text: str) -> int:
    """Count as SPEC TOK-3 says it, one character at a time."""
    total, run = 0.0, 0
    for character in text:
        if any(low <= ord(character) <= high for low, high in WIDE):
            total += 1.5 + math.ceil(run / 3.5)
            run = 0
        else:
            run += 1
    return math.ceil(total + math.ceil(run / 3.5))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (None, 0),
        ("", 0),
        ("a", 1),
        ("model ", 2),
        ("1234567", 2),
        ("12345678", 3),
        ("具sessio", 4),
        ("字", 2),
        ("字字", 3),
        ("<|endoftext|>", 4),
        ("👨‍👩‍👧", 2),
        ("\ud800", 1),
    ],
)
def test_a_text_costs_what_the_table_says(text: str | None, tokens: int) -> None:
    assert text_cost(text) == tokens


@given(
    st.text(alphabet=st.sampled_from("ab 字一,。\uff01👍\u2e7f\u2e80\ud7ff\ua4cf\n"), max_size=200)
)
def test_the_fast_count_equals_the_definition(text: str) -> None:
    assert text_cost(text) == slowly(text)
    for size in (1, 2, 7):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(heuristic, "PIECE", size)
            assert text_cost(text) == slowly(text)


@pytest.mark.parametrize(
    ("unit", "tokens"),
    [
        ("a", 285_715),
        (" ", 285_715),
        ("\n", 285_715),
        ("|", 285_715),
        ("👍", 285_715),
        ("字", 1_500_000),
        ("a字", 1_250_000),
    ],
)
def test_a_million_of_anything_is_counted(unit: str, tokens: int) -> None:
    assert text_cost(unit * (1_000_000 // len(unit))) == tokens


def test_a_message_costs_four_and_what_it_carries() -> None:
    call = ToolCall(id="c", function=FunctionCall(name="f", arguments='{"a":"字"}'))
    written = (
        '[{"id":"c","type":"function","function":{"name":"f","arguments":"{\\"a\\":\\"字\\"}"}}]'
    )
    message = Message(role="assistant", content="hello", tool_calls=[call], reasoning_content="why")

    assert message_cost(message) == 4 + 2 + 1 + text_cost(written)
    assert message_cost(Message(role="user")) == 4
    assert messages_cost([message, Message(role="user")]) == message_cost(message) + 4


def test_names_and_images_cost_nothing_here() -> None:
    assert (
        message_cost(Message(role="user", name="u" * 99, images=["data:image/png;base64,A"])) == 4
    )


def test_tool_definitions_cost_their_compact_json() -> None:
    tool = ToolDefinition(function=FunctionDefinition(name="f", description="d"))
    written = (
        '[{"type":"function","function":{"name":"f","description":"d",'
        '"parameters":{"type":"object","properties":{}}}}]'
    )

    assert tools_cost([tool]) == text_cost(written)
    assert tools_cost([]) == tools_cost(None) == 0
