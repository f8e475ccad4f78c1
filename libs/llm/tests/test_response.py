"""Chunks put together (STR-4, CON-38)."""

from collections.abc import AsyncIterator

import pytest

from aalis_contracts.messages import FunctionCall, ToolCall, ToolCallProgress
from aalis_contracts.models import ChatChunk, Usage
from aalis_llm.port import ModelError
from aalis_llm.response import Collected, collect

CALL = ToolCall(id="c", function=FunctionCall(name="f", arguments="{}"))
USAGE = Usage(prompt_tokens=1, completion_tokens=2, total_tokens=3)


async def stream(*chunks: ChatChunk) -> AsyncIterator[ChatChunk]:
    for chunk in chunks:
        yield chunk


async def test_text_and_reasoning_are_joined_and_the_last_chunk_says_the_rest() -> None:
    response = await collect(
        stream(
            ChatChunk(reasoning_delta="be"),
            ChatChunk(reasoning_delta="cause"),
            ChatChunk(content_delta="He"),
            ChatChunk(tool_calls=[CALL], tool_call_progress=ToolCallProgress(index=0)),
            ChatChunk(content_delta="llo"),
            ChatChunk(done=True, finish_reason="length", usage=USAGE, provider_data={"a": 1}),
        )
    )

    assert response.content == "Hello"
    assert response.reasoning_content == "because"
    assert response.tool_calls is None
    assert response.finish_reason == "length"
    assert response.usage == USAGE
    assert response.provider_data == {"a": 1}


async def test_calls_are_taken_from_the_last_chunk_only() -> None:
    response = await collect(stream(ChatChunk(done=True, tool_calls=[CALL])))

    assert response.tool_calls == [CALL]
    assert response.finish_reason == "tool_calls"
    assert response.content is None


async def test_a_stream_without_its_last_chunk_is_cut() -> None:
    with pytest.raises(ModelError, match="cut"):
        await collect(stream(ChatChunk(content_delta="He")))


async def test_a_character_split_between_two_deltas_is_whole_again() -> None:
    response = await collect(
        stream(
            ChatChunk(content_delta="\ud83d"),
            ChatChunk(content_delta="\ude00 \ud83d"),
            ChatChunk(done=True),
        )
    )

    assert response.content == "😀 \ufffd"
    assert response.finish_reason == "stop"


@pytest.mark.parametrize(
    ("chunk", "begun"),
    [
        (ChatChunk(), False),
        (ChatChunk(content_delta=""), False),
        (ChatChunk(done=True), False),
        (ChatChunk(content_delta="a"), True),
        (ChatChunk(reasoning_delta="a"), True),
        (ChatChunk(tool_call_progress=ToolCallProgress(index=0)), True),
    ],
)
def test_an_answer_has_begun_with_its_first_delta(chunk: ChatChunk, *, begun: bool) -> None:
    collected = Collected()
    collected.add(chunk)

    assert collected.begun is begun
    assert collected.done is bool(chunk.done)
