"""This is about tool results: how long one may be, and what a failure says (SPEC AG-47, TOOL-8)."""

from __future__ import annotations

from math import floor
from typing import Final

from aalis_contracts.catalogue import Catalogue
from aalis_contracts.text import cut
from aalis_contracts.tools import ToolResult, error_result

CHARACTERS_PER_TOKEN: Final = 3.5


def result_limit(window: int, ratio: float) -> int:
    """Return the characters that one result may have beside a window of `window` tokens."""
    return floor(window * ratio * CHARACTERS_PER_TOKEN)


def cut_result(content: str, limit: int, texts: Catalogue, length: int | None = None) -> str:
    """Cut a result before it is stored, so that stored, sent and shown are the same.

    `length` is what it had before its host cut it, if it did.
    """
    return cut(content, limit, texts.text("toolResultCut", length=length or len(content)))


def failure_of(error: BaseException) -> ToolResult:
    """Return the result that tells a model what a tool raised, never an empty text."""
    return error_result(str(error).strip() or type(error).__name__)
