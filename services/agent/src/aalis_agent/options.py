"""This is about options: the settings as a turn needs them (SPEC §2.1)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """What was set for this agent; times in seconds, budgets in tokens."""

    default_llm: str | None = None
    system_prompt: str = ""
    memory_token_budget: int = 4096
    history_limit: int = 50
    max_tool_iterations: int = 30
    prompt_build_timeout: float = 10.0
    tool_result_max_ratio: float = 0.15
    trim_threshold_ratio: float = 1.0
