"""What is sent to OpenAI-compatible servers (LLM-20 to LLM-23)."""

import json
from typing import Any

import pytest

from aalis_contracts.models import ChatRequest, ModelEntry
from aalis_llm.openai_body import request_body
from aalis_llm.settings import OpenAIProfile, OpenAISettings

TOOL: dict[str, Any] = json.loads(
    '{"function": {"name": "f", "description": "d",'
    ' "parameters": {"type": "object", "properties": {}}}}'
)
PNG = "data:image/png;base64,AAAA"


def body(
    model: str = "gpt-4o",
    settings: OpenAISettings | None = None,
    capabilities: tuple[str, ...] = ("chat", "streaming"),
    messages: list[dict[str, Any]] | None = None,
    **request: object,
) -> dict[str, Any]:
    chosen = settings or OpenAISettings(provider_id="openai", api_key="k")
    entry = ModelEntry.from_object(
        {
            "providerId": "openai",
            "id": model,
            "contextLength": 1000,
            "capabilities": list(capabilities),
            "profile": chosen.profile,
        }
    )
    said = messages or [{"role": "user", "content": "hi"}]
    return request_body(ChatRequest.from_object({"messages": said, **request}), entry, chosen)


def settings(
    profile: OpenAIProfile = "openai", max_tokens: int = 4096, *, thinking_param: bool = False
) -> OpenAISettings:
    return OpenAISettings(
        provider_id="openai",
        api_key="k",
        profile=profile,
        max_tokens=max_tokens,
        thinking_param=thinking_param,
    )


DEEPSEEK = settings(profile="deepseek", max_tokens=8192)


def test_a_plain_question_has_just_what_it_needs() -> None:
    assert body() == {
        "model": "gpt-4o",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 4096,
        "temperature": 0.7,
    }


def test_what_the_request_says_goes_before_what_is_configured() -> None:
    sent = body(temperature=0, maxTokens=7)

    assert (sent["temperature"], sent["max_tokens"]) == (0, 7)


@pytest.mark.parametrize("model", ["o1", "o3-mini", "o4", "gpt-5", "gpt-5.2-codex"])
def test_reasoning_models_get_their_own_limit_and_no_temperature(model: str) -> None:
    sent = body(model, temperature=0.3, maxTokens=7)

    assert sent["max_completion_tokens"] == 7
    assert "temperature" not in sent
    assert "max_tokens" not in sent


@pytest.mark.parametrize("model", ["gpt-4o", "omni", "openai/o3", "ollama:o", "my-gpt-5"])
def test_other_models_get_the_usual_limit(model: str) -> None:
    assert body(model)["max_tokens"] == 4096


@pytest.mark.parametrize(
    ("param", "think", "sent"),
    [
        (True, True, {"type": "enabled"}),
        (True, False, {"type": "disabled"}),
        (True, None, None),
        (False, True, None),
        (False, False, None),
    ],
)
def test_thinking_is_said_only_where_it_is_switched_on_and_set(
    sent: object, *, param: bool, think: bool | None
) -> None:
    assert body(settings=settings(thinking_param=param), think=think).get("thinking") == sent


@pytest.mark.parametrize(
    ("think", "can", "sent"),
    [
        (True, False, "enabled"),
        (False, True, "disabled"),
        (None, True, "enabled"),
        (None, False, "disabled"),
    ],
)
def test_deepseek_is_always_told_whether_to_think(
    sent: str, *, think: bool | None, can: bool
) -> None:
    able = ("chat", "thinking") if can else ("chat",)
    told = body("deepseek-chat", DEEPSEEK, able, think=think)

    assert told["thinking"] == {"type": sent}
    assert ("temperature" in told) == (sent == "disabled")
    assert told["max_tokens"] == 8192


def test_a_model_that_cannot_stream_is_asked_whole() -> None:
    sent = body(capabilities=("chat",))

    assert "stream" not in sent
    assert "stream_options" not in sent


def test_tools_are_sent_and_an_empty_list_is_not() -> None:
    assert body(tools=[TOOL])["tools"] == [{"type": "function", **TOOL}]
    assert "tools" not in body(tools=[])


def test_calls_results_and_names_have_the_form_of_the_wire() -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": "{}", "x": 1}, "extra": 2}
    messages = [
        {"role": "user", "content": "a", "name": "u_1", "metadata": {"m": 1}, "kind": "k"},
        {"role": "user", "content": "b", "name": "带空格 名"},
        {"role": "assistant", "content": "", "toolCalls": [call], "reasoningContent": "why"},
        {"role": "tool", "content": "r", "toolCallId": "c", "timestamp": 5},
    ]

    assert body(messages=messages)["messages"] == [
        {"role": "user", "content": "a", "name": "u_1"},
        {"role": "user", "content": "b"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "content": "r", "tool_call_id": "c"},
    ]


def test_what_a_provider_said_about_its_own_call_goes_back_to_it() -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": "{}", "x": 1}, "extra": 2}
    data = {"provider": "openai", "model": "gpt-4o"}
    message = {"role": "assistant", "toolCalls": [call], "providerData": data}
    sent = body(messages=[message])["messages"][0]["tool_calls"][0]

    assert (sent["extra"], sent["function"]["x"]) == (2, 1)


def test_images_follow_one_text_part() -> None:
    messages = [
        {"role": "user", "content": "see", "images": [PNG, "https://example.com/a.png"]},
        {"role": "user", "images": [PNG]},
    ]
    image = {"type": "image_url", "image_url": {"url": PNG}}

    sent = body(messages=messages)["messages"]
    assert sent[0]["content"][0] == {"type": "text", "text": "see"}
    assert sent[0]["content"][1] == image
    assert len(sent[0]["content"]) == 3
    assert sent[1]["content"] == [image]


@pytest.mark.parametrize("text", [None, "", " \n"])
def test_images_without_words_have_no_text_part(text: str | None) -> None:
    (sent,) = body(messages=[{"role": "user", "content": text, "images": [PNG]}])["messages"]

    assert [part["type"] for part in sent["content"]] == ["image_url"]


def test_reasoning_is_replayed_to_deepseek_only() -> None:
    messages = [{"role": "assistant", "content": "a", "reasoningContent": "why"}]

    assert body(settings=DEEPSEEK, messages=messages)["messages"][0]["reasoning_content"] == "why"
    assert "reasoning_content" not in body(messages=messages)["messages"][0]


def test_a_strict_server_gets_no_names() -> None:
    messages = [{"role": "user", "content": "a", "name": "u1"}]

    assert "name" not in body(settings=settings(profile="strict"), messages=messages)["messages"][0]
