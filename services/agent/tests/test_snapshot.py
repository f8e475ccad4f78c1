"""Snapshots: what a session's context would cost now, without a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aalis_agent.snapshot import snapshot
from aalis_contracts.events import TokenRequest
from aalis_contracts.hooks import LLM_BEFORE, LlmBeforeData

if TYPE_CHECKING:
    from aalis_contracts.contract import Contract
    from aalis_contracts.hooks import PromptBuild

    from .conftest import World


async def nothing(*_: object) -> str:
    return ""


async def test_a_request_is_answered_with_the_usage_of_the_session_as_it_is(world: World) -> None:
    await world.open({"reply": "an answer"})
    world.tools.add("free", nothing)
    world.tools.add("grouped", nothing, groups=["files"])
    parts = world.replica.parts
    before = await snapshot(parts, TokenRequest(session_id="s"))
    await world.deliver(world.say("a question that takes a few tokens"))
    asked = len(world.provider.asked)
    after = await snapshot(parts, TokenRequest(session_id="s"))

    assert before is not None
    assert after is not None
    assert (after.session_id, after.platform, after.turn_id) == ("s", "webui", None)
    assert before.breakdown.history == 0
    assert after.breakdown.history > 0
    assert after.breakdown.persona == before.breakdown.persona > 0
    assert after.breakdown.tool_defs == before.breakdown.tool_defs > 0
    assert after.used == before.used + after.breakdown.history
    # No model was asked, and nothing was announced, for a look.
    assert len(world.provider.asked) == asked


async def test_whoever_adds_to_a_call_is_asked_on_trial(world: World) -> None:
    trials: list[bool | None] = []

    async def build(request: PromptBuild) -> str:
        trials.append(request.dry_run)
        return "a block"

    async def watch(data: Contract) -> None:
        assert isinstance(data, LlmBeforeData)
        trials.append(data.dry_run)

    await world.open({"reply": "an answer"})
    world.contributors.add("plugin", "block", "knowledge", build)
    world.interceptors.add(LLM_BEFORE, "watcher", watch)
    usage = await snapshot(world.replica.parts, TokenRequest(session_id="s", platform="cli"))

    assert usage is not None
    assert usage.platform == "cli"
    assert trials == [True, True]
    assert list(usage.breakdown.injectors or {}) == ["block"]


async def test_without_a_model_there_is_silence(world: World) -> None:
    await world.open({"reply": "an answer"}, models=[])
    world.models._entries.clear()  # pyright: ignore[reportPrivateUsage]

    assert await snapshot(world.replica.parts, TokenRequest(session_id="s")) is None
