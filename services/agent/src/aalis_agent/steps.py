"""This is about steps: what a turn's facts amount to, and what must happen next (SPEC JRN-8).

`fold` turns journal facts into a `Turn`; `next_step` says what to do, and never asks for anything
whose result is already a fact. It knows no clock, no broker, no SDK: whoever owns the lane next
folds the same facts and goes on from the same step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, assert_never

from aalis_contracts.journal import (
    Fact,
    InputPrepared,
    ModelResponded,
    ModelStarted,
    ReplyRetried,
    RowsSaved,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnPlanned,
    TurnReplying,
    TurnResumed,
    TurnStarted,
)
from aalis_contracts.messages import ToolCall
from aalis_contracts.models import ChatResponse
from aalis_contracts.subjects import turn_id

STRIKES = 3
"""Responses in a row without an executable call after which the loop ends (SPEC AG-45)."""


@dataclass(frozen=True, slots=True)
class Round:
    """One response of the model and what came of its calls.

    `reply_attempt` counts the format retries before it: 0 for every response of the tool loop.
    """

    iteration: int
    response: ChatResponse
    at: int
    reply_attempt: int = 0
    started: dict[int, ToolStarted] = field(default_factory=dict[int, ToolStarted])
    finished: dict[int, ToolFinished] = field(default_factory=dict[int, ToolFinished])

    @property
    def calls(self) -> list[ToolCall]:
        """The calls the model asked for; a format retry may not ask for any (AG-51)."""
        return [] if self.reply_attempt else self.response.tool_calls or []

    @property
    def pending(self) -> list[int]:
        """Indexes of the calls without a result."""
        return [index for index in range(len(self.calls)) if index not in self.finished]

    @property
    def fruitless(self) -> bool:
        """Whether all calls have a result and none of them could be executed (AG-45)."""
        return bool(self.calls) and all(
            (done := self.finished.get(index)) is not None and bool(done.refused)
            for index in range(len(self.calls))
        )


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn as its facts tell it."""

    session_id: str
    lane: str
    turn_id: str
    inputs: tuple[int, ...]
    owner: str
    preempts: int | None = None
    settled: bool = False
    resumed: int = 0
    prepared: dict[int, InputPrepared] = field(default_factory=dict[int, InputPrepared])
    plan: TurnPlanned | None = None
    asked: dict[int, int] = field(default_factory=dict[int, int])
    asked_at: int | None = None
    rounds: tuple[Round, ...] = ()
    retries: tuple[ReplyRetried, ...] = ()
    saved_to: int = 0
    owing: bool = False
    replying: TurnReplying | None = None
    ended: TurnEnded | None = None

    @property
    def answered(self) -> InputPrepared:
        """The input this turn answers; only a planned turn has one."""
        if self.plan is None or self.plan.input_seq is None:
            message = f"turn {self.turn_id} answers no input"
            raise ValueError(message)
        return self.prepared[self.plan.input_seq]

    @property
    def newest(self) -> InputPrepared | None:
        """The newest input prepared so far that no interceptor swallowed (SPEC AG-12)."""
        kept = [seq for seq, one in self.prepared.items() if one.swallowed_by is None]
        return self.prepared[max(kept)] if kept else None

    @property
    def unprepared(self) -> list[int]:
        """The inputs that the turn has not come to."""
        return [seq for seq in self.inputs if seq not in self.prepared]

    @property
    def answer_id(self) -> str:
        """The id under which this turn's answer is known: `<lane>:<inputSeq>`."""
        return turn_id(self.session_id, self.lane, self.answered.input_seq)

    @property
    def groups(self) -> tuple[Round, ...]:
        """The rounds whose calls belong to the conversation: all but one the limit cut off."""
        with_calls = tuple(one for one in self.rounds if one.calls)
        if with_calls and self.limit_reached:
            return with_calls[:-1]
        return with_calls

    @property
    def limit_reached(self) -> bool:
        """Whether the last round asks for calls that the limit forbids (AG-45, AG-46)."""
        with_calls = [one for one in self.rounds if one.calls]
        if not with_calls or with_calls[-1] is not _last_of_loop(self.rounds):
            return False
        limit = self.plan.max_iterations if self.plan is not None else None
        if limit is not None and len(with_calls) > limit:
            return True
        newest = with_calls[-STRIKES:]
        return len(newest) == STRIKES and all(one.fruitless for one in newest)

    @property
    def row_count(self) -> int:
        """How many rows the turn has so far beside its input: groups, then the reply."""
        rows = sum(1 + len(one.calls) for one in self.groups if not one.pending)
        return rows + (self.replying is not None and self.replying.outcome == "replied")


def _last_of_loop(rounds: tuple[Round, ...]) -> Round | None:
    in_loop = [one for one in rounds if not one.reply_attempt]
    return in_loop[-1] if in_loop else None


# what may have to happen next ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Settle:
    """End the turn that this one pre-empted; it began at this journal sequence."""

    start_seq: int


