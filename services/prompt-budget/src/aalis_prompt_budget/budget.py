"""This is about the answer: a snapshot, tagged, rounded and ordered; nothing else is computed.

SPEC PB-4 to PB-8. The thresholds are those of the agent's log line (USE-9).
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, Final

from aalis_contracts.text import compact_json

if TYPE_CHECKING:
    from aalis_contracts.catalogue import Catalogue
    from aalis_contracts.text import JsonObject
    from aalis_prompt_budget.snapshots import Number, Snapshot

_THRESHOLDS: Final = ((0.85, "CRITICAL"), (0.70, "WARN"), (0.50, "INFO"))
_ADVICE: Final = {
    "CRITICAL": "budgetCritical",
    "WARN": "budgetWarn",
    "INFO": "budgetHealthy",
    "OK": "budgetHealthy",
}
_TOP: Final = 3
_INJECTORS: Final = "injectors"
_NO_DECIMALS: Final = 1e12
"""From here on a number is no ratio any more, and rounding it would overflow."""


def tag_of(ratio: float) -> str:
    """Return OK, INFO, WARN or CRITICAL for an unrounded ratio; a threshold belongs above it."""
    return next((tag for least, tag in _THRESHOLDS if ratio >= least), "OK")


def round_ratio(ratio: float) -> Number:
    """Round to 4 decimals, halves up, as the figure is written (0.38575 is 0.3858)."""
    if abs(ratio) >= _NO_DECIMALS:
        return _whole(ratio)
    rounded = Decimal(repr(ratio)).quantize(Decimal("0.0001"), ROUND_HALF_UP)
    return _whole(float(rounded))


def top3(breakdown: JsonObject) -> list[tuple[str, Number]]:
    """Return the largest numeric buckets, largest first, ties as they came; never `injectors`."""
    numbers = [
        (name, value)
        for name, value in breakdown.items()
        if name != _INJECTORS and isinstance(value, int | float) and not isinstance(value, bool)
    ]
    return sorted(numbers, key=lambda bucket: -bucket[1])[:_TOP]


def iso_time(milliseconds: int) -> str:
    """Write a time as ISO-8601 UTC with milliseconds and `Z`."""
    seconds, rest = divmod(milliseconds, 1000)
    whole = datetime.fromtimestamp(seconds, UTC)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{rest:03d}Z"


def answer(snapshot: Snapshot, now_ms: int, catalogue: Catalogue) -> str:
    """Return what the tool says about a snapshot, as JSON text in the order of PB-4."""
    usage = snapshot.usage
    tag = tag_of(usage.usage_ratio)
    fields: dict[str, object] = {
        "sessionId": usage.session_id,
        "ageMs": max(0, now_ms - snapshot.observed_at),
        "observedAt": iso_time(snapshot.observed_at),
        "tag": tag,
        "used": usage.used,
        "contextWindow": usage.context_window,
        "usageRatio": round_ratio(usage.usage_ratio),
        "maxTokens": usage.max_tokens,
        "tokenBudget": usage.token_budget,
        "breakdown": usage.breakdown,
        "top3": [{"name": name, "tokens": tokens} for name, tokens in top3(usage.breakdown)],
        "advice": catalogue.text(_ADVICE[tag]),
    }
    if usage.calibrated_used is not None:
        fields["calibratedUsed"] = usage.calibrated_used
    return compact_json(fields)


def no_data(session_id: str, catalogue: Catalogue) -> str:
    """Return what the tool says about a session it knows nothing of, or may not speak of (PB-8)."""
    return compact_json(
        {"noData": True, "sessionId": session_id, "advice": catalogue.text("budgetNoData")}
    )


def _whole(number: float) -> Number:
    return int(number) if number.is_integer() else number
