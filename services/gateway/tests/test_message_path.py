"""This is about the way of a message from an adapter to the lane's mailbox, on a real server."""

from __future__ import annotations

import json

import pytest

from aalis_contracts import subjects
from aalis_contracts.dead import MESSAGE_ID_HEADER, REASON_HEADER
from aalis_contracts.events import PhaseDone
from aalis_gateway.testing import Rig, said
from aalis_sdk import topology


async def test_what_a_person_says_becomes_an_input_of_its_lane(rig: Rig) -> None:
    await rig.gateway()

    await rig.publish(said("hello"))

    (entry,) = await rig.stored(topology.AGENT_INBOX, "agent.inbox.>")
    assert entry.subject == "agent.inbox.s.user"
    (message,) = await rig.inputs()
    assert (message.content, message.session_id, message.trigger_type) == ("hello", "s", "direct")


async def test_the_source_of_a_message_names_its_lane(rig: Rig) -> None:
    await rig.gateway()

    await rig.publish(said("tick", source="scheduler"))

    (entry,) = await rig.stored(topology.AGENT_INBOX, "agent.inbox.>")
    assert entry.subject == "agent.inbox.s.scheduler"


async def test_messages_of_a_session_stay_in_order(rig: Rig) -> None:
    await rig.gateway()

    for number in range(50):
        await rig.publish(said(str(number), message_id=str(number)))

    assert [m.content for m in await rig.inputs(50)] == [str(number) for number in range(50)]


@pytest.mark.parametrize("stream_id", [None, "chat:s:1"])
async def test_a_message_published_twice_is_one_input(rig: Rig, stream_id: str | None) -> None:
    await rig.gateway()

    for _ in range(2):
        await rig.publish(said("once", message_id="1"), message_id=stream_id)
    await rig.publish(said("then", message_id="2"))

    assert [message.content for message in await rig.inputs(2)] == ["once", "then"]


async def test_the_same_text_without_a_message_id_is_two_inputs(rig: Rig) -> None:
    await rig.gateway()

    await rig.publish(said("ha"))
    await rig.publish(said("ha"))

    assert len(await rig.inputs(2)) == 2


async def test_the_ids_of_messages_of_two_sessions_do_not_meet(rig: Rig) -> None:
    await rig.gateway()

    await rig.publish(said("a", session_id="a:b", message_id="c"))
    await rig.publish(said("b", session_id="a", message_id="b:c"))

    entries = await rig.stored(topology.AGENT_INBOX, "agent.inbox.>", 2)
    assert len({entry.headers[MESSAGE_ID_HEADER] for entry in entries}) == 2


@pytest.mark.parametrize(
    "session",
    ["a.b", "a b", "*", ">", "a.>", "100%", "%2E", "会话", "群" * 300, "x" * 300, "\n", "a\ud800"],
)
async def test_any_session_id_is_legal(rig: Rig, session: str) -> None:
    await rig.gateway()

    message = said("hello", session_id=session, message_id=session, user_id=session)
    await rig.publish(message)

    (arrived,) = await rig.inputs()
    assert arrived.session_id == message.session_id


async def test_a_lone_surrogate_is_mended_at_the_edge(rig: Rig) -> None:
    await rig.gateway()

    body = b'{"content":"a\\ud800b","sessionId":"s\\udfff","platform":"chat"}'
    await rig.publish(body, subject=subjects.inbound("chat", "s\ufffd").name)

    (arrived,) = await rig.inputs()
    assert (arrived.content, arrived.session_id) == ("a\ufffdb", "s\ufffd")


GOOD = {"content": "x", "sessionId": "s", "platform": "chat"}
REFUSED = [
    (b"", "not JSON"),
    (b"hello", "not JSON"),
    (b"\xff\xfe", "not JSON"),
    (b"[]", "IncomingMessage"),
    (b"null", "IncomingMessage"),
    (json.dumps({**GOOD, "sessionId": None}).encode(), "sessionId"),
    (json.dumps({**GOOD, "sessionId": ""}).encode(), "sessionId"),
    (json.dumps({**GOOD, "sessionId": 7}).encode(), "sessionId"),
    (json.dumps({"content": "x", "platform": "chat"}).encode(), "sessionId"),
    (json.dumps({**GOOD, "platform": ""}).encode(), "platform"),
    (json.dumps({**GOOD, "userId": {"id": 1}}).encode(), "userId"),
    (json.dumps({**GOOD, "attachments": "photo.png"}).encode(), "attachments"),
    (json.dumps({**GOOD, "sessionType": "crowd"}).encode(), "sessionType"),
    (json.dumps({"sessionId": "s", "platform": "chat"}).encode(), "content"),
    (json.dumps({**GOOD, "sessionId": "other"}).encode(), "sessionId"),
    (json.dumps({**GOOD, "platform": "mail"}).encode(), "platform"),
    (b'{"content":' + b"[" * 5000 + b"]" * 5000 + b"}", "nested"),
]


