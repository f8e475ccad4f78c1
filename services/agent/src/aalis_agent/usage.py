"""This is about usage: where the tokens of a call went, and when the log says so (SPEC §2.10).

Computed after trimming and before the model is asked, from costs that trimming already knows, so
that the event, the log line and the trimmed list can never disagree.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from aalis_agent.budgets import Budgets
from aalis_agent.tokens import Calibration
from aalis_contracts.events import TokenUsage, UsageBreakdown
from aalis_contracts.messages import Message

Tag = Literal["OK", "INFO", "WARN", "CRITICAL"]
Bucket = Literal[
    "persona",
    "memory_summary",
    "memory_vector",
    "skills",
    "platform",
    "subtask",
    "system_other",
    "history",
    "tool_results",
]

TAGS: Final[tuple[Tag, ...]] = ("OK", "INFO", "WARN", "CRITICAL")
THRESHOLDS: Final = (0.5, 0.7, 0.85)
"""A ratio on a boundary belongs to the higher tag (SPEC USE-9, PB-5)."""

SESSIONS: Final = 500
PRINT_EVERY: Final = 10

CONTRIBUTIONS: Final = "_tokenContributions"
"""Metadata of message 0: characters that plugins appended to it, by part (SPEC USE-5)."""

_BY_LABEL: Final[dict[str, Bucket]] = {
    "memory-summary": "memory_summary",
    "memory-vector": "memory_vector",
    "skills-discovery": "skills",
    "parent-status": "subtask",
    "system-other": "system_other",
    "persona": "persona",
}
_BY_START: Final[tuple[tuple[str, Bucket], ...]] = (
    ("platform", "platform"),
    ("skills-activation", "skills"),
)
_BY_PART: Final[dict[str, Bucket]] = {"skills": "skills", "subtask": "subtask"}


@dataclass(frozen=True, slots=True)
class CallIdentity:
    """For whom and at which step of which turn a call is made."""

    session_id: str
    platform: str
    user_id: str | None = None
    turn_id: str | None = None
    iteration: int | None = None


def token_usage(
    identity: CallIdentity,
    budgets: Budgets,
    breakdown: UsageBreakdown,
    calibration: Calibration | None = None,
) -> TokenUsage:
    """Return the `token:usage` event of a call (SPEC USE-2, TOK-7); the ratio is not rounded."""
    used = breakdown.system + breakdown.history + breakdown.tool_results + breakdown.tool_defs
    return TokenUsage(
        session_id=identity.session_id,
        platform=identity.platform,
        context_window=budgets.window,
        max_tokens=budgets.max_tokens,
        token_budget=budgets.token_budget,
        used=used,
        usage_ratio=used / budgets.window if budgets.window else 0,
        breakdown=breakdown,
        user_id=identity.user_id,
        turn_id=identity.turn_id,
        iteration=identity.iteration,
        calibrated_used=calibration.calibrated(used) if calibration else None,
    )


def break_down(
    messages: Sequence[Message],
    costs: Sequence[int],
    tool_tokens: int,
    max_tokens: int,
) -> UsageBreakdown:
    """Sort the cost of each message into the twelve buckets (SPEC USE-3 to USE-5).

    `costs` holds the tokens of each message, in order; the sum of parts equals the sum of costs.
    """
    buckets: dict[Bucket, int] = dict.fromkeys(_BUCKETS, 0)
    injectors: dict[str, int] = {}
    for index, (message, cost) in enumerate(zip(messages, costs, strict=True)):
        bucket, label = _bucket(message)
        left = _appended_parts(message, cost, buckets) if index == 0 else cost
        buckets[bucket] += left
        if label is not None:
            injectors[label] = injectors.get(label, 0) + left
    return UsageBreakdown(
        system=sum(cost for bucket, cost in buckets.items() if bucket in _SYSTEM),
        persona=buckets["persona"],
        memory_summary=buckets["memory_summary"],
        memory_vector=buckets["memory_vector"],
        skills=buckets["skills"],
        platform=buckets["platform"],
        subtask=buckets["subtask"],
        system_other=buckets["system_other"],
        injectors=injectors,
        history=buckets["history"],
        tool_results=buckets["tool_results"],
        tool_defs=tool_tokens,
        reserved_for_reply=max_tokens,
    )


_SYSTEM: Final[tuple[Bucket, ...]] = (
    "persona",
    "memory_summary",
    "memory_vector",
    "skills",
    "platform",
    "subtask",
    "system_other",
)
_BUCKETS: Final[tuple[Bucket, ...]] = (*_SYSTEM, "history", "tool_results")


def _bucket(message: Message) -> tuple[Bucket, str | None]:
    """Return where a message counts and, if it is to be named there, under which label."""
    if message.role == "tool":
        return "tool_results", None
    if message.role != "system":
        return "history", None
    injector = message.injector
    if injector is None:
        return "persona", None
    label = injector.rpartition("/")[2] or injector
    known = _BY_LABEL.get(label)
    if known is not None:
        return known, None
    for start, bucket in _BY_START:
        if label.startswith(start):
            return bucket, None
    return "system_other", label


def _appended_parts(message: Message, cost: int, buckets: dict[Bucket, int]) -> int:
    """Count what plugins appended to message 0 and return what is left of its cost."""
    parts = (message.metadata or {}).get(CONTRIBUTIONS)
    if message.role != "system" or not isinstance(parts, dict):
        return cost
    left = cost
    for part in sorted(parts):
        characters = parts[part]
        if isinstance(characters, int) and not isinstance(characters, bool) and characters > 0:
            tokens = min(left, (2 * characters + 6) // 7)
            buckets[_BY_PART.get(part, "system_other")] += tokens
            left -= tokens
    return left


def tag_of(ratio: float) -> Tag:
    """Return the tag of an unrounded ratio."""
    return TAGS[_level(ratio)]


def _level(ratio: float) -> int:
    return sum(ratio >= threshold for threshold in THRESHOLDS)


@dataclass(frozen=True, slots=True)
class LogState:
    """How often a session's usage was seen, and in which bucket of ratios it was last."""

    count: int = 0
    last_level: int = -1

    def after(self, ratio: float) -> tuple[LogState, bool]:
        """Return the state after one more usage, and whether it is to be printed (USE-9)."""
        level, count = _level(ratio), self.count + 1
        printed = level != self.last_level or count % PRINT_EVERY == 1
        return LogState(count, level), printed


