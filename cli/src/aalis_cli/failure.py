"""This is about failing: one line that a person can act on, and an exit code."""

from __future__ import annotations


class Failed(Exception):
    """The command cannot do what it was asked to; the message is one line: what, and what to do."""

    def __init__(self, why: str, code: int = 1) -> None:
        super().__init__(why)
        self.code = code
