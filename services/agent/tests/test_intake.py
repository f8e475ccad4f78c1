"""Deliveries: who takes up what, who gives way, what is done once however often it is delivered."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from aalis_agent.adapters.fakes import Stop
from aalis_agent.ports import Lost
from aalis_contracts.events import AgentAbort
from aalis_contracts.hooks import INPUT_BEFORE, LLM_BEFORE, REPLY_BEFORE
from aalis_contracts.journal import JournalEntry, TurnStarted
from aalis_contracts.models import ModelEntry

from .conftest import MAX_DELIVER

if TYPE_CHECKING:
    from aalis_contracts.text import JsonObject
    from aalis_contracts.tools import ToolCallContext

    from .conftest import World

ECHO: dict[str, Any] = {"reply": "you said {text}"}


async def until(condition: Any) -> None:
    """Wait until something holds; the test's own time limit ends a wait for what never comes."""
    while not condition():
        await asyncio.sleep(0)


def outcomes(world: World, seqs: list[int]) -> list[str | None]:
    return [world.outcome(seq) for seq in seqs]


def told_once(world: World, seqs: list[int]) -> bool:
    """Say whether each input has one done frame and one turn end."""
    turns = {world.turn_id(seq) for seq in seqs}
    return set(world.outbound.done) == turns == set(world.outbound.after)


async def test_five_at_once_are_five_rows_in_order_and_one_answer(world: World) -> None:
    await world.open(ECHO)
    seqs = [world.say(f"message {number}") for number in range(5)]

    await asyncio.gather(*(world.deliver(seq) for seq in seqs))

    assert [text for role, text in world.rows() if role == "user"] == [
        f"message {number}" for number in range(5)
    ]
    assert list(world.outbound.sent) == [f"{world.turn_id(seqs[-1])}.reply"]
    assert outcomes(world, seqs) == ["aborted"] * 4 + ["replied"]
    assert told_once(world, seqs)
    assert {verdict for _, verdict in world.verdicts} == {"ack"}


@pytest.mark.parametrize("order", [[4, 3, 2, 1, 0], [2, 0, 4, 1, 3]])
async def test_the_newest_wins_in_whatever_order_they_are_delivered(
    world: World, order: list[int]
) -> None:
    await world.open(ECHO)
    world.start()
    seqs = [world.say(f"message {number}") for number in range(5)]

    tasks = [world.deliver(seqs[place], world.replicas[place % 2]) for place in order]
    await asyncio.gather(*tasks)

    assert [key for key in world.memory.order if key[1] == 0] == [(seq, 0) for seq in seqs]
    assert outcomes(world, seqs) == ["aborted"] * 4 + ["replied"]
    assert told_once(world, seqs)


async def test_lanes_of_one_session_run_side_by_side(world: World) -> None:
    both = asyncio.Barrier(2)

    async def meet(_: Any) -> None:
        await both.wait()

    world.interceptors.add(LLM_BEFORE, "meeting", meet)
    await world.open(ECHO)
    seqs = [world.say("one"), world.say("two", lane="proactive:from:x")]

    await asyncio.gather(*(world.deliver(seq) for seq in seqs))

    assert outcomes(world, seqs) == ["replied", "replied"]


async def test_ids_that_look_alike_are_different_lanes(world: World) -> None:
    await world.open(ECHO)
    seqs = [world.say("one", session="a", lane="b:user"), world.say("two", session="a:b")]

    await world.settle(*seqs)

    assert outcomes(world, seqs) == ["replied", "replied"]
    assert len({world.turn_id(seq) for seq in seqs}) == 2


async def test_a_newer_message_ends_the_running_turn_at_once(world: World) -> None:
    await world.open({"when": {"text": "wait"}, "hang": True}, ECHO)
    first = world.say("wait")
    running = world.deliver(first)
    await until(lambda: world.provider.asked)
    second = world.say("now")

    await world.deliver(second)
    await running

    assert outcomes(world, [first, second]) == ["aborted", "replied"]
    assert told_once(world, [first, second])
    assert world.rows() == [("user", "wait"), ("user", "now"), ("assistant", "you said now")]
    assert world.replica.intake.running == 0


