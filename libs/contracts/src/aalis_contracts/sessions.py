"""This is about sessions: their record, their settings, and whose setting counts (CON-31, 32)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, FiniteFloat

from aalis_contracts.contract import Contract
from aalis_contracts.messages import ModelRef, SessionId
from aalis_contracts.text import CarriedObject

SessionStatus = Literal["active", "waiting", "completed", "error", "archived"]
CreatedBy = Literal["user", "agent", "scheduler", "system"]


class SessionDefaults(Contract):
    """The settings that a session hands to its children: SessionConfig without itself."""

    llm: ModelRef | None = None
    enabled_tool_groups: list[str] | None = None
    persona: str | None = None
    think: bool | None = None
    system_prompt_extra: str | None = None
    max_tool_iterations: int | FiniteFloat | None = None
    disable_output_format: bool | None = None
    client_side_json_rendering: bool | None = None


class SessionConfig(SessionDefaults):
    """What may be set for one session, one platform, or everywhere (SPEC CON-31).

    In a patch an explicit null means "back to unset" (CON-2); everywhere else it is "unset".
    """

    session_defaults: SessionDefaults | None = None

    def patched(self, patch: SessionConfig) -> SessionConfig:
        """Return these settings with what `patch` gives; an explicit null unsets (CON-2)."""
        given = {name: getattr(patch, name) for name in patch.model_fields_set}
        return self.model_copy(update=given)


class SessionInfo(Contract):
    """The record of a session in KV `sessions` (SPEC CON-32)."""

    id: SessionId
    name: str
    title: str | None = None
    parent_id: str | None = None
    children: list[str] = Field(default_factory=list)
    status: SessionStatus = "active"
    config: SessionConfig = Field(default_factory=SessionConfig)
    platform: str | None = None
    user_id: str | None = None
    created_at: Annotated[int, Field(ge=0)]
    updated_at: Annotated[int, Field(ge=0)]
    created_by: CreatedBy = "user"
    input_context: CarriedObject | None = None
    result: str | None = None
    metadata: CarriedObject | None = None
