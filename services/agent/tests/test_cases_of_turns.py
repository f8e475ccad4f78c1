"""Whole turns that went wrong in other agents (tests/data/context_cases.jsonl), and their kin."""

from __future__ import annotations

import json
from datetime import UTC
from typing import TYPE_CHECKING, Any

import pytest

from aalis_agent.history import shown_history
from aalis_contracts.messages import Message
from aalis_contracts.models import ChatRequest
from aalis_contracts.sessions import SessionConfig
from aalis_llm.shape import to_provider_messages
from aalis_llm.testing import broken_rules
from aalis_sdk.testing.cases import case

from .test_cases import messages_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aalis_contracts.text import JsonObject
    from aalis_contracts.tools import ToolCallContext

    from .conftest import World

SIGNING: dict[str, Any] = {"id": "demo", "profile": "anthropic", "contextLength": 32_000}


async def echo(args: JsonObject, context: ToolCallContext) -> str:
    _ = context
    return f"echo {json.dumps(args)}"


async def asked_for_a_summary(world: World, messages: Sequence[Message]) -> ChatRequest:
    """Have a side call made of these messages; return what its provider was asked."""
    (entry, *_) = world.models.entries()
    request = ChatRequest(messages=list(messages), think=True, purpose="summary")
    async for _ in world.models.stream(entry, request):
        pass
    return world.provider.asked[-1]


def test_ctx_010_an_approval_that_comes_late_is_dropped_without_an_error() -> None:
    # A call that waits for its approval is not stored before it has a result; this one was cut off.
    late = Message(role="tool", tool_call_id="ap1", content="approved")
    rows = [*messages_of("ctx-010"), late]
    shown = shown_history(rows, now=0, zone=UTC)

    assert [one.content for one in shown.messages if one.role == "assistant"] == ["4", "6"]
    assert shown.dropped == 2
    for messages in (rows, shown.messages):
        sent = to_provider_messages(messages, "openai")
        assert broken_rules(sent, "openai") == []
        assert "approved" not in [one.content for one in sent]


async def test_ctx_020_a_side_call_is_repaired_like_any_other(world: World) -> None:
    await world.open({"reply": "a summary"})

    asked = await asked_for_a_summary(world, messages_of("ctx-020"))

    assert broken_rules(asked.messages, "openai") == []
    assert [one.role for one in asked.messages] == [
        "user",
        "assistant",
        "tool",
        "user",
        "assistant",
    ]


async def test_ctx_044_a_side_call_shows_no_reasoning_and_does_not_think(world: World) -> None:
    await world.open({"reply": "a summary"}, models=[SIGNING])
    block: JsonObject = {"type": "thinking", "thinking": "t", "signature": "s"}
    data: JsonObject = {"provider": "scripted", "model": "demo", "blocks": [block]}
    (question, answer) = messages_of("ctx-044")
    signed = answer.model_copy(update={"reasoning_content": "t", "provider_data": data})

    asked = await asked_for_a_summary(world, [question, signed])

    assert asked.think is False
    assert asked.messages[1].content == "part"
    assert all(one.reasoning_content is None for one in asked.messages)
    assert all(one.provider_data is None for one in asked.messages)


async def test_ctx_090_a_provider_that_goes_on_overflowing_is_asked_twice(world: World) -> None:
    await world.open({"overflow": True})

    assert await world.ask("hello") is None

    assert len(world.provider.asked) <= 2
    assert "overflow" in (world.outbound.after[world.turn_id(1)].error or "")


async def test_ctx_121_a_blank_tool_name_is_answered_three_times_at_most(world: World) -> None:
    name = case("ctx-121")["messages"][0]["tool_calls"][0]["function"]["name"]
    world.tools.add("echo", echo)
    await world.open({"call": [{"tool": name}], "reply": "stuck"})

    assert await world.ask("go") == "stuck"

    assert len(world.provider.asked) <= 3
    results = [json.loads(text) for role, text in world.rows() if role == "tool"]
    assert all(result["error"] for result in results)


@pytest.mark.parametrize("number", [2, 10])
async def test_ctx_124_a_call_id_may_come_again_in_every_message(world: World, number: int) -> None:
    world.tools.add("echo", echo)
    rules: list[dict[str, Any]] = [
        {
            "when": {"iteration": iteration},
            "call": [{"tool": "echo", "args": {"n": iteration}, "id": "shell:0"}],
        }
        for iteration in range(number)
    ]
    await world.open(*rules, {"reply": "{result}"})

    assert await world.ask("go") == f'echo {{"n": {number - 1}}}'

    assert len(world.tools.effects) == number
    assert all(broken_rules(one.messages, "openai") == [] for one in world.provider.asked)


async def test_ctx_135_arguments_cut_short_are_not_executed(world: World) -> None:
    chunks = case("ctx-135")["chunks"]
    arguments = chunks[0]["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"]
    world.tools.add("f", echo)
    broken = {"when": {"iteration": 0}, "call": [{"tool": "f", "args": arguments}]}
    await world.open({**broken, "finish": "tool_calls"}, {"reply": "{result}"})

    assert "not a JSON object" in (await world.ask("go") or "")

    assert world.tools.effects == []


async def test_ctx_151_a_history_that_a_provider_refuses_does_not_end_the_session(
    world: World,
) -> None:
    refusal = "messages.1.content.0: Invalid `signature` in `thinking` block"
    await world.open(
        {"when": {"think": True}, "fail": {"status": 400, "message": refusal}}, {"reply": "fine"}
    )
    world.settings.configs["s"] = SessionConfig(think=True)
    rows = messages_of("ctx-151")[:2]
    keyed = [one.model_copy(update={"input_seq": 0, "index": at}) for at, one in enumerate(rows)]
    await world.memory.save("s", keyed)

    for text in ("c", "d"):
        before = len(world.provider.asked)
        assert await world.ask(text) is not None
        refused, repaired = world.provider.asked[before:]
        assert (refused.think, repaired.think) == (True, False)
        assert all(one.reasoning_content is None for one in repaired.messages)
