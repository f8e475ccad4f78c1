"""The Anthropic adapter on a real connection: headers, signatures, odd servers (LLM-30 to 35)."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing

import pytest

from aalis_contracts.models import ChatRequest
from aalis_llm.anthropic import AnthropicProvider
from aalis_llm.port import ModelError
from aalis_llm.response import collect
from aalis_llm.script_file import parse_script
from aalis_llm.scripted_http import ScriptedServer
from aalis_llm.settings import AnthropicSettings, CustomModel
from aalis_llm.shape_reasoning import prefix_digest

Serve = Callable[[Sequence[bytes]], "asyncio.Future[str]"]
HELLO = ChatRequest.from_object({"messages": [{"role": "user", "content": "hello"}]})
SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


def provider(url: str, key: str = "") -> AnthropicProvider:
    settings = AnthropicSettings(
        provider_id="anthropic", api_key=key, base_url=url, custom_models=(CustomModel("m"),)
    )
    return AnthropicProvider(settings)


async def test_version_key_attempt_and_purpose_stand_in_headers() -> None:
    script = "models: [{id: m, contextLength: 9}]"
    async with ScriptedServer(parse_script(script)) as server:
        for key in ("k-1", ""):
            client = provider(f"{server.url}/", key)
            await collect(client.stream("m", HELLO.model_copy(update={"attempt": 2})))
            await client.close()
        with_key, without = server.requests

    assert with_key.path == "/v1/messages"
    assert with_key.headers["anthropic-version"]
    assert with_key.headers["x-api-key"] == "k-1"
    assert with_key.headers["x-aalis-attempt"] == "2"
    assert not {"x-api-key", "authorization"} & without.headers.keys()


async def test_signed_reasoning_is_kept_with_who_wrote_it_and_after_what() -> None:
    script = "models: [{id: m, contextLength: 9}]\nrules:\n- {think: because, reply: a}"
    async with ScriptedServer(parse_script(script)) as server:
        client = provider(server.url)
        response = await collect(client.stream("m", HELLO))
        await client.close()

    data = response.provider_data or {}
    assert (data["provider"], data["model"]) == ("anthropic", "m")
    assert data["prefix"] == prefix_digest(HELLO.messages)
    assert response.reasoning_content == "because"


async def test_an_error_event_ends_the_answer(serve_bytes: Serve) -> None:
    event = b'event: error\ndata: {"error": {"type": "overloaded_error", "message": "busy"}}\n\n'
    client = provider(await serve_bytes([SSE, event]))
    with pytest.raises(ModelError) as caught:
        await collect(client.stream("m", HELLO))
    await client.close()

    assert (caught.value.kind, caught.value.status) == ("upstream", 529)


async def test_reading_ends_with_the_last_event_whatever_the_server_does(
    serve_bytes: Serve,
) -> None:
    delta = b'event: message_delta\ndata: {"delta": {"stop_reason": "end_turn"}}\n\n'
    client = provider(
        await serve_bytes(
            [
                SSE,
                b"event: ping\ndata: {}\n\n",
                delta,
                b"event: message_stop\ndata: {}\n\n",
                b"HANG",
            ]
        )
    )
    async with aclosing(client.stream("m", HELLO)) as chunks:
        assert (await anext(chunks)).finish_reason == "stop"
    await client.close()


async def test_an_unknown_model_is_not_found() -> None:
    client = provider("http://127.0.0.1:9/v1")
    with pytest.raises(ModelError, match="notFound"):
        await anext(client.stream("gone", HELLO))
    await client.close()


@pytest.mark.parametrize("status", [400, 529])
async def test_an_error_answer_is_a_model_error(status: int) -> None:
    script = f"models: [{{id: m, contextLength: 9}}]\nrules:\n- fail: {{status: {status}}}"
    async with ScriptedServer(parse_script(script)) as server:
        client = provider(server.url)
        with pytest.raises(ModelError) as caught:
            await collect(client.stream("m", HELLO))
        await client.close()

    assert caught.value.status == status


async def test_nobody_listening_is_a_connection_error(dead_url: str) -> None:
    client = provider(dead_url)
    with pytest.raises(ModelError, match="connection"):
        await collect(client.stream("m", HELLO))
    await client.close()
