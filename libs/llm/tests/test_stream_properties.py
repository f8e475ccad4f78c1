"""Whatever a server puts into its frames, reading them gives an answer or a `ModelError`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from aalis_llm.anthropic_stream import AnthropicStream
from aalis_llm.errors import ModelError
from aalis_llm.openai_stream import OpenAIStream
from aalis_sdk.testing.properties import examples

if TYPE_CHECKING:
    from aalis_contracts.models import ChatChunk

words = st.sampled_from(["", "x", "{}", '{"a":1}', "\ud83d", "tool_use", "text", "stop", "1"])
leaves = st.none() | st.booleans() | st.integers(-3, 5) | st.floats() | words
keys = st.sampled_from(["index", "id", "function", "name", "arguments", "type", "text", "usage"])
junk = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=5,
)


def mostly(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw an object with some of its fields, some of them not what they should be."""
    optional = {name: field | junk for name, field in fields.items()}
    return st.fixed_dictionaries({}, optional=optional)


ids, pieces = st.sampled_from(["a", "b", ""]), st.sampled_from(["", '{"a":', "1}", "{}"])
functions = mostly(name=st.sampled_from(["f", "g", ""]), arguments=pieces)
fragments = mostly(index=st.integers(-1, 3), id=ids, function=functions, extra=junk)
deltas = mostly(
    content=st.sampled_from(["hi", ""]),
    reasoning_content=st.just("r"),
    tool_calls=st.lists(fragments | junk, max_size=3),
    function_call=fragments,
    refusal=junk,
)
finishes = st.sampled_from(["stop", "tool_calls", "length", ""])
choices = mostly(index=st.integers(0, 1), delta=deltas, message=deltas, finish_reason=finishes)
usages = mostly(prompt_tokens=st.integers(), completion_tokens=st.floats())
frames = mostly(choices=st.lists(choices | junk, max_size=2), usage=usages)

kinds = st.sampled_from(["text", "tool_use", "thinking", "redacted_thinking"])
blocks = mostly(type=kinds, text=words, id=ids, name=words, input=junk, signature=words)
growths = st.sampled_from(["text_delta", "thinking_delta", "signature_delta", "input_json_delta"])
steps = st.sampled_from(
    ["message_start", "content_block_start", "content_block_delta", "message_delta", "message"]
)
events = mostly(
    type=steps,
    index=st.integers(-1, 2),
    message=mostly(usage=junk),
    content_block=blocks,
    delta=mostly(type=growths, text=words, thinking=words, partial_json=pieces, stop_reason=words),
    usage=junk,
    content=st.lists(blocks | junk, max_size=2),
)


def assert_is_an_answer(last: ChatChunk) -> None:
    last.to_json()
    names = [call.id for call in last.tool_calls or ()]
    assert len(set(names)) == len(names)
    assert all(names)


@examples(150)
@given(st.lists(frames, max_size=5), st.booleans(), st.booleans())
def test_openai_frames_of_any_kind_can_be_read(
    received: list[dict[str, Any]], terminated: bool, leaks: bool
) -> None:
    stream = OpenAIStream("p", "m", recovers_leaks=leaks)
    try:
        for frame in received:
            list(stream.add(frame))
        last = stream.finish(terminated=terminated)
    except ModelError:
        return
    assert_is_an_answer(last)


@examples(150)
@given(st.lists(events, max_size=6))
def test_anthropic_events_of_any_kind_can_be_read(received: list[dict[str, Any]]) -> None:
    stream = AnthropicStream()
    try:
        for event in received:
            list(stream.add(event))
        last = stream.finish()
    except ModelError:
        return
    assert_is_an_answer(last)
