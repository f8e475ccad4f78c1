"""This is about errors as answers: their codes, their body, and whose fault they are (ERR-1)."""

from __future__ import annotations

from typing import Literal

from aalis_contracts.contract import Contract
from aalis_contracts.text import JsonObject

ErrorCode = Literal[
    "invalid",
    "notFound",
    "refused",
    "conflict",
    "absent",
    "timeout",
    "overflow",
    "model",
    "internal",
]
ModelErrorKind = Literal[
    "auth",
    "balance",
    "notFound",
    "rateLimit",
    "overflow",
    "refused",
    "badRequest",
    "upstream",
    "timeout",
    "connection",
    "cut",
]


class ErrorBody(Contract):
    """What went wrong; `message` is one line, `kind` only for model errors (SPEC LLM-13)."""

    code: ErrorCode
    message: str
    retryable: bool = False
    kind: ModelErrorKind | None = None
    details: JsonObject | None = None


class ErrorReply(Contract):
    """The body of every error answer."""

    error: ErrorBody


class InvalidRequest(Exception):
    """Theirs: the request cannot be served as it is; asking again unchanged is no use."""

    def __init__(self, message: str, code: ErrorCode = "invalid") -> None:
        super().__init__(message)
        self.message = message
        self.code: ErrorCode = code


class Fault(Exception):
    """Ours: something that should work did not; asking again may help."""

    def __init__(
        self, message: str, code: ErrorCode = "internal", *, retryable: bool = True
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code: ErrorCode = code
        self.retryable = retryable
