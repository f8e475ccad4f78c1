"""This is about two gateways at once, killed and frozen ones among them, on a real server."""

from __future__ import annotations

import asyncio
import random
import signal

import pytest

from aalis_contracts.messages import IncomingMessage
from aalis_gateway.testing import Rig, said
from aalis_sdk import topology

BURSTS = 200


def bursts(seed: int) -> list[list[IncomingMessage]]:
    """Return bursts of two messages, each burst in a random one of 40 sessions."""
    chance = random.Random(seed)
    made: list[list[IncomingMessage]] = []
    for number in range(BURSTS):
        session = f"s.{chance.randrange(40)}"
        ids = (f"{number}.0", f"{number}.1")
        made.append([said(each, session_id=session, message_id=each) for each in ids])
    return made


async def publish_all(rig: Rig, made: list[list[IncomingMessage]]) -> None:
    """Publish each burst in order, now and then a message once more, as a careless adapter does."""
    for number, burst in enumerate(made):
        for message in burst:
            await rig.publish(message)
        if number % 5 == 0:
            await rig.publish(burst[0])


def by_session(messages: list[IncomingMessage]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for message in messages:
        found.setdefault(message.session_id, []).append(message.content)
    return found


@pytest.mark.real
@pytest.mark.timeout(400)
@pytest.mark.parametrize("kill", [False, True])
async def test_bursts_keep_their_order_through_two_replicas(rig: Rig, *, kill: bool) -> None:
    first, _ = rig.process(), rig.process()
    made = bursts(seed=1)

    publishing = asyncio.create_task(publish_all(rig, made))
    await rig.inputs(60)
    if kill:
        first.kill()
    await publishing
    await rig.settled()

    expected = [message for burst in made for message in burst]
    arrived = await rig.inputs(len(expected))
    assert by_session(arrived) == by_session(expected)
    assert await rig.mesh.range(topology.DEAD, "dead.>", 1) == []


@pytest.mark.real
@pytest.mark.timeout(400)
async def test_a_frozen_replica_that_wakes_repeats_nothing(rig: Rig) -> None:
    first, _ = rig.process(), rig.process()
    made = bursts(seed=2)

    publishing = asyncio.create_task(publish_all(rig, made))
    await rig.inputs(60)
    first.send_signal(signal.SIGSTOP)
    await publishing
    await rig.settled()
    first.send_signal(signal.SIGCONT)
    await rig.publish(said("last", session_id="s.0", message_id="last"))
    await rig.settled()

    expected = [message for burst in made for message in burst]
    expected.append(said("last", session_id="s.0"))
    arrived = await rig.inputs(len(expected))
    assert by_session(arrived) == by_session(expected)