async def test_a_newer_message_that_is_swallowed_ends_the_running_turn_too(world: World) -> None:
    async def swallow(data: Any) -> None:
        if data.message.content == "now":
            raise Stop

    world.interceptors.add(INPUT_BEFORE, "filter", swallow)
    await world.open({"when": {"text": "wait"}, "hang": True}, ECHO)
    first = world.say("wait")
    running = world.deliver(first)
    await until(lambda: world.provider.asked)
    second = world.say("now")

    await world.deliver(second)
    await running

    assert outcomes(world, [first, second]) == ["aborted", None]
    assert world.outbound.sent == {}


async def test_an_owner_that_hears_no_signal_is_refused_at_its_next_append(world: World) -> None:
    world.outbound.deaf = True
    gate = asyncio.Event()

    async def wait(data: Any) -> None:
        if data.content == "you said one":
            await gate.wait()

    world.interceptors.add(REPLY_BEFORE, "slow", wait)
    await world.open(ECHO)
    other = world.start()
    first = world.say("one")
    running = world.deliver(first, world.replicas[0])
    await until(lambda: world.provider.answered)
    second = world.say("two")
    await world.deliver(second, other)
    before = (dict(world.outbound.sent), dict(world.outbound.done), world.rows())

    gate.set()
    await running

    assert (world.outbound.sent, world.outbound.done, world.rows()) == before
    assert world.journal.refused == 1
    assert outcomes(world, [first, second]) == ["aborted", "replied"]
    assert {verdict for _, verdict in world.verdicts} == {"ack"}


async def test_a_lane_lost_while_tools_run_side_by_side_is_just_lost(world: World) -> None:
    world.outbound.deaf = True
    gate = asyncio.Event()

    async def wait(_: JsonObject, __: ToolCallContext) -> str:
        await gate.wait()
        return "late"

    world.tools.add("wait", wait)
    await world.open(
        {"when": {"text": "one", "iteration": 0}, "call": [{"tool": "wait"}, {"tool": "wait"}]},
        ECHO,
    )
    other = world.start()
    first = world.say("one")
    running = world.deliver(first, world.replicas[0])
    await until(lambda: len(world.tools.effects) == 2)
    second = world.say("two")
    await world.deliver(second, other)

    gate.set()
    await running

    assert sorted(world.verdicts) == [(first, "ack"), (second, "ack")]
    assert outcomes(world, [first, second]) == ["aborted", "replied"]


async def test_a_delivery_of_a_turn_that_runs_here_changes_nothing(world: World) -> None:
    gate = asyncio.Event()

    async def wait(_: Any) -> None:
        await gate.wait()

    world.interceptors.add(LLM_BEFORE, "slow", wait)
    await world.open(ECHO)
    seq = world.say("hello")
    running = world.deliver(seq)
    await until(lambda: world.replica.intake.running)
    again = world.deliver(seq)
    gate.set()
    await asyncio.gather(running, again)

    assert sorted(world.verdicts) == [(seq, "ack"), (seq, "leave")]
    assert len(world.provider.asked) == 1


async def test_a_frozen_owner_is_replaced_and_its_waking_changes_nothing(world: World) -> None:
    gate = asyncio.Event()
    frozen: list[bool] = []

    async def freeze(_: Any) -> None:
        if not frozen:
            frozen.append(True)
            await gate.wait()

    world.interceptors.add(REPLY_BEFORE, "ice", freeze)
    await world.open(ECHO)
    other = world.start()
    seq = world.say("hello")
    running = world.deliver(seq, world.replicas[0])
    await until(lambda: frozen)

    await world.deliver(seq, other)
    sent, rows = dict(world.outbound.sent), world.rows()
    gate.set()
    await running

    assert world.answer(seq) == "you said hello"
    assert (world.outbound.sent, world.rows()) == (sent, rows)
    assert len(world.provider.asked) == 1
    assert dict(world.verdicts) == {seq: "ack"}


