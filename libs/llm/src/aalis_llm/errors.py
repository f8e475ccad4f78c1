"""This is about failed model calls: what kind of failure, and what a person reads (SPEC LLM-13).

Adapters raise `ModelError` and nothing else. Its message is one line without addresses and keys,
so that whoever catches it may show or log it; `raw` is for the debug log only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from aalis_contracts.catalogue import Catalogue
from aalis_contracts.errors import ModelErrorKind
from aalis_contracts.text import one_line, well_formed

UPSTREAM_LIMIT: Final = 500
"""Characters of an upstream message that are shown (SPEC LLM-13)."""

_SCANNED: Final = 20_000
"""Characters of an upstream message that are looked at; error pages can be megabytes."""

_KEYS: Final = re.compile(
    r"""
    (?i:bearer)\s+[\w.~+/*=-]{6,}
    | \b(?:sk|pk|rk|gsk|xai|hf|key|tok|org|proj)[-_][\w*.-]{6,}
    | \bAIza[\w*-]{10,}
    | \beyJ[\w-]{10,}(?:\.[\w-]+)*
    | (?i:api[-_ ]?key|x-api-key|token|secret|password)["']?\s*[:=]\s*["']?[^\s"',;}]{4,}
    | \b[0-9a-fA-F]{32,}\b
    """,
    re.VERBOSE,
)
_ADDRESSES: Final = re.compile(
    r"""
    \b[a-zA-Z][a-zA-Z0-9+.-]{1,20}://[^\s"'<>)\]}，。）]+
    | \b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+
    | (?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?![\w.])
    | (?<![\w:])\[?(?:[0-9a-fA-F]{1,4}:){3,7}[0-9a-fA-F]{0,4}\]?(?::\d{1,5})?
    | (?<![\w.])::1(?![\w:])
    | \b(?:[a-zA-Z0-9-]{1,63}\.){1,8}
      (?:com|net|org|io|ai|dev|app|cn|co|cloud|local|internal|lan|svc|test|example|invalid)
      (?::\d{1,5})?(?![\w-])
    | \blocalhost(?::\d{1,5})?\b
    | (?<![\w/.])/(?:[\w.@~-]+/)+[\w.@~-]*
    | \b[A-Za-z]:\\[^\s"']+
    """,
    re.VERBOSE,
)
_HIDDEN: Final = "…"


class ModelError(Exception):
    """A call to a model failed.

    `kind` says whose fault it is and what may help; `status` is the HTTP status if there was one,
    `code` the provider's own word for it; `retry_after` is in seconds. `history_shape` marks a
    refusal of the shape of the history (SPEC LLM-11).
    """

    def __init__(  # noqa: PLR0913 - one field a fact that a caller decides on; all but two by name
        self,
        kind: ModelErrorKind,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        retry_after: float | None = None,
        history_shape: bool = False,
        raw: str | None = None,
    ) -> None:
        self.kind: ModelErrorKind = kind
        self.message = public_text(message)
        self.status = status
        self.code = code
        self.retry_after = retry_after
        self.history_shape = history_shape
        self.raw = without_keys(raw) if raw else raw
        super().__init__(f"{kind}: {self.message}")


def person_line(error: ModelError, catalogue: Catalogue) -> str:
    """Return the one line that a person reads about `error` (SPEC ERR-2, LLM-13).

    Status if there was one, what to do, then what the provider said.
    """
    hint = catalogue.text(f"modelFailure.{error.kind}")
    head = f"{error.status} {hint}" if error.status else hint
    colon = "：" if catalogue.locale == "zh" else ": "
    return f"{head}{colon}{error.message}" if error.message else head


def public_text(text: str, secrets: Iterable[str] = ()) -> str:
    """Fold `text` to one line of at most 500 characters without addresses and keys."""
    scanned = without_keys(well_formed(text[:_SCANNED]), secrets)
    return one_line(_ADDRESSES.sub(_HIDDEN, scanned), UPSTREAM_LIMIT)


def without_keys(text: str, secrets: Iterable[str] = ()) -> str:
    """Return `text` with everything that looks like a key, and each of `secrets`, hidden."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, _HIDDEN)
    return _KEYS.sub(_HIDDEN, text)
