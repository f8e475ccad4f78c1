"""This is about reading a failure: which kind is this status, this body, this code (SPEC LLM-13).

Providers agree on statuses and on little else, so the phrases below were collected from what they
really answer. Pure: adapters pass in what they received.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple, cast

from aalis_contracts.errors import ModelErrorKind
from aalis_llm.errors import ModelError, without_keys

_BY_STATUS: Final[dict[int, ModelErrorKind]] = {
    401: "auth",
    402: "balance",
    403: "auth",
    404: "notFound",
    408: "timeout",
    413: "overflow",
    429: "rateLimit",
}
_STATUS_OF_CODE: Final[dict[str, int]] = {
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "billing_error": 402,
    "not_found_error": 404,
    "model_not_found": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "timeout_error": 408,
    "invalid_request_error": 400,
    "api_error": 500,
    "server_error": 500,
    "overloaded_error": 529,
}
_OVERFLOW: Final = re.compile(
    r"""
    context_length_exceeded | exceed_context_size | model_context_window_exceeded
    | (?:prompt|input)\ is\ too\ long | prompt\ exceeds\ max
    | maximum\ (?:context|prompt)\ length | context\ length\ exceeded
    | (?:exceeds?|exceeded|larger\ than|beyond).{0,40}context\ (?:window|size|length|limit)
    | context\ (?:window|size|length|limit).{0,40}(?:exceed|too\ small)
    | exceed\ context\ limit | exceeded\ model\ token\ limit
    | (?:exceeds|exceed)\ the\ maximum\ number\ of\ tokens | range\ of\ input\ length
    | input\ token\ count.{0,60}exceeds
    """,
    re.VERBOSE | re.IGNORECASE,
)
_REFUSED: Final = re.compile(
    r"""
    content[_ ]filter | content\ management\ policy | responsible_?ai_?policy
    | content\ exists\ risk | data_?inspection_?failed | inappropriate\ content
    | content_policy_violation | safety\ system | considered\ high\ risk | 不安全或敏感
    """,
    re.VERBOSE | re.IGNORECASE,
)
_BALANCE: Final = re.compile(r"credit balance|insufficient balance|余额不足", re.IGNORECASE)
_SHAPE: Final = re.compile(
    r"thinking|signature|reasoning|tool_use|tool_result|tool_call|\broles?\b|messages[.\[]\d",
    re.IGNORECASE,
)
_PHRASED: Final = frozenset({400, 402, 403, 413, 422, None})
"""Statuses whose body decides; elsewhere "too large for 10k tokens per minute" would mislead."""

_SERVER_ERROR: Final = 500


class ErrorFacts(NamedTuple):
    """What an error body says."""

    message: str
    code: str | None


def read_error_body(body: str) -> ErrorFacts:
    """Read an error body in the OpenAI, Anthropic or any similar form; plain text is a message."""
    try:
        parsed: object = json.loads(body)
    except (ValueError, RecursionError):
        return ErrorFacts(_without_markup(body), None)
    return error_facts(parsed)


def error_facts(parsed: object) -> ErrorFacts:
    """Read an already parsed error body, whatever it is."""
    if isinstance(parsed, list) and parsed:
        parsed = cast("list[object]", parsed)[0]
    if not isinstance(parsed, dict):
        return ErrorFacts("" if parsed is None else str(cast("object", parsed)), None)
    fields = cast("dict[str, object]", parsed)
    inner = fields.get("error")
    if isinstance(inner, str):
        return ErrorFacts(inner, _word(fields.get("code")))
    if isinstance(inner, dict):
        fields = cast("dict[str, object]", inner)
    message = next(
        (str(fields[key]) for key in ("message", "detail", "msg", "title") if fields.get(key)), ""
    )
    return ErrorFacts(message, _word(fields.get("code")) or _word(fields.get("type")))


def failure(
    status: int | None,
    body: str,
    *,
    retry_after: float | None = None,
    secrets: Iterable[str] = (),
) -> ModelError:
    """Turn an error answer, or an error event of a stream (`status` None), into a `ModelError`."""
    hidden = tuple(secrets)
    facts = read_error_body(body)
    if status is None and facts.code is not None:
        status = _STATUS_OF_CODE.get(facts.code)
    text = f"{facts.code or ''} {facts.message}"
    kind = kind_of(status, text)
    return ModelError(
        kind,
        without_keys(facts.message or facts.code or "", hidden),
        status=status,
        code=facts.code,
        retry_after=retry_after,
        history_shape=kind == "badRequest" and _SHAPE.search(text) is not None,
        raw=without_keys(body, hidden),
    )


def kind_of(status: int | None, text: str) -> ModelErrorKind:
    """Name the kind of a failure from its status and what the body says (SPEC LLM-13)."""
    if status in _PHRASED:
        if _OVERFLOW.search(text):
            return "overflow"
        if _REFUSED.search(text):
            return "refused"
        if _BALANCE.search(text):
            return "balance"
    if status is None or status >= _SERVER_ERROR:
        return "upstream"
    return _BY_STATUS.get(status, "badRequest")


def retry_after_seconds(headers: dict[str, str], now: float) -> float | None:
    """Read how long the provider asks to wait, in seconds; `headers` have lower-case names.

    `now` is the time in seconds since the epoch, needed because the header may be a date.
    """
    value = headers.get("retry-after-ms", "")
    scale = 0.001
    if not value:
        value, scale = headers.get("retry-after", "").strip(), 1.0
    try:
        seconds = float(value) * scale
    except ValueError:
        return _seconds_until(value, now)
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _seconds_until(date: str, now: float) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.fromtimestamp(now, UTC)).total_seconds())


def _word(value: object) -> str | None:
    """Return a code that is a text or a number, as text."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value) or None


def _without_markup(body: str) -> str:
    """Return the words of an HTML error page, or any other text as it is."""
    return re.sub(r"<[^<>]{0,500}>", " ", body[:20_000]) if "<" in body else body
