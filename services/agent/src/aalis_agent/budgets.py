"""This is about budgets: how many tokens a call may take, and how many its answer (SPEC TRIM-1).

Planned once a turn from the model entry and the settings; trimming and usage read it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor
from typing import Final

DEFAULT_MAX_TOKENS: Final = 4096
SAFETY_MARGIN: Final = 512
"""Tokens left free for what no estimate sees: role markers, provider additions."""

FLOOR: Final = 1024
"""The smallest token budget, unless the window itself is smaller."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """The limits of one model call, in tokens.

    `token_budget` is where trimming begins, `hard_limit` what must not be passed; both count
    messages and tool definitions together. `clamped`: the entry asked for a longer answer than
    half of its window, which would leave no room to work in.
    """

    window: int
    max_tokens: int
    token_budget: int
    hard_limit: int
    memory_budget: int
    clamped: bool = False

    def for_messages(self, tool_tokens: int) -> int:
        """Return the budget that remains for messages beside the tool definitions (TRIM-2)."""
        return max(1, self.token_budget - tool_tokens)

    def lowered(self) -> Budgets:
        """Return the budgets for the one retry after a provider's overflow error (TRIM-15)."""
        return replace(
            self,
            token_budget=_four_fifths(self.token_budget),
            hard_limit=_four_fifths(self.hard_limit),
        )

    def outgoing_max_tokens(self, used: int) -> int:
        """Return the answer length to ask for, never zero or negative (SPEC TRIM-14)."""
        return max(1, min(self.max_tokens, self.window - used))


def _four_fifths(tokens: int) -> int:
    return min(tokens, max(1, tokens * 4 // 5))


def plan_budgets(
    window: int,
    max_output_tokens: int | None,
    *,
    threshold_ratio: float,
    memory_budget: int,
) -> Budgets:
    """Work out the limits for a model of `window` tokens (SPEC TRIM-1, AG-3, AG-8)."""
    wanted = max_output_tokens or DEFAULT_MAX_TOKENS
    max_tokens = max(1, min(wanted, window // 2))
    room = floor(window * threshold_ratio) - max_tokens - SAFETY_MARGIN
    token_budget = min(max(FLOOR, room), window - 1)
    return Budgets(
        window=window,
        max_tokens=max_tokens,
        token_budget=token_budget,
        hard_limit=max(token_budget, window - max_tokens - SAFETY_MARGIN),
        memory_budget=memory_budget,
        clamped=max_output_tokens is not None and max_output_tokens > max_tokens,
    )
