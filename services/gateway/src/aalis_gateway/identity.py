"""This is about identity: the ids of all that a message causes, so that twice is once (SPEC GW-2).

They derive from (`platform`, `sessionId`, `messageId`), or from the inbound sequence when the
platform gives no id. The mailbox stream drops a repeated id for an hour, whoever publishes it: a
second delivery, another replica, a copy without `Nats-Msg-Id`. Behind that hour stands
`earliest_copy`: only a message that could have a copy older than the window is looked up.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from aalis_contracts.messages import IncomingMessage
from aalis_contracts.subjects import token, untoken

MINUTE_MS: Final = 60_000
WINDOW_MS: Final = 50 * MINUTE_MS
"""The dedupe window of the streams is an hour; ten minutes are left to clocks that disagree."""
RETENTION_MS: Final = 7 * 24 * 60 * MINUTE_MS
"""How long the streams keep messages: what was said before that cannot be found again."""
_SKEW_MS: Final = 5 * MINUTE_MS
_MAX_ID: Final = 256
_SAFE_ID: Final = re.compile(r"[!-~]{1,256}")


def message_key(message: IncomingMessage, inbound_seq: int) -> str:
    """Return the id that a message and its copies share; printable ASCII, at most 256 characters.

    `@` opens the part that stands for a missing message id: no token contains it.
    """
    last = token(message.message_id) if message.message_id else f"@{inbound_seq}"
    return header_id(":".join((token(message.platform), token(message.session_id), last)))


def header_id(identifier: str) -> str:
    """Return an id that may stand in a header: itself if it may, otherwise its digest."""
    if _SAFE_ID.fullmatch(identifier):
        return identifier
    return "sha256:" + sha256(identifier.encode("utf-8", "surrogatepass")).hexdigest()


def derived(key: str, suffix: str) -> str:
    """Return the id of something that the message with this key caused."""
    return header_id(f"{key}.{suffix}")


def earliest_copy(message: IncomingMessage, stored_ms: int, now_ms: int) -> int | None:
    """Return the time from which a copy must be looked for, None if the window covers them all.

    A copy was published when this one was said at the earliest. `timestamp` is the adapter's word
    for that; without one, or with one that no stream reaches back to, the storing time counts.
    """
    said = message.timestamp
    first = stored_ms
    if said is not None and now_ms - RETENTION_MS < said < stored_ms:
        first = said
    return None if now_ms - first < WINDOW_MS else first - _SKEW_MS


def disagreement(subject: str, message: IncomingMessage) -> str | None:
    """Say how a body contradicts the subject it came on, None if it does not.

    The subject wins no argument, and neither does the body: order is kept by the subject's
    session, and an adapter's permissions end at its platform's subjects. A message that would be
    filed under another session or platform than it travelled on is refused.
    """
    *_, platform, session = subject.split(".")
    for word, encoded, said in (
        ("platform", platform, message.platform),
        ("sessionId", session, message.session_id),
    ):
        if untoken(encoded) != said:
            return (
                f"the subject names {word} {untoken(encoded)!r} but the body says {said!r}; "
                "publish on inbound.message.<platform>.<session>, both percent-encoded"
            )
    return None


def says_nothing(message: IncomingMessage) -> bool:
    """Say whether nobody would expect anything to come of this message.

    Blank text without attachment, quote or notice is what platforms send for stickers they cannot
    show and for edits; people expect no answer to it. Inputs of the platform itself may be blank.
    """
    if message.content.strip() or message.attachments or message.notice_type:
        return False
    if message.reply_to is not None and (message.reply_to.content or "").strip():
        return False
    return not (is_internal(message) or message.trigger_type in {"interval", "idle", "proactive"})


def is_internal(message: IncomingMessage) -> bool:
    """Say whether the platform itself speaks, not a person (SPEC GW-6)."""
    source = message.source or ""
    return source in {"idle-trigger", "scheduler"} or source.startswith("proactive:")


def is_group(message: IncomingMessage) -> bool:
    """Say whether many speak where this was said; a group id without a type counts as a group."""
    if message.session_type is None:
        return bool(message.group_id)
    return message.session_type == "group"
