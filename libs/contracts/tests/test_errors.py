"""Errors as answers, and whose fault they are (SPEC ERR-1)."""

from __future__ import annotations

import pytest

from aalis_contracts.contract import InvalidBody
from aalis_contracts.errors import ErrorBody, ErrorReply, Fault, InvalidRequest
from aalis_contracts.rpc import Rows


def test_an_error_answer_has_the_form_of_the_specification() -> None:
    reply = ErrorReply(error=ErrorBody(code="conflict", message="taken", details={"by": "x"}))
    assert reply.to_json() == (
        b'{"error":{"code":"conflict","message":"taken","retryable":false,"details":{"by":"x"}}}'
    )


def test_an_error_answer_is_no_answer_of_another_kind() -> None:
    with pytest.raises(InvalidBody):
        Rows.from_json(ErrorReply(error=ErrorBody(code="internal", message="x")).to_json())
    with pytest.raises(InvalidBody):
        ErrorReply.from_json(Rows(messages=[]).to_json())


def test_an_invalid_request_is_theirs_and_says_why() -> None:
    error = InvalidRequest("no such session", "notFound")
    assert (str(error), error.message, error.code) == (
        "no such session",
        "no such session",
        "notFound",
    )
    assert InvalidRequest("x").code == "invalid"


def test_a_fault_is_ours_and_may_be_tried_again_unless_it_says_otherwise() -> None:
    assert (Fault("x").code, Fault("x").retryable) == ("internal", True)
    final = Fault("too long", "overflow", retryable=False)
    assert (str(final), final.message, final.code, final.retryable) == (
        "too long",
        "too long",
        "overflow",
        False,
    )
