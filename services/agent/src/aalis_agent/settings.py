"""This is about the agent's settings (SPEC AG-1 to AG-9); only `app` reads them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from aalis_sdk.settings import MeshSettings


class AgentSettings(MeshSettings):
    """What the agent can be told, each as `AALIS_<NAME>`."""

    default_llm: str | None = None
    """Model that answers where nobody names one, `provider/model`."""
    system_prompt: str = ""
    """Rules of conduct; appended to the persona, or standing alone."""
    memory_token_budget: Annotated[int, Field(ge=0)] = 4096
    """Tokens that injected system messages may share before they are shortened."""
    history_limit: Annotated[int, Field(ge=0)] = 50
    """Stored messages loaded for a turn; 0 = none."""
    max_tool_iterations: Annotated[int, Field(gt=0)] = 30
    """Rounds of tool calls in one turn."""
    prompt_build_timeout_ms: Annotated[int, Field(ge=0)] = 10_000
    """Milliseconds one prompt contribution may take; 0 = no limit."""
    tool_result_max_ratio: Annotated[float, Field(gt=0, le=1)] = 0.15
    """Share of the window that one tool result may take."""
    trim_threshold_ratio: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the window at which trimming begins."""
    token_counter: Literal["tiktoken", "heuristic"] = "tiktoken"
    """How tokens are estimated."""
    concurrency: Annotated[int, Field(gt=0)] = 128
    """Turns that one process runs at once."""
    max_deliver: Annotated[int, Field(gt=0)] = 10
    """Deliveries of one input after which its turn is given up."""
