"""Calling again (LLM-10, LLM-11, STR-3), with the scripted provider at the other end."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from aalis_contracts.models import ChatChunk, ChatRequest
from aalis_llm.port import ModelError
from aalis_llm.retry import (
    Attempt,
    may_be_retried,
    stream_with_retries,
    wait_before_retry,
    without_reasoning,
)
from aalis_llm.script_file import parse_script
from aalis_llm.scripted import ScriptedProvider

HELLO = ChatRequest.model_validate({"messages": [{"role": "user", "content": "hello"}]})
THINKING = ChatRequest.model_validate(
    {
        "think": True,
        "messages": [
            {"role": "user", "content": "a"},
            {
                "role": "assistant",
                "content": "b",
                "reasoningContent": "t",
                "providerData": {"provider": "p", "blocks": [{"signature": "stale"}]},
            },
            {"role": "user", "content": "c"},
        ],
    }
)
REFUSES_REASONING = """
rules:
- when: {think: true}
  fail: {status: 400, message: 'messages.1.content.0: Invalid `signature` in `thinking` block'}
- reply: fine
"""


class Rig:
    """A scripted provider asked with retries; remembers what was waited for and received."""

    def __init__(self, script: str) -> None:
        self.provider = ScriptedProvider(parse_script(script))
        self.waits: list[float] = []
        self.events: list[Attempt | ChatChunk] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def ask(self, request: ChatRequest = HELLO) -> AsyncGenerator[Attempt | ChatChunk]:
        return stream_with_retries(
            self.provider, "demo", request, sleep=self.sleep, random=lambda: 0.5
        )

    async def run(self, request: ChatRequest = HELLO) -> str:
        async for event in self.ask(request):
            self.events.append(event)
        return self.text()

    def text(self) -> str:
        """Return what a reader holds that forgets at each attempt."""
        held = ""
        for event in self.events:
            held = "" if isinstance(event, Attempt) else held + (event.content_delta or "")
        return held

    @property
    def attempts(self) -> list[Attempt]:
        return [event for event in self.events if isinstance(event, Attempt)]


async def test_a_call_that_works_is_one_attempt() -> None:
    rig = Rig("rules:\n- reply: hi")

    assert await rig.run() == "hi"
    assert rig.attempts == [Attempt(1)]
    assert rig.waits == []


async def test_two_failures_before_the_first_delta_are_retried_with_growing_waits() -> None:
    rig = Rig("rules:\n- {first: 2, fail: {status: 503}}\n- reply: hi")

    assert await rig.run() == "hi"
    assert [attempt.number for attempt in rig.attempts] == [1, 2, 3]
    assert rig.waits == [0.5, 1.0]
    assert rig.attempts[1].reason is not None
    assert rig.attempts[1].reason.status == 503


async def test_the_third_failure_is_final() -> None:
    rig = Rig("rules:\n- fail: {status: 503}")
    with pytest.raises(ModelError, match="upstream"):
        await rig.run()

    assert [attempt.number for attempt in rig.attempts] == [1, 2, 3]


@pytest.mark.parametrize(("asked", "waited"), [(2.5, 2.5), (0, 0), (3600, 30.0)])
async def test_the_wait_that_the_provider_asks_for_is_kept_up_to_30_seconds(
    asked: float, waited: float
) -> None:
    rig = Rig(f"rules:\n- {{first: 1, fail: {{status: 429, retryAfter: {asked}}}}}\n- reply: hi")

    assert await rig.run() == "hi"
    assert sum(rig.waits) == waited


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 409, 413, 422])
async def test_other_refusals_are_not_retried(status: int) -> None:
    rig = Rig(f"rules:\n- fail: {{status: {status}}}")
    with pytest.raises(ModelError):
        await rig.run(THINKING)

    assert len(rig.attempts) == 1


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 529])
async def test_a_passing_failure_is_retried(status: int) -> None:
    rig = Rig(f"rules:\n- {{first: 1, fail: {{status: {status}}}}}\n- reply: hi")

    assert await rig.run() == "hi"


@pytest.mark.parametrize("how", ["drop", "noDone"])
async def test_after_the_first_delta_there_is_one_retry_and_the_texts_are_not_joined(
    how: str,
) -> None:
    script = f"""
rules:
- {{first: 1, reply: abcdef, stream: {{chunk: 2}}, cut: {{after: 2, how: {how}}}}}
- reply: whole
"""
    rig = Rig(script)

    assert await rig.run() == "whole"
    assert [attempt.number for attempt in rig.attempts] == [1, 2]


async def test_a_second_loss_after_the_first_delta_is_final() -> None:
    rig = Rig("rules:\n- {reply: abcdef, stream: {chunk: 2}, cut: {after: 1}}")
    with pytest.raises(ModelError, match="connection"):
        await rig.run()

    assert len(rig.attempts) == 2


async def test_losses_before_and_after_the_first_delta_are_counted_apart() -> None:
    rig = Rig("""
