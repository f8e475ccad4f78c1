"""Two messages of one session keep their order through two gateways and two agents."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from aalis_contracts import subjects
from aalis_contracts.events import TurnAfter
from aalis_contracts.messages import IncomingMessage
from aalis_contracts.rpc import HistoryGet, Rows
from aalis_sdk.adapter import Adapter

if TYPE_CHECKING:
    from nats.aio.msg import Msg

    from aalis_sdk.testing.meshes import Meshes
    from aalis_sdk.testing.stack import Stack

BURSTS = 200


@pytest.mark.timeout(240)
async def test_bursts_of_two_keep_their_order_through_two_replicas_of_each(
    stack: Stack, mesh: Meshes
) -> None:
    await stack.start("gateway")
    await stack.start("agent")
    connected = await mesh("adapter")
    ended: dict[str, dict[str, str]] = {}
    complete = asyncio.Event()

    async def heard(message: Msg) -> None:
        event = TurnAfter.from_json(message.data)
        ended.setdefault(event.session_id, {})[event.message.content] = event.outcome
        if sum(len(outcomes) for outcomes in ended.values()) == 2 * BURSTS:
            complete.set()

    await connected.client.subscribe("agent.turn.after.*", cb=heard)
    await connected.client.flush()
    adapter = Adapter(connected, "cli")
    chance = random.Random(7)
    order = list(range(BURSTS))
    chance.shuffle(order)
    for number in order:
        session = f"burst-{number}"
        for text in ("first", "second"):
            await adapter.receive(
                IncomingMessage(
                    content=text, session_id=session, platform="cli", message_id=f"{number}-{text}"
                )
            )
    await asyncio.wait_for(complete.wait(), 120)
    for session, outcomes in ended.items():
        assert set(outcomes) == {"first", "second"}, session
        assert outcomes["second"] == "replied", session
    ask = subjects.request(subjects.HISTORY_GET)
    for number in range(BURSTS):
        request = HistoryGet(session_id=f"burst-{number}", limit=50)
        rows = await connected.request(ask, request, Rows)
        said = [row.content for row in rows.messages if row.role == "user"]
        assert said == ["first", "second"], request.session_id
