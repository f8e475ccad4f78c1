"""One behaviour suite on three providers: scripted, and the same script over both real wires."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field

import pytest

from aalis_contracts.messages import Message
from aalis_contracts.models import ChatRequest, ChatResponse, Usage
from aalis_contracts.text import compact_json
from aalis_llm.anthropic import AnthropicProvider
from aalis_llm.openai import OpenAIProvider
from aalis_llm.port import ModelError, ModelProvider
from aalis_llm.response import Collected, collect
from aalis_llm.retry import Attempt, stream_with_retries
from aalis_llm.script_file import parse_script
from aalis_llm.scripted import ScriptedProvider
from aalis_llm.scripted_http import ScriptedServer
from aalis_llm.settings import AnthropicSettings, OpenAISettings
from aalis_llm.shape import to_provider_messages

TOOL = {"function": {"name": "weather", "description": "d"}}
WIRES = ["scripted", "openai", "anthropic"]


@dataclass
class Rig:
    """A provider that plays a script, and the server behind it if there is one."""

    provider: ModelProvider
    server: ScriptedServer | None = None
    waits: list[float] = field(default_factory=list[float])

    async def ask(self, *messages: Message, model: str = "demo", **fields: object) -> ChatResponse:
        return await collect(
            self.provider.stream(model, await self.request(model, *messages, **fields))
        )

    async def request(self, model: str, *messages: Message, **fields: object) -> ChatRequest:
        entry = next(e for e in await self.provider.entries() if e.id == model)
        shaped = to_provider_messages(
            messages or [Message(role="user", content="hello")],
            entry.profile,
            vision=entry.can("vision"),
            provider_id=entry.provider_id,
            model=model,
        )
        return ChatRequest.model_validate({"messages": shaped, **fields})

    async def ask_again(self, request: ChatRequest) -> tuple[list[int], ChatResponse]:
        """Ask with retries; return the attempts made and the answer of the last."""
        attempts, held = list[int](), Collected()
        async for event in stream_with_retries(
            self.provider, "demo", request, sleep=self.sleep, random=lambda: 0.5
        ):
            if isinstance(event, Attempt):
                attempts.append(event.number)
                held = Collected()
            else:
                held.add(event)
        return attempts, held.response()

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


Start = Callable[[str], "asyncio.Future[Rig]"]


@pytest.fixture(params=WIRES)
async def start(request: pytest.FixtureRequest) -> AsyncIterator[object]:
    async with AsyncExitStack() as stack:

        async def started(script: str) -> Rig:
            played = parse_script(script)
            if request.param == "scripted":
                return Rig(ScriptedProvider(played))
            server = await stack.enter_async_context(ScriptedServer(played))
            provider: OpenAIProvider | AnthropicProvider
            if request.param == "openai":
                provider = OpenAIProvider(OpenAISettings("openai", base_url=server.url))
            else:
                provider = AnthropicProvider(AnthropicSettings("anthropic", base_url=server.url))
            stack.push_async_callback(provider.close)
            await provider.refresh()
            return Rig(provider, server)

        yield started


async def test_text_reasoning_calls_and_usage_arrive(start: Start) -> None:
    rig = await start("""
rules:
- think: 想一想
  reply: "你好 👍"
  call: [{tool: weather, args: {city: "奥斯陆"}}, {tool: weather, args: {}}]
  stream: {chunk: 1}
  usage: {promptTokens: 100, completionTokens: 20, cachedPromptTokens: 60}
""")
    response = await rig.ask(tools=[TOOL], think=True, maxTokens=4000)

    assert response.content == "你好 👍"
    assert response.reasoning_content == "想一想"
    assert [(c.id, c.function.name, c.function.arguments) for c in response.tool_calls or []] == [
        ("call_0_0", "weather", '{"city":"奥斯陆"}'),
        ("call_0_1", "weather", "{}"),
    ]
    assert response.finish_reason == "tool_calls"
    assert response.usage == Usage(
        prompt_tokens=100, completion_tokens=20, total_tokens=120, cached_prompt_tokens=60
    )


@pytest.mark.parametrize("finish", ["stop", "length", "content_filter"])
async def test_finish_reasons_are_passed_on(start: Start, finish: str) -> None:
    rig = await start(f"rules:\n- {{reply: a, finish: {finish}}}")

    assert (await rig.ask()).finish_reason == finish


async def test_a_tool_turn_goes_round(start: Start) -> None:
    rig = await start("""
rules:
- when: {iteration: 0, offers: weather}
  think: ask the tool
  call: [{tool: weather, args: {city: Oslo}}]
- when: {iteration: 1, tool: weather, error: false, result: 'rain'}
  think: it knows
  reply: "It says {result}, {count} asked."