class UsageLog:
    """Decides which usages are logged; remembers the sessions used most lately (CON-9)."""

    def __init__(self, sessions: int = SESSIONS) -> None:
        self._sessions = sessions
        self._states: OrderedDict[str, LogState] = OrderedDict()

    def line(self, usage: TokenUsage) -> str | None:
        """Return the line to print for this usage, or None when nothing has changed."""
        state = self._states.pop(usage.session_id, LogState())
        state, printed = state.after(usage.usage_ratio)
        self._states[usage.session_id] = state
        if len(self._states) > self._sessions:
            self._states.popitem(last=False)
        return log_line(usage) if printed else None


def log_line(usage: TokenUsage) -> str:
    """Write one usage for people (SPEC USE-10); the percentage rounds halves up."""
    parts = usage.breakdown
    window = usage.context_window
    tenths = (2000 * usage.used + window) // (2 * window) if window else 0
    memory = parts.memory_summary + parts.memory_vector
    return (
        f"[token-usage:{tag_of(usage.usage_ratio)}] {usage.session_id} "
        f"{usage.used}/{window} ({tenths // 10}.{tenths % 10}%) "
        f"sys={parts.system}(persona={parts.persona} mem={memory} skills={parts.skills} "
        f"subtask={parts.subtask} other={parts.system_other}) hist={parts.history} "
        f"tools={parts.tool_results}+{parts.tool_defs}def reserve={parts.reserved_for_reply}"
    )
