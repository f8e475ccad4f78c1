"""One real turn through four services."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aalis_sdk.testing.person import Person

pytestmark = [pytest.mark.usefixtures("stack"), pytest.mark.timeout(180)]


async def test_small_talk_is_answered_and_remembered(
    person: Callable[..., Awaitable[Person]],
) -> None:
    somebody = await person()
    first = await somebody.ask("hello")
    assert first.source == "agent"
    assert first.content
    await somebody.ask("and once more")
    newest = somebody.usages[-1]
    assert newest.breakdown.history > somebody.usages[0].breakdown.history


async def test_the_model_asks_another_process_how_full_its_context_is(
    person: Callable[..., Awaitable[Person]],
) -> None:
    somebody = await person()
    reply = await somebody.ask("how full is your context?")
    turn = somebody.turns[-1] if somebody.turns else await somebody.turn_of("m1")
    asked = [usage for usage in somebody.usages if usage.turn_id == turn.turn_id]
    first = asked[0]
    assert [event.tool_name for event in somebody.tools] == ["prompt_budget_info"] * 2
    assert [event.phase for event in somebody.tools] == ["start", "end"]
    assert f"{first.used}" in reply.content
    assert f"{first.context_window}" in reply.content
    assert "OK" in reply.content
    parts = first.breakdown.model_dump(by_alias=True)
    numbers = {name: value for name, value in parts.items() if isinstance(value, int)}
    largest = sorted(numbers.items(), key=lambda item: -item[1])[:3]
    for name, tokens in largest:
        assert name in reply.content
        assert f"{tokens}" in reply.content


async def test_text_streams_and_done_comes_last_and_once(
    person: Callable[..., Awaitable[Person]],
) -> None:
    somebody = await person()
    reply = await somebody.ask("!slow 60\n!say one two three four five six seven eight")
    await somebody.turn_of("m1")
    frames = somebody.frames
    assert len(frames) > 2
    numbers = [frame.seq for frame in frames]
    assert numbers == sorted(set(numbers))
    assert "".join(frame.content_delta or "" for frame in frames) == reply.content
    assert [frame.done for frame in frames].count(True) == 1
    assert frames[-1].done
    assert frames[-1].outcome == "replied"


async def test_a_message_published_twice_is_answered_once(
    person: Callable[..., Awaitable[Person]],
) -> None:
    somebody = await person()
    await somebody.say("hello", message_id="same")
    await somebody.say("hello", message_id="same")
    subject = f"inbound.message.cli.{somebody.session_id}"
    body = (
        f'{{"content":"hello","sessionId":"{somebody.session_id}","platform":"cli",'
        '"userId":"u1","messageId":"same"}'
    )
    # As an adapter without Nats-Msg-Id would: only the messageId says that it is the same.
    await somebody.mesh.js.publish(subject, body.encode())
    await somebody.turn_of("same")
    await somebody.ask("something else", message_id="other")
    answered = [turn.message.message_id for turn in somebody.turns]
    assert answered.count("same") == 1
    assert len(somebody.heard) == 2


async def test_platforms_do_not_hear_each_other(
    person: Callable[..., Awaitable[Person]],
) -> None:
    here = await person("shared-id", "demo")
    there = await person("shared-id", "other")
    await here.ask("hello")
    assert there.heard == []
    await there.ask("hello")
    assert [message.platform for message in here.heard] == ["demo"]
