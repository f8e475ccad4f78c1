"""This is about the journal: what a lane remembers of its turns (SPEC §1.7, DESIGN §5).

One append is one `JournalEntry`: facts that belong together, in order, and what a reader of the
newest entry alone must know: which inputs are covered and whether the turn has ended.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from aalis_contracts.contract import Contract
from aalis_contracts.messages import (
    ContentSegment,
    IncomingMessage,
    Message,
    ModelInfo,
    ModelRef,
    Outcome,
    SessionId,
)
from aalis_contracts.models import ChatResponse
from aalis_contracts.sessions import SessionConfig
from aalis_contracts.text import CarriedObject


class TurnStarted(Contract):
    """JRN-1: a turn took over the lane; it covers `inputs`, from `from_seq` to `to_seq`.

    `preempts` is the journal sequence at which the turn began that this one ends, if one ran.
    """

    type: Literal["turn.started"] = "turn.started"
    turn_id: str
    from_seq: int
    to_seq: int
    inputs: list[int]
    preempts: int | None = None
    owner: str
    at: int


class TurnResumed(Contract):
    """JRN-1: `owner` took up a turn whose owner died."""

    type: Literal["turn.resumed"] = "turn.resumed"
    turn_id: str
    owner: str
    delivery: int
    at: int


class InputPrepared(Contract):
    """JRN-2: one covered input after `agent:input:before` and the archive."""

    type: Literal["input.prepared"] = "input.prepared"
    input_seq: int
    message: IncomingMessage
    metadata: CarriedObject
    swallowed_by: str | None = None
    archived: Message | None = None
    owed: bool | None = None
    arrived_at: int


class TurnPlanned(Contract):
    """JRN-2: which input is answered, by which model, within which budgets.

    Without `inputSeq` every covered input was swallowed. `unavailable` is the text for the person
    when no model can be resolved (AG-65).
    """

    type: Literal["turn.planned"] = "turn.planned"
    input_seq: int | None = None
    llm: ModelRef | None = None
    max_tokens: int | None = None
    token_budget: int | None = None
    max_iterations: int | None = None
    config: SessionConfig | None = None
    unavailable: str | None = None


class ModelStarted(Contract):
    """JRN-3: a model call begins; `attempt` counts the tries of one iteration, from 1."""

    type: Literal["model.started"] = "model.started"
    iteration: int
    attempt: int
    at: int | None = None


class ModelResponded(Contract):
    """JRN-3: the whole response of one iteration."""

    type: Literal["model.responded"] = "model.responded"
    iteration: int
    attempt: int
    response: ChatResponse
    at: int


class ToolStarted(Contract):
    """JRN-4: a call is sent to its host, as executed."""

    type: Literal["tool.started"] = "tool.started"
    iteration: int
    index: int
    key: str
    name: str
    args: CarriedObject
    at: int


class ToolFinished(Contract):
    """JRN-4: a call's result after `agent:tool:after`, cut to size.

    `refused`: the call was not executable (unknown name, malformed or cut-off arguments; AG-45).
    """

    type: Literal["tool.finished"] = "tool.finished"
    iteration: int
    index: int
    key: str
    content: str
    images: list[str] | None = None
    refused: bool | None = None
    at: int


class RowsSaved(Contract):
    """JRN-5: memory has confirmed the turn's rows up to this index.

    With `owed` it has not: it was asked and did not answer, so they are owed (AG-19).
    """

    type: Literal["rows.saved"] = "rows.saved"
    input_seq: int
    through_index: int
    owed: bool | None = None


class ReplyRetried(Contract):
    """JRN-5: the reply was sent back to the model with this feedback."""

    type: Literal["reply.retried"] = "reply.retried"
    attempt: int
    feedback: str


class TurnReplying(Contract):
    """JRN-6: the commit point; from here the reply is completed by whoever owns the lane."""

    type: Literal["turn.replying"] = "turn.replying"
    outcome: Literal["replied", "silent"]
    content: str
    archive_content: str | None = None
    visible_content: str | None = None
    reasoning_content: str | None = None
    last_reasoning: str | None = None
    segments: list[ContentSegment] | None = None
    model_info: ModelInfo | None = None
    tool_limit_reached: bool | None = None
    shortened: bool | None = None
    at: int


class TurnEnded(Contract):
    """JRN-7: how a turn ended; `swallowed` when no covered input was left to answer.

    `turn_id` names the turn when it is not the one whose journal entry this is: a turn that was
    pre-empted is ended by its successor.
    """

    type: Literal["turn.ended"] = "turn.ended"
    turn_id: str | None = None
    outcome: Outcome | Literal["swallowed"]
    text: str | None = None
    error: str | None = None
    at: int


Fact = Annotated[
    TurnStarted
    | TurnResumed
    | InputPrepared
    | TurnPlanned
    | ModelStarted
    | ModelResponded
    | ToolStarted
    | ToolFinished
    | RowsSaved
    | ReplyRetried
    | TurnReplying
    | TurnEnded,
    Field(discriminator="type"),
]


class JournalEntry(Contract):
    """One append to a lane's journal.

    `start_seq` is the stream sequence of the entry that began this turn (absent in that entry
    itself); `owed_from` that of the oldest turn whose rows memory has not confirmed. `carrier` is
    the input whose delivery keeps this turn alive: only its redelivery may resume the turn.
    """

    session_id: SessionId
    lane: str
    turn_id: str
    covered_to: int
    carrier: int
    ended: bool
    start_seq: int | None = None
    owed_from: int | None = None
    facts: list[Fact]
