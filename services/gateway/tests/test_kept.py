"""This is about what the agent does not hear, and what is kept of it all the same."""

from __future__ import annotations

import asyncio

from aalis_contracts import subjects
from aalis_contracts.dead import REASON_HEADER
from aalis_contracts.errors import Fault, InvalidRequest
from aalis_contracts.hooks import INBOUND_FLOW, INBOUND_TRIGGER, InboundData
from aalis_contracts.messages import IncomingMessage, Message
from aalis_contracts.rpc import (
    Archived,
    ArchiveIncoming,
    ArchiveNotice,
    NoticeArchived,
    PersonaGet,
    PersonaPrompt,
)
from aalis_gateway.testing import Rig, said
from aalis_sdk import topology
from aalis_sdk.mesh import Offer
from aalis_sdk.plugin import Plugin, Stop


def in_group(content: str, **more: object) -> IncomingMessage:
    return said(content, **{"session_id": "room", "session_type": "group", **more})


class Archive:
    """What memory does with archive requests: keeps them once, in order."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.kept: dict[str, str] = {}
        self.failing: Exception | None = None
        self.offers: list[Offer] = []

    async def open(self) -> None:
        respond = self._rig.mesh.respond
        self.offers = [
            await respond(subjects.ARCHIVE_INCOMING, ArchiveIncoming, self._incoming),
            await respond(subjects.ARCHIVE_NOTICE, ArchiveNotice, self._notice),
        ]

    async def close(self) -> None:
        for offer in self.offers:
            await offer.withdraw()

    async def texts(self, count: int) -> list[str]:
        async def enough() -> bool:
            return len(self.kept) >= count

        await self._rig.until(enough)
        return list(self.kept.values())

    async def _incoming(self, request: ArchiveIncoming) -> Archived:
        if self.failing is not None:
            raise self.failing
        created = request.idempotency_key not in self.kept
        self.kept.setdefault(request.idempotency_key or "", request.incoming.content)
        return Archived(message=Message(role="user"), created=created)

    async def _notice(self, request: ArchiveNotice) -> NoticeArchived:
        self.kept[request.idempotency_key or ""] = f"{request.notice_type}: {request.content}"
        return NoticeArchived()


async def test_a_group_message_for_nobody_is_archived_in_order(rig: Rig) -> None:
    await rig.gateway()
    archive = Archive(rig)
    await archive.open()

    for number in range(5):
        await rig.publish(in_group(str(number), message_id=str(number)))
    await rig.publish(in_group("0", message_id="0"))
    await rig.publish(in_group('<at self id="b">Bot</at> hi'))

    (message,) = await rig.inputs()
    assert message.trigger_type == "immediate"
    assert await archive.texts(5) == ["0", "1", "2", "3", "4"]


async def test_a_notice_is_archived_as_one_and_triggers_nothing(rig: Rig) -> None:
    await rig.gateway()
    archive = Archive(rig)
    await archive.open()

    await rig.publish(said("Ann pokes you", notice_type="poke"))
    await rig.publish(said("hi"))

    assert [message.content for message in await rig.inputs()] == ["hi"]
    assert await archive.texts(1) == ["poke: Ann pokes you"]


async def test_what_an_interceptor_keeps_from_the_agent_is_archived_too(rig: Rig) -> None:
    await rig.gateway()
    archive = Archive(rig)
    await archive.open()
    plugin = Plugin("mute")

    @plugin.intercept(INBOUND_FLOW)
    async def mute(data: InboundData) -> None:
        if data.message.content == "noise":
            raise Stop

    await plugin.attach(rig.mesh, rig.registry)
    await rig.hear_registry()

    await rig.publish(said("noise"))
    await rig.publish(said("signal"))

    assert [message.content for message in await rig.inputs()] == ["signal"]
    assert await archive.texts(1) == ["noise"]


async def test_an_interceptor_can_let_a_group_message_through(rig: Rig) -> None:
    await rig.gateway()
    plugin = Plugin("lively")

    @plugin.intercept(INBOUND_TRIGGER)
    async def wake(data: InboundData) -> dict[str, object]:
        return {"message": {**data.message.to_object(), "triggerType": "interval"}}

    await plugin.attach(rig.mesh, rig.registry)
    await rig.hear_registry()

    await rig.publish(in_group("hello everybody"))

    assert [message.trigger_type for message in await rig.inputs()] == ["interval"]


async def test_an_absent_memory_is_owed_and_paid_in_order(rig: Rig) -> None:
    await rig.gateway()
    archive = Archive(rig)

    for number in range(4):
        await rig.publish(in_group(str(number), message_id=str(number)))
    owed = await rig.dead(4)
    assert "memory was absent" in owed[0].headers[REASON_HEADER]
    await archive.open()

    assert await archive.texts(4) == ["0", "1", "2", "3"]

    async def paid() -> bool:
        return not await rig.mesh.range(topology.DEAD, "dead.>", 1)

    await rig.until(paid)
    await rig.publish(in_group("4"))
    assert (await archive.texts(5))[4] == "4"


async def test_a_debt_survives_the_gateway(rig: Rig) -> None:
    await rig.gateway()
    await rig.publish(in_group("kept"))
    await rig.dead()
    (gateway, mesh, _) = rig.gateways.pop()
    await gateway.stop()
    await mesh.close()

    archive = Archive(rig)
    await archive.open()
    await rig.gateway()

    assert await archive.texts(1) == ["kept"]


async def test_a_memory_that_fails_is_tried_again(rig: Rig) -> None:
    await rig.gateway()
    archive = Archive(rig)
    archive.failing = Fault("database is locked")
    await archive.open()

    await rig.publish(in_group("kept"))
    await rig.dead()
    archive.failing = None

    assert await archive.texts(1) == ["kept"]


async def test_what_memory_refuses_is_dead_and_blocks_nothing(rig: Rig) -> None:
    await rig.gateway()
    archive = Archive(rig)
    archive.failing = InvalidRequest("no such thing")
    await archive.open()

    await rig.publish(in_group("odd"))
    (letter,) = await rig.dead()
    archive.failing = None
    await rig.publish(in_group("next"))

    assert "no such thing" in letter.headers[REASON_HEADER]
    assert await archive.texts(1) == ["next"]


async def test_a_group_that_talks_too_much_is_not_all_heard(rig: Rig) -> None:
    await rig.gateway(flow_limit=3)
    await rig.gateway(flow_limit=3)
    archive = Archive(rig)
    await archive.open()
    call = '<at self id="b">Bot</at>'

    async with asyncio.TaskGroup() as group:
        for number in range(12):
            group.create_task(rig.publish(in_group(f"{call} {number}")))
    await rig.publish(in_group(f"{call} tick", source="scheduler"))
    await rig.settled()

    heard = [message.content for message in await rig.inputs()]
    minutes = {
        entry.time_ms // 60_000 for entry in await rig.mesh.range(topology.INBOUND, "inbound.>", 1)
    }
    assert 4 <= len(heard) <= 3 * len(minutes) + 1
    assert heard[-1] == f"{call} tick"
    assert len(heard) - 1 + len(archive.kept) == 12


async def test_other_groups_and_private_talk_are_not_counted(rig: Rig) -> None:
    await rig.gateway(flow_limit=2)

    for number in range(6):
        await rig.publish(said(str(number), session_id="private"))
        await rig.publish(in_group("<at self>B</at>", session_id=f"room-{number}"))

    assert len(await rig.inputs(12)) == 12


async def test_a_nickname_calls_the_bot_when_a_persona_is_there(rig: Rig) -> None:
    await rig.gateway()
    asked: list[PersonaGet] = []

    async def prompt(request: PersonaGet) -> PersonaPrompt:
        asked.append(request)
        return PersonaPrompt(system_prompt="", name="cat", nick_names=["小猫"])

    await rig.mesh.respond(subjects.PERSONA_GET, PersonaGet, prompt)
    await rig.publish(in_group("小猫在吗?"))
    await rig.settled()
    assert asked == []
    await rig.announce_service("persona", "persona")

    for text in ("小猫在吗", "大狗在吗", "hi 小猫"):
        await rig.publish(in_group(text))

    assert [message.content for message in await rig.inputs(2)] == ["小猫在吗", "hi 小猫"]
    assert len(asked) == 1


async def test_a_session_with_an_unknown_persona_takes_no_nickname_from_others(rig: Rig) -> None:
    await rig.gateway()

    async def prompt(request: PersonaGet) -> PersonaPrompt:
        if request.session_id == "lost":
            raise InvalidRequest("persona 'gone' is unknown", "notFound")
        return PersonaPrompt(system_prompt="", name="cat", nick_names=["小猫"])

    await rig.mesh.respond(subjects.PERSONA_GET, PersonaGet, prompt)
    await rig.announce_service("persona", "persona")
    for session in ("lost", "found"):
        await rig.publish(in_group("小猫在吗", session_id=session))
        await rig.settled()

    assert [message.session_id for message in await rig.inputs(1)] == ["found"]


async def test_a_persona_that_hangs_is_waited_for_once(rig: Rig) -> None:
    await rig.gateway()
    await rig.announce_service("persona", "persona")
    await rig.never_answer("persona.prompt.get")

    for number in range(12):
        await rig.publish(in_group(f"小猫 {number}"))
    await rig.publish(in_group("<at self>B</at> there?"))

    assert len(await rig.inputs()) == 1