""")
    question = Message(role="user", content="(1/2 10:00) weather?")
    first = await rig.ask(question, tools=[TOOL], think=True, maxTokens=4000)
    called = Message(
        role="assistant",
        content=first.content,
        tool_calls=first.tool_calls,
        reasoning_content=first.reasoning_content,
        provider_data=first.provider_data,
    )
    result = Message(role="tool", content="rain", tool_call_id="call_0_0")
    second = await rig.ask(question, called, result, tools=[TOOL], think=True, maxTokens=4000)

    assert second.content == "It says rain, 1 asked."
    if rig.server is not None and isinstance(rig.provider, AnthropicProvider):
        sent = compact_json(rig.server.bodies[-1])
        assert '"thinking":{"type":"enabled"' in sent
        assert compact_json((first.provider_data or {})["blocks"])[1:-1] in sent


async def test_the_same_request_gives_the_same_answer(start: Start) -> None:
    rig = await start("rules:\n- {think: hm, reply: '{text}', call: [{tool: f}]}")

    assert await rig.ask() == await rig.ask()


@pytest.mark.parametrize(
    ("fail", "kind"),
    [
        ("{status: 401, message: bad key}", "auth"),
        ("{status: 402}", "balance"),
        ("{status: 403}", "auth"),
        ("{status: 404}", "notFound"),
        ("{status: 413}", "overflow"),
        ("{status: 422}", "badRequest"),
        ("{status: 429}", "rateLimit"),
        ("{status: 400, code: content_filter}", "refused"),
        ("{status: 500}", "upstream"),
        ("{status: 529}", "upstream"),
    ],
)
async def test_failures_have_a_kind_and_a_status(start: Start, fail: str, kind: str) -> None:
    rig = await start(f"rules:\n- fail: {fail}")
    with pytest.raises(ModelError) as caught:
        await rig.ask()

    assert caught.value.kind == kind
    assert str(caught.value.status) in fail


async def test_overflow_is_recognised(start: Start) -> None:
    rig = await start("rules:\n- overflow: true")
    with pytest.raises(ModelError, match="overflow"):
        await rig.ask()


async def test_an_unknown_model_is_not_found(start: Start) -> None:
    rig = await start("")
    request = await rig.request("demo")
    with pytest.raises(ModelError, match="notFound"):
        await anext(rig.provider.stream("gone", request))


async def test_failures_before_the_first_delta_are_retried(start: Start) -> None:
    rig = await start("""
rules:
- {first: 1, fail: {status: 429, retryAfter: 3}}
- {first: 2, fail: {status: 503}}
- {when: {attempt: 3}, reply: third}
""")
    attempts, response = await rig.ask_again(await rig.request("demo"))

    assert attempts == [1, 2, 3]
    assert response.content == "third"
    assert rig.waits == [3.0, 1.0]


@pytest.mark.parametrize("how", ["drop", "noDone"])
@pytest.mark.parametrize("after", [0, 2])
async def test_a_lost_stream_is_asked_again_and_never_joined(
    start: Start, how: str, after: int
) -> None:
    rig = await start(f"""
rules:
- {{first: 1, reply: abcdef, stream: {{chunk: 1}}, cut: {{after: {after}, how: {how}}}}}
- reply: whole
""")
    attempts, response = await rig.ask_again(await rig.request("demo"))

    assert attempts == [1, 2]
    assert response.content == "whole"


async def test_a_whole_answer_without_its_terminator_is_an_answer(start: Start) -> None:
    rig = await start("rules:\n- {reply: ab, cut: {after: 9, how: noDone}}")

    assert (await rig.ask()).content == "ab"


async def test_an_abort_ends_a_hanging_call(start: Start) -> None:
    rig = await start("rules:\n- hang: true")
    asking = asyncio.create_task(rig.ask())
    await asyncio.wait([asking], timeout=0.05)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_a_stream_may_be_closed_at_any_chunk(start: Start) -> None:
    rig = await start("rules:\n- {reply: abcdef, stream: {chunk: 1, delayMs: 1}}")
    request = await rig.request("demo")
    async with aclosing(rig.provider.stream("demo", request)) as chunks:
        assert (await anext(chunks)).content_delta == "a"
    assert (await rig.ask()).content == "abcdef"


async def test_purpose_and_attempt_reach_the_script(start: Start) -> None:
    rig = await start("rules:\n- {when: {purpose: title, attempt: 4}, reply: heard}")

    assert (await rig.ask(purpose="title", attempt=4)).content == "heard"


async def test_any_history_is_accepted_once_it_is_shaped(start: Start) -> None:
    rig = await start("rules:\n- reply: fine")
    call = {"id": "x:1", "function": {"name": "a b", "arguments": "[]"}}
    messy = [
        Message(role="system", content="p"),
        Message(role="assistant", content=""),
        Message(role="tool", content="late", tool_call_id="gone"),
        Message.model_validate({"role": "assistant", "toolCalls": [call, call]}),
        Message(role="system", content="between"),
        Message(role="tool", content=None, tool_call_id="x:1"),
        Message(role="notice", content="poke"),
        Message(role="user", content="\ud83d", images=["data:image/png;base64,AAAA"]),
        Message(role="assistant", content="end", reasoning_content="unsigned"),
    ]

    assert (await rig.ask(*messy)).content == "fine"


async def test_a_refused_signature_is_answered_without_reasoning(start: Start) -> None:
    rig = await start("""
rules:
- when: {think: true}
  fail: {status: 400, message: 'messages.1.content.0: Invalid `signature` in `thinking` block'}
- reply: fine
""")
    request = await rig.request("demo", think=True, maxTokens=4000)
    attempts, response = await rig.ask_again(request)

    assert response.content == "fine"
    # A server that was not told to think (LLM-22) has nothing to refuse.
    assert attempts == ([1] if isinstance(rig.provider, OpenAIProvider) else [1, 2])
