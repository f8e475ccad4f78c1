"""The scripted provider through the port (LLM-40 to LLM-45)."""

import asyncio
from contextlib import aclosing

import pytest

from aalis_contracts.models import ChatChunk, ChatRequest
from aalis_llm.port import ModelError, ModelProvider
from aalis_llm.response import collect
from aalis_llm.script_file import parse_script
from aalis_llm.scripted import ScriptedProvider

HELLO = ChatRequest.model_validate({"messages": [{"role": "user", "content": "hello"}]})


def provider(script: str) -> ModelProvider:
    return ScriptedProvider(parse_script(script))


async def chunks(script: str, request: ChatRequest = HELLO) -> list[ChatChunk]:
    return [chunk async for chunk in provider(script).stream("demo", request)]


async def test_an_answer_arrives_in_pieces_reasoning_first_and_done_last() -> None:
    script = "rules:\n- {think: abc, reply: defg, call: [{tool: f, args: {}}], stream: {chunk: 2}}"
    got = await chunks(script)

    assert [chunk.reasoning_delta for chunk in got[:2]] == ["ab", "c"]
    assert [chunk.content_delta for chunk in got[2:4]] == ["de", "fg"]
    assert got[4].tool_call_progress is not None
    assert got[4].tool_call_progress.name == "f"
    assert got[4].tool_call_progress.chars_accumulated == 2
    assert got[5].done
    assert got[5].finish_reason == "tool_calls"
    assert got[5].usage is not None
    assert len(got) == 6


async def test_the_same_request_gives_the_same_bytes() -> None:
    script = "rules:\n- {think: abc, reply: '{text}', stream: {chunk: 1, delayMs: 1, firstMs: 1}}"

    assert await chunks(script) == await chunks(script)


async def test_the_demo_serves_when_no_script_is_given() -> None:
    serving = ScriptedProvider()
    response = await collect(serving.stream("demo", HELLO))
    await serving.refresh()
    await serving.close()

    assert serving.provider_id == "scripted"
    assert response.content is not None
    assert "demo model" in response.content


@pytest.mark.parametrize(
    ("script", "kind", "status"),
    [
        ("rules:\n- fail: {status: 429, retryAfter: 2}", "rateLimit", 429),
        ("rules:\n- fail: {status: 400, code: content_filter}", "refused", 400),
        ("rules:\n- overflow: true", "overflow", 400),
        ("rules:\n- {reply: abc, cut: {after: 0}}", "connection", None),
        ("rules:\n- {reply: abc, cut: {after: 0, how: noDone}}", "cut", None),
    ],
)
async def test_failures_are_model_errors(script: str, kind: str, status: int | None) -> None:
    with pytest.raises(ModelError) as caught:
        await chunks(script)

    assert caught.value.kind == kind
    assert caught.value.status == status


async def test_a_wait_asked_for_is_passed_on() -> None:
    with pytest.raises(ModelError) as caught:
        await chunks("rules:\n- fail: {status: 503, retryAfter: 1.5}")

    assert caught.value.retry_after == 1.5


@pytest.mark.parametrize("how", ["drop", "noDone"])
async def test_a_cut_comes_after_so_many_chunks(how: str) -> None:
    script = f"rules:\n- {{reply: abcdef, stream: {{chunk: 2}}, cut: {{after: 2, how: {how}}}}}"
    stream = provider(script).stream("demo", HELLO)

    assert [(await anext(stream)).content_delta for _ in range(2)] == ["ab", "cd"]
    with pytest.raises(ModelError):
        await anext(stream)


async def test_a_whole_answer_without_its_terminator_is_an_answer() -> None:
    response = await collect(
        provider("rules:\n- {reply: ab, cut: {after: 9, how: noDone}}").stream("demo", HELLO)
    )

    assert response.content == "ab"
    with pytest.raises(ModelError, match="connection"):
        await chunks("rules:\n- {reply: ab, cut: {after: 9}}")


async def test_an_unknown_model_is_not_found() -> None:
    with pytest.raises(ModelError, match="notFound"):
        await anext(provider("").stream("other", HELLO))


async def test_a_hanging_answer_ends_when_it_is_aborted() -> None:
    stream = provider("rules:\n- hang: true").stream("demo", HELLO)
    waiting = asyncio.create_task(anext(stream))
    done, _ = await asyncio.wait([waiting], timeout=0.01)

    assert not done
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_stream_may_be_closed_at_any_chunk() -> None:
    async with aclosing(provider("rules:\n- reply: abcdef").stream("demo", HELLO)) as stream:
        assert (await anext(stream)).content_delta == "abcdef"
