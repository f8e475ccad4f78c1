"""Plugins on a real server: each phase of a turn seen, changed and stopped from outside."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from aalis_agent.adapters.fakes import FakeProvider
from aalis_agent.app import Agent
from aalis_agent.settings import AgentSettings
from aalis_contracts import subjects
from aalis_contracts.hooks import (
    INPUT_BEFORE,
    LLM_AFTER,
    LLM_BEFORE,
    REPLY_BEFORE,
    TOOL_AFTER,
    TOOL_BEFORE,
    InputBeforeData,
    LlmAfterData,
    LlmBeforeData,
    PromptBuild,
    ReplyBeforeData,
    ToolAfterData,
    ToolBeforeData,
)
from aalis_contracts.messages import USER_LANE, IncomingMessage, Message
from aalis_llm.providers import Providers
from aalis_llm.script import Rule, Script
from aalis_sdk.plugin import Plugin, Stop
from aalis_sdk.registry import Registry
from aalis_sdk.settings import load
from aalis_sdk.testing.person import Person

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from aalis_contracts.events import TurnAfter
    from aalis_contracts.text import JsonObject
    from aalis_contracts.tools import ToolCallContext
    from aalis_sdk.mesh import Mesh
    from aalis_sdk.testing.meshes import Meshes
    from aalis_sdk.testing.servers import NatsServer

    Warned = Callable[[str], list[dict[str, object]]]

PATIENCE = 20.0
ECHO: dict[str, Any] = {"reply": "you said {text}"}
CALL: dict[str, Any] = {"when": {"iteration": 0}, "call": [{"tool": "echo", "args": {"n": 1}}]}
RESULT: dict[str, Any] = {"when": {"iteration": 1}, "reply": "got {result}"}


@dataclass
class Rig:
    """One agent on a real server, without gateway and memory, and who talks to it."""

    registry: Registry
    provider: FakeProvider
    person: Person
    attach: Callable[..., Awaitable[Mesh]]

    async def add(self, *plugins: Plugin) -> None:
        """Offer plugins, each on a connection of its own, and see the agent hear of them."""
        for plugin in plugins:
            await self.attach(plugin, grace_seconds=0.5)
        keys = [key for plugin in plugins for key in plugin.keys]
        known = await self.registry.wait_for(
            lambda: all(self.registry.get(key) is not None for key in keys), PATIENCE
        )
        assert known, keys

    async def say(self, text: str) -> TurnAfter:
        """Put a message into the mailbox and wait for the end of its turn."""
        ended = len(self.person.turns)
        await self.put(text)
        await self.person.until(lambda: len(self.person.turns) > ended)
        return self.person.turns[-1]

    async def put(self, text: str) -> None:
        """Put a message into the mailbox."""
        session = self.person.session_id
        message = IncomingMessage(content=text, session_id=session, platform="cli", user_id="u")
        await self.person.mesh.store(subjects.inbox(session, USER_LANE), message)

    def texts(self, call: int) -> list[str]:
        """Return the texts of a model call, without the time label of the message itself."""
        return [(message.content or "").rpartition(") ")[2] for message in self.asked[call]]

    @property
    def asked(self) -> list[list[Message]]:
        """The message list of each model call so far."""
        return [request.messages for request in self.provider.asked]


@pytest.fixture
def nats_server(fresh_nats: NatsServer) -> NatsServer:
    """Give each test a mailbox stream of its own: there is one consumer for all sessions."""
    return fresh_nats


@pytest_asyncio.fixture
async def rig(
    mesh: Meshes,
    attach: Callable[..., Awaitable[Mesh]],
    nats_server: NatsServer,
    session_id: str,
) -> AsyncIterator[Callable[..., Awaitable[Rig]]]:
    """Give a way to start an agent whose model plays some rules."""
    agents: list[Agent] = []

    async def start(*rules: dict[str, Any], **settings: Any) -> Rig:
        provider = FakeProvider(Script(rules=[Rule.model_validate(rule) for rule in rules]))
        told = load(
            AgentSettings,
            **{
                "nats_url": nats_server.url,
                "instance": "agent-1",
                "locale": "en",
                "token_counter": "heuristic",
                "grace_seconds": 5.0,
                **settings,
            },
        )
        connected = await mesh("agent")
        registry = Registry(connected)
        await registry.start()
        agent = Agent(told, Providers([provider]), connected, registry)
        await agent.start()
        agents.append(agent)
        person = await Person(await mesh("person"), session_id).listen()
        return Rig(registry, provider, person, attach)

    yield start
    for agent in agents:
        await agent.stop()


def echoing() -> Plugin:
    plugin = Plugin("tools")

    @plugin.tool("echo", "Say it back", schema={"type": "object"}, retry="safe")
    async def echo(args: JsonObject, _: ToolCallContext) -> JsonObject:  # pyright: ignore[reportUnusedFunction]
        return args

    return plugin


def stopping(hook: str, name: str = "stopper", **patch: object) -> Plugin:
    plugin = Plugin(name)

    @plugin.intercept(hook)
    async def stop(_: object) -> None:  # pyright: ignore[reportUnusedFunction]
        raise Stop(**patch)

    return plugin


def counting(hook: str, seen: list[Any], name: str = "z-last") -> Plugin:
    """Return a plugin that is asked after the others and only looks."""
    plugin = Plugin(name)

    @plugin.intercept(hook, order=9)
    async def look(data: object) -> None:  # pyright: ignore[reportUnusedFunction]
        seen.append(data)

    return plugin


# agent:input:before -----------------------------------------------------------------------


async def test_an_input_can_be_changed_and_what_is_begun_reaches_the_end(
    rig: Callable[..., Awaitable[Rig]],
) -> None:
    here = await rig(ECHO)
    plugin = Plugin("changer")

    @plugin.intercept(INPUT_BEFORE)
    async def change(data: InputBeforeData) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction]
        text = data.message.content.upper()
        return {
            "message": data.message.model_copy(update={"content": text}),
            "metadata": {"was": data.message.content},
        }

    await here.add(plugin)
    after = await here.say("hello")
    assert (after.reply, after.metadata) == ("you said HELLO", {"was": "hello"})


async def test_an_input_can_be_swallowed_and_nothing_further_happens(
    rig: Callable[..., Awaitable[Rig]],
) -> None:
    here, seen = await rig(ECHO), list[Any]()
    await here.add(stopping(INPUT_BEFORE), counting(INPUT_BEFORE, seen))
    await here.put("psst")
    await here.person.until(lambda: any(frame.done for frame in here.person.frames))
    assert (here.asked, here.person.heard, here.person.turns, seen) == ([], [], [], [])


async def test_a_preprocessor_is_an_interceptor_with_a_name_of_its_own(
    rig: Callable[..., Awaitable[Rig]],
) -> None:
    here = await rig(ECHO)
    plugin = Plugin("texts")

    def appending(name: str) -> None:
        @plugin.preprocessor(name)
        async def append(data: InputBeforeData) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction]
            text = f"{data.message.content} {name}"
            return {"message": data.message.model_copy(update={"content": text})}

    appending("b-second")
    appending("a-first")
    await here.add(plugin)
    assert [one.plugin for one in here.registry.hooks(INPUT_BEFORE)] == ["a-first", "b-second"]
    assert (await here.say("x")).reply == "you said x a-first b-second"


# agent:llm:before, agent:llm:after -----------------------------------------------------------


async def test_the_list_and_the_tools_of_a_model_call_can_be_changed(
    rig: Callable[..., Awaitable[Rig]],
) -> None:
    here = await rig(CALL, RESULT)
    plugin, rounds = Plugin("changer"), list[tuple[int, int]]()

    @plugin.intercept(LLM_BEFORE)
    async def change(data: LlmBeforeData) -> dict[str, object] | None:  # pyright: ignore[reportUnusedFunction]
        rounds.append((data.iteration, len(data.tools)))
        if data.iteration:
            return None
        note = Message(role="system", content="noted", metadata={"injector": "changer/note"})
        return {"messages": [*data.messages, note], "tools": data.tools[:1], "iteration": 7}

    await here.add(echoing(), plugin)
    two = Plugin("more-tools")
    two.tool("zzz", "never offered", retry="safe")(_nothing)
    await here.add(two)
    assert (await here.say("go")).reply == 'got {"n":1}'
    first, second = here.provider.asked
    assert [tool.name for tool in first.tools or ()] == ["echo"]
    assert [tool.name for tool in second.tools or ()] == ["echo", "zzz"]
    # What was put into the list stays for the turn, at every iteration.
    assert ["noted" in [m.content for m in asked] for asked in here.asked] == [True, True]
    assert rounds == [(0, 2), (1, 2)]


async def test_tools_that_a_provider_would_refuse_the_request_for_are_left_out(
    rig: Callable[..., Awaitable[Rig]], warned: Warned
) -> None:
    here = await rig(ECHO)
    plugin = Plugin("changer")

    @plugin.intercept(LLM_BEFORE)
    async def spoil(data: LlmBeforeData) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction]
        odd = {"type": "function", "function": {"name": "odd", "parameters": {"type": "string"}}}
        return {"tools": [*data.tools, *data.tools, odd]}

    await here.add(echoing(), plugin)
    assert (await here.say("hi")).reply == "you said hi"
    assert [tool.name for tool in here.provider.asked[0].tools or ()] == ["echo"]
    assert [line["tool"] for line in warned("tool left out of the call")] == ["echo", "odd"]


async def test_a_stopped_model_call_is_made_and_the_stopper_named(
    rig: Callable[..., Awaitable[Rig]], warned: Warned
) -> None:
    here, seen = await rig(ECHO), list[Any]()
    await here.add(stopping(LLM_BEFORE), counting(LLM_BEFORE, seen))
    assert (await here.say("hi")).reply == "you said hi"
    assert seen == []
    stopped = warned("agent:llm:before was stopped; the call goes on")
    assert [line["plugin"] for line in stopped] == ["stopper"]


async def test_what_the_model_answered_can_be_changed_and_a_stop_spares_the_rest(
    rig: Callable[..., Awaitable[Rig]],
) -> None:
    here, seen = await rig(ECHO), list[Any]()
    plugin = Plugin("changer")

    @plugin.intercept(LLM_AFTER)
    async def change(data: LlmAfterData) -> None:  # pyright: ignore[reportUnusedFunction]
        text = f"<{data.response.content}>"
        raise Stop(response=data.response.model_copy(update={"content": text}))

    await here.add(plugin, counting(LLM_AFTER, seen))
    assert (await here.say("hi")).reply == "<you said hi>"
    assert seen == []


# agent:tool:before, agent:tool:after ---------------------------------------------------------


async def test_a_call_and_its_result_can_be_changed(rig: Callable[..., Awaitable[Rig]]) -> None:
    here = await rig({**CALL, "call": [{"tool": "other"}]}, RESULT)
    plugin = echoing()
    plugin.tool("other", "never run", retry="safe")(_nothing)

    @plugin.intercept(TOOL_BEFORE)
    async def redirect(data: ToolBeforeData) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction]
        return {"name": "echo", "args": {"was": data.name}}

    @plugin.intercept(TOOL_AFTER)
    async def frame(data: ToolAfterData) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction]
        return {"result": f"<{data.result}>"}

    await here.add(plugin)
    assert (await here.say("go")).reply == 'got <{"was":"other"}>'


@pytest.mark.parametrize(
    ("patch", "answer"),
    [({}, "stopped by plugin stopper"), ({"result": "instead"}, "got instead")],
)
async def test_a_stopped_call_is_not_executed_and_something_stands_in(
    rig: Callable[..., Awaitable[Rig]], patch: dict[str, Any], answer: str
) -> None:
    here, seen = await rig(CALL, RESULT), list[Any]()
    await here.add(echoing(), stopping(TOOL_BEFORE, **patch), counting(TOOL_BEFORE, seen))
    assert answer in ((await here.say("go")).reply or "")
    assert seen == []


async def test_a_stop_after_a_call_keeps_its_patch_and_spares_the_rest(
    rig: Callable[..., Awaitable[Rig]],
) -> None:
    here, seen = await rig(CALL, RESULT), list[Any]()
    await here.add(echoing(), stopping(TOOL_AFTER, result="last"), counting(TOOL_AFTER, seen))
    assert (await here.say("go")).reply == "got last"
    assert seen == []


# agent:reply:before, agent:turn:after --------------------------------------------------------


async def test_a_reply_can_be_sent_back_changed_and_observed(
    rig: Callable[..., Awaitable[Rig]],
) -> None:
    here = await rig({"reply": "plain", "repeat": True})
    plugin, told = Plugin("format"), asyncio.Queue[str]()

    @plugin.intercept(REPLY_BEFORE)
    async def demand(data: ReplyBeforeData) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction]
        if data.attempt == 0:
            return {"retryRequested": True, "retryFeedback": "louder", "maxRetries": 1}
        return {"content": data.content.upper()}

    @plugin.observe("agent:turn:after")
    async def tell(turn: TurnAfter) -> None:  # pyright: ignore[reportUnusedFunction]
        await told.put(turn.reply or "")

    await here.add(plugin)
    assert (await here.say("hi")).reply == "PLAIN"
    assert len(here.asked) == 2
    assert "louder" in (here.asked[1][-1].content or "")
    async with asyncio.timeout(PATIENCE):
        assert await told.get() == "PLAIN"


async def test_a_stop_before_the_reply_keeps_its_patch_and_spares_the_rest(
    rig: Callable[..., Awaitable[Rig]],
) -> None:
    here, seen = await rig(ECHO), list[Any]()
    await here.add(stopping(REPLY_BEFORE, content="final"), counting(REPLY_BEFORE, seen))
    assert (await here.say("hi")).reply == "final"
    assert seen == []


async def test_an_observer_sees_what_the_chain_has_left_and_holds_nothing_up(
    rig: Callable[..., Awaitable[Rig]],
) -> None:
    here, seen = await rig(ECHO), asyncio.Queue[str]()
    plugin = Plugin("observer")

    @plugin.observe(REPLY_BEFORE)
    async def watch(data: ReplyBeforeData) -> None:  # pyright: ignore[reportUnusedFunction]
        await seen.put(data.content)
        await asyncio.Event().wait()

    await here.add(plugin, stopping(REPLY_BEFORE, content="final"))
    assert (await here.say("hi")).reply == "final"
    async with asyncio.timeout(PATIENCE):
        assert await seen.get() == "final"


# agent:prompt ---------------------------------------------------------------------------------


async def test_five_anchors_have_five_places_whoever_started_first(
    rig: Callable[..., Awaitable[Rig]],
) -> None:
    here = await rig(ECHO)
    plugin = Plugin("p")

    def block(name: str, anchor: str, *texts: str) -> None:
        @plugin.contribute(name, anchor)
        async def build(_: PromptBuild) -> list[str]:  # pyright: ignore[reportUnusedFunction]
            return list(texts)

    block("hint", "turn-hint", "hint")
    block("b", "turn-context", "moment b")
    block("context", "context", "context 1", "", "context 2")
    block("a", "turn-context", "moment a")
    block("knowledge", "knowledge", "knowledge")
    block("identity", "identity", "identity")
    block("nowhere", "no-such-anchor", "lost")
    await here.add(plugin)
    await here.say("hi")
    assert here.texts(0)[1:] == [
        "identity",
        "knowledge",
        "context 1",
        "context 2",
        "moment a",
        "moment b",
        "hint",
        "hi",
    ]
    injectors = here.person.usages[0].breakdown.injectors or {}
    assert set(injectors) == {"identity", "knowledge", "context", "a", "b", "hint"}


async def test_blocks_are_built_side_by_side_and_a_late_one_is_absent_and_asked_again(
    rig: Callable[..., Awaitable[Rig]], warned: Warned
) -> None:
    here = await rig(CALL, RESULT, prompt_build_timeout_ms=4000)
    plugin, together = echoing(), asyncio.Barrier(4)

    def meeting(name: str, anchor: str) -> None:
        @plugin.contribute(name, anchor)
        async def build(request: PromptBuild) -> str:  # pyright: ignore[reportUnusedFunction]
            # One after the other, none of them would ever get past this.
            await together.wait()
            return f"{name} in {request.iteration}"

    for name, anchor in [("a", "knowledge"), ("b", "context"), ("c", "turn-hint")]:
        meeting(name, anchor)

    @plugin.contribute("late", "identity")
    async def late(request: PromptBuild) -> str:  # pyright: ignore[reportUnusedFunction]
        if request.iteration == 0:
            await together.wait()
            await asyncio.Event().wait()
        return f"late in {request.iteration}"

    @plugin.contribute("fails", "knowledge")
    async def fails(_: PromptBuild) -> str:  # pyright: ignore[reportUnusedFunction]
        raise RuntimeError("broken inside")

    await here.add(plugin)
    assert (await here.say("hi")).reply == 'got {"n":1}'
    assert here.texts(0)[1:] == ["a in 0", "b in 0", "c in 0", "hi"]
    # What stands in the list is not built again; what was absent is.
    assert here.texts(1)[1:6] == ["late in 1", "a in 0", "b in 0", "c in 0", "hi"]
    absent = [line["plugin"] for line in warned("contribution is absent this round")]
    assert absent == ["tools/fails", "tools/late", "tools/fails"]


async def test_a_turn_sees_what_is_offered_when_it_begins_and_no_later_loss_breaks_it(
    rig: Callable[..., Awaitable[Rig]], warned: Warned
) -> None:
    here = await rig({**CALL, "stream": {"delayMs": 1}}, RESULT)
    plugin, leaving = echoing(), Plugin("leaving")

    @leaving.intercept(LLM_AFTER, timeout_ms=20_000)
    async def leave(_: LlmAfterData) -> None:  # pyright: ignore[reportUnusedFunction]
        await plugin.detach()

    await here.add(plugin, leaving)
    after = await here.say("go")
    assert json.loads((after.reply or "").removeprefix("got "))["error"] == (
        "The tool service is absent: no process offers echo."
    )
    assert [line["tool"] for line in warned("tool is absent")] == ["echo"]


async def _nothing(_: JsonObject, __: ToolCallContext) -> None:
    return None
