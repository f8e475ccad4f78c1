"""Take-overs: however the appends of several owners interleave, a lane has one story.

Owners are coroutines that are advanced one append at a time, in an order that hypothesis chooses;
any of them may die between two appends, and messages come at any moment.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from aalis_agent.adapters.fakes import FakeJournal
from aalis_agent.lane import Covered, Lane, fold_records, split_turns, take
from aalis_agent.ports import Lost
from aalis_agent.steps import (
    Ask,
    Conclude,
    Deliver,
    Done,
    End,
    Plan,
    Prepare,
    RunTools,
    Save,
    Settle,
    next_step,
)
from aalis_contracts.journal import (
    Fact,
    InputPrepared,
    ModelResponded,
    RowsSaved,
    ToolFinished,
    TurnEnded,
    TurnPlanned,
    TurnReplying,
)
from aalis_contracts.messages import FunctionCall, IncomingMessage, ToolCall
from aalis_contracts.models import ChatResponse

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from aalis_contracts.journal import JournalEntry

SAID = IncomingMessage(content="hello", session_id="s", platform="cli")
CALLS = [
    ToolCall(id=f"c{index}", function=FunctionCall(name="tool", arguments="{}"))
    for index in range(2)
]


def facts_for(lane: Lane) -> list[Fact]:  # noqa: C901, PLR0911 - a case a step
    """Do the next step of a turn: two rounds of two calls, then a reply."""
    turn = lane.turn
    match next_step(turn):
        case Settle():
            return [TurnEnded(turn_id="earlier", outcome="aborted", at=0)]
        case Prepare(input_seq=seq):
            return [InputPrepared(input_seq=seq, message=SAID, metadata={}, arrived_at=0)]
        case Plan():
            return [TurnPlanned(input_seq=max(turn.prepared), max_iterations=5)]
        case Ask(iteration=iteration, attempt=attempt):
            calls = CALLS if iteration < 2 else None
            response = ChatResponse(content="text", tool_calls=calls)
            return [ModelResponded(iteration=iteration, attempt=attempt, response=response, at=0)]
        case RunTools(round=one):
            index = one.pending[0]
            key = f"{turn.turn_id}.{one.iteration}.{index}"
            return [ToolFinished(iteration=one.iteration, index=index, key=key, content="ok", at=0)]
        case Save():
            return [RowsSaved(input_seq=max(turn.inputs), through_index=turn.row_count)]
        case Conclude():
            return [TurnReplying(outcome="replied", content="hi", at=0)]
        case Deliver():
            return [TurnEnded(outcome="replied", at=0)]
        case End(outcome=outcome):
            return [TurnEnded(outcome=outcome, at=0)]
        case Done():
            return []


@dataclass
class Rig:
    """A lane, its owners, and who appended what."""

    journal: FakeJournal = field(default_factory=FakeJournal)
    owners: dict[str, Coroutine[object, None, None]] = field(
        default_factory=dict[str, "Coroutine[object, None, None]"]
    )
    inputs: list[int] = field(default_factory=list[int])
    authors: list[str] = field(default_factory=list[str])
    deliveries: int = 0
    moving: str = ""

    def __post_init__(self) -> None:
        async def note(_: JournalEntry) -> None:
            self.authors.append(self.moving)

        self.journal.after_append = note

    def post(self) -> None:
        """Put a message into the mailbox; it is delivered."""
        self.inputs.append(self.journal.post("s", "user", SAID.to_json()))
        self.deliver(self.inputs[-1])

    def deliver(self, seq: int) -> None:
        """Wake an owner for this input."""
        self.deliveries += 1
        name = f"owner-{self.deliveries}"
        self.owners[name] = self._own(name, seq)

    async def _own(self, name: str, seq: int) -> None:
        lane = await take(self.journal, "s", "user", seq, owner=name, delivered=1, now=lambda: 0)
        if isinstance(lane, Covered):
            return
        with contextlib.suppress(Lost):
            while facts := facts_for(lane):
                await lane.append(*facts)

    def advance(self, name: str) -> None:
        """Let an owner go on until it waits for the journal again."""
        self.moving = name
        try:
            self.owners[name].send(None)
        except StopIteration:
            del self.owners[name]

    def kill(self, name: str) -> None:
        """End an owner where it is."""
        self.owners.pop(name).close()

    def finish(self) -> None:
        """Run what is left, then deliver every input again, as the server does until an ack."""
        while self.owners:
            self.advance(next(iter(self.owners)))
        for seq in self.inputs:
            self.deliver(seq)
            while self.owners:
                self.advance(next(iter(self.owners)))


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["go", "go", "go", "go", "post", "deliver", "kill"]), st.integers(0, 9)
    ),
    max_size=120,
)


@settings(deadline=None, max_examples=120)
@given(ACTIONS)
def test_however_owners_interleave_a_lane_has_one_story(actions: list[tuple[str, int]]) -> None:
    rig = Rig()
    rig.post()
    for action, number in actions:
        names = list(rig.owners)
        if action == "post" and len(rig.inputs) < 4:
            rig.post()
        elif action == "deliver":
            rig.deliver(rig.inputs[number % len(rig.inputs)])
        elif names and action == "kill":
            rig.kill(names[number % len(names)])
        elif names and action == "go":
            rig.advance(names[number % len(names)])
    rig.finish()

    records = rig.journal.entries("s", "user")
    turns = split_turns(records)
    folded = [fold_records(one) for one in turns]
    # Every input is covered, in order, and the newest turn has ended with a reply.
    assert records[-1].entry.covered_to == rig.inputs[-1]
    assert records[-1].entry.ended
    assert [max(turn.inputs) for turn in folded] == sorted({max(turn.inputs) for turn in folded})
    for turn, entries, following in zip(folded, turns, [*folded[1:], None], strict=True):
        if turn.ended is None:
            assert following is not None
            assert following.preempts == entries[0].seq
        facts = [fact for one in entries for fact in one.entry.facts]
        # What was finished once was not done again, whoever owned the turn.
        done = Counter(
            (type(fact).__name__, fact.iteration, getattr(fact, "index", None))
            for fact in facts
            if isinstance(fact, ModelResponded | ToolFinished)
        )
        assert not done or max(done.values()) == 1
        assert sum(isinstance(fact, TurnReplying) for fact in facts) <= 1
        # One owner after the other: nobody appends between somebody else's appends.
        begin = records.index(entries[0])
        authors = rig.authors[begin : begin + len(entries)]
        changes = [one for place, one in enumerate(authors) if authors[place - 1 : place] != [one]]
        assert len(changes) == len(set(changes))


def test_an_owner_that_was_replaced_is_refused_at_its_next_append() -> None:
    rig = Rig()
    rig.post()
    for _ in range(6):
        rig.advance("owner-1")
    rig.deliver(rig.inputs[0])
    while "owner-2" in rig.owners:
        rig.advance("owner-2")
    before = len(rig.journal.entries("s", "user"))
    while "owner-1" in rig.owners:
        rig.advance("owner-1")

    assert rig.journal.refused == 1
    assert len(rig.journal.entries("s", "user")) == before
    assert rig.journal.entries("s", "user")[-1].entry.ended
