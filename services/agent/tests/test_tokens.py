"""What things cost, and that each is counted once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aalis_agent.tokens import (
    HEAVY,
    IMAGE_COST,
    SLICE,
    Calibration,
    Counter,
    HeuristicCounter,
    TiktokenCounter,
    heavy,
)
from aalis_contracts.messages import FunctionCall, Message, ToolCall
from aalis_contracts.text import compact_json
from aalis_contracts.tools import FunctionDefinition, ToolDefinition
from aalis_llm.heuristic import message_cost, text_cost, tools_cost


class Tape:
    """An encoder that counts characters and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, text: str) -> int:
        self.asked.append(text)
        return len(text)


def call(name: str = "f", arguments: str = "{}", **extra: object) -> ToolCall:
    function = FunctionCall(name=name, arguments=arguments)
    return ToolCall.model_validate({"id": "c1", "function": function, **extra})


def tool(name: str) -> ToolDefinition:
    return ToolDefinition(function=FunctionDefinition(name=name, description="does 某事"))


FULL = Message(
    role="assistant",
    content="text",
    reasoning_content="why",
    tool_calls=[call(arguments='{"q":"天气"}')],
    name="u1",
    images=["data:image/png;base64,AAAA", "https://x/y.png"],
    metadata={"long": "x" * 1000},
)


def test_a_message_costs_four_and_its_texts() -> None:
    assert HeuristicCounter().message(Message(role="user")) == 4
    assert HeuristicCounter().message(FULL) == message_cost(FULL)
    assert HeuristicCounter().text("天气ab") == 4


def test_the_vocabulary_counter_adds_the_name_and_the_images() -> None:
    plain = FULL.model_copy(update={"name": None, "images": None})
    counter = TiktokenCounter(Tape())
    assert counter.message(FULL) - counter.message(plain) == len("u1") + 1 + 2 * IMAGE_COST


def test_calls_are_counted_as_the_json_they_are_stored_as() -> None:
    tape = Tape()
    plain = Message(role="assistant", tool_calls=[call(), call("g", '{"天":1}')])
    TiktokenCounter(tape).message(plain)
    assert tape.asked == [compact_json([c.to_object() for c in plain.tool_calls or ()])]


def test_extra_keys_of_calls_are_counted_too() -> None:
    tape = Tape()
    outside = Message(role="assistant", tool_calls=[call(thought_signature="SIG")])
    function = FunctionCall.model_validate({"name": "f", "strict": True})
    inside = Message(role="assistant", tool_calls=[ToolCall(id="c1", function=function)])
    counter = TiktokenCounter(tape)
    counter.messages([outside, inside])
    assert "thought_signature" in tape.asked[0]
    assert "strict" in tape.asked[1]


def test_tool_definitions_cost_their_array_and_nothing_when_there_are_none() -> None:
    tools = [tool("a"), tool("b")]
    assert HeuristicCounter().tools([]) == 0
    assert HeuristicCounter().tools(tools) == tools_cost(tools)


def test_a_set_of_tool_definitions_is_counted_once() -> None:
    tape = Tape()
    counter = TiktokenCounter(tape)
    tools = [tool("a"), tool("b")]
    assert counter.tools(tools) == counter.tools(list(tools))
    assert len(tape.asked) == 1


def test_many_sets_of_tool_definitions_are_not_all_kept() -> None:
    tape = Tape()
    counter = TiktokenCounter(tape, memory=0)
    sets = [[tool(f"t{number}")] for number in range(70)]
    assert [counter.tools(one) for one in sets] == [counter.tools(one) for one in sets]
    assert 70 < len(tape.asked) <= 140


def test_equal_messages_are_counted_once_whatever_object_says_them() -> None:
    tape = Tape()
    counter = TiktokenCounter(tape)
    once = counter.messages([FULL])
    asked = len(tape.asked)
    again = Message.from_json(FULL.to_json())
    assert counter.messages([again]) == once
    assert len(tape.asked) == asked


def test_a_shortened_part_is_the_only_one_counted_again() -> None:
    tape = Tape()
    counter = TiktokenCounter(tape)
    counter.message(FULL)
    tape.asked.clear()
    counter.message(FULL.model_copy(update={"reasoning_content": "w"}))
    assert tape.asked == ["w"]


def test_what_is_remembered_is_bounded_and_what_is_used_stays() -> None:
    tape = Tape()
    counter = TiktokenCounter(tape, memory=4_000)
    for number in range(200):
        counter.text("often used")
        counter.text(f"{number:0100}")
    assert tape.asked.count("often used") == 1
    tape.asked.clear()
    for number in range(200):
        counter.text(f"{number:0100}")
    assert len(tape.asked) >= 180


def test_a_text_larger_than_the_memory_is_counted_and_not_kept() -> None:
    tape = Tape()
    counter = TiktokenCounter(tape, memory=1_000)
    counter.text("small")
    assert counter.text("x" * 600) == counter.text("x" * 600) == 600
    assert counter.text("small") == 5
    assert [len(text) for text in tape.asked] == [5, 600, 600]


def test_long_texts_are_encoded_in_slices() -> None:
    tape = Tape()
    assert TiktokenCounter(tape).text("x" * (2 * SLICE + 1)) == 2 * SLICE + 1
    assert [len(text) for text in tape.asked] == [SLICE, SLICE, 1]


def test_a_slice_that_cannot_be_encoded_is_estimated() -> None:
    def encode(text: str) -> int:
        raise ValueError(text)

    assert TiktokenCounter(encode).text("天气 please") == text_cost("天气 please")


LONG = "x" * (HEAVY + 1)


@pytest.mark.parametrize(
    "messages",
    [
        [FULL, Message(role="user", content=LONG)],
        [FULL, Message(role="assistant", reasoning_content=LONG)],
        [FULL, Message(role="assistant", tool_calls=[call(arguments=LONG)])],
        [Message(role="user", content="x" * 1_000)] * (HEAVY // 1_000 + 1),
    ],
    ids=["text", "reasoning", "arguments", "many small ones"],
)
def test_what_is_long_together_is_heavy(messages: list[Message]) -> None:
    assert heavy(messages)


def test_what_is_short_together_is_not_heavy() -> None:
    assert not heavy([FULL, Message(role="user", content="x" * (HEAVY - 200))])
    assert not heavy([])


def test_both_counters_say_who_they_are() -> None:
    counters: list[Counter] = [HeuristicCounter(), TiktokenCounter(len)]
    assert [counter.name for counter in counters] == ["heuristic", "tiktoken"]


@given(st.text(max_size=300))
def test_no_text_costs_less_than_nothing_or_raises(text: str) -> None:
    assert HeuristicCounter().text(text) == text_cost(text) >= 0


def test_a_calibration_knows_nothing_before_the_first_report() -> None:
    assert Calibration().calibrated(1000) is None
    assert Calibration().after(0, 100) == Calibration().after(100, 0) == Calibration()


@pytest.mark.parametrize(
    ("prompt_tokens", "estimate", "factor"),
    [(1000, 1000, 1.0), (1250, 1000, 1.05), (9000, 1000, 1.1), (100, 1000, 0.96)],
)
def test_a_report_moves_the_factor_by_a_fifth_within_limits(
    prompt_tokens: int, estimate: int, factor: float
) -> None:
    assert Calibration().after(prompt_tokens, estimate).factor == pytest.approx(factor)


def test_a_calibrated_figure_rounds_halves_up() -> None:
    assert Calibration(factor=1.05, reports=1).calibrated(10) == 11
    assert Calibration(factor=1.04, reports=1).calibrated(10) == 10
