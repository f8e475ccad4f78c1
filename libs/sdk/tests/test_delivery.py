"""This is about durable delivery: each message is handled, whatever happens, and none twice."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
from nats.js.api import AckPolicy, ConsumerConfig

from aalis_contracts import subjects
from aalis_contracts.dead import (
    CONSUMER_HEADER,
    REASON_HEADER,
    SEQUENCE_HEADER,
    STREAM_HEADER,
    SUBJECT_HEADER,
    TURN_HEADER,
)
from aalis_contracts.errors import Fault
from aalis_sdk import topology
from aalis_sdk.delivery import Delivery, Leave, Policy, Puller, Reject, Retry, _Request  # pyright: ignore[reportPrivateUsage]
from aalis_sdk.mesh import Entry, Mesh
from aalis_sdk.testing.meshes import Meshes
from aalis_sdk.testing.servers import NatsServer

QUICK = Policy(max_failures=3, delays=(0.05,))
ACK_WAIT = 3.0
numbers = itertools.count(1)

Handler = Callable[[Delivery], Awaitable[None]]


class Rig:
    """A consumer of its own on OUTBOUND, for one session's messages, and pullers on it."""

    def __init__(self, mesh: Mesh, meshes: Meshes) -> None:
        number = next(numbers)
        self.mesh = mesh
        self.meshes = meshes
        self.subject = subjects.outbound("rig", f"delivery-{number}")
        self.consumer = f"rig-{number}"
        self.pullers: list[Puller] = []

    async def make_consumer(self, ack_wait: float = ACK_WAIT) -> None:
        await self.mesh.js.add_consumer(
            topology.OUTBOUND,
            ConsumerConfig(
                name=self.consumer,
                durable_name=self.consumer,
                filter_subject=self.subject.name,
                ack_policy=AckPolicy.EXPLICIT,
                ack_wait=ack_wait,
            ),
        )

    async def pull(
        self, handler: Handler, slots: int = 1, policy: Policy = QUICK, mesh: Mesh | None = None
    ) -> Puller:
        puller = Puller(
            mesh or self.mesh,
            topology.OUTBOUND,
            self.consumer,
            subjects.OUTBOUND,
            handler,
            slots,
            policy,
        )
        await puller.start()
        self.pullers.append(puller)
        return puller

    async def publish(self, *bodies: str) -> list[int]:
        stored = await asyncio.gather(
            *(self.mesh.store(self.subject, body.encode()) for body in bodies)
        )
        return [one.seq for one in stored]

    async def pending(self) -> tuple[int, int]:
        info = await self.mesh.js.consumer_info(topology.OUTBOUND, self.consumer)
        return info.num_pending or 0, info.num_ack_pending or 0

    async def dead(self) -> list[Entry]:
        return await self.mesh.range(topology.DEAD, subjects.dead(self.subject.name).name, 1)


@pytest_asyncio.fixture
async def rig(mesh: Meshes) -> AsyncIterator[Rig]:
    made = Rig(await mesh(), mesh)
    await made.make_consumer()
    yield made
    for puller in made.pullers:
        await puller.drain(1.0)


async def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


async def settled(rig: Rig, pending: tuple[int, int] = (0, 0)) -> None:
    async with asyncio.timeout(20):
        while await rig.pending() != pending:
            await asyncio.sleep(0.05)


def collector(into: list[str]) -> Handler:
    async def handle(delivery: Delivery) -> None:
        into.append(delivery.data.decode())

    return handle


async def test_a_message_is_handled_once_and_acknowledged(rig: Rig) -> None:
    heard: list[Delivery] = []

    async def handle(delivery: Delivery) -> None:
        heard.append(delivery)

    await rig.pull(handle)
    (seq,) = await rig.publish("hello")
    await settled(rig)
    (delivery,) = heard
    assert (delivery.data, delivery.seq, delivery.delivered) == (b"hello", seq, 1)
    assert delivery.subject == rig.subject.name
    stored = await rig.mesh.last(topology.OUTBOUND, rig.subject.name)
    assert stored is not None
    assert delivery.time_ms == stored.time_ms


async def test_a_burst_is_handled_once_each_and_never_more_at_once_than_slots(rig: Rig) -> None:
    counts: Counter[str] = Counter()
    running, most = 0, 0

    async def handle(delivery: Delivery) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        counts[delivery.data.decode()] += 1
        await asyncio.sleep(0.005)
        running -= 1

    puller = await rig.pull(handle, slots=4)
    for _ in range(4):
        await rig.publish(*(f"{n}" for n in range(100)))
        await asyncio.sleep(0.1)
    await settled(rig)
    assert sum(counts.values()) == 400
    assert set(counts.values()) == {4}
    assert most <= 4
    assert puller.running == 0


async def test_two_pullers_share_a_burst_without_handling_one_twice(rig: Rig) -> None:
    heard: tuple[list[str], list[str]] = ([], [])

    def slow(into: list[str]) -> Handler:
        async def handle(delivery: Delivery) -> None:
            await asyncio.sleep(0.01)
            into.append(delivery.data.decode())

        return handle

    await rig.pull(slow(heard[0]), slots=3)
    await rig.pull(slow(heard[1]), slots=3, mesh=await rig.meshes())
    await rig.publish(*(f"{n}" for n in range(100)))
    await settled(rig)
    assert sorted(heard[0] + heard[1]) == sorted(f"{n}" for n in range(100))
    assert heard[0]
    assert heard[1]


