"""Records of sessions and whose setting counts (SPEC SES-2 to SES-5, EVT-10)."""

from __future__ import annotations

import asyncio

import pytest

from aalis_contracts import subjects
from aalis_contracts.errors import Fault, InvalidRequest
from aalis_contracts.messages import ModelRef
from aalis_contracts.sessions import SessionConfig, SessionDefaults, SessionInfo
from aalis_sdk import topology
from aalis_sdk.buckets import Bucket
from aalis_sdk.mesh import Mesh
from aalis_sdk.sessions import Sessions, resolve
from aalis_sdk.testing.meshes import Meshes

NOON = 1_764_590_400_000
"""2025-12-01 12:00 UTC."""
GPT = ModelRef(provider="openai:main", model="gpt")


def test_the_strongest_layer_counts_field_by_field_and_shadows_the_others() -> None:
    found = resolve(
        [
            ("session", SessionConfig(think=False, llm=ModelRef(provider="half"))),
            ("parent", SessionDefaults(llm=GPT, persona="catgirl")),
            ("profile", SessionConfig(persona="plain", think=True)),
            ("default", SessionConfig(enabled_tool_groups=[])),
        ]
    )
    assert found.config == SessionConfig(
        think=False, llm=GPT, persona="catgirl", enabled_tool_groups=[]
    )
    sources = {name: setting.source for name, setting in found.settings.items()}
    assert sources == {
        "think": "session",
        "llm": "parent",
        "persona": "parent",
        "enabled_tool_groups": "default",
    }
    assert found.settings["persona"].shadowed == (("profile", "plain"),)
    assert found.settings["think"].shadowed == (("profile", True),)
    assert found.settings["llm"].shadowed == ()


def test_the_settings_for_children_are_not_inherited() -> None:
    config = SessionConfig(session_defaults=SessionDefaults(persona="catgirl"))
    assert resolve([("session", config)]).config == SessionConfig()


async def told(mesh: Mesh, session_id: str) -> list[tuple[str, SessionInfo]]:
    """Return what the stream of events holds of a session."""
    pattern = subjects.session_event("*", session_id).name
    found = await mesh.range(topology.EVENTS, pattern, 1)
    return [(entry.subject.split(".")[1], SessionInfo.from_json(entry.data)) for entry in found]


async def test_whoever_writes_a_record_tells_of_it(mesh: Meshes, session_id: str) -> None:
    here = await mesh()
    sessions = Sessions(here, lambda: NOON)

    made = await sessions.ensure(session_id, platform="cli", user_id="console")
    assert (made.name, made.status, made.created_by) == ("12-01 12:00", "active", "user")
    assert await sessions.ensure(session_id, platform="other", name="ignored") == made
    renamed = await sessions.update(
        session_id, lambda record: record.model_copy(update={"name": "new"})
    )
    await sessions.update(session_id, lambda record: record)
    done = await sessions.update(
        session_id, lambda record: record.model_copy(update={"status": "completed"}), "completed"
    )

    async with asyncio.timeout(20):
        while len(found := await told(here, session_id)) < 3:
            await asyncio.sleep(0.01)
    assert found == [("created", made), ("updated", renamed), ("completed", done)]


async def test_many_changes_at_once_are_all_in_the_record(mesh: Meshes, session_id: str) -> None:
    replicas = [Sessions(await mesh(), lambda: NOON) for _ in range(2)]
    await replicas[0].ensure(session_id)

    def adding(child: str):  # noqa: ANN202 - a change of a record
        def change(record: SessionInfo) -> SessionInfo:
            return record.model_copy(update={"children": [*record.children, child]})

        return change

    names = [f"child-{number}" for number in range(8)]
    await asyncio.gather(
        *(replicas[at % 2].update(session_id, adding(name)) for at, name in enumerate(names))
    )

    record = await replicas[1].get(session_id)
    assert record is not None
    assert sorted(record.children) == names


async def test_what_does_not_exist_is_not_changed(mesh: Meshes, session_id: str) -> None:
    sessions = Sessions(await mesh(), lambda: NOON)
    with pytest.raises(InvalidRequest, match="does not exist"):
        await sessions.update(session_id, lambda record: record)
    assert (await sessions.effective(session_id, None)).config == SessionConfig()


async def test_an_unreadable_record_is_left_as_it_is(mesh: Meshes, session_id: str) -> None:
    here = await mesh()
    bucket = Bucket(here, topology.SESSIONS)
    await bucket.put(session_id, b"torn")
    sessions = Sessions(here, lambda: NOON)

    for attempt in (
        sessions.get(session_id),
        sessions.ensure(session_id),
        sessions.update(session_id, lambda record: record),
        sessions.effective(session_id, "cli"),
    ):
        with pytest.raises(Fault) as unreadable:
            await attempt
        assert not unreadable.value.retryable

    found = await bucket.get(session_id)
    assert found is not None
    assert found.value == b"torn"


async def test_a_room_keeps_the_profile_of_its_own_platform(mesh: Meshes, session_id: str) -> None:
    here = await mesh()
    sessions, profiles = Sessions(here, lambda: NOON), Bucket(here, topology.PROFILES)
    born, other = f"born-{session_id}", f"other-{session_id}"
    await profiles.put(born, SessionConfig(persona="at home"))
    await profiles.put(other, SessionConfig(persona="elsewhere"))

    before = await sessions.effective(session_id, other)
    assert before.settings["persona"].value == "elsewhere"
    await sessions.ensure(session_id, platform=born)
    after = await sessions.effective(session_id, other)
    assert after.settings["persona"].value == "at home"
