"""This is about tools: how they are described, called and answered (SPEC CON-33 to CON-35)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from aalis_contracts.contract import Contract, OpenContract
from aalis_contracts.messages import Actor, SessionId
from aalis_contracts.text import CarriedObject, JsonObject, compact_json

TOOL_NAME_PATTERN = r"^[A-Za-z0-9_-]{1,64}$"
ToolName = Annotated[str, StringConstraints(pattern=TOOL_NAME_PATTERN)]


class FunctionDefinition(OpenContract):
    """What a model reads about a tool; `parameters` is a JSON Schema of type object."""

    name: ToolName
    description: str = ""
    parameters: JsonObject = Field(default_factory=lambda: {"type": "object", "properties": {}})
    strict: bool | None = None


class ToolDefinition(Contract):
    """A tool as it is offered to a model (SPEC CON-33)."""

    type: Literal["function"] = "function"
    function: FunctionDefinition

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.function.name


class InboundOrigin(Contract):
    """Where the input of the turn came from."""

    source: str | None = None


class ToolCallContext(Contract):
    """For whom, in which turn and under which key a tool is called (SPEC CON-34)."""

    session_id: SessionId
    platform: str
    user_id: str | None = None
    actor: Actor | None = None
    turn_id: str
    call_id: str
    key: str
    enabled_groups: list[str]
    accepts_images: bool = False
    inbound: InboundOrigin | None = None


class ToolCallRequest(Contract):
    """The request on `tool.call.<name>`."""

    name: ToolName
    args: CarriedObject
    context: ToolCallContext


class ToolCancel(Contract):
    """Tells a tool host that nobody waits any more for the call with this key (SPEC TOOL-6)."""

    key: str
    reason: str


class ToolResult(Contract):
    """What a tool answers; a failure is the JSON text `{"error": "…"}` (SPEC CON-35).

    `original_length` is how many characters `content` had before its host cut it (TOOL-8).
    """

    content: str
    images: list[str] | None = None
    original_length: int | None = None


def error_result(message: str) -> ToolResult:
    """Return the result that tells a model that its call failed, and why."""
    return ToolResult(content=compact_json({"error": message}))
