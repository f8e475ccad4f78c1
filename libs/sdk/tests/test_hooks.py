"""This is about hooks: interceptors asked in order, and what those do that answer badly."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from aalis_contracts.hooks import InputBeforeData
from aalis_contracts.messages import IncomingMessage
from aalis_contracts.registry import HookEntry
from aalis_contracts.subjects import hook as hook_subject
from aalis_contracts.subjects import hook_key
from aalis_sdk.buckets import Bucket
from aalis_sdk.hooks import HookFailed, Hooks
from aalis_sdk.plugin import Plugin, Stop
from aalis_sdk.registry import Registry
from aalis_sdk.topology import REGISTRY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from nats.aio.msg import Msg

    from aalis_sdk.mesh import Mesh
    from aalis_sdk.testing.meshes import Meshes

    Attach = Callable[..., Awaitable[Mesh]]
    Warned = Callable[[str], list[dict[str, object]]]

HOOK = "agent:input:before"
SKIPPED = "interceptor skipped"
UNREADABLE = "patch unreadable"
TOO_LARGE = "patch too large"
REFUSED = "patch refused"
PATIENCE = 20.0
MEGABYTES = 5_000_000


@dataclass
class Asker:
    """Who runs the chain; `offered` waits until the interceptors are known to it."""

    mesh: Mesh
    registry: Registry
    hooks: Hooks
    rogues: list[str] = field(default_factory=list[str])

    async def offered(self, *plugins: str, mode: str = "intercept") -> None:
        def known() -> bool:
            return {entry.plugin for entry in self.registry.hooks(HOOK, mode)} >= set(plugins)

        assert await self.registry.wait_for(known, PATIENCE)

    async def rogue(self, name: str, answer: bytes | None, **entry: Any) -> None:
        """Offer an interceptor in plain NATS that answers with any bytes, or never (None)."""

        async def respond(message: Msg) -> None:
            if answer is not None:
                await message.respond(answer)

        await self.mesh.client.subscribe(hook_subject(HOOK, name).name, cb=respond)
        await self.mesh.settle()
        announced = HookEntry(hook=HOOK, plugin=name, **entry)
        self.rogues.append(hook_key(HOOK, name))
        await Bucket(self.mesh, REGISTRY).put(self.rogues[-1], announced, 30)
        await self.offered(name)

    async def run(self, text: str = "hello") -> tuple[str, dict[str, Any], str | None]:
        """Run the chain; return the text and the metadata as left, and who stopped it."""
        message = IncomingMessage(content=text, session_id="s", platform="cli")
        chain = await self.hooks.run(HOOK, InputBeforeData(message=message, metadata={}))
        assert chain.reached_end is (chain.stopped_by is None)
        return chain.data.message.content, chain.data.metadata, chain.stopped_by


@pytest_asyncio.fixture
async def asker(mesh: Meshes) -> AsyncIterator[Asker]:
    """Give a process that runs chains."""
    connected = await mesh("asker")
    registry = Registry(connected)
    await registry.start()
    made = Asker(connected, registry, Hooks(connected, registry))
    yield made
    for key in made.rogues:
        await Bucket(connected, REGISTRY).delete(key)


def adding(plugin: str, order: int = 0, **more: Any) -> Plugin:
    """Return a plugin that writes its name behind the text, and what it saw into the metadata."""
    made = Plugin(plugin)

    @made.intercept(HOOK, order=order, **more)
    async def add(data: InputBeforeData) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction]
        text = f"{data.message.content} {plugin}"
        seen = {**data.metadata, plugin: data.message.content}
        return {"message": data.message.model_copy(update={"content": text}), "metadata": seen}

    return made


async def test_each_sees_what_the_one_before_has_left_in_order_and_name(
    asker: Asker, attach: Attach
) -> None:
    for plugin in (adding("last", 9), adding("b"), adding("a")):
        await attach(plugin)
    await asker.offered("a", "b", "last")
    assert await asker.run("hi") == (
        "hi a b last",
        {"a": "hi", "b": "hi a", "last": "hi a b"},
        None,
    )


async def test_nobody_there_means_no_request(asker: Asker) -> None:
    before = asker.mesh.client.stats["out_msgs"]
    assert not asker.hooks.anyone(HOOK)
    assert await asker.run("hi") == ("hi", {}, None)
    assert asker.mesh.client.stats["out_msgs"] == before


async def test_a_stop_applies_its_patch_and_spares_the_rest(asker: Asker, attach: Attach) -> None:
    stopper = Plugin("stopper")

    @stopper.intercept(HOOK, order=5)
    async def stop(_: InputBeforeData) -> None:  # pyright: ignore[reportUnusedFunction]
        raise Stop(metadata={"why": "enough"})

    await attach(adding("first"))
    await attach(stopper)
    await attach(adding("never", 9))
    await asker.offered("first", "stopper", "never")
    assert await asker.run("hi") == ("hi first", {"why": "enough"}, "stopper")


async def test_observers_are_told_how_it_ended_and_not_waited_for(
    asker: Asker, attach: Attach, warned: Warned
) -> None:
    observer, seen, told = Plugin("observer"), list[str](), asyncio.Event()

    @observer.observe(HOOK)
    async def watch(data: InputBeforeData) -> None:  # pyright: ignore[reportUnusedFunction]
        seen.append(data.message.content)
        told.set()
        await asyncio.sleep(0)
        raise RuntimeError("nobody minds")

    await attach(observer)
    await attach(adding("a"))
    await asker.offered("a")
    await asker.offered("observer", mode="observe")
    assert await asker.run("hi") == ("hi a", {"a": "hi"}, None)
    async with asyncio.timeout(PATIENCE):
        await told.wait()
    assert seen == ["hi a"]
    assert warned(SKIPPED) == []


async def test_two_replicas_of_an_interceptor_are_asked_once(asker: Asker, attach: Attach) -> None:
    await attach(adding("a"))
    await attach(adding("a"))
    await asker.offered("a")
    assert [await asker.run("hi") for _ in range(5)] == [("hi a", {"a": "hi"}, None)] * 5


async def test_the_same_hook_taken_twice_by_one_plugin_is_the_later_one(
    asker: Asker, attach: Attach
) -> None:
    plugin = adding("a")

    @plugin.intercept(HOOK)
    async def instead(_: InputBeforeData) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction]
        return {"metadata": {"later": True}}

    await attach(plugin)
    await asker.offered("a")
    assert await asker.run("hi") == ("hi", {"later": True}, None)


def patch(**fields: object) -> bytes:
    return json.dumps({"action": "next", "patch": fields}).encode()


MESSAGE = {"content": "taken over", "sessionId": "s", "platform": "cli"}
BAD: dict[str, tuple[bytes | None, str]] = {
    "silence": (None, SKIPPED),
    "no-json": (b"\x00\xff not json", SKIPPED),
    "empty": (b"", SKIPPED),
    "null": (b"null", SKIPPED),
    "list": (b"[]", SKIPPED),
    "deep": (b'{"action":"next","patch":' + b'{"a":' * 5000 + b"1" + b"}" * 5001, SKIPPED),
    "unknown-action": (b'{"action":"maybe"}', SKIPPED),
    "patch-is-text": (b'{"action":"next","patch":"x"}', SKIPPED),
    "error": (b'{"error":{"code":"internal","message":"oops"}}', SKIPPED),
    "wrong-type": (patch(message="taken over"), UNREADABLE),
    "null-message": (patch(message=None), UNREADABLE),
    "half-a-message": (patch(message={"content": "taken over"}), UNREADABLE),
    "unknown-field": (patch(content="taken over", result="x"), REFUSED),
    "5-mb-of-nothing": (patch(junk="x" * MEGABYTES), REFUSED),
    "5-mb-of-rubbish": (b"x" * MEGABYTES, SKIPPED),
    "5-mb-message": (patch(message={**MESSAGE, "content": "x" * MEGABYTES}), TOO_LARGE),
    "5-mb-metadata": (patch(metadata={"x": "y" * MEGABYTES}), TOO_LARGE),
}


@pytest.mark.parametrize(("answer", "event"), BAD.values(), ids=BAD.keys())
async def test_a_bad_answer_is_named_in_one_warning_and_changes_nothing(
    asker: Asker,
    attach: Attach,
    warned: Warned,
    caplog: pytest.LogCaptureFixture,
    answer: bytes | None,
    event: str,
) -> None:
    await attach(adding("a-good", 1))
    await asker.rogue("bad", answer, order=2, timeout_ms=100)
    await attach(adding("z-good", 3))
    await asker.offered("a-good", "bad", "z-good")
    assert await asker.run("hi") == (
        "hi a-good z-good",
        {"a-good": "hi", "z-good": "hi a-good"},
        None,
    )
    assert [line["plugin"] for line in warned(event)] == ["bad"]
    assert len(caplog.records) == 1
    assert len(str(caplog.records[0].__dict__)) < 3000


@pytest.mark.parametrize("answer", [None, b"null", patch(message=1), patch(message=MESSAGE)])
async def test_one_that_must_not_be_missed_fails_the_chain_by_name(
    asker: Asker, attach: Attach, answer: bytes | None
) -> None:
    await asker.rogue("guard", answer, order=1, timeout_ms=100, on_failure="fail")
    if answer == patch(message=MESSAGE):
        assert (await asker.run("hi"))[0] == "taken over"
        return
    with pytest.raises(HookFailed, match="agent:input:before failed in plugin guard: "):
        await asker.run("hi")


async def test_one_that_raises_or_returns_what_is_no_json_is_skipped_by_name(
    asker: Asker, attach: Attach, warned: Warned
) -> None:
    raising, odd = Plugin("raising"), Plugin("odd")

    @raising.intercept(HOOK)
    async def fail(_: InputBeforeData) -> None:  # pyright: ignore[reportUnusedFunction]
        raise RuntimeError("broken inside")

    @odd.intercept(HOOK)
    async def strange(_: InputBeforeData) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction]
        return {"message": object()}

    await attach(raising)
    await attach(odd)
    await asker.offered("raising", "odd")
    assert await asker.run("hi") == ("hi", {}, None)
    assert [line["plugin"] for line in warned(SKIPPED)] == ["odd", "raising"]


async def test_one_that_hangs_is_cancelled_once_nobody_waits_for_it(
    asker: Asker, attach: Attach, warned: Warned
) -> None:
    plugin, ended = Plugin("hangs"), asyncio.Event()

    @plugin.intercept(HOOK, timeout_ms=50)
    async def hang(_: InputBeforeData) -> None:  # pyright: ignore[reportUnusedFunction]
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    await attach(plugin)
    await asker.offered("hangs")
    assert await asker.run("hi") == ("hi", {}, None)
    async with asyncio.timeout(PATIENCE):
        await ended.wait()
    assert [line["plugin"] for line in warned(SKIPPED)] == ["hangs"]


async def test_one_that_vanishes_while_the_chain_runs_is_skipped_without_a_word(
    asker: Asker, attach: Attach, warned: Warned
) -> None:
    leaver, remover = adding("leaver", 9), Plugin("remover")

    @remover.intercept(HOOK, timeout_ms=20_000)
    async def remove(_: InputBeforeData) -> None:  # pyright: ignore[reportUnusedFunction]
        await leaver.detach()
        assert await asker.registry.wait_for(lambda: len(asker.registry.hooks(HOOK)) == 1, PATIENCE)

    await attach(leaver)
    await attach(remover)
    await asker.offered("leaver", "remover")
    assert await asker.run("hi") == ("hi", {}, None)
    assert warned(SKIPPED) == []


async def test_a_large_message_can_still_be_changed_but_not_made_larger(
    asker: Asker, attach: Attach, warned: Warned
) -> None:
    grower, cutter = Plugin("larger"), Plugin("smaller")

    @grower.intercept(HOOK)
    async def grow(data: InputBeforeData) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction]
        return {"message": data.message.model_copy(update={"content": data.message.content + "x"})}

    @cutter.intercept(HOOK, order=1)
    async def cut(data: InputBeforeData) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction]
        return {"message": data.message.model_copy(update={"content": data.message.content[:-1]})}

    await attach(grower)
    await attach(cutter)
    await asker.offered("larger", "smaller")
    text, _, _ = await asker.run("x" * MEGABYTES)
    assert text == "x" * (MEGABYTES - 1)
    assert [line["plugin"] for line in warned(TOO_LARGE)] == ["larger"]


@pytest.mark.parametrize("hook", ["agent:nothing", "agent.input.before", ""])
async def test_a_hook_that_does_not_exist_cannot_be_taken(hook: str) -> None:
    with pytest.raises(ValueError, match="is unknown; use one of"):
        Plugin("p").intercept(hook)


async def test_the_end_of_a_turn_can_be_observed_but_not_intercepted() -> None:
    with pytest.raises(ValueError, match="observe it"):
        Plugin("p").intercept("agent:turn:after")