async def test_a_message_put_off_comes_again_after_its_delay(rig: Rig) -> None:
    loop = asyncio.get_running_loop()
    times: list[float] = []

    async def handle(delivery: Delivery) -> None:
        times.append(loop.time())
        if delivery.delivered < 3:
            raise Retry("not yet", delay=0.4)

    await rig.pull(handle)
    await rig.publish("x")
    await settled(rig)
    assert len(times) == 3
    assert times[1] - times[0] >= 0.39
    assert await rig.dead() == []


async def test_a_message_put_off_many_times_may_still_fail_a_few(rig: Rig) -> None:
    heard: list[int] = []

    async def handle(delivery: Delivery) -> None:
        heard.append(delivery.delivered)
        if delivery.delivered <= 6:
            raise Retry("not yet", delay=0.02)
        if delivery.delivered == 7:
            raise ZeroDivisionError

    await rig.pull(handle)
    await rig.publish("x")
    await settled(rig)
    assert heard == [1, 2, 3, 4, 5, 6, 7, 8]
    assert await rig.dead() == []


async def test_a_rejected_message_is_dead_with_its_reason(rig: Rig) -> None:
    async def handle(_: Delivery) -> None:
        raise Reject("keine 会话\nhere", turn_id="s.user:7")

    await rig.pull(handle)
    (seq,) = await rig.publish("bad")
    await settled(rig)
    (entry,) = await rig.dead()
    assert entry.data == b"bad"
    assert entry.headers[REASON_HEADER] == r"keine \u4f1a\u8bdd here"
    assert entry.headers[SUBJECT_HEADER] == rig.subject.name
    assert entry.headers[STREAM_HEADER] == topology.OUTBOUND
    assert entry.headers[SEQUENCE_HEADER] == str(seq)
    assert entry.headers[CONSUMER_HEADER] == rig.consumer
    assert entry.headers[TURN_HEADER] == "s.user:7"


async def test_a_bug_is_tried_again_with_a_limit_and_then_dead(rig: Rig) -> None:
    tries: list[int] = []

    async def handle(delivery: Delivery) -> None:
        tries.append(delivery.delivered)
        raise ZeroDivisionError("oops")

    await rig.pull(handle)
    await rig.publish("x")
    await settled(rig)
    assert tries == [1, 2, 3]
    (entry,) = await rig.dead()
    assert entry.headers[REASON_HEADER] == "failed 3 times; last: ZeroDivisionError: oops"


async def test_a_bug_does_not_hold_up_the_others(rig: Rig) -> None:
    heard: list[str] = []

    async def handle(delivery: Delivery) -> None:
        if delivery.data == b"bad":
            raise ZeroDivisionError
        heard.append(delivery.data.decode())

    await rig.pull(handle, policy=Policy(max_failures=3, delays=(0.5,)))
    await rig.publish("bad")
    await rig.publish("a")
    await rig.publish("b")
    await until(lambda: heard == ["a", "b"])


async def test_a_fault_of_ours_never_kills_a_message(rig: Rig) -> None:
    tries: list[int] = []

    async def handle(delivery: Delivery) -> None:
        tries.append(delivery.delivered)
        if len(tries) < 8:
            raise Fault("the database is away")

    await rig.pull(handle)
    await rig.publish("x")
    await settled(rig)
    assert len(tries) == 8
    assert await rig.dead() == []


async def test_a_message_left_to_its_new_owner_is_neither_kept_nor_returned(rig: Rig) -> None:
    heard: list[int] = []

    async def handle(delivery: Delivery) -> None:
        heard.append(delivery.delivered)
        if len(heard) == 1:
            raise Leave("taken over")

    await rig.pull(handle)
    await rig.publish("x")
    await until(lambda: bool(heard))
    await asyncio.sleep(0.5)
    await settled(rig, (0, 1))
    await settled(rig)
    assert heard == [1, 2]


async def test_a_handler_slower_than_the_ack_wait_is_not_delivered_twice(rig: Rig) -> None:
    heard: list[int] = []

    async def handle(delivery: Delivery) -> None:
        heard.append(delivery.delivered)
        await asyncio.sleep(ACK_WAIT * 2)

    await rig.pull(handle, slots=3)
    await rig.publish("x")
    await settled(rig)
    assert heard == [1]


async def test_draining_lets_running_handlers_finish_and_takes_no_more(rig: Rig) -> None:
    heard: list[str] = []

    async def handle(delivery: Delivery) -> None:
        await asyncio.sleep(0.3)
        heard.append(delivery.data.decode())

    puller = await rig.pull(handle)
    await rig.publish("a", "b")
    await until(lambda: puller.running == 1)
    await puller.drain(5.0)
    await puller.drain(5.0)
    assert len(heard) == 1
    await settled(rig, (1, 0))