async def test_an_owner_woken_before_its_successor_has_ended_leaves_the_message_to_it(
    world: World,
) -> None:
    gates = [asyncio.Event(), asyncio.Event()]
    waiting: list[asyncio.Event] = []

    async def wait(_: Any) -> None:
        waiting.append(gates[len(waiting)])
        await waiting[-1].wait()

    world.interceptors.add(REPLY_BEFORE, "slow", wait)
    await world.open(ECHO)
    other = world.start()
    seq = world.say("hello")
    first = world.deliver(seq, world.replicas[0])
    await until(lambda: len(waiting) == 1)
    second = world.deliver(seq, other)
    await until(lambda: len(waiting) == 2)

    gates[0].set()
    await first
    gates[1].set()
    await second

    assert world.verdicts == [(seq, "leave"), (seq, "ack")]


async def test_late_signals_stop_nobody_who_came_after(world: World) -> None:
    gate = asyncio.Event()

    async def wait(_: Any) -> None:
        await gate.wait()

    world.interceptors.add(LLM_BEFORE, "slow", wait)
    await world.open(ECHO)
    first, second = world.say("one"), world.say("two")
    running = world.deliver(second)
    await until(lambda: world.replica.intake.running)
    hear = world.replica.intake.aborted

    def signal(turn_id: str | None, reason: Any, session: str = "s") -> AgentAbort:
        return AgentAbort(session_id=session, lane="user", turn_id=turn_id, reason=reason)

    await hear(signal(world.turn_id(first), "preempted"))
    await hear(signal(world.turn_id(second), "preempted"))
    await hear(signal(world.turn_id(first), "aborted"))
    await hear(signal("what is this", "preempted"))
    await hear(signal(world.turn_id(second), "aborted", session="t"))
    gate.set()
    await running

    assert world.outcome(second) == "replied"


async def test_a_signal_without_a_turn_stops_whatever_runs_in_the_lane(world: World) -> None:
    await world.open({"hang": True})
    seq = world.say("hello")
    running = world.deliver(seq)
    await until(lambda: world.provider.asked)

    await world.replica.intake.aborted(AgentAbort(session_id="s", lane="user", reason="aborted"))
    await running

    assert world.verdicts == [(seq, "leave")]


async def test_two_deliveries_taken_up_at_once_leave_one_runner(world: World) -> None:
    await world.open(ECHO)
    gate, held = asyncio.Event(), asyncio.Event()

    async def hold(entry: JournalEntry) -> None:
        # The first turn's beginning is stored, but its owner hears of it late.
        if isinstance(entry.facts[0], TurnStarted) and not held.is_set():
            held.set()
            await gate.wait()

    world.journal.after_append = hold
    first = world.say("one")
    slow = world.deliver(first)
    await held.wait()
    second = world.say("two")
    quick = world.deliver(second)
    await until(lambda: world.replica.intake.running)

    gate.set()
    await asyncio.gather(slow, quick)

    assert outcomes(world, [first, second]) == ["aborted", "replied"]
    assert told_once(world, [first, second])


async def test_a_message_delivered_again_after_its_end_changes_nothing(world: World) -> None:
    await world.open(ECHO)
    seq = world.say("hello")
    await world.settle(seq)
    before = (list(world.outbound.order), world.rows(), len(world.provider.asked))

    await world.settle(seq)

    assert (world.outbound.order, world.rows(), len(world.provider.asked)) == before


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"not json", "not JSON"),
        (b'{"content":"x","sessionId":"other","platform":"cli"}', "'other' is not the mailbox's"),
        (b'{"content":"x","platform":"cli"}', "sessionId"),
    ],
)
async def test_a_body_that_cannot_be_read_is_rejected_and_the_lane_goes_on(
    world: World, body: bytes, reason: str
) -> None:
    await world.open(ECHO)
    bad = world.post(body)
    good = world.say("hello")

    await asyncio.gather(world.deliver(bad), world.deliver(good))

    assert reason in world.rejected[bad].why
    assert world.outcome(good) == "replied"
    assert world.rows() == [("user", "hello"), ("assistant", "you said hello")]


async def test_a_message_that_is_gone_from_its_mailbox_is_done(world: World) -> None:
    await world.open(ECHO)
    seq = world.say("hello")
    delivery = world.deliver(seq)
    world.journal.clear("s", "user")

    await delivery

    assert world.verdicts == [(seq, "ack")]
    assert world.outbound.order == []


