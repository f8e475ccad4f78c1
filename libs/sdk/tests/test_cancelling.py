"""A task that is told to end ends, wherever it waits."""

import asyncio

import pytest

from aalis_sdk.cancelling import heard
from aalis_sdk.mesh import Mesh
from aalis_sdk.testing.meshes import settings
from aalis_sdk.testing.servers import NatsServer


async def forgetful() -> str:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return "forgotten"
    return "slept"


async def test_what_a_call_forgets_is_heard_after_it() -> None:
    task = asyncio.create_task(heard(forgetful)())
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_earlier_cancellation_is_not_heard_twice() -> None:
    async def goes_on() -> str:
        await forgetful()
        return await heard(answers)()

    async def answers() -> str:
        return "answer"

    task = asyncio.create_task(goes_on())
    await asyncio.sleep(0)
    task.cancel()

    assert await task == "answer"


async def test_a_time_limit_around_a_call_is_no_cancellation_of_its_task() -> None:
    async def limited() -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.sleep(60)
        except TimeoutError:
            return "late"
        return "slept"

    assert await heard(limited)() == "late"


@pytest.mark.parametrize("ticks", range(8))
async def test_a_task_that_flushes_again_and_again_can_be_ended(
    nats_server: NatsServer, ticks: int
) -> None:
    mesh = Mesh(settings(nats_server.url), "tests")
    await mesh.connect()

    async def flushes() -> None:
        while True:
            await mesh.client.publish("tests.cancelling", b"")
            await mesh.client.flush()

    task = asyncio.create_task(flushes())
    for _ in range(20 + ticks):
        await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=20)
    task.cancel()
    await asyncio.wait({task})
    await mesh.client.flush()
    connections = mesh.client.stats["reconnects"]
    await mesh.close()

    assert done
    assert connections == 0
