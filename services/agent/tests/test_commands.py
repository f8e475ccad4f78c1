"""The agent's commands on a real mesh: who offers them, what they write, what is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
import pytest_asyncio

from aalis_agent.adapters.sessions_kv import KvRecords, MeshPersonas
from aalis_agent.commands import AgentCommands
from aalis_contracts import subjects
from aalis_contracts.contract import Contract
from aalis_contracts.messages import ModelRef
from aalis_contracts.rpc import (
    CommandContext,
    CommandResult,
    CommandRun,
    PersonaList,
    PersonaNames,
)
from aalis_contracts.sessions import SessionConfig, SessionDefaults, SessionInfo
from aalis_sdk import topology
from aalis_sdk.buckets import Bucket
from aalis_sdk.mesh import Mesh
from aalis_sdk.plugin import Plugin
from aalis_sdk.registry import Registry
from aalis_sdk.sessions import Sessions
from aalis_sdk.testing.meshes import Meshes

from .conftest import World

RegistryFactory = Callable[[Mesh], Awaitable[Registry]]


@dataclass
class Desk:
    """A person's view of the commands; replicas of the agent offer them."""

    mesh: Mesh
    registry: Registry
    session_id: str
    records: Bucket
    replicas: list[Plugin] = field(default_factory=list[Plugin])
    events: list[tuple[str, SessionInfo]] = field(default_factory=list[tuple[str, SessionInfo]])

    async def run(self, path: str, keyword: str | None = None, **options: str | bool) -> str:
        """Run a command as the gateway does once it has read its line."""
        call = CommandRun(
            path=path,
            args={} if keyword is None else {"keyword": keyword},
            options=dict(options),
            context=CommandContext(
                session_id=self.session_id, platform="cli", user_id="console", key="k"
            ),
        )
        answer = await self.mesh.request(
            subjects.command_run(path), call, CommandResult, timeout=30.0
        )
        return answer.text or ""

    async def record(self) -> SessionInfo | None:
        """Return the session's record as it is stored."""
        found = await self.records.get(subjects.kv_key(self.session_id))
        return None if found is None else SessionInfo.from_json(found.value)

    async def write(self, record: SessionInfo) -> None:
        """Write a record, whatever was there."""
        await self.records.put(subjects.kv_key(record.id), record)

    async def told(self, count: int) -> list[tuple[str, SessionInfo]]:
        """Return what was told of the session once it is as much as `count`."""
        async with asyncio.timeout(30):
            while len(self.events) < count:
                await asyncio.sleep(0.01)
        return self.events


@pytest_asyncio.fixture
async def desk(world: World, mesh: Meshes, registry: RegistryFactory, session_id: str) -> Desk:
    """Two replicas of the agent, and somebody who types."""
    await world.open()
    person = await mesh("person")
    made = Desk(person, await registry(person), session_id, Bucket(person, topology.SESSIONS))
    for _ in range(2):
        agent = await mesh("agent")
        known = await registry(agent)
        commands = AgentCommands(
            aborts=world.replica.aborts,
            models=world.models,
            personas=MeshPersonas(agent, known),
            records=KvRecords(Sessions(agent, world.clock.now)),
            default_llm=None,
            texts=world.texts,
        ).plugin()
        await commands.attach(agent, known)
        made.replicas.append(commands)

    def hear(verb: str) -> Callable[[SessionInfo], Awaitable[None]]:
        async def take(event: SessionInfo) -> None:
            made.events.append((verb, event))

        return take

    for verb in ("created", "updated"):
        subject = subjects.session_event(verb, session_id)
        await person.listen(subject.template, SessionInfo, hear(verb), name=subject.name)
    return made


async def offer_personas(mesh: Mesh, *names: str) -> None:
    """Answer `persona.list`, as the persona service does."""

    async def answer(_: PersonaList) -> Contract:
        return PersonaNames(names=list(names))

    await mesh.respond(subjects.PERSONA_LIST, PersonaList, answer)


async def test_the_commands_are_offered_with_the_risk_they_carry(desk: Desk) -> None:
    paths = {"model", "persona", "session", "session.set", "session.reset", "stop"}

    def offered() -> dict[str, str | None]:
        return {entry.path: entry.risk for entry in desk.registry.commands()}

    assert await desk.registry.wait_for(lambda: set(offered()) == paths, 20)
    assert {path for path, risk in offered().items() if risk == "sensitive"} == {
        "session",
        "session.set",
        "session.reset",
    }
    assert all(entry.confirm is None for entry in desk.registry.commands())
    usage = {entry.path: entry.usage("/") for entry in desk.registry.commands()}
    assert usage["model"] == "/model [-p <page:number>] [keyword:text]"
    assert usage["session.set"] == (
        "/session.set [-m <model>] [-p <persona>] [-t <on|off>] [-n <name>]"
    )
    assert usage["session.reset"] == "/session.reset [-m] [-p] [-t]"


async def test_models_are_listed_from_what_the_providers_offer(desk: Desk) -> None:
    assert "scripted/demo" in await desk.run("model")
    assert await desk.run("model", keyword="gpt") == 'No model has "gpt" in its name.'