async def test_a_turn_that_fails_again_and_again_is_given_up_and_the_person_told_once(
    world: World,
) -> None:
    async def bug(_: Any) -> None:
        raise RuntimeError("a bug")

    world.interceptors.add(LLM_BEFORE, "buggy", bug)
    await world.open(ECHO)
    seq = world.say("hello")

    await world.settle(seq)

    assert [verdict for _, verdict in world.verdicts] == [
        "bug RuntimeError: a bug"
    ] * MAX_DELIVER + ["reject"]
    assert world.rejected[seq].turn_id == world.turn_id(seq)
    assert "given up" in world.rejected[seq].why
    assert "given up" in (world.answer(seq, "failure") or "")
    assert world.outcome(seq) == "error"
    assert told_once(world, [seq])

    await world.settle(seq)
    assert len(world.outbound.sent) == 1


async def test_giving_up_early_still_archives_and_tells_of_every_input(world: World) -> None:
    async def bug(_: Any) -> None:
        raise RuntimeError("a bug")

    world.interceptors.add(INPUT_BEFORE, "buggy", bug)
    await world.open(ECHO)
    seqs = [world.say("one"), world.say("two")]

    await world.settle(seqs[0])
    await world.replica.debts.pay_all()

    assert outcomes(world, seqs) == ["aborted", "error"]
    assert world.rows() == [("user", "one"), ("user", "two")]
    assert told_once(world, seqs)


async def test_giving_up_a_turn_that_pre_empted_another_settles_that_one(world: World) -> None:
    async def bug(data: Any) -> None:
        if data.message.content == "two":
            raise RuntimeError("a bug")

    world.interceptors.add(INPUT_BEFORE, "buggy", bug)
    await world.open({"when": {"text": "one"}, "hang": True}, ECHO)
    first = world.say("one")
    running = world.deliver(first)
    await until(lambda: world.provider.asked)
    second = world.say("two")

    await world.settle(second)
    await running

    assert outcomes(world, [first, second]) == ["aborted", "error"]


async def test_what_is_promised_is_never_given_up(world: World) -> None:
    await world.open(ECHO)
    fail = [True] * (MAX_DELIVER + 2)
    dispatch = world.outbound.dispatch

    async def failing(message: Any) -> None:
        if fail:
            fail.pop()
            raise RuntimeError("the broker is away")
        await dispatch(message)

    world.outbound.dispatch = failing  # type: ignore[method-assign]
    seq = world.say("hello")

    await world.settle(seq)

    assert world.answer(seq) == "you said hello"
    assert world.outcome(seq) == "replied"
    assert len(world.provider.asked) == 1


async def test_a_process_that_leaves_hands_its_turn_back_with_all_that_is_paid_for(
    world: World,
) -> None:
    await world.open({"reply": "you said {text}", "stream": {"chunk": 1, "delayMs": 5}})
    seq = world.say("hello")
    running = world.deliver(seq)
    await until(lambda: world.outbound.frames)

    world.replica.intake.leave()
    await running
    world.start()
    await world.settle(seq)

    assert world.verdicts == [(seq, "retry"), (seq, "ack")]
    assert world.answer(seq) == "you said hello"
    assert len(world.provider.asked) == 1


async def test_a_process_out_of_grace_is_cancelled_and_another_goes_on(world: World) -> None:
    await world.open({"first": 1, "hang": True}, ECHO)
    seq = world.say("hello")
    running = world.deliver(seq)
    await until(lambda: world.provider.asked)

    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await world.settle(seq)

    assert world.verdicts == [(seq, "crash"), (seq, "ack")]
    assert world.answer(seq) == "you said hello"
    assert world.outcome(seq) == "replied"


