"""This is about estimating tokens without a vocabulary (SPEC TOK-3 to TOK-5).

Linear in the text: one pass of a regular expression, or one division when the text is ASCII. The
pass goes piece by piece, since a regular expression lets no other thread run before it has ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from aalis_contracts.messages import Message, ToolCall
from aalis_contracts.text import compact_json
from aalis_contracts.tools import ToolDefinition

MESSAGE_COST: Final = 4
"""Tokens that a message costs before anything in it is counted."""

PIECE: Final = 100_000
"""Characters that the regular expression is given at once."""

_NARROW_RUN: Final = re.compile(
    "[^\u2e80-\u9fff\ua000-\ua4ff\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef]+"
)


def text_cost(text: str | None) -> int:
    """Estimate the tokens of `text`: 1.5 a wide character, ceil(n / 3.5) a run of others (TOK-3).

    The sum is rounded up; absent and empty cost nothing.
    """
    if not text:
        return 0
    if text.isascii():
        return _run_cost(len(text))
    lengths = _narrow_runs(text)
    wide = len(text) - sum(lengths)
    return sum(map(_run_cost, lengths)) + (3 * wide + 1) // 2


def message_cost(message: Message) -> int:
    """Estimate the tokens of `message`: 4, its content, calls and reasoning (TOK-4)."""
    cost = MESSAGE_COST + text_cost(message.content) + text_cost(message.reasoning_content)
    if message.tool_calls:
        cost += text_cost(calls_json(message.tool_calls))
    return cost


def messages_cost(messages: Iterable[Message]) -> int:
    """Estimate the tokens of a list of messages."""
    return sum(map(message_cost, messages))


def tools_cost(tools: Sequence[ToolDefinition] | None) -> int:
    """Estimate the tokens of the tool definitions sent with a call; 0 without any (TOK-5)."""
    if not tools:
        return 0
    return text_cost(compact_json([tool.to_object() for tool in tools]))


def calls_json(calls: Iterable[ToolCall]) -> str:
    """Write calls as compact JSON, the form that TOK-4 measures."""
    return compact_json([call.model_dump(by_alias=True, exclude_none=True) for call in calls])


def _narrow_runs(text: str) -> list[int]:
    """Return the lengths of the maximal runs of characters that are not wide."""
    lengths: list[int] = []
    unfinished = False
    for start in range(0, len(text), PIECE):
        end = start + PIECE
        runs: list[str] = _NARROW_RUN.findall(text, start, end)
        if unfinished and runs and text.startswith(runs[0], start):
            lengths[-1] += len(runs.pop(0))
        lengths += map(len, runs)
        unfinished = _NARROW_RUN.match(text, end - 1, end) is not None
    return lengths


def _run_cost(length: int) -> int:
    return (2 * length + 6) // 7