async def test_changes_made_at_once_on_two_replicas_lose_nothing(desk: Desk) -> None:
    names = [f"name {number}" for number in range(6)]
    answers = await asyncio.gather(
        desk.run("session.set", model="scripted/tiny"),
        desk.run("session.set", persona="catgirl"),
        desk.run("session.set", think="off"),
        *(desk.run("session.set", name=name) for name in names),
    )

    assert all("have changed" in answer for answer in answers), answers
    record = await desk.record()
    assert record is not None
    assert record.config == SessionConfig(
        llm=ModelRef(provider="scripted", model="tiny"), persona="catgirl", think=False
    )
    assert record.name in names
    told = await desk.told(1 + len(answers))
    assert [verb for verb, _ in told].count("created") == 1
    newest = max((event for _, event in told), key=lambda event: event.updated_at)
    assert newest == record


async def test_what_changes_nothing_is_not_told(desk: Desk) -> None:
    await desk.run("session.set", think="on")
    again = await desk.run("session.set", think="on")
    await desk.run("session.set", name="new")

    assert again.split("\n") == ["Nothing has changed:", "Thinking: on (unchanged)"]
    assert [verb for verb, _ in await desk.told(3)] == ["created", "updated", "updated"]


async def test_one_wrong_option_keeps_all_of_them_from_being_written(desk: Desk) -> None:
    await offer_personas(desk.mesh, "catgirl", "plain")

    answer = await desk.run(
        "session.set", model="gone", persona="nobody", think="on", name="never written"
    )

    assert answer.split("\n") == [
        "No setting was changed:",
        "Model gone not found. 2 models available, for example: scripted/demo, scripted/tiny.",
        "Persona nobody not found. 2 personas available, for example: catgirl, plain.",
    ]
    assert await desk.record() is None


async def test_personas_are_listed_by_whoever_has_them(desk: Desk) -> None:
    assert await desk.run("persona") == (
        "Personas cannot be listed: the persona service is not running."
    )
    unchecked = await desk.run("session.set", persona="nobody")
    assert unchecked.endswith('(Personas cannot be listed now; "nobody" was not checked.)')

    await offer_personas(desk.mesh, "catgirl", "plain")

    assert "  catgirl\n  plain\n" in await desk.run("persona")
    assert "unchecked" not in await desk.run("session.set", persona="plain")


async def test_no_options_at_all_are_answered_with_usage(desk: Desk) -> None:
    answer = await desk.run("session.set")
    assert answer.startswith("Usage: /session.set [-m <model>]")
    assert await desk.record() is None


async def test_the_overview_knows_parent_profile_and_default(desk: Desk) -> None:
    parent = SessionInfo(
        id=f"{desk.session_id}-parent",
        name="parent",
        config=SessionConfig(
            persona="not inherited", session_defaults=SessionDefaults(persona="catgirl")
        ),
        created_at=1,
        updated_at=1,
    )
    await desk.write(parent)
    await desk.write(
        SessionInfo(
            id=desk.session_id,
            name="child",
            parent_id=parent.id,
            platform=f"born-{desk.session_id}",
            created_at=1,
            updated_at=1,
        )
    )
    profiles = Bucket(desk.mesh, topology.PROFILES)
    profile = SessionConfig(persona="plain", think=True)
    await profiles.put(subjects.kv_key(f"born-{desk.session_id}"), profile)

    lines = (await desk.run("session")).split("\n")

    assert lines[0] == f"Session: child ({desk.session_id})"
    assert lines[1].startswith("Model: scripted/demo")
    assert lines[3:7] == [
        "Persona: catgirl (from: parent session)",
        "  session – > parent session catgirl > platform profile plain > default –",
        "Thinking: on (from: platform profile)",
        "  session – > parent session – > platform profile on > default –",
    ]
    assert lines[7].startswith("Change: /session.set ")
    assert lines[8] == "Reset: /session.reset [-m] [-p] [-t]"


async def test_a_reset_unsets_what_it_names_and_says_what_counts_then(desk: Desk) -> None:
    await desk.run("session.set", model="scripted/tiny", persona="catgirl", think="on", name="kept")

    one = await desk.run("session.reset", model=True)
    record = await desk.record()
    assert record is not None
    assert record.config == SessionConfig(persona="catgirl", think=True)
    assert one.split("\n") == [
        "Back to the defaults; in effect now:",
        "Model: scripted/demo (from: first model)",
        "Persona: catgirl (from: session)",
        "Thinking: on (from: session)",
    ]

    await desk.run("session.reset")
    record = await desk.record()
    assert record is not None
    assert (record.name, record.config) == ("kept", SessionConfig())


async def test_a_reset_of_a_session_without_a_record_makes_none(desk: Desk) -> None:
    answer = await desk.run("session.reset")
    assert "Model: scripted/demo (from: first model)" in answer
    assert await desk.record() is None


@pytest.mark.parametrize("body", [b"not json", b'{"id":"s"}'])
async def test_an_unreadable_record_is_said_and_left_as_it_is(desk: Desk, body: bytes) -> None:
    key = subjects.kv_key(desk.session_id)
    await desk.records.put(key, body)

    for answer in (
        await desk.run("session"),
        await desk.run("session.set", think="on"),
        await desk.run("session.reset"),
    ):
        assert answer.startswith("The session's record cannot be read")

    found = await desk.records.get(key)
    assert found is not None
    assert found.value == body


async def test_stopping_where_nothing_runs_says_so(desk: Desk) -> None:
    assert await desk.run("stop") == "Nothing is running."