rules:
- {first: 2, fail: {status: 500}}
- {first: 3, reply: abc, stream: {chunk: 1}, cut: {after: 1}}
- reply: whole
""")

    assert await rig.run() == "whole"
    assert len(rig.attempts) == 4


async def test_attempts_count_on_from_the_one_given() -> None:
    rig = Rig("rules:\n- {first: 5, fail: {status: 503}}\n- reply: hi")

    assert await rig.run(HELLO.model_copy(update={"attempt": 5})) == "hi"
    assert [attempt.number for attempt in rig.attempts] == [5, 6]


async def test_a_refused_history_is_sent_once_more_without_any_reasoning() -> None:
    rig = Rig(REFUSES_REASONING)

    assert await rig.run(THINKING) == "fine"
    assert [attempt.without_reasoning for attempt in rig.attempts] == [False, True]
    assert rig.waits == []
    assert THINKING.messages[1].reasoning_content == "t"


@pytest.mark.parametrize("purpose", ["summary", "title"])
async def test_what_nobody_asked_for_goes_without_reasoning_from_the_start(purpose: str) -> None:
    rig = Rig(REFUSES_REASONING)

    assert await rig.run(THINKING.model_copy(update={"purpose": purpose})) == "fine"
    assert len(rig.attempts) == 1


def test_where_the_field_is_demanded_it_stays_and_is_empty() -> None:
    call = {"id": "a", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "reasoningContent": "why", "toolCalls": [call]},
        {"role": "tool", "content": "r", "toolCallId": "a"},
        {"role": "assistant", "reasoningContent": "", "toolCalls": [call]},
        {"role": "tool", "content": "r", "toolCallId": "a"},
        {"role": "assistant", "content": "x", "reasoningContent": "so"},
    ]
    bare = without_reasoning(ChatRequest.model_validate({"messages": messages, "think": True}))

    shown = [one.reasoning_content for one in bare.messages if one.role == "assistant"]
    assert shown == ["", "", None]
    assert bare.think is False


async def test_a_history_refused_twice_is_an_error() -> None:
    script = "rules:\n- fail: {status: 400, message: 'Invalid `signature` in `thinking` block'}"
    rig = Rig(script)
    with pytest.raises(ModelError, match="badRequest"):
        await rig.run(THINKING)

    assert len(rig.attempts) == 2


async def test_a_refused_history_without_reasoning_is_not_sent_again() -> None:
    rig = Rig("rules:\n- fail: {status: 400, message: 'tool_use without tool_result'}")
    with pytest.raises(ModelError):
        await rig.run()

    assert len(rig.attempts) == 1


async def test_overflow_is_left_to_the_caller() -> None:
    rig = Rig("rules:\n- overflow: true")
    with pytest.raises(ModelError, match="overflow"):
        await rig.run(THINKING)

    assert len(rig.attempts) == 1


async def test_a_provider_that_forgets_its_last_chunk_is_cut() -> None:
    class Forgetful(ScriptedProvider):
        async def stream(self, entry_id: str, request: ChatRequest) -> AsyncGenerator[ChatChunk]:
            yield ChatChunk(content_delta=entry_id[: request.attempt])

    rig = Rig("")
    rig.provider = Forgetful()
    with pytest.raises(ModelError, match="cut"):
        await rig.run()

    assert len(rig.attempts) == 2


async def test_closing_aborts_the_call() -> None:
    rig = Rig("rules:\n- reply: abcdef\n  stream: {chunk: 1, delayMs: 600000}")
    async with aclosing(rig.ask()) as events:
        assert await anext(events) == Attempt(1)
        assert await anext(events) == ChatChunk(content_delta="a")


async def test_an_abort_while_waiting_for_a_hanging_model_is_no_retry() -> None:
    rig = Rig("rules:\n- hang: true")
    running = asyncio.create_task(rig.run())
    await asyncio.wait([running], timeout=0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert len(rig.attempts) == 1


@pytest.mark.parametrize(
    ("error", "retried"),
    [
        (ModelError("timeout", "our own limit"), False),
        (ModelError("timeout", "theirs", status=408), True),
        (ModelError("rateLimit", "", status=429, code="insufficient_quota"), False),
        (ModelError("upstream", ""), True),
        (ModelError("refused", ""), False),
        (ModelError("connection", ""), True),
    ],
)
def test_what_may_be_retried(error: ModelError, *, retried: bool) -> None:
    assert may_be_retried(error) is retried


def test_waits_are_jittered_and_bounded() -> None:
    error = ModelError("upstream", "")

    assert [wait_before_retry(error, n, 0.0) for n in (1, 2, 3)] == [0.25, 0.5, 1.0]
    assert wait_before_retry(error, 99, 0.9) == 30.0
