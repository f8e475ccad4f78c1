"""Dead letters: what could not be handled, with the reason (DESIGN §4)."""

from __future__ import annotations

from aalis_contracts.dead import CONTRACT_HEADER, DEAD_HEADERS, MESSAGE_ID_HEADER


def test_a_dead_letter_may_keep_the_headers_that_the_message_had() -> None:
    assert len(set(DEAD_HEADERS)) == len(DEAD_HEADERS)
    assert CONTRACT_HEADER not in DEAD_HEADERS
    assert MESSAGE_ID_HEADER not in DEAD_HEADERS
