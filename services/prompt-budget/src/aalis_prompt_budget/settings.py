"""This is about the settings of prompt-budget."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from aalis_prompt_budget.visibility import read_allowed
from aalis_sdk.settings import MeshSettings

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class BudgetSettings(MeshSettings):
    """What prompt-budget can be told."""

    budget_sessions: Annotated[int, Field(gt=0)] = 500
    """Sessions whose newest usage is kept in the process."""
    budget_ttl_seconds: Positive = 6 * 3600.0
    """How long a usage nobody asks for is remembered, in seconds."""
    budget_allow: str = ""
    """Who may see every session's budget, comma separated: identities `platform:userId` and ids of
    asking sessions. A `:`, `,` or `%` inside an id is written %3A, %2C, %25."""

    @field_validator("budget_allow")
    @classmethod
    def _readable(cls, value: str) -> str:
        read_allowed(value)
        return value
