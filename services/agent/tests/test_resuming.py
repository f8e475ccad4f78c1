"""Death at every point: whoever takes the lane up next, everything happens exactly once."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from aalis_contracts.events import AgentAbort
from aalis_contracts.hooks import LLM_BEFORE, REPLY_BEFORE, TOOL_AFTER, TOOL_BEFORE

from .conftest import MAX_DELIVER, Crash, World

if TYPE_CHECKING:
    from aalis_contracts.journal import JournalEntry
    from aalis_contracts.text import JsonObject
    from aalis_contracts.tools import ToolCallContext

    from .conftest import Replica

SCRIPT: list[dict[str, Any]] = [
    {
        "when": {"text": "work", "iteration": 0},
        "reply": "let me see",
        "call": [{"tool": "echo", "args": {"n": 1}}, {"tool": "echo", "args": {"n": 2}}],
    },
    {
        "when": {"text": "work", "iteration": 1},
        "think": "hmm",
        "call": [{"tool": "echo", "args": {"n": 3}}, {"tool": "unknown"}],
    },
    {"when": {"text": "work"}, "reply": "the answer"},
    {"reply": "you said {text}"},
]


async def echo(args: JsonObject, _: ToolCallContext) -> str:
    await asyncio.sleep(0)
    return f"echo {args['n']}"


class Death:
    """Kills the replica that makes the append number `at`, before or after it is stored."""

    def __init__(self, world: World, at: int, *, stored: bool) -> None:
        self.world = world
        self.at = at
        self.count = 0
        self.happened = False
        if stored:
            world.journal.after_append = self
        else:
            world.journal.before_append = self

    async def __call__(self, _: JournalEntry) -> None:
        self.count += 1
        if self.count == self.at and not self.happened:
            self.happened = True
            replica: Replica = self.world.replica
            replica.kill()
            raise Crash


async def hook(_: Any) -> None:
    await asyncio.sleep(0)


async def told(world: World, seqs: list[int]) -> dict[str, Any]:
    """Return everything that somebody outside could see, without times."""
    await world.replica.debts.pay_all()
    return {
        "rows": [
            (row.input_seq, row.index, row.role, row.content, row.reasoning_content)
            for row in world.memory.of("s")
        ],
        "calls": [[c.function.name for c in row.tool_calls or []] for row in world.memory.of("s")],
        "sent": {key: message.content for key, message in world.outbound.sent.items()},
        "segments": {
            key: [(one.type, one.content, one.result) for one in message.segments or []]
            for key, message in world.outbound.sent.items()
        },
        "done": sorted(world.outbound.done),
        "outcomes": [world.outcome(seq) for seq in seqs],
        "tools": sorted(world.outbound.tools),
        "effects": Counter(world.tools.effects),
    }


async def lived(*, hooks: bool, at: int | None, stored: bool = True) -> tuple[Any, World, bool]:
    """Live through a turn with tools, dying at append number `at`; say whether death came."""
    world = World()
    world.tools.add("echo", echo)
    if hooks:
        for name in (TOOL_BEFORE, TOOL_AFTER, REPLY_BEFORE):
            world.interceptors.add(name, "watcher", hook)
    await world.open(*SCRIPT)
    death = Death(world, at, stored=stored) if at is not None else None
    seq = world.say("work")
    await world.deliver(seq)
    while world.verdicts[-1][1] != "ack":
        world.start()
        await world.deliver(seq)
    seen = await told(world, [seq])
    happened = death is not None and death.happened
    await world.close()
    return seen, world, happened


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("hooks", [True, False])
async def test_dying_at_any_append_changes_nothing_that_can_be_seen(
    hooks: bool, stored: bool
) -> None:
    expected, _, _ = await lived(hooks=hooks, at=None)
    assert expected["outcomes"] == ["replied"]
    assert set(expected["effects"].values()) == {1}

    at = 0
    while True:
        at += 1
        seen, world, happened = await lived(hooks=hooks, at=at, stored=stored)
        assert seen == expected, f"death at append {at}"
        answered = Counter(
            sum(message.role == "tool" for message in request.messages)
            for request in world.provider.answered
        )
        again = {count: times for count, times in answered.items() if times > 1}
        # Only an answer that had not reached the journal is asked for again.
        assert len(again) <= (0 if stored else 1), f"death at append {at}: {again}"
        if not happened:
            break
    assert at > 6


async def test_dying_at_two_points_in_a_row_changes_nothing(world: World) -> None:
    expected, _, _ = await lived(hooks=False, at=None)
    world.tools.add("echo", echo)
    await world.open(*SCRIPT)
    seq = world.say("work")
    for at in (3, 2):
        Death(world, at, stored=True)
        await world.deliver(seq)
        world.start()
    world.journal.after_append = None
    await world.deliver(seq)

    assert await told(world, [seq]) == expected


async def test_dying_while_giving_up_still_puts_the_input_where_dead_ones_go(world: World) -> None:
    async def bug(_: Any) -> None:
        raise RuntimeError("a bug")

    world.interceptors.add(LLM_BEFORE, "buggy", bug)
    await world.open(*SCRIPT)
    seq = world.say("work")
    for _ in range(MAX_DELIVER):
        await world.deliver(seq)
    Death(world, 2, stored=True)
    await world.deliver(seq)
    world.start()

    await world.deliver(seq)

    assert [verdict for _, verdict in world.verdicts][-2:] == ["crash", "reject"]
    assert "given up" in (world.answer(seq, "failure") or "")
    assert world.outcome(seq) == "error"


@pytest.mark.parametrize("lane", ["user", "proactive:from:x"])
async def test_frames_of_a_later_owner_are_above_all_earlier_ones(world: World, lane: str) -> None:
    text = "some text that takes longer to write than the longest pause of a busy machine"
    await world.open({"reply": text, "stream": {"chunk": 3, "delayMs": 25}})
    seq = world.say("hello", lane=lane)
    running = world.deliver(seq)
    while len(world.outbound.frames) < 2:
        await asyncio.sleep(0)
    world.replica.kill()
    await running
    before = len(world.outbound.frames)
    world.start()
    await world.deliver(seq)

    earlier, later = world.outbound.frames[:before], world.outbound.frames[before:]
    assert max(frame.seq for frame in earlier) < min(frame.seq for frame in later)
    assert {frame.attempt for frame in earlier} == {1}
    assert {frame.attempt for frame in later} == {2}
    assert world.outbound.done[world.turn_id(seq)].seq > max(frame.seq for frame in later)


async def pre_empted(*, at: int | None) -> tuple[Any, World]:
    """Have a turn of two tool groups pre-empted right after its append number `at`."""
    world = World()
    world.tools.add("echo", echo)
    await world.open(*SCRIPT)
    gate, woken = asyncio.Event(), asyncio.Event()
    count = 0

    async def stop_there(_: JournalEntry) -> None:
        nonlocal count
        count += 1
        if count == at:
            gate.set()
            await woken.wait()

    world.journal.after_append = stop_there
    first = world.say("work")
    running = world.deliver(first)
    ended = asyncio.ensure_future(gate.wait())
    await asyncio.wait({ended, running}, return_when=asyncio.FIRST_COMPLETED)
    ended.cancel()
    world.journal.after_append = None
    frozen = world.replica
    second = world.say("now")
    successor = world.start()
    await world.deliver(second, successor)
    woken.set()
    await running
    assert frozen.intake.running == 0
    seen = await told(world, [first, second])
    await world.close()
    return seen, world


@pytest.mark.parametrize("at", range(1, 12))
async def test_a_turn_pre_empted_at_any_point_ends_once_with_what_had_happened(at: int) -> None:
    seen, world = await pre_empted(at=at)

    first, second = seen["outcomes"]
    assert second == "replied"
    assert first in {"aborted", "replied"}
    assert len(seen["done"]) == 2
    assert len(seen["sent"]) == (1 if first == "aborted" else 2)
    assert set(seen["effects"].values()) <= {1}
    rows = [row for row in seen["rows"] if row[0] == 1]
    assert [row[1] for row in rows] == list(range(len(rows)))
    roles = [row[2] for row in rows]
    assert roles in (
        ["user"],
        ["user", "assistant", "tool", "tool"],
        ["user", "assistant", "tool", "tool", "assistant", "tool", "tool"],
        ["user", "assistant", "tool", "tool", "assistant", "tool", "tool", "assistant"],
    )
    # What a result said is known; what had not finished is said to be cancelled.
    for key in world.tools.effects:
        ended = f"{key}.end"
        assert ended in seen["tools"]
    starts = {key.removesuffix(".start") for key in seen["tools"] if key.endswith(".start")}
    ends = {key.removesuffix(".end") for key in seen["tools"] if key.endswith(".end")}
    assert starts <= ends


@pytest.mark.parametrize("signalled", [True, False])
async def test_an_abort_whose_messenger_dies_is_told_of_by_the_owner(
    world: World, signalled: bool
) -> None:
    let_go = asyncio.Event()

    async def waits(_: JsonObject, __: ToolCallContext) -> str:
        await let_go.wait()
        return "done"

    world.tools.add("waits", waits)
    await world.open({"when": {"iteration": 0}, "call": [{"tool": "waits"}]}, {"reply": "late"})
    seq = world.say("work")
    running = world.deliver(seq)
    while not world.tools.effects:
        await asyncio.sleep(0)
    messenger = world.start()

    async def die(entry: JournalEntry) -> None:
        await asyncio.sleep(0)
        if entry.ended:
            messenger.kill()
            raise Crash

    world.journal.after_append = die
    with pytest.raises(Crash):
        await messenger.aborts.abort("s")
    world.journal.after_append = None
    assert world.outcome(seq) is None
    if signalled:
        event = AgentAbort(
            session_id="s", lane="user", turn_id=world.turn_id(seq), reason="aborted"
        )
        await world.replicas[0].intake.aborted(event)
    else:
        let_go.set()
    await running

    assert world.verdicts == [(seq, "ack")]
    assert world.outcome(seq) == "aborted"
    assert world.turn_id(seq) in world.outbound.done
    assert world.answer(seq) is None


async def test_a_group_of_which_one_call_has_finished_is_kept_the_others_as_cancelled(
    world: World,
) -> None:
    async def hangs(_: JsonObject, __: ToolCallContext) -> str:
        await asyncio.Event().wait()
        return "never"

    world.tools.add("echo", echo)
    world.tools.add("hangs", hangs)
    await world.open(
        {
            "when": {"text": "work", "iteration": 0},
            "call": [{"tool": "hangs"}, {"tool": "echo", "args": {"n": 1}}],
        },
        {"reply": "you said {text}"},
    )
    first = world.say("work")
    running = world.deliver(first)
    while f"{world.turn_id(first)}.0.1.end" not in world.outbound.tools:
        await asyncio.sleep(0)
    await asyncio.sleep(0.01)

    second = world.say("now")
    await world.deliver(second)
    await running

    assert world.rows() == [
        ("user", "work"),
        ("assistant", ""),
        ("tool", '{"error":"cancelled"}'),
        ("tool", "echo 1"),
        ("user", "now"),
        ("assistant", "you said now"),
    ]
    assert world.tools.cancelled == [f"hangs {world.turn_id(first)}.0.0 aborted"]
    sent = world.provider.asked[-1].messages
    assert [m.role for m in sent] == ["system", "user", "assistant", "tool", "tool", "user"]


async def test_a_group_of_which_nothing_has_finished_is_not_kept(world: World) -> None:
    async def hangs(_: JsonObject, __: ToolCallContext) -> str:
        await asyncio.Event().wait()
        return "never"

    world.tools.add("hangs", hangs)
    await world.open(
        {"when": {"text": "work"}, "call": [{"tool": "hangs"}]}, {"reply": "you said {text}"}
    )
    first = world.say("work")
    running = world.deliver(first)
    while not world.tools.effects:
        await asyncio.sleep(0)

    assert await world.ask("now") == "you said now"
    await running

    assert world.rows() == [("user", "work"), ("user", "now"), ("assistant", "you said now")]
    assert world.outcome(first) == "aborted"


async def test_a_chain_of_pre_emptions_whose_owners_all_die_is_told_of_whole(world: World) -> None:
    await world.open({"when": {"text": "hang"}, "hang": True}, {"reply": "you said {text}"})
    seqs: list[int] = []
    for number in range(3):
        seqs.append(world.say(f"hang {number}"))
        # Each owner dies with its first fact, before it has settled the turn it pre-empted.
        Death(world, 1, stored=True)
        await world.deliver(seqs[-1])
        world.start()
    world.journal.after_append = None
    last = world.say("now")

    await world.deliver(last)
    for seq in seqs:
        await world.settle(seq)

    assert [world.outcome(seq) for seq in (*seqs, last)] == ["aborted"] * 3 + ["replied"]
    assert [text for role, text in world.rows() if role == "user"] == [
        "hang 0",
        "hang 1",
        "hang 2",
        "now",
    ]
    assert len(world.outbound.done) == 4


@pytest.mark.parametrize("offered", [True, False])
async def test_a_call_whose_host_is_gone_when_its_turn_is_resumed_has_an_unknown_outcome(
    world: World, offered: bool
) -> None:
    async def hangs(_: JsonObject, __: ToolCallContext) -> str:
        await asyncio.Event().wait()
        return "never"

    world.tools.add("hangs", hangs)
    await world.open({"when": {"iteration": 0}, "call": [{"tool": "hangs"}]}, {"reply": "{result}"})
    seq = world.say("work")
    running = world.deliver(seq)
    while not world.tools.effects:
        await asyncio.sleep(0)
    world.replica.kill()
    await running
    if offered:
        world.tools.away.add("hangs")
    else:
        world.tools.offers.clear()
    world.start()

    await world.deliver(seq)

    assert "unknown" in (world.answer(seq) or "")
    assert world.tools.effects == [f"{world.turn_id(seq)}.0.0"]