async def test_a_turn_whose_model_is_not_configured_here_is_handed_on_then_explained(
    world: World,
) -> None:
    await world.open({"first": 1, "hang": True}, ECHO)
    seq = world.say("hello")
    running = world.deliver(seq)
    await until(lambda: world.provider.asked)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    other = ModelEntry(provider_id="other", id="m", context_length=1000, capabilities=["chat"])
    world.models._entries = [other]  # pyright: ignore[reportPrivateUsage] - another replica's

    world.verdicts.clear()
    for _ in range(2):
        await world.deliver(seq)

    assert [verdict for _, verdict in world.verdicts] == ["retry", "ack"]
    assert "scripted/demo" in (world.answer(seq, "failure") or "")
    assert world.outcome(seq) == "error"


async def test_a_lane_whose_turn_has_lost_its_beginning_is_ended_and_goes_on(
    world: World,
) -> None:
    await world.open({"when": {"text": "hello"}, "hang": True}, ECHO)
    seq = world.say("hello")
    running = world.deliver(seq)
    await until(lambda: world.provider.asked)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    world.journal.forget("s", "user", below=2)

    await world.settle(seq)
    assert "beginning" in world.rejected[seq].why
    assert world.outcome(seq) == "error"
    assert world.answer(seq, "failure") is not None

    assert await world.ask("next") == "you said next"


async def test_a_newer_message_takes_over_from_a_turn_that_has_lost_its_beginning(
    world: World,
) -> None:
    await world.open({"when": {"text": "one"}, "hang": True}, ECHO)
    first = world.say("one")
    running = world.deliver(first)
    await until(lambda: world.provider.asked)
    world.journal.forget("s", "user", below=2)

    assert await world.ask("two") == "you said two"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_finished_turn_that_has_lost_its_beginning_is_done(world: World) -> None:
    await world.open(ECHO)
    seq = world.say("hello")
    await world.settle(seq)
    world.journal.forget("s", "user", below=2)

    await world.settle(seq)

    assert world.verdicts[-1] == (seq, "ack")


async def test_more_waits_in_a_mailbox_than_a_turn_covers(world: World) -> None:
    await world.open(ECHO)
    seqs = [world.say(f"message {number}") for number in range(620)]

    tasks: list[Any] = [world.deliver(seq) for seq in (seqs[0], seqs[550], seqs[-1])]
    await asyncio.gather(*tasks)

    assert len([1 for role, _ in world.rows() if role == "user"]) == 620
    assert world.outcome(seqs[-1]) == "replied"
    assert set(outcomes(world, seqs[:-1])) == {"aborted"}
    assert told_once(world, seqs)


async def test_a_journal_with_short_messages_takes_a_turn_in_pieces(world: World) -> None:
    world.journal.limit = 3_000
    await world.open({"reply": "answer " * 100})
    seqs = [world.say("a long text " * 30) for _ in range(6)]

    await world.deliver(seqs[0])

    assert outcomes(world, seqs) == ["aborted"] * 5 + ["replied"]
    assert told_once(world, seqs)
    assert all(len(one.entry.to_json()) <= 3_000 for one in world.journal.entries("s", "user"))


async def test_a_fact_that_cannot_be_made_to_fit_fails_the_turn_and_not_the_lane(
    world: World,
) -> None:
    world.journal.limit = 2_000
    await world.open({"when": {"text": "long"}, "reply": "x" * 3_000}, ECHO)

    seq = world.say("long")
    await world.settle(seq)

    assert world.outcome(seq) == "error"
    assert await world.ask("short") == "you said short"


async def test_an_unreadable_journal_is_a_bug_that_does_not_touch_the_message(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.open(ECHO)
    seq = world.say("hello")

    async def refuse(*_: object) -> int:
        raise ValueError("unreadable")

    with monkeypatch.context() as patch:
        patch.setattr(world.journal, "append", refuse)
        await world.deliver(seq)
    await world.deliver(seq)

    assert world.verdicts == [(seq, "bug ValueError: unreadable"), (seq, "ack")]


async def test_a_take_over_that_loses_the_race_looks_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.open(ECHO)
    seq = world.say("hello")
    append, lost = world.journal.append, [True]

    async def race(entry: JournalEntry, expected: int, key: str) -> int:
        if lost:
            lost.pop()
            raise Lost
        return await append(entry, expected, key)

    monkeypatch.setattr(world.journal, "append", race)
    await world.settle(seq)

    assert world.outcome(seq) == "replied"