@pytest.mark.parametrize(("body", "named"), REFUSED)
async def test_what_cannot_be_read_is_dead_with_a_reason_and_blocks_nothing(
    rig: Rig, body: bytes, named: str
) -> None:
    await rig.gateway()

    await rig.publish(body, subject="inbound.message.chat.s")
    await rig.publish(said("next"))

    (letter,) = await rig.dead()
    assert named in letter.headers[REASON_HEADER]
    assert letter.data == body
    assert [message.content for message in await rig.inputs()] == ["next"]


async def test_unknown_fields_do_not_matter(rig: Rig) -> None:
    await rig.gateway()

    body = json.dumps({**GOOD, "mood": "fine", "metadata": {"kept": [1, None]}}).encode()
    await rig.publish(body, subject="inbound.message.chat.s")

    (arrived,) = await rig.inputs()
    assert arrived.metadata == {"kept": [1, None]}


@pytest.mark.parametrize(
    ("fields", "arrives"),
    [
        ({"content": ""}, False),
        ({"content": " \n"}, False),
        ({"content": "", "attachments": []}, False),
        ({"content": "", "attachments": [{"kind": "image", "ref": "r"}]}, True),
        ({"content": "", "replyTo": {"messageId": "1", "content": "quoted"}}, True),
        ({"content": "", "replyTo": {"messageId": "1"}}, False),
        ({"content": "", "source": "idle-trigger"}, True),
        ({"content": None, "attachments": [{"kind": "file"}]}, True),
        ({"content": [{"type": "text", "text": "part"}]}, True),
    ],
)
async def test_a_message_that_says_nothing_causes_nothing(
    rig: Rig, fields: dict[str, object], arrives: bool
) -> None:
    await rig.gateway()

    body = json.dumps({**GOOD, **fields}).encode()
    await rig.publish(body, subject="inbound.message.chat.s")
    await rig.publish(said("next"))

    found = await rig.inputs(1 + arrives)
    assert [message.content == "next" for message in found] == [False] * arrives + [True]
    await rig.settled()
    assert await rig.mesh.range(topology.DEAD, "dead.>", 1) == []


async def test_a_subject_near_the_servers_limit_is_handled(rig: Rig) -> None:
    await rig.gateway()

    longest = "x" * 3700
    await rig.publish(said("hello", session_id=longest))
    await rig.publish(b"{}", subject=subjects.inbound("chat", longest).name)
    await rig.publish(said("far", session_id=longest, source="y" * 300))

    assert [message.content for message in await rig.inputs()] == ["hello"]
    unreadable, too_long = await rig.dead(2)
    assert "content" in unreadable.headers[REASON_HEADER]
    assert "too long" in too_long.headers[REASON_HEADER]


async def test_each_phase_says_that_it_is_over(rig: Rig) -> None:
    await rig.gateway()
    heard: list[PhaseDone] = []

    async def hear(event: PhaseDone) -> None:
        heard.append(event)

    await rig.mesh.listen(subjects.PHASE_DONE, PhaseDone, hear)
    await rig.publish(said("hello"))

    async def all_five() -> bool:
        return len(heard) == 5

    await rig.until(all_five)
    order = [event.phase.removeprefix("inbound:") for event in heard]
    assert order == ["confirm", "command", "flow", "trigger", "dispatch"]
    assert all(event.reached_end for event in heard)


async def test_a_session_record_is_made_without_anybody_waiting(rig: Rig) -> None:
    await rig.gateway()

    await rig.publish(said("hello", session_id="a.b"))

    async def made() -> bool:
        return bool(await rig.mesh.lasts("KV_sessions", ["$KV.sessions.a=2Eb"]))

    await rig.until(made)
    created = await rig.stored(topology.EVENTS, "session.created.*")
    assert json.loads(created[0].data)["platform"] == "chat"