@dataclass(frozen=True, slots=True)
class Prepare:
    """Run `agent:input:before` for this input, then archive it."""

    input_seq: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Choose the input to answer, the model and the budgets."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the model; without `tools` it is a format retry."""

    iteration: int
    attempt: int
    tools: bool


@dataclass(frozen=True, slots=True)
class RunTools:
    """Execute the calls of this round that have no result yet."""

    round: Round


@dataclass(frozen=True, slots=True)
class Save:
    """Have memory keep the rows that are not kept yet."""


@dataclass(frozen=True, slots=True)
class Conclude:
    """Make the last response the reply, or send it back to the model."""


@dataclass(frozen=True, slots=True)
class Deliver:
    """Save and send what `turn.replying` has promised."""


@dataclass(frozen=True, slots=True)
class End:
    """Nothing is left to do but to say how it ended."""

    outcome: Literal["swallowed", "error"]


@dataclass(frozen=True, slots=True)
class Done:
    """The turn has ended."""


Step = Settle | Prepare | Plan | Ask | RunTools | Save | Conclude | Deliver | End | Done


def next_step(turn: Turn) -> Step:  # noqa: PLR0911 - one line a step, in the order of a turn
    """Say what must happen next in this turn."""
    if turn.ended is not None:
        return Done()
    if turn.preempts is not None and not turn.settled:
        return Settle(turn.preempts)
    if turn.unprepared:
        return Prepare(turn.unprepared[0])
    if turn.plan is None:
        return Plan()
    if turn.plan.input_seq is None:
        return End("swallowed")
    if turn.plan.unavailable is not None:
        return End("error")
    if turn.replying is not None:
        return Deliver()
    return _loop_step(turn)


def _loop_step(turn: Turn) -> Step:
    """Go round the tool loop: ask, run, save, ask again, until a response is the last one."""
    if not turn.rounds:
        return _ask(turn, 0, tools=True)
    last = turn.rounds[-1]
    if last.calls and not turn.limit_reached:
        if last.pending:
            return RunTools(last)
        if turn.row_count > turn.saved_to:
            return Save()
        return _ask(turn, last.iteration + 1, tools=True)
    if len(turn.retries) > last.reply_attempt:
        return _ask(turn, last.iteration + 1, tools=False)
    return Conclude()


def _ask(turn: Turn, iteration: int, *, tools: bool) -> Ask:
    return Ask(iteration, turn.asked.get(iteration, 0) + 1, tools)


# what the facts amount to ----------------------------------------------------------------


def begin(session_id: str, lane: str, fact: TurnStarted) -> Turn:
    """Return the turn that `turn.started` begins."""
    return Turn(
        session_id=session_id,
        lane=lane,
        turn_id=fact.turn_id,
        inputs=tuple(fact.inputs),
        owner=fact.owner,
        preempts=fact.preempts,
    )


def fold(turn: Turn, facts: Iterable[Fact]) -> Turn:
    """Return the turn after these facts."""
    for fact in facts:
        turn = _after(turn, fact)
    return turn


def _after(turn: Turn, fact: Fact) -> Turn:  # noqa: PLR0911, PLR0912, C901 - one case a fact
    match fact:
        case TurnStarted():
            return begin(turn.session_id, turn.lane, fact)
        case TurnResumed():
            return replace(turn, owner=fact.owner, resumed=turn.resumed + 1)
        case InputPrepared():
            prepared = {**turn.prepared, fact.input_seq: fact}
            return replace(turn, prepared=prepared, owing=turn.owing or bool(fact.owed))
        case TurnPlanned():
            return replace(turn, plan=fact)
        case ModelStarted():
            asked_at = turn.asked_at if turn.asked_at is not None else fact.at
            asked = {**turn.asked, fact.iteration: fact.attempt}
            return replace(turn, asked=asked, asked_at=asked_at)
        case ModelResponded():
            answered = Round(fact.iteration, fact.response, fact.at, len(turn.retries))
            return replace(turn, rounds=(*turn.rounds, answered))
        case ToolStarted():
            return _in_round(turn, fact)
        case ToolFinished():
            return _in_round(turn, fact)
        case RowsSaved():
            return replace(turn, saved_to=fact.through_index, owing=turn.owing or bool(fact.owed))
        case ReplyRetried():
            return replace(turn, retries=(*turn.retries, fact))
        case TurnReplying():
            return replace(turn, replying=fact)
        case TurnEnded():
            if fact.turn_id not in {None, turn.turn_id}:
                return replace(turn, settled=True)
            return replace(turn, ended=fact)
        case _:
            assert_never(fact)


def _in_round(turn: Turn, fact: ToolStarted | ToolFinished) -> Turn:
    def with_fact(one: Round) -> Round:
        if one.iteration != fact.iteration:
            return one
        if isinstance(fact, ToolStarted):
            return replace(one, started={**one.started, fact.index: fact})
        return replace(one, finished={**one.finished, fact.index: fact})

    return replace(turn, rounds=tuple(with_fact(one) for one in turn.rounds))