async def test_what_does_not_finish_is_handed_to_another_replica_at_once(rig: Rig) -> None:
    began = asyncio.Event()
    heard: list[str] = []

    async def hang(_: Delivery) -> None:
        began.set()
        await asyncio.sleep(60)

    leaving = await rig.pull(hang)
    await rig.publish("x")
    await began.wait()
    await rig.pull(collector(heard), mesh=await rig.meshes())
    async with asyncio.timeout(ACK_WAIT):
        await leaving.drain(0.1)
        await until(lambda: heard == ["x"])
    assert leaving.running == 0


async def test_a_message_of_a_killed_owner_comes_to_another(rig: Rig) -> None:
    heard: list[int] = []
    other = await rig.meshes()

    async def hang(_: Delivery) -> None:
        heard.append(0)
        await asyncio.sleep(60)

    dying = await rig.pull(hang, mesh=other)
    await rig.publish("x")
    await until(lambda: heard == [0])
    # What a SIGKILL does, seen from the server: the connection is gone and nobody proves life.
    for task in dying._tasks:  # pyright: ignore[reportPrivateUsage]
        task.cancel()
    await other.client.close()

    async def handle(delivery: Delivery) -> None:
        heard.append(delivery.delivered)

    await rig.pull(handle)
    await until(lambda: heard == [0, 2])


@pytest.mark.parametrize("how", ["restart", "kill"])
async def test_a_puller_goes_on_after_nats_returned(fresh_nats: NatsServer, how: str) -> None:
    meshes = Meshes(fresh_nats)
    rig = Rig(await meshes(), meshes)
    await rig.make_consumer()
    heard: list[str] = []
    await rig.pull(collector(heard), slots=2)
    await rig.publish("before")
    await until(lambda: heard == ["before"])
    if how == "kill":
        fresh_nats.kill()
        await asyncio.sleep(0.5)
        fresh_nats.start()
    else:
        fresh_nats.restart()
    async with asyncio.timeout(10):
        await rig.publish("after")
        await until(lambda: "after" in heard)
    await rig.pullers[0].drain(1.0)
    await meshes.close()


async def test_a_consumer_that_is_deleted_is_missed_once_and_found_again(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []
    await rig.pull(collector(heard), slots=2)
    await rig.publish("a")
    await settled(rig)
    await rig.mesh.js.delete_consumer(topology.OUTBOUND, rig.consumer)
    await until(lambda: "consumer is missing" in caplog.text)
    await asyncio.sleep(1.5)
    assert caplog.text.count("consumer is missing") == 1
    await rig.make_consumer()
    await rig.publish("b")
    await until(lambda: "b" in heard)


async def test_slots_stay_usable_when_open_requests_run_out_again_and_again(rig: Rig) -> None:
    running, most = 0, 0

    async def handle(_: Delivery) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.3)
        running -= 1

    puller = await rig.pull(handle, slots=3)
    # Uneven use for longer than a request stays open: the server serves the open ones in turns.
    for pause in (0.2, 1.0, 0.1, 1.7, 0.3, 2.2, 0.1, 0.4, 1.3):
        await rig.publish("x")
        await asyncio.sleep(pause)
    open_requests = puller._requests  # pyright: ignore[reportPrivateUsage]
    assert sum(request.remaining for request in open_requests) + puller.running == 3
    most = 0
    await rig.publish(*"abcdefghi")
    await settled(rig)
    assert most == 3


async def test_a_message_with_a_status_header_of_its_own_is_a_message(rig: Rig) -> None:
    heard: list[str] = []
    await rig.pull(collector(heard))
    await rig.mesh.store(rig.subject, b"x", headers={"Status": "408"})
    await settled(rig)
    assert heard == ["x"]


async def test_a_dead_letter_too_big_for_its_headers_is_cut(rig: Rig) -> None:
    async def handle(_: Delivery) -> None:
        raise Reject("no")

    await rig.pull(handle)
    limit = rig.mesh.client.max_payload
    await rig.mesh.js.publish(rig.subject.name, b"x" * (limit - 10), timeout=10)
    await settled(rig)
    (entry,) = await rig.dead()
    assert len(entry.data) == 1024 * 1024
    assert entry.headers["aalis-dead-cut"] == str(limit - 10)


def test_delays_grow_and_then_stay() -> None:
    policy = Policy(delays=(0.1, 0.2))
    assert [policy.delay(failures) for failures in (1, 2, 3, 9)] == [0.1, 0.2, 0.2, 0.2]


async def test_a_puller_that_hears_nothing_though_messages_wait_says_so_and_asks_anew(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    handled: list[str] = []
    puller = Puller(
        rig.mesh, topology.OUTBOUND, rig.consumer, subjects.OUTBOUND, collector(handled)
    )
    puller.silence = 0.2
    # It believes in a request that the server does not know.
    puller._requests.append(_Request("lost", 1, float("inf")))  # pyright: ignore[reportPrivateUsage]
    await puller.start()
    rig.pullers.append(puller)
    await rig.publish("waiting")

    await until(lambda: handled == ["waiting"])
    said = [record for record in caplog.records if "none is delivered" in record.getMessage()]
    assert len(said) == 1
