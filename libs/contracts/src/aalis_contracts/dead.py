"""This is about dead letters: what could not be handled, kept with the reason (DESIGN §4)."""

from __future__ import annotations

from typing import Final

from aalis_contracts.contract import Contract

REASON_HEADER: Final = "aalis-dead-reason"
SUBJECT_HEADER: Final = "aalis-dead-subject"
STREAM_HEADER: Final = "aalis-dead-stream"
SEQUENCE_HEADER: Final = "aalis-dead-sequence"
CONSUMER_HEADER: Final = "aalis-dead-consumer"
TURN_HEADER: Final = "aalis-turn"
CONTRACT_HEADER: Final = "aalis-contract"
MESSAGE_ID_HEADER: Final = "Nats-Msg-Id"

DEAD_HEADERS: Final = (
    REASON_HEADER,
    SUBJECT_HEADER,
    STREAM_HEADER,
    SEQUENCE_HEADER,
    CONSUMER_HEADER,
    TURN_HEADER,
)
"""What a dead letter carries beside the body, which is kept as it came."""


class DeadLetter(Contract):
    """What `aalis dead show` prints of a dead letter; the body itself is kept as it came."""

    subject: str
    reason: str
    stream: str | None = None
    sequence: int | None = None
    consumer: str | None = None
    turn_id: str | None = None
    body: str
