"""This is about calling again: when a failed call is made once more, and how readers learn of it.

Each call is an `Attempt`; a reader that meets one forgets what it had collected, so that the texts
of two calls are never joined (SPEC STR-3, LLM-10). Time and chance are arguments.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from aalis_contracts.messages import Message
from aalis_contracts.models import ChatChunk, ChatRequest
from aalis_llm.port import ModelError, ModelProvider
from aalis_llm.response import Collected

MOST_BEFORE_THE_FIRST_DELTA: Final = 2
MOST_AFTER_THE_FIRST_DELTA: Final = 1
LONGEST_WAIT: Final = 30.0
"""Seconds; a provider that asks for more is asked again after this (SPEC LLM-10)."""

_FIRST_WAIT: Final = 0.5
_SERVER_ERROR: Final = 500
_RETRIED_STATUSES: Final = frozenset({408, 429})
_EXHAUSTED: Final = frozenset({"insufficient_quota"})
"""Codes of 429 that no waiting cures."""


@dataclass(frozen=True)
class Attempt:
    """A call begins; whatever came before it for this question is void.

    `reason` is why the one before failed, None for the first; `wait` seconds pass first.
    """

    number: int
    reason: ModelError | None = None
    wait: float = 0.0
    without_reasoning: bool = False


@dataclass
class _Spent:
    """The second chances one question has used up."""

    before: int = 0
    after: int = 0
    reasoning: bool = False


async def stream_with_retries(
    provider: ModelProvider,
    entry_id: str,
    request: ChatRequest,
    *,
    sleep: Callable[[float], Awaitable[object]],
    random: Callable[[], float],
) -> AsyncGenerator[Attempt | ChatChunk]:
    """Ask one question, again where that may help (SPEC LLM-10, LLM-11).

    What is not asked for a person (a summary, a title) goes without reasoning (LLM-12).
    Attempts count on from `request.attempt`. `random` gives a number in [0, 1). Raises the last
    `ModelError` when no attempt is left. Closing aborts the running call.
    """
    asked = request if request.purpose in {None, "chat"} else without_reasoning(request)
    spent = _Spent()
    attempt = Attempt(request.attempt or 1)
    while True:
        yield attempt
        if attempt.wait:
            await sleep(attempt.wait)
        collected = Collected()
        try:
            numbered = asked.model_copy(update={"attempt": attempt.number})
            async with aclosing(provider.stream(entry_id, numbered)) as chunks:
                async for chunk in chunks:
                    collected.add(chunk)
                    yield chunk
        except ModelError as error:
            reason = error
        else:
            if collected.done:
                return
            reason = ModelError("cut", "the stream ended before the answer did")
        if _is_about_reasoning(reason, asked, collected, spent):
            spent.reasoning = True
            asked = without_reasoning(asked)
            attempt = Attempt(attempt.number + 1, reason, without_reasoning=True)
        elif _may_help(reason, collected, spent):
            wait = wait_before_retry(reason, spent.before + spent.after, random())
            attempt = Attempt(attempt.number + 1, reason, wait)
        else:
            raise reason


def may_be_retried(error: ModelError) -> bool:
    """Say whether the same request may succeed later: 429, 408, 5xx, 529, a lost connection.

    Our own limit on a call is not among them: the person has waited long enough.
    """
    if error.kind in {"connection", "cut"}:
        return True
    if error.code in _EXHAUSTED:
        return False
    if error.status is None:
        return error.kind == "upstream"
    return error.status in _RETRIED_STATUSES or error.status >= _SERVER_ERROR


def wait_before_retry(error: ModelError, retries: int, chance: float) -> float:
    """Return seconds to wait: what the provider asked for, else doubling with jitter, ≤ 30 s.

    `retries` counts this one; `chance` is in [0, 1).
    """
    if error.retry_after is not None:
        return min(error.retry_after, LONGEST_WAIT)
    backoff = _FIRST_WAIT * 2 ** (retries - 1)
    return min(backoff * (0.5 + chance), LONGEST_WAIT)


def without_reasoning(request: ChatRequest) -> ChatRequest:
    """Return the request with thinking off and no reasoning in its messages (SPEC LLM-11).

    Where a profile demands the field, it stays, and is empty (SPEC SHAPE-7).
    """
    messages = [_without_reasoning(message) for message in request.messages]
    return request.model_copy(update={"messages": messages, "think": False})


def _is_about_reasoning(
    error: ModelError, request: ChatRequest, collected: Collected, spent: _Spent
) -> bool:
    if spent.reasoning or collected.begun or not error.history_shape:
        return False
    return bool(request.think) or any(_has_reasoning(message) for message in request.messages)


def _may_help(error: ModelError, collected: Collected, spent: _Spent) -> bool:
    """Decide on one more attempt, and count it."""
    if not may_be_retried(error):
        return False
    if collected.begun:
        spent.after += 1
        return spent.after <= MOST_AFTER_THE_FIRST_DELTA
    spent.before += 1
    return spent.before <= MOST_BEFORE_THE_FIRST_DELTA


def _has_reasoning(message: Message) -> bool:
    return bool(message.reasoning_content) or message.provider_data is not None


def _without_reasoning(message: Message) -> Message:
    if not _has_reasoning(message):
        return message
    demanded = message.reasoning_content is not None and bool(message.tool_calls)
    kept = "" if demanded else None
    return message.model_copy(update={"reasoning_content": kept, "provider_data": None})
