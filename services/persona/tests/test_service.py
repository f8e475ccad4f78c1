"""Persona on the mesh: what it answers, what it leaves to others, and what it keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aalis_contracts import subjects
from aalis_contracts.hooks import (
    MEMORY_CLEAR,
    REPLY_BEFORE,
    ClearReport,
    MemoryClearData,
    ReplyBeforeData,
)
from aalis_contracts.messages import IncomingMessage
from aalis_contracts.rpc import (
    ClearResults,
    MemoryClear,
    PersonaGet,
    PersonaList,
    PersonaNames,
    PersonaPrompt,
)
from aalis_sdk.hooks import Hooks
from aalis_sdk.mesh import Mesh, Remote
from aalis_sdk.plugin import Plugin
from aalis_sdk.registry import Registry

if TYPE_CHECKING:
    from aalis_sdk.testing.processes import Spawner

Start = Callable[..., Awaitable[Mesh]]
LiveCopy = Callable[[Mesh], Awaitable[Registry]]

MODULE = "aalis_persona"
GOOD = '{"mood": "calm", "say": "hi"}'


async def tell(mesh: Mesh, session: str, persona: str | None, **more: object) -> PersonaPrompt:
    request = PersonaGet.from_object({"sessionId": session, "persona": persona, **more})
    subject = subjects.request(subjects.PERSONA_GET)
    return await mesh.request(subject, request, PersonaPrompt)


async def names(mesh: Mesh) -> list[str]:
    subject = subjects.request(subjects.PERSONA_LIST)
    return (await mesh.request(subject, PersonaList(), PersonaNames)).names


async def conclude(
    mesh: Mesh, live: Registry, session: str, content: str, **more: object
) -> ReplyBeforeData:
    """Run the hook on a text as the agent does."""
    body = {"content": content, "attempt": 0, "turnId": "t", "platform": "cli"}
    data = ReplyBeforeData.from_object({**body, "sessionId": session, **more})
    return (await Hooks(mesh, live).run(REPLY_BEFORE, data)).data


async def test_a_chosen_persona_says_who_the_model_is(start: Start, session_id: str) -> None:
    mesh = await start(tz="Asia/Shanghai")
    incoming = IncomingMessage(content="hi", session_id=session_id, platform="qq")

    told = await tell(
        mesh, session_id, "cat", systemPromptExtra=" Be brief. ", incoming=incoming.to_object()
    )

    assert told.system_prompt == "You are Miu.\nA cat.\n\nPurr.\n\nBe brief."
    assert (told.name, told.nick_names) == ("Miu", ["kitty"])
    time, place = (told.volatile_prompt or "").splitlines()
    assert time.startswith("Current time: ")
    assert time.endswith("(Asia/Shanghai)")
    assert place == "Platform: qq"


async def test_without_a_choice_there_is_no_persona(start: Start, session_id: str) -> None:
    mesh = await start()

    for nothing in (None, ""):
        assert await tell(mesh, session_id, nothing) == PersonaPrompt(system_prompt="", name="")
    extra = await tell(mesh, session_id, None, systemPromptExtra=" Be brief. ")
    assert extra == PersonaPrompt(system_prompt="Be brief.", name="")


async def test_an_unknown_persona_is_not_found(start: Start, session_id: str) -> None:
    mesh = await start()

    for name in ("dog", "../cards/cat", "cat.yaml"):
        with pytest.raises(Remote, match=r"ask persona\.list") as refused:
            await tell(mesh, session_id, name)
        assert refused.value.error.code == "notFound"


async def test_a_card_that_is_added_or_changed_is_told_from_then_on(
    start: Start, session_id: str, cards: Path
) -> None:
    mesh = await start()
    assert await names(mesh) == ["cat", "host"]

    (cards / "ape.yaml").write_text("description: An ape.", encoding="utf-8")

    async with asyncio.timeout(30):
        while "ape" not in await names(mesh):
            await asyncio.sleep(0.05)
    assert await names(mesh) == ["ape", "cat", "host"]
    assert (await tell(mesh, session_id, "ape")).system_prompt == "You are ape.\nAn ape."


async def test_a_format_is_part_of_the_prompt_unless_it_is_switched_off(
    start: Start, session_id: str
) -> None:
    mesh = await start(persona_time=False)

    demanded = await tell(mesh, session_id, "host")
    free = await tell(mesh, session_id, "host", disableOutputFormat=True)

    assert 'For example: {"mood":"…","say":"…"}' in demanded.system_prompt
    assert free.system_prompt == "You are Host."
    assert free.volatile_prompt is None


async def test_a_reply_is_held_to_the_format_of_its_turn(
    start: Start, registry: LiveCopy, session_id: str
) -> None:
    mesh = await start()
    live = await registry(mesh)

    good = await conclude(mesh, live, session_id, f"Sure: {GOOD}", persona="host")
    bad = await conclude(mesh, live, session_id, "words", persona="host")
    worst = await conclude(mesh, live, session_id, "words", persona="host", attempt=1)
    free = await conclude(mesh, live, session_id, "words", persona="host", disableOutputFormat=True)

    assert (good.content, good.archive_content) == ("hi", '{"mood":"calm","say":"hi"}')
    assert (bad.retry_requested, bad.max_retries, bad.content) == (True, 1, "words")
    assert "mood (string), say (string)" in (bad.retry_feedback or "")
    assert (worst.retry_requested, worst.content) == (False, "")
    assert (free.retry_requested, free.content) == (False, "words")


@pytest.mark.parametrize("persona", [None, "", "a card that is gone"])
async def test_a_reply_of_no_persona_is_left_alone(
    start: Start, registry: LiveCopy, session_id: str, persona: str | None
) -> None:
    mesh = await start()
    live = await registry(mesh)
    text = '{"reply": "JSON that the person asked for"}'

    left = await conclude(mesh, live, session_id, text, persona=persona)

    assert (left.content, left.archive_content, left.retry_requested) == (text, None, False)


async def test_others_have_a_reply_first(start: Start, registry: LiveCopy, session_id: str) -> None:
    mesh = await start()
    live = await registry(mesh)
    other = Plugin("translator")

    async def complete(data: ReplyBeforeData) -> dict[str, str]:
        return {"content": f"{data.content}}}"}

    other.intercept(REPLY_BEFORE, order=999)(complete)
    await other.attach(mesh, live)
    try:
        assert await live.wait_for(lambda: len(live.hooks(REPLY_BEFORE)) == 2, 30)
        said = await conclude(mesh, live, session_id, GOOD[:-1], persona="host")
    finally:
        await other.detach()

    assert [entry.order for entry in live.hooks(REPLY_BEFORE)] == [1000]
    assert said.content == "hi"


async def test_nothing_is_kept_unless_it_is_wished(start: Start, registry: LiveCopy) -> None:
    live = await registry(await start())

    assert live.hooks(MEMORY_CLEAR) == []


async def test_the_state_of_the_last_answer_is_told_until_it_is_cleared(
    start: Start, registry: LiveCopy, spawn_service: Spawner, session_id: str, cards: Path
) -> None:
    database = f"sqlite:///{cards.parent / 'memory.db'}"
    await spawn_service("aalis_memory", {"AALIS_DATABASE_URL": database})
    (cards / "guest.yaml").write_text((cards / "host.yaml").read_text("utf-8"), "utf-8")
    mesh = await start(persona_state=True, persona_time=False)
    live = await registry(mesh)

    async def state(session: str = session_id, persona: str = "host") -> str | None:
        return (await tell(mesh, session, persona)).volatile_prompt

    async def clear(**more: object) -> list[tuple[str, bool]]:
        request = MemoryClear.from_object({"sessionId": session_id, **more})
        subject = subjects.request(subjects.MEMORY_CLEAR)
        results = (await mesh.request(subject, request, ClearResults)).results
        return [(report.source, report.success) for report in results]

    calm = 'Your state after your last reply: {"mood":"calm"}'
    for session in (session_id, f"{session_id}-other"):
        await conclude(mesh, live, session, GOOD, persona="host")
        assert await state(session) == calm
    assert await state(persona="cat") is None
    assert await state(persona="guest") is None

    assert await clear(types=["summary"]) == [("summary", True)]
    assert await state() == calm
    assert await clear(types=["persona"]) == [("persona", True)]
    assert await state() is None
    assert await state(f"{session_id}-other") == calm
    assert ("persona", True) in await clear(scope="all", types=["context"])
    assert await state(f"{session_id}-other") is None


async def test_while_memory_is_away_a_persona_has_no_state_and_says_so_once(
    start: Start,
    registry: LiveCopy,
    spawn_service: Spawner,
    session_id: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    mesh = await start(persona_state=True)
    live = await registry(mesh)

    for _ in range(2):
        assert (await tell(mesh, session_id, "host")).name == "Host"
        said = await conclude(mesh, live, session_id, GOOD, persona="host")
        assert said.content == "hi"

    asked = MemoryClearData(scope="session", session_id=session_id)
    (report,) = (await Hooks(mesh, live).run(MEMORY_CLEAR, asked)).data.results
    assert report == ClearReport(source="persona", success=False)

    await spawn_service("aalis_memory", {"AALIS_DATABASE_URL": f"sqlite:///{tmp_path / 'm.db'}"})
    assert (await tell(mesh, session_id, "host")).name == "Host"

    told = [one.getMessage() for one in caplog.records if one.getMessage().startswith("memory is")]
    assert told == ["memory is absent; personas have no state", "memory is back"]


async def test_as_a_process_it_claims_to_be_the_persona_service(
    spawn_service: Spawner, mesh: Callable[[], Awaitable[Mesh]], registry: LiveCopy
) -> None:
    service = await spawn_service(MODULE)
    connected = await mesh()
    live = await registry(connected)

    assert await live.wait_for(lambda: live.capable("persona"), 30)
    assert await names(connected) == ["catgirl", "night-radio", "strict-reviewer"]
    assert await service.terminate() == 0


async def test_a_directory_that_is_not_there_stops_the_start_with_one_line(
    spawn_service: Spawner,
) -> None:
    service = await spawn_service(MODULE, {"AALIS_PERSONA_CARDS": "/nowhere"}, ready=False)

    assert await service.wait(30) == 1
    assert service.log.strip().splitlines() == [
        "aalis-persona: AALIS_PERSONA_CARDS='/nowhere': Path does not point to a directory"
    ]
