"""This is about a turn: the whole story, one step after the other (SPEC AG-27).

What has happened is in the facts; `next_step` says what comes next; each step ends in facts. So
the story reads the same whether one owner tells it or another takes it up in the middle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aalis_agent.concluding import conclude
from aalis_agent.frames import FrameWriter
from aalis_agent.input import prepare
from aalis_agent.model import Failure, ask
from aalis_agent.planning import Bench, NoModelHere, open_bench, plan
from aalis_agent.ports import ChainFailed, HandBack, TooLong, Unavailable
from aalis_agent.reply import rows
from aalis_agent.resolution import unknown
from aalis_agent.steps import (
    Ask,
    Conclude,
    Deliver,
    Done,
    End,
    Plan,
    Prepare,
    Round,
    RunTools,
    Save,
    Settle,
    Step,
    next_step,
)
from aalis_agent.tools import changed_the_history, run_calls
from aalis_contracts.hooks import REPLY_BEFORE, TOOL_BEFORE
from aalis_contracts.journal import ModelResponded, RowsSaved, TurnEnded
from aalis_sdk.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from aalis_agent.debts import Debts
    from aalis_agent.lane import Lane
    from aalis_agent.parts import Parts
    from aalis_contracts.journal import InputPrepared

MOST_HANDED_ON = 2
"""How often a turn is handed on in search of a replica that knows its model."""


class TurnRunner:
    """Takes one turn of a lane that we own, from its facts to its end."""

    def __init__(self, parts: Parts, debts: Debts, lane: Lane, leaving: Callable[[], bool]) -> None:
        self._parts = parts
        self._debts = debts
        self._lane = lane
        self._leaving = leaving
        self._bench: Bench | None = None
        self._frames: FrameWriter | None = None

    async def take_turn(self) -> None:
        """Do step after step until the turn has ended; `Lost` and `HandBack` end it elsewhere."""
        lane = self._lane
        try:
            while True:
                if self._leaving() and lane.turn.ended is None:
                    await lane.append()
                    failpoint("agent.handing.back")
                    raise HandBack
                step = next_step(lane.turn)
                try:
                    await self._do(step)
                except (ChainFailed, TooLong) as error:
                    await self._fail("turnFailed", str(error))
                if isinstance(step, Done):
                    return
        finally:
            if self._frames is not None:
                self._frames.drop()

    async def _do(self, step: Step) -> None:  # noqa: C901 - one case a step
        lane, endings = self._lane, self._parts.endings
        match step:
            case Settle(start_seq=start):
                await endings.settle(lane, start)
            case Prepare(input_seq=seq):
                lane.note(await self._prepare(seq))
            case Plan():
                lane.note(await plan(self._parts, lane.turn))
            case Ask():
                await self._ask(step)
            case RunTools(round=one):
                await self._run_tools(one)
            case Save():
                await self._save()
            case Conclude():
                await self._conclude()
            case Deliver():
                await endings.deliver(lane)
            case End(outcome=outcome):
                await self._end(outcome)
            case Done():
                await endings.complete(lane.turn)

    async def _prepare(self, seq: int) -> InputPrepared:
        waiting = self._lane.waiting.get(seq)
        if waiting is None:
            raise Unavailable("mailbox", f"input {seq} is not there any more")
        return await prepare(self._parts, self._lane.turn.session_id, waiting)

    async def _ask(self, step: Ask) -> None:
        parts, lane = self._parts, self._lane
        bench = await self._opened()
        if bench is None:
            return
        answer = await ask(parts, lane, bench, self._writer(), step)
        if isinstance(answer, Failure):
            await parts.endings.fail(lane, answer.text, answer.error)
            return
        bench.forget_images()
        responded = ModelResponded(
            iteration=step.iteration,
            attempt=lane.turn.asked.get(step.iteration, step.attempt),
            response=answer,
            at=parts.now(),
        )
        hook = TOOL_BEFORE if answer.tool_calls else REPLY_BEFORE
        if parts.interceptors.anyone(hook):
            # Others are asked next, and may take their time: a paid answer must not be lost.
            await lane.append(responded)
        else:
            lane.note(responded)

    async def _run_tools(self, one: Round) -> None:
        bench = await self._opened()
        if bench is None:
            return
        await run_calls(self._parts, self._lane, bench, one)
        done = next(each for each in self._lane.turn.rounds if each.iteration == one.iteration)
        if changed_the_history(done):
            # What the list was built from is not what is stored any more (SPEC AG-37).
            self._bench = None
        elif done in self._lane.turn.groups:
            bench.add_group(done)

    async def _save(self) -> None:
        """Have memory keep the groups so far; rows it cannot take now are owed (AG-48, AG-19)."""
        turn = self._lane.turn
        owed = await self._parts.endings.save(turn, rows(turn))
        self._lane.note(
            RowsSaved(
                input_seq=turn.answered.input_seq,
                through_index=turn.row_count,
                owed=True if owed else None,
            )
        )

    async def _conclude(self) -> None:
        bench = await self._opened()
        if bench is not None:
            await self._lane.append(await conclude(self._parts, self._lane, bench))

    async def _end(self, outcome: str) -> None:
        """End a turn that has nothing to answer, or nobody to answer it (AG-64, AG-65)."""
        parts, lane = self._parts, self._lane
        plan_fact = lane.turn.plan
        if outcome == "swallowed" or plan_fact is None:
            await lane.append(TurnEnded(outcome="swallowed", at=parts.now()))
            return
        why = plan_fact.unavailable or ""
        await parts.endings.fail(lane, f"{parts.texts.text('systemAnswer')} {why}", why)

    async def _fail(self, key: str, error: str) -> None:
        texts = self._parts.texts
        self._parts.log.warning("the turn fails", reason=error)
        text = f"{texts.text('errorAnswer')} {texts.text(key)}"
        await self._parts.endings.fail(self._lane, text, error)

    async def _opened(self) -> Bench | None:
        """Return the bench; None when the turn has ended because nobody knows its model."""
        if self._bench is None:
            await self._debts.pay(self._lane)
            try:
                self._bench = await open_bench(self._parts, self._lane.turn)
            except NoModelHere as gone:
                if self._lane.turn.resumed < MOST_HANDED_ON:
                    raise
                parts = self._parts
                why = unknown(gone.context_id, parts.models.entries(), parts.texts)
                text = f"{parts.texts.text('systemAnswer')} {why}"
                await parts.endings.fail(self._lane, text, why)
        return self._bench

    def _writer(self) -> FrameWriter:
        if self._frames is None:
            turn = self._lane.turn
            self._frames = FrameWriter(
                self._parts.outbound,
                turn.session_id,
                turn.answered.message.platform,
                turn.answer_id,
                turn.resumed,
            )
        return self._frames
