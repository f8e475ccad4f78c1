"""This is about events: facts and signals that services announce (SPEC §1.3)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, FiniteFloat

from aalis_contracts.contract import Contract, OpenContract
from aalis_contracts.messages import IncomingMessage, Message, Outcome, SessionId
from aalis_contracts.text import CarriedObject, CarriedValue


class InboundArchived(Contract):
    """EVT-3: a message has been saved."""

    session_id: SessionId
    input_seq: int
    incoming: IncomingMessage
    archived_message: Message


class ToolExecute(Contract):
    """EVT-6: a tool call started or ended (SPEC CON-28); `result` at the end only."""

    session_id: SessionId
    platform: str
    turn_id: str
    call_id: str
    tool_name: str
    args: CarriedObject
    phase: Literal["start", "end"]
    result: str | None = None


class UsageBreakdown(OpenContract):
    """Where the tokens of one call went: twelve numbers and who injected what (SPEC USE-3, 4).

    A bucket that a later version adds survives, since readers pass this on as received (PB-4).
    """

    system: int
    persona: int
    memory_summary: int
    memory_vector: int
    skills: int
    platform: int
    subtask: int
    system_other: int
    injectors: dict[str, int] | None = None
    history: int
    tool_results: int
    tool_defs: int
    reserved_for_reply: int


class TokenUsage(Contract):
    """EVT-7: what the coming model call costs (SPEC CON-29, §2.10)."""

    session_id: SessionId
    platform: str
    context_window: int
    max_tokens: int
    token_budget: int
    used: int
    usage_ratio: FiniteFloat
    breakdown: UsageBreakdown
    user_id: str | None = None
    turn_id: str | None = None
    iteration: int | None = None
    calibrated_used: int | None = None


class TokenRequest(Contract):
    """EVT-8: somebody wants one `token:usage` of the session as it is now (SPEC USE-7)."""

    session_id: SessionId
    platform: str | None = None


class TurnAfter(Contract):
    """EVT-9: a turn has ended (SPEC CON-30)."""

    turn_id: str
    input_seq: int
    session_id: SessionId
    lane: str
    message: IncomingMessage
    reply: str | None = None
    outcome: Outcome
    metadata: CarriedObject | None = None
    error: str | None = None


class SessionDeleted(Contract):
    """EVT-10, verb `deleted`: the record is gone."""

    session_id: SessionId


class SessionCompress(Contract):
    """EVT-11: compress this session's history now."""

    session_id: SessionId
    reason: Literal["manual", "auto"]
    usage_ratio: FiniteFloat | None = None


class SessionCompressing(Contract):
    """EVT-12: how a compression goes."""

    session_id: SessionId
    status: Literal["start", "done", "error"]


class HistoryChanged(Contract):
    """EVT-13: read the history again."""

    session_id: SessionId


class MessagesDeleted(Contract):
    """EVT-13: rows were deleted; `keys` are `[inputSeq, index]`."""

    session_id: SessionId
    keys: list[tuple[int, int]]


class TodoUpdated(Contract):
    """EVT-13: the todo list is now this."""

    session_id: SessionId
    items: list[CarriedValue]


class PhaseDone(Contract):
    """EVT-13: a gateway phase ended."""

    session_id: SessionId
    phase: str
    reached_end: bool
    duration_ms: Annotated[FiniteFloat, Field(ge=0)]
    platform: str


class AgentAbort(Contract):
    """EVT-14: the lane's running turn is over (pre-empted or aborted); stop at once."""

    session_id: SessionId
    lane: str
    turn_id: str | None = None
    reason: Literal["preempted", "aborted"]
