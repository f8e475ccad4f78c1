"""This is about the mesh: asking, answering, hearing and storing, also when NATS goes away."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from aalis_contracts import subjects
from aalis_contracts.contract import Contract
from aalis_contracts.errors import ErrorBody, Fault, InvalidRequest
from aalis_contracts.subjects import Subject
from aalis_sdk import topology
from aalis_sdk.buckets import Bucket
from aalis_sdk.failures import Absent, Conflict, Remote, TooLarge
from aalis_sdk.mesh import Mesh
from aalis_sdk.testing.meshes import Meshes
from aalis_sdk.testing.servers import NatsServer


class Ask(Contract):
    text: str
    session_id: str = "s"


class Told(Contract):
    text: str | None = None


ECHO = Subject("test.echo.a", "test.echo.{x}")
EVENT = Subject("test.event.a", "test.event.{x}")


async def serve(
    mesh: Mesh, handler: Callable[[Ask], Awaitable[Contract]], concurrency: int = 256
) -> None:
    await mesh.respond(ECHO.template, Ask, handler, name=ECHO.name, concurrency=concurrency)


async def upper(ask: Ask) -> Told:
    return Told(text=ask.text.upper())


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


# asking and answering ------------------------------------------------------------------------


async def test_a_request_is_answered(mesh: Meshes) -> None:
    await serve(await mesh(), upper)
    assert await (await mesh()).request(ECHO, Ask(text="hä😀"), Told) == Told(text="HÄ😀")


async def test_requests_are_answered_side_by_side(mesh: Meshes) -> None:
    waiting = asyncio.Event()

    async def handler(ask: Ask) -> Told:
        if ask.text == "slow":
            await waiting.wait()
        else:
            waiting.set()
        return Told(text=ask.text)

    await serve(await mesh(), handler)
    asker = await mesh()
    slow = asyncio.create_task(asker.request(ECHO, Ask(text="slow"), Told))
    await asyncio.sleep(0.1)
    assert (await asker.request(ECHO, Ask(text="quick"), Told)).text == "quick"
    assert (await slow).text == "slow"


async def test_never_more_than_the_limit_run_at_once_and_none_is_lost(mesh: Meshes) -> None:
    running, most = 0, 0

    async def handler(ask: Ask) -> Told:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return Told(text=ask.text)

    await serve(await mesh(), handler, concurrency=3)
    asker = await mesh()
    answers = await asyncio.gather(
        *(asker.request(ECHO, Ask(text=str(n)), Told) for n in range(60))
    )
    assert [answer.text for answer in answers] == [str(n) for n in range(60)]
    assert most == 3


async def test_replicas_share_the_requests(mesh: Meshes) -> None:
    heard: list[str] = []

    def responder(name: str) -> Callable[[Ask], Awaitable[Told]]:
        async def handler(ask: Ask) -> Told:
            heard.append(name)
            return Told(text=ask.text)

        return handler

    await serve(await mesh(), responder("a"))
    await serve(await mesh(), responder("b"))
    asker = await mesh()
    await asyncio.gather(*(asker.request(ECHO, Ask(text="x"), Told) for _ in range(50)))
    assert len(heard) == 50
    assert set(heard) == {"a", "b"}


async def test_nobody_there_is_absent_at_once(mesh: Meshes) -> None:
    asker = await mesh()
    async with asyncio.timeout(1):
        with pytest.raises(Absent, match="no responder"):
            await asker.request(ECHO, Ask(text="x"), Told)


async def test_an_answer_that_takes_too_long_is_absent(mesh: Meshes) -> None:
    async def handler(_: Ask) -> Told:
        await asyncio.sleep(1)
        return Told()

    await serve(await mesh(), handler)
    with pytest.raises(Absent, match=r"within 0\.1 s"):
        await (await mesh()).request(ECHO, Ask(text="x"), Told, timeout=0.1)


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        (InvalidRequest("no"), "invalid", False),
        (InvalidRequest("where", "notFound"), "notFound", False),
        (Fault("later", "timeout"), "timeout", True),
        (Fault("never", retryable=False), "internal", False),
        (Absent("memory.get", "no responder"), "absent", True),
        (Remote("x", ErrorBody(code="conflict", message="c")), "conflict", False),
        (TooLarge("big"), "overflow", False),
        (ZeroDivisionError("secret"), "internal", True),
    ],
)
async def test_an_error_of_the_handler_says_whose_fault_it_is(
    mesh: Meshes, error: Exception, code: str, *, retryable: bool
) -> None:
    async def handler(_: Ask) -> Told:
        raise error

    await serve(await mesh(), handler)
    with pytest.raises(Remote) as answered:
        await (await mesh()).request(ECHO, Ask(text="x"), Told)
    assert (answered.value.error.code, answered.value.error.retryable) == (code, retryable)
    assert "secret" not in str(answered.value)


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b"{}", b'{"text":[]}'])
async def test_a_body_that_cannot_be_read_is_answered_invalid(mesh: Meshes, body: bytes) -> None:
    await serve(await mesh(), upper)
    reply = await (await mesh()).client.request(ECHO.name, body, timeout=2)
    assert b'"code":"invalid"' in reply.data


@pytest.mark.parametrize("body", [b"", b"[]", b"nonsense", b'{"text":7}', b'{"error":"x"}'])
async def test_an_answer_that_cannot_be_read_is_a_fault(mesh: Meshes, body: bytes) -> None:
    responder = await mesh()

    async def rubbish(message: object) -> None:
        await message.respond(body)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]

    await responder.client.subscribe(ECHO.name, cb=rubbish)
    await responder.settle()

    class Strict(Contract):
        text: str

    with pytest.raises(Fault, match="unreadable answer") as failed:
        await (await mesh()).request(ECHO, Ask(text="x"), Strict)
    assert not failed.value.retryable


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":{"code":"refused","message":"no"}}',
        b'{ "error" : {"code": "refused", "message": "no"} }',
    ],
)
async def test_an_error_answer_in_anybodys_hand_is_one(mesh: Meshes, body: bytes) -> None:
    responder = await mesh()

    async def refuse(message: object) -> None:
        await message.respond(body)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]

    await responder.client.subscribe(ECHO.name, cb=refuse)
    await responder.settle()
    with pytest.raises(Remote, match="refused"):
        await (await mesh()).request(ECHO, Ask(text="x"), Told)


async def test_an_answer_over_the_limit_is_an_error_and_not_silence(mesh: Meshes) -> None:
    async def handler(_: Ask) -> Told:
        return Told(text="x" * (9 * 1024 * 1024))

    await serve(await mesh(), handler)
    with pytest.raises(Remote, match="overflow"):
        await (await mesh()).request(ECHO, Ask(text="x"), Told)


async def test_a_body_over_the_limit_is_refused_before_it_is_sent(mesh: Meshes) -> None:
    asker = await mesh()
    big = Ask(text="x" * (9 * 1024 * 1024))
    with pytest.raises(TooLarge, match="bytes"):
        await asker.request(ECHO, big, Told)
    with pytest.raises(TooLarge):
        await asker.publish(EVENT, big)
    with pytest.raises(TooLarge):
        await asker.store(subjects.turn_after("s"), big)
    assert asker.connected


async def test_a_subject_over_the_limit_is_refused_before_it_costs_the_connection(
    mesh: Meshes,
) -> None:
    asker = await mesh()
    with pytest.raises(TooLarge, match="too long"):
        await asker.publish(subjects.turn_after("会" * 1000), Ask(text="x"))
    await asker.client.flush()
    assert asker.connected


# taking an offer back ------------------------------------------------------------------------


async def test_an_offer_taken_back_finishes_and_answers_what_has_come(mesh: Meshes) -> None:
    responder, asker = await mesh(), await mesh()
    began = asyncio.Event()

    async def handler(ask: Ask) -> Told:
        began.set()
        await asyncio.sleep(0.3)
        return Told(text=ask.text)

    offer = await responder.respond(ECHO.template, Ask, handler, name=ECHO.name)
    asked = asyncio.create_task(asker.request(ECHO, Ask(text="x"), Told))
    await began.wait()
    await offer.withdraw()
    assert (await asked).text == "x"
    with pytest.raises(Absent, match="no responder"):
        await asker.request(ECHO, Ask(text="x"), Told)


async def test_no_request_is_lost_while_one_replica_leaves(mesh: Meshes) -> None:
    leaving, staying, asker = await mesh(), await mesh(), await mesh()

    async def handler(ask: Ask) -> Told:
        await asyncio.sleep(0.02)
        return Told(text=ask.text)

    offer = await leaving.respond(ECHO.template, Ask, handler, name=ECHO.name)
    await serve(staying, handler)
    answered = 0

    async def keep_asking() -> None:
        nonlocal answered
        for _ in range(30):
            await asker.request(ECHO, Ask(text="x"), Told, timeout=2)
            answered += 1

    asking = [asyncio.create_task(keep_asking()) for _ in range(8)]
    await asyncio.sleep(0.1)
    await offer.withdraw()
    await asyncio.gather(*asking)
    assert answered == 240


async def test_a_handler_that_outlasts_the_grace_is_cancelled_and_its_asker_told(
    mesh: Meshes,
) -> None:
    responder, asker = await mesh(grace_seconds=0.5), await mesh()
    began, cancelled = asyncio.Event(), asyncio.Event()

    async def handler(_: Ask) -> Told:
        began.set()
        try:
            await asyncio.sleep(30)
        finally:
            cancelled.set()
        return Told()

    await serve(responder, handler)
    asked = asyncio.create_task(asker.request(ECHO, Ask(text="x"), Told, timeout=20))
    await began.wait()
    async with asyncio.timeout(5):
        await responder.close()
    assert cancelled.is_set()
    with pytest.raises(Remote, match="leaving") as told:
        await asked
    assert (told.value.error.code, told.value.error.retryable) == ("absent", True)


async def test_closing_without_a_server_is_quick_and_quiet(
    mesh: Meshes, fresh_nats: NatsServer
) -> None:
    mesh = Meshes(fresh_nats)
    connected = await mesh()
    await serve(connected, upper)
    await connected.listen(EVENT.template, Ask, _ignore, name=EVENT.name)
    fresh_nats.kill()
    await until(lambda: not connected.connected)
    async with asyncio.timeout(3):
        await mesh.close()


async def test_closing_while_the_server_is_frozen_ends_within_the_grace(
    fresh_nats: NatsServer,
) -> None:
    mesh = Meshes(fresh_nats)
    connected = await mesh(grace_seconds=1.0)
    await serve(connected, upper)
    fresh_nats.pause()
    async with asyncio.timeout(5):
        await mesh.close()


async def test_a_server_that_was_frozen_finds_a_client_that_still_hears(
    fresh_nats: NatsServer,
) -> None:
    mesh = Meshes(fresh_nats)
    connected, asker = await mesh(), await mesh()
    fresh_nats.pause()
    await connected.settle()
    await serve(connected, upper)
    fresh_nats.resume()
    await connected.settle()
    assert (await asker.request(ECHO, Ask(text="x"), Told, timeout=10)).text == "X"
    await mesh.close()


async def _ignore(_: Ask) -> None:
    """Hear and do nothing."""


# events --------------------------------------------------------------------------------------


async def test_events_are_heard_in_order_and_a_bad_one_disturbs_nothing(
    mesh: Meshes, caplog: pytest.LogCaptureFixture
) -> None:
    hearing, speaking = await mesh(), await mesh()
    heard: list[str] = []

    async def hear(ask: Ask) -> None:
        heard.append(ask.text)
        if ask.text == "3":
            raise ZeroDivisionError

    await hearing.listen(EVENT.template, Ask, hear)
    for number in range(10):
        await speaking.publish(EVENT, Ask(text=str(number)))
        await speaking.publish(EVENT, b"rubbish")
        await speaking.publish(EVENT, b'{"text":null}')
    await until(lambda: len(heard) == 10)
    assert heard == [str(number) for number in range(10)]
    assert [r.message for r in caplog.records if r.levelno >= logging.ERROR] == [
        "event handler failed"
    ]


async def test_of_a_queue_group_one_hears_each_event_and_without_one_everybody_does(
    mesh: Meshes,
) -> None:
    heard: list[str] = []

    def listener(name: str) -> Callable[[Ask], Awaitable[None]]:
        async def hear(ask: Ask) -> None:
            heard.append(f"{name}{ask.text}")

        return hear

    for name, queue in (("a", "group"), ("b", "group"), ("c", ""), ("d", "")):
        await (await mesh()).listen(EVENT.template, Ask, listener(name), queue=queue)
    await (await mesh()).publish(EVENT, Ask(text="1"))
    await until(lambda: len(heard) >= 3)
    await asyncio.sleep(0.1)
    assert sorted(name for name in heard if name[0] in "cd") == ["c1", "d1"]
    assert len([name for name in heard if name[0] in "ab"]) == 1


# storing -------------------------------------------------------------------------------------


async def test_the_same_message_id_is_stored_once(mesh: Meshes, session_id: str) -> None:
    connected = await mesh()
    subject = subjects.turn_after(session_id)
    first = await connected.store(subject, Ask(text="a"), "id-1")
    again = await connected.store(subject, Ask(text="a"), "id-1")
    assert (first.duplicate, again.duplicate, again.seq) == (False, True, first.seq)
    other = await connected.store(subject, Ask(text="a"))
    third = await connected.store(subject, Ask(text="a"))
    assert first.seq < other.seq < third.seq


async def test_a_compare_and_set_is_refused_when_somebody_else_wrote(
    mesh: Meshes, session_id: str
) -> None:
    connected = await mesh()
    subject = subjects.journal(session_id, "user")
    first = await connected.store(subject, Ask(text="a"), "a", expected=0)
    with pytest.raises(Conflict):
        await connected.store(subject, Ask(text="b"), "b", expected=0)
    second = await connected.store(subject, Ask(text="b"), "b", expected=first.seq)
    assert second.seq > first.seq


async def test_of_many_writers_at_one_revision_exactly_one_wins(
    mesh: Meshes, session_id: str
) -> None:
    connected = await mesh()
    bucket = Bucket(connected, topology.SESSIONS)
    made = await asyncio.gather(
        *(bucket.create(session_id, f"{n}".encode(), f"{session_id}.{n}") for n in range(20))
    )
    (revision,) = [number for number in made if number is not None]
    kept = await bucket.get(session_id)
    assert kept is not None
    assert kept.revision == revision
    assert await bucket.update(session_id, b"x", revision - 1, f"{session_id}.x") is None
    newer = await bucket.update(session_id, b"y", revision, f"{session_id}.y")
    assert newer is not None
    assert await bucket.update(session_id, b"y", revision, f"{session_id}.y") == newer
    await bucket.delete(session_id)
    assert await bucket.get(session_id) is None


async def test_a_deleted_key_can_be_made_again_and_a_newer_value_is_not_deleted(
    mesh: Meshes, session_id: str
) -> None:
    bucket = Bucket(await mesh(), topology.REGISTRY)
    first = await bucket.create(session_id, b"1", f"{session_id}.1")
    assert first is not None
    await bucket.put(session_id, b"2")
    await bucket.delete(session_id, revision=first)
    kept = await bucket.get(session_id)
    assert kept is not None
    await bucket.delete(session_id, revision=kept.revision, ttl_seconds=30)
    assert await bucket.get(session_id) is None
    assert await bucket.create(session_id, b"3", f"{session_id}.3") is not None
    assert await bucket.create(session_id, b"4", f"{session_id}.4") is None


async def test_a_store_whose_answer_is_lost_is_stored_once(
    fresh_nats: NatsServer, session_id: str
) -> None:
    mesh = Meshes(fresh_nats)
    connected = await mesh()
    event, journal = subjects.turn_after(session_id), subjects.journal(session_id, "user")
    fresh_nats.pause()
    storing = asyncio.gather(
        connected.store(event, Ask(text="a")),
        connected.store(journal, Ask(text="a"), "a", expected=0),
    )
    # Longer than one try waits, so that the same messages are on their way twice.
    await asyncio.sleep(3.0)
    fresh_nats.resume()
    stored = await storing
    for stream, subject, made in (
        (topology.EVENTS, event, stored[0]),
        (topology.AGENT_JOURNAL, journal, stored[1]),
    ):
        entries = await connected.range(stream, subject.name, 1)
        assert [entry.seq for entry in entries] == [made.seq]
    await mesh.close()


async def test_what_nobody_stores_is_a_fault(mesh: Meshes) -> None:
    connected = await mesh()
    with pytest.raises(Fault, match="was not stored"):
        await connected.store(Subject("nowhere.at.all", "nowhere"), Ask(text="a"), patience=0.1)


async def test_a_stream_is_read_by_last_next_range_and_time(mesh: Meshes, session_id: str) -> None:
    connected = await mesh()
    subject = subjects.turn_after(session_id)
    assert await connected.last(topology.EVENTS, subject.name) is None
    assert await connected.range(topology.EVENTS, subject.name, 1) == []
    stored = [await connected.store(subject, f"{n}".encode()) for n in range(5)]
    last = await connected.last(topology.EVENTS, subject.name)
    assert last is not None
    assert (last.data, last.seq) == (b"4", stored[4].seq)
    following = await connected.next(topology.EVENTS, subject.name, stored[1].seq)
    assert following is not None
    assert following.data == b"2"
    assert await connected.next(topology.EVENTS, subject.name, stored[4].seq) is None
    some = await connected.range(topology.EVENTS, subject.name, stored[1].seq, limit=2)
    assert [entry.data for entry in some] == [b"1", b"2"]
    late = await connected.since(topology.EVENTS, subject.name, last.time_ms + 60_000)
    assert late == []
    with pytest.raises(Absent):
        await connected.last("NO_SUCH_STREAM", subject.name)
    with pytest.raises(Fault):
        await connected.range("NO_SUCH_STREAM", subject.name, 1)


# NATS goes and returns -----------------------------------------------------------------------


@pytest.mark.parametrize("how", ["restart", "kill"])
async def test_everything_goes_on_after_nats_returned(
    fresh_nats: NatsServer, session_id: str, how: str
) -> None:
    mesh = Meshes(fresh_nats)
    responder, asker = await mesh(), await mesh()
    heard: list[str] = []

    async def hear(ask: Ask) -> None:
        heard.append(ask.text)

    await serve(responder, upper)
    await responder.listen(EVENT.template, Ask, hear)
    subject = subjects.turn_after(session_id)
    first = await asker.store(subject, Ask(text="before"), "before")
    if how == "restart":
        fresh_nats.restart()
    else:
        fresh_nats.kill()
        storing = asyncio.create_task(asker.store(subject, Ask(text="meanwhile")))
        await asyncio.sleep(0.5)
        fresh_nats.start()
        assert (await storing).seq == first.seq + 1
    await until(lambda: responder.connected and asker.connected)
    await responder.settle()
    assert (await asker.request(ECHO, Ask(text="x"), Told)).text == "X"
    await asker.publish(EVENT, Ask(text="after"))
    await until(lambda: heard == ["after"])
    again = await asker.store(subject, Ask(text="before"), "before")
    assert (again.seq, again.duplicate) == (first.seq, True)
    await mesh.close()


async def test_a_mesh_waits_for_a_server_that_comes_later(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    server = NatsServer(tmp_path_factory.mktemp("nats"))
    server.url = f"nats://127.0.0.1:{server.port}"
    mesh = Meshes(server)
    connecting = asyncio.create_task(mesh())
    await asyncio.sleep(0.5)
    assert not connecting.done()
    server.start()
    try:
        assert (await asyncio.wait_for(connecting, 10)).connected
    finally:
        await mesh.close()
        server.stop()


async def test_what_is_asked_of_an_unconnected_mesh_is_a_clear_error() -> None:
    from aalis_sdk.testing.meshes import settings  # noqa: PLC0415 - only here

    unconnected = Mesh(settings("nats://127.0.0.1:1"), "test")
    assert not unconnected.connected
    with pytest.raises(RuntimeError, match=r"call connect\(\) first"):
        _ = unconnected.client
    with pytest.raises(RuntimeError, match=r"call connect\(\) first"):
        _ = unconnected.js
    await unconnected.close()


async def test_an_event_published_while_nats_is_away_is_kept_and_at_last_lost_with_a_warning(
    fresh_nats: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    mesh = Meshes(fresh_nats)
    hearing, speaking = await mesh(), await mesh()
    heard: list[int] = []

    async def hear(ask: Ask) -> None:
        heard.append(len(ask.text))

    await hearing.listen(EVENT.template, Ask, hear)
    fresh_nats.kill()
    await until(lambda: not speaking.connected and not hearing.connected)
    for _ in range(6):
        await speaking.publish(EVENT, Ask(text="x" * (4 * 1024 * 1024)))
    assert "event lost" in [record.message for record in caplog.records]
    fresh_nats.start()
    await until(lambda: speaking.connected and hearing.connected)
    await mesh.close()
