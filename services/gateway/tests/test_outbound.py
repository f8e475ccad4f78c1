"""This is about the way out: the chain, the id, and who hears it, on a real server."""

from __future__ import annotations

import pytest

from aalis_contracts import subjects
from aalis_contracts.dead import MESSAGE_ID_HEADER
from aalis_contracts.hooks import OUTBOUND_DISPATCH, OutboundData
from aalis_contracts.messages import MessageAttachment, OutgoingMessage
from aalis_contracts.rpc import ArchiveOutgoing, DispatchReply, Rows
from aalis_gateway.testing import Rig
from aalis_sdk import topology
from aalis_sdk.plugin import Plugin, Stop


def answer(content: str = "hi", **more: object) -> OutgoingMessage:
    fields: dict[str, object] = {"session_id": "s", "platform": "chat", "source": "agent"}
    return OutgoingMessage.from_object({"id": "t:1.reply", "content": content, **fields, **more})


async def dispatch(rig: Rig, message: OutgoingMessage) -> DispatchReply:
    subject = subjects.request(subjects.OUTBOUND_DISPATCH)
    return await rig.mesh.request(subject, message, DispatchReply)


async def attach(rig: Rig, plugin: Plugin) -> None:
    await plugin.attach(rig.mesh, rig.registry)
    await rig.hear_registry()


async def test_an_answer_is_stored_for_its_platform_under_its_own_id(rig: Rig) -> None:
    await rig.gateway()

    assert await dispatch(rig, answer()) == DispatchReply(sent=True)

    (entry,) = await rig.stored(topology.OUTBOUND, "outbound.message.>")
    assert entry.subject == "outbound.message.chat.s"
    assert entry.headers[MESSAGE_ID_HEADER] == "t:1.reply"


async def test_an_answer_dispatched_twice_is_sent_once(rig: Rig) -> None:
    await rig.gateway()

    assert (await dispatch(rig, answer())).sent
    assert (await dispatch(rig, answer())).sent
    assert (await dispatch(rig, answer(id="t:2.reply"))).sent

    assert [message.id for message in await rig.answers(2)] == ["t:1.reply", "t:2.reply"]


@pytest.mark.parametrize("identifier", ["a b", "会话", "x" * 5000, "line\r\nNats-TTL: 1s", " "])
async def test_any_message_id_can_be_sent_once(rig: Rig, identifier: str) -> None:
    await rig.gateway()

    for _ in range(2):
        assert (await dispatch(rig, answer(id=identifier))).sent

    assert [message.id for message in await rig.answers()] == [identifier]


async def test_an_interceptor_changes_what_is_sent(rig: Rig) -> None:
    await rig.gateway()
    plugin = Plugin("polite")

    @plugin.intercept(OUTBOUND_DISPATCH)
    async def please(data: OutboundData) -> dict[str, object]:
        return {"message": {**data.message.to_object(), "content": data.message.content + "!"}}

    await attach(rig, plugin)
    await dispatch(rig, answer("hi"))

    assert [message.content for message in await rig.answers()] == ["hi!"]
    await plugin.detach()


async def test_an_interceptor_cannot_send_an_answer_to_somebody_else(rig: Rig) -> None:
    await rig.gateway()
    plugin = Plugin("confused")

    @plugin.intercept(OUTBOUND_DISPATCH)
    async def move(data: OutboundData) -> dict[str, object]:
        moved = {"sessionId": "other", "platform": "mail", "id": "x", "content": "moved"}
        return {"message": {**data.message.to_object(), **moved}}

    await attach(rig, plugin)
    await dispatch(rig, answer("hi"))

    (message,) = await rig.answers()
    assert (message.session_id, message.platform, message.id) == ("s", "chat", "t:1.reply")
    await plugin.detach()


async def test_a_stopped_chain_sends_nothing_and_says_who_stopped_it(rig: Rig) -> None:
    await rig.gateway()
    plugin = Plugin("quiet")

    @plugin.intercept(OUTBOUND_DISPATCH)
    async def stop(_: OutboundData) -> None:
        raise Stop

    await attach(rig, plugin)

    reply = await dispatch(rig, answer())

    assert reply == DispatchReply(sent=False, reason="stopped by quiet")
    assert await rig.mesh.range(topology.OUTBOUND, "outbound.message.>", 1) == []
    await plugin.detach()


async def test_an_answer_does_not_leave_past_a_guard_that_failed(rig: Rig) -> None:
    await rig.gateway()
    plugin = Plugin("guard")

    @plugin.intercept(OUTBOUND_DISPATCH, on_failure="fail")
    async def crash(_: OutboundData) -> None:
        raise ValueError

    await attach(rig, plugin)

    reply = await dispatch(rig, answer())

    assert not reply.sent
    assert "guard" in (reply.reason or "")
    await plugin.detach()


async def test_sent_attachments_leave_a_marker_row(rig: Rig) -> None:
    await rig.gateway()
    asked: list[ArchiveOutgoing] = []

    async def archive(request: ArchiveOutgoing) -> Rows:
        asked.append(request)
        return Rows(messages=[])

    await rig.mesh.respond(subjects.ARCHIVE_OUTGOING, ArchiveOutgoing, archive)
    kept = MessageAttachment(kind="image", ref="r")
    left = MessageAttachment(kind="image", ref="q", skip_archive=True)

    await dispatch(rig, answer(attachments=[kept.to_object(), left.to_object()]))

    (request,) = asked
    assert (request.idempotency_key, request.attachments) == ("t:1.reply", [kept])


async def test_attachments_are_sent_when_memory_is_absent(rig: Rig) -> None:
    await rig.gateway()

    image = MessageAttachment(kind="image", ref="r").to_object()

    assert (await dispatch(rig, answer("", attachments=[image]))).sent
