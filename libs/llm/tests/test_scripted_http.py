"""The scripted server refuses what the real APIs refuse: no test passes by its mercy."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from aalis_llm.script_file import parse_script
from aalis_llm.scripted_http import ScriptedServer

SCRIPT = "rules:\n- when: {iteration: 0}\n  think: hm\n  reply: a\n  call: [{tool: f}]\n- reply: b"
USER: dict[str, Any] = {"role": "user", "content": "q"}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLED = {"role": "assistant", "content": "", "tool_calls": [CALL]}
RESULT = {"role": "tool", "content": "r", "tool_call_id": "c"}
USE: dict[str, Any] = json.loads(
    '{"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]}'
)
ANSWERED = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": "c", "content": "r"}],
}
THOUGHT = {
    "role": "assistant",
    "content": [{"type": "thinking", "thinking": "t", "signature": "forged"}],
}
BLANK = {"role": "user", "content": [{"type": "text", "text": " "}]}
THINKING = {"type": "enabled", "budget_tokens": 1024}


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer(parse_script(SCRIPT)) as started:
        yield started


async def post(server: ScriptedServer, path: str, **body: object) -> httpx2.Response:
    async with httpx2.AsyncClient() as client:
        return await client.post(server.url + path, json={"model": "demo", **body})


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([], "too short"),
        ([USER, CALLED], "without results"),
        ([USER, CALLED, USER], "without results"),
        ([USER, RESULT], "answers no tool_call"),
        (
            [
                USER,
                {**CALLED, "tool_calls": [{**CALL, "function": {"name": "f", "arguments": "["}}]},
                RESULT,
            ],
            "no JSON object",
        ),
        ([{"content": "no role"}], "invalid request"),
    ],
)
async def test_an_invalid_completion_request_is_refused(
    server: ScriptedServer, messages: list[dict[str, Any]], complaint: str
) -> None:
    answer = await post(server, "/chat/completions", messages=messages)

    assert answer.status_code == 400
    assert complaint in answer.json()["error"]["message"]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"messages": [USER]}, "max_tokens"),
    ({"max_tokens": 9, "messages": []}, "first role"),
    ({"max_tokens": 9, "messages": [USE, ANSWERED]}, "first role"),
    ({"max_tokens": 9, "messages": [{"role": "system", "content": "s"}]}, "first role"),
    ({"max_tokens": 9, "messages": [USER, USER]}, "alternate"),
    ({"max_tokens": 9, "messages": [USER, USE]}, "last role"),
    ({"max_tokens": 9, "messages": [BLANK]}, "non-whitespace"),
    ({"max_tokens": 9, "messages": [USER, THOUGHT, USER]}, "signature"),
    ({"max_tokens": 9, "messages": [USER], "thinking": THINKING}, "budget_tokens"),
    (
        {"max_tokens": 2000, "messages": [USER], "thinking": THINKING, "temperature": 0},
        "temperature",
    ),
    (
        {"max_tokens": 2000, "messages": [USER, USE, ANSWERED], "thinking": THINKING},
        "Expected `thinking`",
    ),
]


@pytest.mark.parametrize(("body", "complaint"), REFUSED)
async def test_an_invalid_messages_request_is_refused(
    server: ScriptedServer, body: dict[str, object], complaint: str
) -> None:
    answer = await post(server, "/messages", **body)

    assert answer.status_code == 400
    assert complaint in answer.json()["error"]["message"]


async def test_whole_answers_have_the_form_of_their_api(server: ScriptedServer) -> None:
    openai = (await post(server, "/chat/completions", messages=[USER])).json()
    anthropic = (await post(server, "/messages", messages=[USER], max_tokens=9)).json()
    second = await post(server, "/chat/completions", messages=[USER, CALLED, RESULT])

    message = openai["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("a", "hm")
    assert message["tool_calls"][0]["function"] == {"name": "f", "arguments": "{}"}
    assert [block["type"] for block in anthropic["content"]] == ["thinking", "text", "tool_use"]
    assert anthropic["stop_reason"] == "tool_use"
    assert second.json()["choices"][0]["message"] == {"role": "assistant", "content": "b"}


async def test_a_stream_reports_usage_only_when_asked(server: ScriptedServer) -> None:
    silent = await post(server, "/chat/completions", messages=[USER], stream=True)
    asked = await post(
        server,
        "/chat/completions",
        messages=[USER],
        stream=True,
        stream_options={"include_usage": True},
    )

    assert "prompt_tokens" not in silent.text
    assert "prompt_tokens" in asked.text
    assert silent.text.endswith("data: [DONE]\n\n")


async def test_everything_asked_is_remembered(server: ScriptedServer) -> None:
    await post(server, "/chat/completions", messages=[USER])
    async with httpx2.AsyncClient() as client:
        listed = (await client.get(f"{server.url}/models")).json()

    assert [each["id"] for each in listed["data"]] == ["demo", "tiny"]
    assert [recorded.path for recorded in server.requests] == ["/v1/chat/completions", "/v1/models"]
    assert server.bodies == [{"model": "demo", "messages": [USER]}]
