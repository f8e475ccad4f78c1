"""This is about things that go away and come back: plugins, the agent, NATS, the gateway itself."""

from __future__ import annotations

import json
import time

from aalis_contracts import subjects
from aalis_contracts.dead import MESSAGE_ID_HEADER, REASON_HEADER
from aalis_contracts.events import TurnAfter
from aalis_contracts.hooks import INBOUND_DISPATCH, INBOUND_FLOW, InboundData
from aalis_contracts.registry import HookEntry, ServiceEntry
from aalis_contracts.sessions import SessionInfo
from aalis_gateway.testing import Rig, said
from aalis_sdk import topology
from aalis_sdk.plugin import Plugin, Stop


async def test_a_failing_guard_does_not_wedge_its_partition(rig: Rig) -> None:
    await rig.gateway()
    plugin = Plugin("guard")

    @plugin.intercept(INBOUND_FLOW, on_failure="fail")
    async def crash(data: InboundData) -> None:
        if data.message.content == "bad":
            raise ValueError

    await plugin.attach(rig.mesh, rig.registry)
    await rig.hear_registry()

    await rig.publish(said("bad"))
    await rig.publish(said("good"))

    (letter,) = await rig.dead()
    assert "guard" in letter.headers[REASON_HEADER]
    assert [message.content for message in await rig.inputs()] == ["good"]


async def test_a_plugin_that_vanished_is_passed_over(rig: Rig) -> None:
    await rig.gateway()
    gone = HookEntry(hook=INBOUND_DISPATCH, plugin="gone")
    await rig.announce(subjects.hook_key(INBOUND_DISPATCH, "gone"), gone)

    await rig.publish(said("hello"))

    assert len(await rig.inputs()) == 1


async def test_an_interceptor_that_handles_a_message_ends_its_way(rig: Rig) -> None:
    await rig.gateway()
    plugin = Plugin("relay")

    @plugin.intercept(INBOUND_DISPATCH)
    async def relay(data: InboundData) -> None:
        if data.message.session_id == "elsewhere":
            raise Stop

    await plugin.attach(rig.mesh, rig.registry)
    await rig.hear_registry()
    await rig.publish(said("theirs", session_id="elsewhere"))
    await rig.publish(said("ours"))
    await rig.settled()

    assert [message.content for message in await rig.inputs()] == ["ours"]


async def test_a_patch_moves_no_message_to_another_session(rig: Rig) -> None:
    await rig.gateway()
    plugin = Plugin("mover")

    @plugin.intercept(INBOUND_DISPATCH)
    async def move(data: InboundData) -> dict[str, object]:
        changed = {"sessionId": "other", "platform": "mail", "content": "changed"}
        return {"message": {**data.message.to_object(), **changed}}

    await plugin.attach(rig.mesh, rig.registry)
    await rig.hear_registry()
    await rig.publish(said("hello"))

    (message,) = await rig.inputs()
    assert (message.session_id, message.platform, message.content) == ("s", "chat", "changed")


async def test_who_waits_in_vain_is_told_once(rig: Rig) -> None:
    await rig.gateway(away_seconds=0.4)
    await rig.gateway(away_seconds=0.4)

    for number in range(6):
        await rig.publish(said(str(number)))
    await rig.publish(said("hi", session_id="t"))
    await rig.publish(said("tick", session_id="u", source="scheduler"))

    told = await rig.answers(2)
    assert sorted(message.session_id for message in told) == ["s", "t"]
    assert all(message.content.startswith("[系统]") for message in told)
    assert all(message.source == "system" for message in told)
    assert len(await rig.inputs(8)) == 8


async def test_nobody_is_told_while_an_agent_lives(rig: Rig) -> None:
    await rig.gateway(away_seconds=5)
    await rig.announce_service("agent")

    await rig.publish(said("hi"))

    await rig.inputs()
    await rig.settled()
    assert await rig.mesh.range(topology.OUTBOUND, "outbound.>", 1) == []


async def test_a_second_absence_is_told_again(rig: Rig) -> None:
    await rig.gateway(away_seconds=0.3)
    await rig.publish(said("one"))
    await rig.answers(1)
    again = ServiceEntry(service="agent", instance="two", version="0", since=99)

    await rig.announce(subjects.service_key("agent", "two"), again)
    await rig.publish(said("two"))

    assert len(await rig.answers(2)) == 2


async def test_everything_goes_on_after_a_restart_of_nats(rig: Rig) -> None:
    await rig.gateway()
    await rig.publish(said("before"))
    await rig.inputs()

    rig.restart_nats()

    await rig.publish(said("after"))
    assert [message.content for message in await rig.inputs(2)] == ["before", "after"]
    await rig.publish(said("/help"))
    assert "/status" in (await rig.answers())[0].content


async def test_a_record_is_active_while_somebody_waits_and_then_says_how_it_ended(
    rig: Rig,
) -> None:
    await rig.gateway()
    await rig.gateway()

    for outcome, status in (("replied", "completed"), ("error", "error")):
        incoming = said(outcome)
        await rig.publish(incoming)
        await status_is(rig, "active")
        entries = await rig.stored(topology.AGENT_INBOX, "agent.inbox.s.user")
        ended = TurnAfter.from_object(
            {
                "turnId": f"s.user:{entries[-1].seq}",
                "inputSeq": entries[-1].seq,
                "sessionId": "s",
                "lane": "user",
                "message": incoming.to_object(),
                "outcome": outcome,
            }
        )
        await rig.mesh.store(subjects.turn_after("s"), ended)
        await status_is(rig, status)


async def status_is(rig: Rig, status: str) -> None:
    async def reached() -> bool:
        records = await rig.mesh.lasts("KV_sessions", ["$KV.sessions.s"])
        return bool(records) and SessionInfo.from_json(records[0].data).status == status

    await rig.until(reached)


async def test_a_copy_that_comes_after_the_dedupe_window_is_still_no_second_input(
    rig: Rig,
) -> None:
    """A stream forgets ids after an hour; here it is made to forget them at once."""
    for config in topology.streams():
        if config.name in {topology.AGENT_INBOX, topology.OUTBOUND}:
            config.duplicate_window = 0.1
            await rig.mesh.js.update_stream(config)
    await rig.gateway()
    long_ago = int(time.time() * 1000) - 2 * 3600 * 1000
    first = said("once", message_id="1", timestamp=long_ago)
    line = said("/help", message_id="2", timestamp=long_ago)

    await rig.publish(first)
    await rig.publish(line)
    await rig.answers()
    (entry,) = await rig.stored(topology.AGENT_INBOX, "agent.inbox.>")
    assert entry.headers[MESSAGE_ID_HEADER] == "chat:s:1"

    async def forgotten() -> bool:
        probe = subjects.inbox("probe", "user")
        return not (await rig.mesh.store(probe, b"{}", "chat:s:1")).duplicate

    await rig.until(forgotten)
    await rig.publish(first)
    await rig.publish(line)
    await rig.publish(said("then", message_id="3"))

    assert [m.content for m in await rig.inputs(2, "agent.inbox.s.user")] == ["once", "then"]
    assert len(await rig.answers()) == 1
    assert json.loads(entry.data)["content"] == "once"


async def test_a_gateway_leaves_also_when_nats_is_gone(rig: Rig) -> None:
    process = rig.process(AALIS_GRACE_SECONDS="2")
    await rig.publish(said("hello"))
    await rig.inputs()

    rig.server.stop()
    process.terminate()

    async def left() -> bool:
        return process.poll() is not None

    await rig.until(left)
    assert process.returncode == 0
