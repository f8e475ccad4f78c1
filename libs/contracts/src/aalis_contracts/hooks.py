"""This is about hooks: their names, their data, and what an interceptor may answer (SPEC §1.6)."""

from __future__ import annotations

from typing import Annotated, Final, Literal, cast

from pydantic import Field, JsonValue

from aalis_contracts.contract import Contract
from aalis_contracts.messages import (
    IncomingMessage,
    Message,
    OutgoingMessage,
    SessionId,
    TriggerType,
)
from aalis_contracts.models import ChatResponse
from aalis_contracts.text import CarriedObject, JsonObject
from aalis_contracts.tools import ToolCallContext, ToolDefinition

INBOUND_CONFIRM: Final = "inbound:confirm"
INBOUND_COMMAND: Final = "inbound:command"
INBOUND_FLOW: Final = "inbound:flow"
INBOUND_TRIGGER: Final = "inbound:trigger"
INBOUND_DISPATCH: Final = "inbound:dispatch"
OUTBOUND_DISPATCH: Final = "outbound:dispatch"
INPUT_BEFORE: Final = "agent:input:before"
LLM_BEFORE: Final = "agent:llm:before"
LLM_AFTER: Final = "agent:llm:after"
TOOL_BEFORE: Final = "agent:tool:before"
TOOL_AFTER: Final = "agent:tool:after"
REPLY_BEFORE: Final = "agent:reply:before"
MEMORY_CLEAR: Final = "memory:clear"


class InboundData(Contract):
    """HOOK-1: data of the five inbound phases; `metadata` is shared by them."""

    message: IncomingMessage
    metadata: CarriedObject


class OutboundData(Contract):
    """HOOK-2: a message that is about to be sent."""

    message: OutgoingMessage
    metadata: CarriedObject


class InputBeforeData(Contract):
    """HOOK-3: an input of a lane before anything is done with it."""

    message: IncomingMessage
    metadata: CarriedObject


class LlmBeforeData(Contract):
    """HOOK-4: the working list before a model call."""

    messages: list[Message]
    tools: list[ToolDefinition]
    session_id: SessionId
    user_id: str | None = None
    platform: str
    trigger_type: TriggerType | None = None
    dry_run: bool
    iteration: int


class LlmAfterData(Contract):
    """HOOK-5: what the model answered."""

    response: ChatResponse
    messages: list[Message]


class ToolBeforeData(Contract):
    """HOOK-6: a call that is about to run; a stopping patch may carry `result`."""

    name: str
    args: CarriedObject
    result: str | None = None
    tool_call_context: ToolCallContext


class ToolAfterData(Contract):
    """HOOK-6: the result of a call before it is cut and stored."""

    name: str
    args: CarriedObject
    result: str
    tool_call_context: ToolCallContext


class ReplyBeforeData(Contract):
    """HOOK-7: the text that is about to become the reply, and what the turn was planned with.

    The last three are the settings with which the turn began: a change in its middle concerns the
    next one, and an interceptor judges the text by what the model was told (AG-22, PER-1).
    """

    content: str
    archive_content: str | None = None
    visible_content: str | None = None
    retry_requested: bool = False
    retry_feedback: str | None = None
    max_retries: Annotated[int, Field(ge=0)] = 0
    attempt: int
    session_id: SessionId
    turn_id: str
    platform: str
    user_id: str | None = None
    persona: str | None = None
    disable_output_format: bool | None = None
    client_side_json_rendering: bool | None = None


class ClearReport(Contract):
    """What one participant of `memory:clear` did."""

    source: str
    success: bool
    message: str | None = None


class MemoryClearData(Contract):
    """HOOK-8: something is being cleared; each participant appends its report."""

    scope: Literal["session", "all"]
    session_id: str | None = None
    types: list[str] | None = None
    results: list[ClearReport] = Field(default_factory=list)


class HookRequest(Contract):
    """The request on `<hook>.<plugin>`: the data by value, as left by the one before."""

    hook: str
    data: JsonObject


class HookReply(Contract):
    """An interceptor's answer: go on with this patch of top-level fields, or stop."""

    action: Literal["next", "stop"]
    patch: JsonObject | None = None


class PromptBuild(Contract):
    """HOOK-10: the request for a prompt contribution, with a read-only snapshot."""

    session_id: SessionId
    user_id: str | None = None
    platform: str
    trigger_type: TriggerType | None = None
    dry_run: bool = False
    messages: list[Message]
    iteration: int


class PromptBlocks(Contract):
    """HOOK-10: what to put at the anchor: a text, texts in order, or nothing."""

    blocks: str | list[str] | None = None


HOOKS: Final[dict[str, tuple[type[Contract], frozenset[str]]]] = {
    INBOUND_CONFIRM: (InboundData, frozenset({"message", "metadata"})),
    INBOUND_COMMAND: (InboundData, frozenset({"message", "metadata"})),
    INBOUND_FLOW: (InboundData, frozenset({"message", "metadata"})),
    INBOUND_TRIGGER: (InboundData, frozenset({"message", "metadata"})),
    INBOUND_DISPATCH: (InboundData, frozenset({"message", "metadata"})),
    OUTBOUND_DISPATCH: (OutboundData, frozenset({"message", "metadata"})),
    INPUT_BEFORE: (InputBeforeData, frozenset({"message", "metadata"})),
    LLM_BEFORE: (LlmBeforeData, frozenset({"messages", "tools"})),
    LLM_AFTER: (LlmAfterData, frozenset({"response"})),
    TOOL_BEFORE: (ToolBeforeData, frozenset({"name", "args", "result"})),
    TOOL_AFTER: (ToolAfterData, frozenset({"name", "args", "result"})),
    REPLY_BEFORE: (
        ReplyBeforeData,
        frozenset(
            {
                "content",
                "archiveContent",
                "visibleContent",
                "retryRequested",
                "retryFeedback",
                "maxRetries",
            }
        ),
    ),
    MEMORY_CLEAR: (MemoryClearData, frozenset({"scope", "sessionId", "types", "results"})),
}
"""Each hook that can be intercepted: its data, and the fields (camelCase) a patch may set."""


def json_object(data: Contract) -> dict[str, JsonValue]:
    """Return `data` as the JSON object that travels in a `HookRequest`."""
    return cast("dict[str, JsonValue]", data.to_object())
