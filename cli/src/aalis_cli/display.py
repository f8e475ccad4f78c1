"""This is about what a person sees of a turn: text once, calls as they run, how full the window is.

Pure: frames and events go in, pieces of text come out. `chat` decides how they look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aalis_contracts.text import compact_json

if TYPE_CHECKING:
    from aalis_contracts.events import TokenUsage, ToolExecute
    from aalis_contracts.messages import StreamFrame

_BAR_WIDTH: Final = 20
_SHOWN_CHARS: Final = 160
_TAGS: Final = ((0.85, "CRITICAL"), (0.70, "WARN"), (0.50, "INFO"))


class LiveText:
    """The text of one turn while it is written (SPEC STR-2, STR-3)."""

    def __init__(self) -> None:
        self._turn_id: str | None = None
        self._seq = -1
        self._call = (-1, -1)
        self._open = False
        self.last = ""
        """What was shown of the newest model call."""

    def take(self, frame: StreamFrame) -> str:
        """Return what is to be printed now; nothing for what was seen or is not ours."""
        if self._turn_id is None:
            self._turn_id = frame.turn_id
        if frame.turn_id != self._turn_id or frame.seq <= self._seq:
            return ""
        self._seq = frame.seq
        if frame.content_delta is None:
            return ""
        call = (frame.iteration or 0, frame.attempt or 1)
        before = ""
        if call != self._call:
            # Another model call: after a tool it goes on, after a failure it begins anew.
            before = "\n" if self.end_line() else ""
            self._call, self.last = call, ""
        self.last += frame.content_delta
        self._open = not frame.content_delta.endswith("\n")
        return before + frame.content_delta

    def end_line(self) -> bool:
        """Say whether the line that was begun must be ended before another is printed."""
        began, self._open = self._open, False
        return began


def tool_line(event: ToolExecute) -> str:
    """Return one line about a call that starts or has ended."""
    if event.phase == "start":
        return shortened(f"→ {event.tool_name} {compact_json(event.args)}")
    return shortened(f"← {event.tool_name} {event.result or ''}")


def budget_line(usage: TokenUsage) -> str:
    """Return a bar of how full the window is, with the same tags as the log (SPEC USE-9)."""
    ratio = usage.usage_ratio
    filled = min(_BAR_WIDTH, round(ratio * _BAR_WIDTH))
    bar = "█" * filled + "░" * (_BAR_WIDTH - filled)
    tag = next((name for limit, name in _TAGS if ratio >= limit), "OK")
    return f"{bar} {ratio:.1%} {usage.used:,} / {usage.context_window:,} tokens {tag}"


def shortened(text: str) -> str:
    """Fold `text` to one line that fits on a screen."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARS else line[: _SHOWN_CHARS - 1] + "…"
