"""This is about questions to a person: one at a time in a session, one answer each (CMD-15). Pure.

A board is what a session has of them: those that wait, the first of which is open; what was
answered lately, so that a message delivered twice answers once; and for whom asking is skipped. It
is kept in a bucket, so any replica can take the answer. Times are arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from pydantic import Field

from aalis_contracts.contract import Contract
from aalis_contracts.rpc import CommandRun

Answer = Literal["once", "session", "no", "timeout", "withdrawn"]

SKIP_MS: Final = 600_000
"""How long YS spares the person the question."""
MAX_WAITING: Final = 10
_KEPT: Final = 10


class Question(Contract):
    """Something a person must confirm; with `command` the gateway runs it, else somebody waits."""

    key: str
    prompt: str
    mode: Literal["session", "always"]
    session_id: str
    platform: str
    user: str | None = None
    asked_at: int | None = None
    command: CommandRun | None = None


class Given(Contract):
    """A question that has its answer, and the message that gave it."""

    question: Question
    answer: Answer
    message_key: str | None = None


class Board(Contract):
    """The questions of one session."""

    waiting: list[Question] = Field(default_factory=list)
    given: list[Given] = Field(default_factory=list)
    skips: dict[str, int] = Field(default_factory=dict)

    @property
    def open(self) -> Question | None:
        """The question that the person has before him."""
        return self.waiting[0] if self.waiting else None

    def answer_to(self, key: str) -> Answer | None:
        """Return the answer that this question got."""
        return next((given.answer for given in self.given if given.question.key == key), None)

    def has(self, key: str) -> bool:
        """Say whether this question waits."""
        return any(question.key == key for question in self.waiting)


@dataclass(frozen=True)
class Closed:
    """A board after its open question was closed."""

    board: Board
    given: Given


def meaning(text: str, mode: str) -> Answer:
    """Return what a person's words mean: Y or yes = once, YS = for a while, anything else = no."""
    word = text.strip().casefold()
    if word in {"y", "yes"}:
        return "once"
    if word == "ys":
        return "session" if mode == "session" else "once"
    return "no"


def add(board: Board, question: Question, now_ms: int) -> Board | None:
    """Return the board with a question more; None when too many wait. Adding twice adds once."""
    if board.has(question.key) or board.answer_to(question.key) is not None:
        return board
    if len(board.waiting) >= MAX_WAITING:
        return None
    return _opened(board.model_copy(update={"waiting": [*board.waiting, question]}), now_ms)


def answer(
    board: Board, user: str | None, text: str, message_key: str, now_ms: int
) -> Closed | None:
    """Take a message as the answer; None when it is none: nothing is open, or another speaks."""
    question = board.open
    if question is None or question.user != user:
        return None
    meant = meaning(text, question.mode)
    closed = _close(board, meant, message_key, now_ms)
    if meant == "session" and user is not None:
        live = {who: until for who, until in board.skips.items() if until > now_ms}
        skips = dict([*live.items(), (user, now_ms + SKIP_MS)][-_KEPT:])
        return Closed(closed.board.model_copy(update={"skips": skips}), closed.given)
    return closed


def given_by(board: Board, message_key: str) -> Given | None:
    """Return what this very message has answered already."""
    return next((given for given in board.given if given.message_key == message_key), None)


def is_expired(board: Board, now_ms: int, limit_ms: int) -> bool:
    """Say whether the open question has waited long enough."""
    return board.open is not None and (board.open.asked_at or 0) + limit_ms <= now_ms


def expire(board: Board, now_ms: int, limit_ms: int) -> Closed | None:
    """Close the open question if it has waited long enough."""
    return _close(board, "timeout", None, now_ms) if is_expired(board, now_ms, limit_ms) else None


def withdraw(board: Board, prefix: str, now_ms: int) -> Board:
    """Take back the questions whose key begins with `prefix`: nobody wants their answer now."""
    gone = [question for question in board.waiting if question.key.startswith(prefix)]
    if not gone:
        return board
    left = [question for question in board.waiting if question not in gone]
    given = [*board.given, *(Given(question=each, answer="withdrawn") for each in gone)]
    return _opened(board.model_copy(update={"waiting": left, "given": given[-_KEPT:]}), now_ms)


def may_skip(board: Board, user: str | None, mode: str, now_ms: int) -> bool:
    """Say whether this person has said lately that he need not be asked."""
    return mode == "session" and user is not None and board.skips.get(user, 0) > now_ms


def _close(board: Board, meant: Answer, message_key: str | None, now_ms: int) -> Closed:
    question, *left = board.waiting
    given = Given(question=question, answer=meant, message_key=message_key)
    update = {"waiting": left, "given": [*board.given, given][-_KEPT:]}
    return Closed(_opened(board.model_copy(update=update), now_ms), given)


def _opened(board: Board, now_ms: int) -> Board:
    """Start the time of the first question."""
    if board.open is None or board.open.asked_at is not None:
        return board
    first = board.open.model_copy(update={"asked_at": now_ms})
    return board.model_copy(update={"waiting": [first, *board.waiting[1:]]})
