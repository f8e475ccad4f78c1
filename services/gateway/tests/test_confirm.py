"""This is about asking a person before something runs, on a real server and several replicas."""

from __future__ import annotations

import asyncio

import pytest

from aalis_contracts import subjects
from aalis_contracts.events import AgentAbort
from aalis_contracts.rpc import CommandRun, ConfirmAnswer, ConfirmAsk
from aalis_gateway.testing import PATIENCE, Rig, said
from aalis_sdk.plugin import Plugin


class Danger:
    """A plugin whose commands must be confirmed."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.plugin = Plugin("danger")
        self.plugin.command("wipe", "once or for a while", confirm="session")(self._run)
        self.plugin.command("launch", "every time", confirm="always")(self._run)

    async def _run(self, call: CommandRun) -> str:
        self.runs.append(call.path)
        return f"done {call.path}"

    async def attach(self, rig: Rig) -> None:
        await self.plugin.attach(rig.mesh, rig.registry)
        await rig.hear_registry()


@pytest.fixture
async def danger(rig: Rig) -> Danger:
    made = Danger()
    await rig.gateway()
    await rig.gateway()
    await made.attach(rig)
    return made


async def say(rig: Rig, *texts: str, expect: int, user: str = "u") -> list[str]:
    """Say things one after the other, and return all that was ever answered."""
    for text in texts:
        await rig.publish(said(text, user_id=user))
    await rig.settled()
    return [message.content for message in await rig.answers(expect)]


async def test_nothing_runs_before_it_is_confirmed(rig: Rig, danger: Danger) -> None:
    (question,) = await say(rig, "/wipe", expect=1)
    assert "wipe" in question
    assert "YS" in question
    assert danger.runs == []

    assert (await say(rig, "Y", expect=2))[1] == "done wipe"
    assert danger.runs == ["wipe"]


async def test_anything_else_is_no_and_is_not_heard_by_the_agent(rig: Rig, danger: Danger) -> None:
    _, refused = await say(rig, "/wipe", "hm, what does it do?", expect=2)

    assert "没有执行" in refused
    assert danger.runs == []
    await say(rig, "Y", expect=2)
    assert [message.content for message in await rig.inputs()] == ["Y"]
    assert danger.runs == []


async def test_others_pass_on_while_somebody_is_asked(rig: Rig, danger: Danger) -> None:
    await say(rig, "/wipe", expect=1)
    await say(rig, "Y", expect=1, user="other")

    assert [message.content for message in await rig.inputs()] == ["Y"]
    assert danger.runs == []


async def test_ys_spares_the_question_but_not_where_it_is_always_asked(
    rig: Rig, danger: Danger
) -> None:
    await say(rig, "/wipe", "YS", "/wipe", expect=3)
    assert danger.runs == ["wipe", "wipe"]

    question = (await say(rig, "/launch", expect=4))[3]
    assert "YS" not in question
    await say(rig, "YS", expect=5)
    await say(rig, "/launch", expect=6)
    assert danger.runs == ["wipe", "wipe", "launch"]


async def test_an_answer_that_is_delivered_twice_runs_once(rig: Rig, danger: Danger) -> None:
    await say(rig, "/wipe", expect=1)
    for _ in range(2):
        await rig.publish(said("Y", message_id="yes"))
    await rig.settled()

    assert len(await rig.answers(2)) == 2
    assert danger.runs == ["wipe"]
    assert await rig.mesh.range("AGENT_INBOX", "agent.inbox.>", 1) == []


@pytest.mark.usefixtures("danger")
async def test_the_next_question_follows_the_first(rig: Rig) -> None:
    first, *_ = await say(rig, "/wipe", expect=1)
    asked = asyncio.create_task(ask(rig, "t.1.0.0", prompt="really?"))
    await waiting(rig, 2)

    after = await say(rig, "y", expect=3)
    assert "wipe" in first
    assert after[1:][0] == "done wipe"
    assert "really?" in after[2]
    await say(rig, "y", expect=3)
    assert (await asked).answer == "once"


async def ask(rig: Rig, key: str, prompt: str = "run it?", mode: str = "session") -> ConfirmAnswer:
    request = ConfirmAsk.from_object(
        {
            "sessionId": "s",
            "platform": "chat",
            "userId": "u",
            "prompt": prompt,
            "mode": mode,
            "key": key,
        }
    )
    subject = subjects.request(subjects.CONFIRM_ASK)
    return await rig.mesh.request(subject, request, ConfirmAnswer, PATIENCE)


async def waiting(rig: Rig, count: int) -> None:
    """Wait until so many questions wait in the session."""

    async def enough() -> bool:
        records = await rig.mesh.lasts("KV_sessions", ["$KV.sessions.confirm.s"])
        return bool(records) and records[0].data.count(b'"prompt"') == count

    await rig.until(enough)


@pytest.mark.parametrize(("text", "answer"), [("y", "once"), ("YS", "session"), ("never", "no")])
async def test_a_tool_hears_what_the_person_said(rig: Rig, text: str, answer: str) -> None:
    await rig.gateway()
    asked = asyncio.create_task(ask(rig, "t.1.0.0"))
    (question,) = await rig.answers()
    assert "run it?" in question.content
    assert question.source == "system"

    await say(rig, text, expect=1)

    assert (await asked).answer == answer


async def test_a_question_asked_again_is_the_same_question(rig: Rig) -> None:
    await rig.gateway()
    both = [asyncio.create_task(ask(rig, "t.1.0.0")) for _ in range(2)]
    await waiting(rig, 1)

    await say(rig, "y", expect=1)

    assert [(await each).answer for each in both] == ["once", "once"]
    assert (await ask(rig, "t.1.0.0")).answer == "once"
    assert len(await rig.answers()) == 1


async def test_no_answer_in_time_is_no_with_a_notice(rig: Rig) -> None:
    await rig.gateway(confirm_seconds=0.3)
    await rig.gateway(confirm_seconds=0.3)
    danger = Danger()
    await danger.attach(rig)

    assert (await ask(rig, "t.1.0.0")).answer == "timeout"
    texts = await say(rig, "/wipe", expect=4)

    assert sum("没有等到确认" in text for text in texts) == 2
    await say(rig, "y", expect=4)
    assert danger.runs == []
    assert [message.content for message in await rig.inputs()] == ["y"]


async def test_an_aborted_turn_takes_its_question_back(rig: Rig) -> None:
    await rig.gateway()
    asked = asyncio.create_task(ask(rig, "s.user:7.0.0"))
    await rig.answers()

    event = AgentAbort(session_id="s", lane="user", turn_id="s.user:7", reason="aborted")
    await rig.mesh.publish(subjects.abort("s", "user"), event)

    assert (await asked).answer == "withdrawn"
    await say(rig, "Y", expect=1)
    assert [message.content for message in await rig.inputs()] == ["Y"]


@pytest.mark.usefixtures("danger")
async def test_a_gateway_that_starts_later_takes_the_answer(rig: Rig) -> None:
    await say(rig, "/wipe", expect=1)
    for gateway, mesh, _ in rig.gateways:
        await gateway.stop()
        await mesh.close()
    rig.gateways.clear()

    await rig.gateway()
    await rig.hear_registry()

    assert (await say(rig, "y", expect=2))[1] == "done wipe"
