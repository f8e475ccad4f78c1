"""The OpenAI adapter on a real connection: odd servers, limits, keys (LLM-3, 7, 9, 20 to 22)."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from aalis_contracts.models import ChatRequest
from aalis_llm.openai import OpenAIProvider
from aalis_llm.port import ModelError
from aalis_llm.response import collect
from aalis_llm.script_file import parse_script
from aalis_llm.scripted_http import ScriptedServer
from aalis_llm.settings import CustomModel, OpenAISettings, Patience

Serve = Callable[[Sequence[bytes]], "asyncio.Future[str]"]
HELLO = ChatRequest.from_object({"messages": [{"role": "user", "content": "hello"}]})
SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"
TEXT = b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'
STOP = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n'


@pytest.fixture
async def connect() -> AsyncIterator[Callable[..., OpenAIProvider]]:
    """Give a function that makes a provider with one model `m`."""
    made: list[OpenAIProvider] = []

    def connected(url: str, key: str = "", patience: Patience = Patience()) -> OpenAIProvider:  # noqa: B008 - frozen
        settings = OpenAISettings(
            provider_id="openai",
            api_key=key,
            base_url=url,
            custom_models=(CustomModel("m"),),
            patience=patience,
        )
        made.append(OpenAIProvider(settings))
        return made[-1]

    yield connected
    for provider in made:
        await provider.close()


Connect = Callable[..., OpenAIProvider]


@pytest.mark.parametrize(
    "portions",
    [
        [SSE, TEXT, STOP, b"data: [DONE]\n\n"],
        [SSE, TEXT + STOP],
        [SSE, TEXT, STOP.rstrip()],
        [SSE, *(TEXT[at : at + 1] for at in range(len(TEXT))), STOP],
        [SSE, b": warming up\n\n", TEXT, b"data: {broken\n\n", STOP],
        [SSE, TEXT.replace(b"\n", b"\r\n"), STOP.replace(b"data: ", b"data:")],
        [SSE, TEXT, STOP, b"data: [DONE]\n\n", b"HANG"],
        [SSE.replace(b"text/event-stream", b"text/plain"), TEXT, STOP],
        [JSON, b'{"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}'],
    ],
)
async def test_odd_but_readable_answers_are_read(
    serve_bytes: Serve, connect: Connect, portions: list[bytes]
) -> None:
    provider = connect(await serve_bytes(portions))

    assert (await collect(provider.stream("m", HELLO))).content == "a"


async def test_unreadable_frames_are_counted_in_one_warning(
    serve_bytes: Serve, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    provider = connect(await serve_bytes([SSE, b"data: {\n\ndata: }\n\n", TEXT, STOP]))
    await collect(provider.stream("m", HELLO))

    assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == [
        "2 unreadable frames of a model's answer skipped"
    ]


@pytest.mark.parametrize(
    ("portions", "kind"),
    [
        ([SSE, TEXT], "cut"),
        ([SSE], "cut"),
        ([], "connection"),
        ([b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nda"], "connection"),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n", TEXT], "connection"),
        ([b"nonsense\r\n\r\n"], "connection"),
        ([JSON, b"[1]"], "upstream"),
        ([JSON, b"oops"], "upstream"),
        ([JSON, b'{"error": {"message": "slow", "code": "rate_limit_exceeded"}}'], "rateLimit"),
        ([SSE, TEXT, b'data: {"error": {"message": "broke"}}\n\n'], "upstream"),
        ([b"HTTP/1.1 502 Bad Gateway\r\n\r\n<html><h1>Bad Gateway</h1></html>"], "upstream"),
        ([b"HTTP/1.1 429 Slow\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n"], "rateLimit"),
    ],
)
async def test_broken_answers_are_model_errors(
    serve_bytes: Serve, connect: Connect, portions: list[bytes], kind: str
) -> None:
    provider = connect(await serve_bytes(portions))
    with pytest.raises(ModelError) as caught:
        await collect(provider.stream("m", HELLO))

    assert caught.value.kind == kind
    assert caught.value.retry_after == (
        7 if kind == "rateLimit" and b"429" in portions[0] else None
    )
    assert "127.0.0.1" not in caught.value.message


async def test_leaked_calls_of_deepseek_are_recovered_with_a_warning(
    serve_bytes: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    leak = (
        "<｜DSML｜function_calls><｜DSML｜invoke name='f'>".replace("'", '\\"')
        + "</｜DSML｜invoke></｜DSML｜function_calls>"
    )
    frame = f'data: {{"choices": [{{"delta": {{"content": "{leak}"}}}}]}}\n\n'.encode()
    settings = OpenAISettings(
        provider_id="deepseek",
        api_key="k",
        base_url=await serve_bytes([SSE, frame, STOP]),
        custom_models=(CustomModel("m"),),
        profile="deepseek",
    )
    provider = OpenAIProvider(settings)
    response = await collect(provider.stream("m", HELLO))
    await provider.close()

    assert response.tool_calls is not None
    assert response.tool_calls[0].function.name == "f"
    assert "m: 4 leaked tool markers removed" in caplog.messages


async def test_a_model_that_is_not_listed_is_not_found(connect: Connect, dead_url: str) -> None:
    with pytest.raises(ModelError, match="notFound"):
        await anext(connect(dead_url).stream("gone", HELLO))


async def test_nobody_listening_is_a_connection_error(connect: Connect, dead_url: str) -> None:
    with pytest.raises(ModelError, match="connection"):
        await collect(connect(dead_url).stream("m", HELLO))


@pytest.mark.parametrize(
    "portions", [[b"HANG"], [SSE, b"HANG"], [SSE, TEXT, b"HANG"], [JSON, b"HANG"]]
)
async def test_a_call_ends_when_its_time_is_over(
    serve_bytes: Serve, connect: Connect, portions: list[bytes]
) -> None:
    provider = connect(await serve_bytes(portions), patience=Patience(whole=0.2))
    with pytest.raises(ModelError) as caught:
        await collect(provider.stream("m", HELLO))

    assert caught.value.kind == "timeout"
    assert caught.value.status is None


async def test_silence_is_reported_while_it_lasts(
    serve_bytes: Serve, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    impatient = Patience(whole=0.3, headers_warning=0.01, frame_warning=0.02)
    provider = connect(await serve_bytes([b"HANG"]), patience=impatient)
    with pytest.raises(ModelError):
        await collect(provider.stream("m", HELLO))

    told = [record.getMessage() for record in caplog.records if record.name.endswith("transport")]
    assert told == [
        "openai/m: no answer for 0.01 s, still waiting",
        "openai/m: no first frame for 0.02 s, still waiting",
    ]


async def test_a_key_is_sent_as_a_bearer_token_and_no_key_as_nothing(connect: Connect) -> None:
    async with ScriptedServer(parse_script("models: [{id: m, contextLength: 9}]")) as server:
        await collect(connect(server.url, "k-1").stream("m", HELLO))
        await collect(connect(f"{server.url}//").stream("m", HELLO))

        with_key, without = server.requests
    assert with_key.headers["authorization"] == "Bearer k-1"
    assert "authorization" not in without.headers
    assert with_key.path == without.path == "/v1/chat/completions"
    assert with_key.headers["x-aalis-attempt"] == "1"
    assert with_key.headers["x-aalis-purpose"] == "chat"


async def test_a_key_that_comes_back_in_an_error_is_hidden(
    serve_bytes: Serve, connect: Connect
) -> None:
    body = b'{"error": {"message": "Incorrect key geheim-1 at https://x.example/y"}}'
    head = b"HTTP/1.1 401 No\r\ncontent-type: application/json\r\n\r\n"
    provider = connect(await serve_bytes([head, body]), "geheim-1")
    with pytest.raises(ModelError) as caught:
        await collect(provider.stream("m", HELLO))

    assert caught.value.message == "Incorrect key … at …"
    assert "geheim" not in (caught.value.raw or "")


async def test_the_sdk_does_not_retry_on_its_own(connect: Connect) -> None:
    script = "models: [{id: m, contextLength: 9}]\nrules:\n- fail: {status: 503}"
    async with ScriptedServer(parse_script(script)) as server:
        with pytest.raises(ModelError):
            await collect(connect(server.url).stream("m", HELLO))

        assert len(server.requests) == 1


async def test_a_model_that_cannot_stream_is_asked_whole() -> None:
    script = "models: [{id: m, contextLength: 9}]\nrules:\n- {reply: abc, stream: {chunk: 1}}"
    async with ScriptedServer(parse_script(script)) as server:
        settings = OpenAISettings(
            provider_id="openai", base_url=server.url, provider_capabilities=("chat",)
        )
        provider = OpenAIProvider(settings)
        await provider.refresh()
        chunks = [chunk async for chunk in provider.stream("m", HELLO)]
        await provider.close()

    assert [chunk.content_delta for chunk in chunks] == ["abc", None]
