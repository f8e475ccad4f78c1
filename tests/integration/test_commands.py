"""What a person sets by command: refused whole, kept through a restart of everything, and used."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aalis_contracts import subjects
from aalis_contracts.registry import ServiceEntry
from aalis_contracts.rpc import PersonaGet, PersonaList, PersonaNames, PersonaPrompt
from aalis_sdk import topology
from aalis_sdk.buckets import Bucket
from aalis_sdk.registry import TTL_SECONDS
from aalis_sdk.testing.stack import Stack

if TYPE_CHECKING:
    from aalis_contracts.messages import OutgoingMessage
    from aalis_sdk.mesh import Mesh
    from aalis_sdk.testing.meshes import Meshes
    from aalis_sdk.testing.person import Person
    from aalis_sdk.testing.processes import Spawner
    from aalis_sdk.testing.servers import NatsServer

pytestmark = pytest.mark.timeout(240)

CONSOLE = "console"
"""Who sits at the machine: an owner, who may do what is sensitive (SPEC CMD-12)."""
TINY_WINDOW = 4000
PERSONA_CHARS = 400
CHAIN = "  session – > parent session – > platform profile – > default –"
SCRIPT = {
    "models": [{"id": f"extra-{number:02}", "contextLength": 8000} for number in range(23)],
    "rules": [
        {"when": {"think": True}, "reply": "thinking on"},
        {"when": {"think": False}, "reply": "thinking off"},
        {"reply": "thinking unset"},
    ],
}

Meet = Callable[..., Awaitable["Person"]]


class Personas:
    """A plugin that offers two personas, and remembers which one was asked for."""

    def __init__(self, mesh: Mesh) -> None:
        self.asked: list[str | None] = []
        self._mesh = mesh

    @contextlib.asynccontextmanager
    async def offered(self) -> AsyncGenerator[Personas]:
        """Answer for as long as the block runs."""
        await self._mesh.respond(subjects.PERSONA_LIST, PersonaList, self._list)
        await self._mesh.respond(subjects.PERSONA_GET, PersonaGet, self._get)
        staying = asyncio.create_task(self._stay())
        try:
            yield self
        finally:
            staying.cancel()
            await asyncio.gather(staying, return_exceptions=True)

    async def _list(self, _: PersonaList) -> PersonaNames:
        return PersonaNames(names=["strict-reviewer", "catgirl"])

    async def _get(self, request: PersonaGet) -> PersonaPrompt:
        self.asked.append(request.persona)
        return PersonaPrompt(system_prompt="You purr. " * (PERSONA_CHARS // 10), name="somebody")

    async def _stay(self) -> None:
        entry = ServiceEntry(
            service="personas", instance="one", version="0", since=0, capabilities=["persona"]
        )
        bucket = Bucket(self._mesh, topology.REGISTRY)
        while True:
            await bucket.put(subjects.service_key("personas", "one"), entry, TTL_SECONDS)
            await asyncio.sleep(TTL_SECONDS / 4)


@pytest.fixture
def services(
    spawn_service: Spawner, environment: dict[str, str], tmp_path: Path
) -> Callable[[str], Awaitable[Stack]]:
    """Give a way to start what commands need, in a locale; nobody offers personas there."""
    script = tmp_path / "script.yaml"
    script.write_text(json.dumps(SCRIPT), encoding="utf-8")

    async def start(locale: str) -> Stack:
        told = {**environment, "AALIS_LOCALE": locale, "AALIS_SCRIPT": str(script)}
        stack = Stack(spawn_service, told)
        await asyncio.gather(*(stack.start(name) for name in ("memory", "gateway", "agent")))
        return stack

    return start


async def command(somebody: Person, line: str) -> list[str]:
    """Type a line; return what it is answered with."""
    answer = await somebody.ask(line, user_id=CONSOLE)
    assert answer.source == "command"
    return answer.content.split("\n")


async def test_settings_are_checked_used_and_kept_through_a_restart_of_everything(
    services: Callable[[str], Awaitable[Stack]],
    person: Meet,
    mesh: Meshes,
    nats_server: NatsServer,
) -> None:
    stack = await services("en")
    somebody = await person()
    assert await command(somebody, "/session") == [
        f"Session: {somebody.session_id}",
        "Model: scripted/demo (from: first model)",
        f"{CHAIN} > first model scripted/demo",
        "Persona: not set",
        CHAIN,
        "Thinking: not set",
        CHAIN,
        "Change: /session.set [-m <model>] [-p <persona>] [-t <on|off>] [-n <name>]",
        "Reset: /session.reset [-m] [-p] [-t]",
    ]
    async with Personas(await mesh("personas")).offered() as personas:
        await _a_wrong_option_keeps_everything_as_it_was(somebody)
        line = "/session.set -m scripted/tiny -p catgirl -t on -n 'Night shift'"
        *changed, renamed = await command(somebody, line)
        assert changed == [
            "This session's settings have changed:",
            "Model: not set → scripted/tiny",
            "Persona: not set → catgirl",
            "Thinking: not set → on",
        ]
        assert renamed.endswith("→ Night shift")
        await _the_settings_count(somebody, personas)

        for name in stack.processes:
            await stack.one(name).terminate()
        nats_server.restart()
        await asyncio.gather(*(stack.start(name) for name in list(stack.processes)))

        shown = await command(somebody, "/session")
        assert shown[0] == f"Session: Night shift ({somebody.session_id})"
        assert [line for line in shown if "(from: session)" in line] == [
            "Model: scripted/tiny (from: session)",
            "Persona: catgirl (from: session)",
            "Thinking: on (from: session)",
        ]
        await _the_settings_count(somebody, personas)

        assert await command(somebody, "/session.reset -m -t") == [
            "Back to the defaults; in effect now:",
            "Model: scripted/demo (from: first model)",
            "Persona: catgirl (from: session)",
            "Thinking: not set",
        ]
        after = await somebody.ask("hello once more", user_id=CONSOLE)
        assert (after.content, _model(after)) == ("thinking unset", "demo")
        stranger = await person(f"{somebody.session_id}-other")
        await stranger.ask("hello", user_id=CONSOLE)
        assert personas.asked[-1] is None


async def _a_wrong_option_keeps_everything_as_it_was(somebody: Person) -> None:
    wrong = await command(somebody, "/session.set -m scripted/gone -p nobody -t on -n never")
    assert [line.partition(" not found")[0] for line in wrong] == [
        "No setting was changed:",
        "Model scripted/gone",
        "Persona nobody",
    ]
    neither = await command(somebody, "/session.set -m scripted/tiny -t maybe")
    assert neither[0] == "Command session.set: -t cannot be maybe; choose one of on, off"
    answer = await somebody.ask("hello", user_id=CONSOLE)
    assert (answer.content, _model(answer)) == ("thinking unset", "demo")


async def _the_settings_count(somebody: Person, personas: Personas) -> None:
    """Take a turn, and see that it was taken with what was set."""
    answer = await somebody.ask("how do you do?", user_id=CONSOLE)
    assert answer.content.startswith("thinking on")
    assert _model(answer) == "tiny"
    assert personas.asked[-1] == "catgirl"
    await somebody.until(lambda: somebody.usages[-1].context_window == TINY_WINDOW)
    assert somebody.usages[-1].breakdown.persona > PERSONA_CHARS / 10


def _model(answer: OutgoingMessage) -> str | None:
    return answer.model_info.model if answer.model_info is not None else None


async def test_chinese_answers_and_who_may_have_them(
    services: Callable[[str], Awaitable[Stack]], person: Meet
) -> None:
    await services("zh")
    somebody = await person()

    page = await command(somebody, "/model -p 2")
    assert page[0] == "可用的模型共 25 个，第 2/2 页："
    assert [line.strip() for line in page[1:-2]] == [
        *(f"scripted/extra-{number}" for number in range(19, 23)),
        "scripted/tiny",
    ]
    assert page[-2:] == ["下一页：/model -p 1", "搜索：/model 关键词"]
    assert await command(somebody, "/model gpt") == ["没有名称含 “gpt” 的模型。"]
    assert await command(somebody, "/persona") == ["人设服务没有运行，无法列出人设。"]
    assert (await command(somebody, "/session.set -m gpt-4o"))[1].startswith(
        "找不到模型 gpt-4o。可用模型共 25 个，例如："
    )
    assert (await command(somebody, "/session.set"))[0].startswith("用法：/session.set ")
    changed = await command(somebody, "/session set -t off -n 深夜助手")
    assert changed[:2] == ["已更改本会话的设置：", "思考：未设置 → 关"]
    assert changed[2].endswith("→ 深夜助手")
    shown = await command(somebody, "/session")
    assert shown[0] == f"会话：深夜助手（{somebody.session_id}）"
    assert "思考：关（来源：本会话）" in shown

    denied = await somebody.ask("/session", user_id="u1")
    assert (denied.source, denied.content) == (
        "command",
        "你没有权限执行 session（需要等级 1）。",
    )
    listed = await somebody.ask("/model tiny", user_id="u1")
    assert "  scripted/tiny" in listed.content
