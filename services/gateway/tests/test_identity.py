"""This is about the ids of what a message causes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aalis_contracts import subjects
from aalis_contracts.messages import IncomingMessage
from aalis_gateway import identity
from aalis_gateway.identity import MINUTE_MS
from aalis_gateway.testing import said

HOUR = 60 * MINUTE_MS
NOW = 1_800_000_000_000


def test_the_key_is_the_id_that_adapters_are_asked_to_publish_with() -> None:
    message = said(session_id="chat:me:group:1", message_id="7")

    assert identity.message_key(message, 3) == "chat:chat%3Ame%3Agroup%3A1:7"


def test_without_a_message_id_the_sequence_counts() -> None:
    assert identity.message_key(said(), 3) == "chat:s:@3"
    assert identity.message_key(said(message_id=""), 3) == "chat:s:@3"
    assert identity.message_key(said(message_id="@3"), 9) != identity.message_key(said(), 3)


ids = st.text(min_size=1, max_size=20)


@given(ids, ids, ids, ids, ids, ids)
def test_different_messages_have_different_keys(
    a: str, b: str, c: str, d: str, e: str, f: str
) -> None:
    one = said(platform=a, session_id=b, message_id=c)
    two = said(platform=d, session_id=e, message_id=f)

    same = (one.platform, one.session_id, one.message_id) == (
        two.platform,
        two.session_id,
        two.message_id,
    )
    assert (identity.message_key(one, 1) == identity.message_key(two, 1)) == same


@given(st.text(min_size=1), st.text(min_size=1))
def test_any_id_can_stand_in_a_header(session: str, message: str) -> None:
    key = identity.message_key(said(session_id=session, message_id=message), 1)

    for each in (key, identity.derived(key, "answer"), identity.header_id(session)):
        assert re.fullmatch(r"[!-~]{1,256}", each)


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_message_on_its_own_subject_agrees_with_it(platform: str, session: str) -> None:
    message = said(platform=platform, session_id=session)
    _, rest = subjects.inbound(platform, session).name.split(".", 1)

    assert identity.disagreement(f"inbound.7.{rest}", message) is None


@pytest.mark.parametrize(
    ("subject", "named"),
    [
        ("inbound.3.message.chat.other", "sessionId"),
        ("inbound.3.message.mail.s", "platform"),
    ],
)
def test_a_message_on_anothers_subject_disagrees(subject: str, named: str) -> None:
    problem = identity.disagreement(subject, said())

    assert problem is not None
    assert named in problem


@pytest.mark.parametrize(
    ("said_at", "stored", "from_when"),
    [
        (None, NOW, None),
        (NOW - MINUTE_MS, NOW, None),
        (NOW + HOUR, NOW, None),
        (None, NOW - 2 * HOUR, NOW - 2 * HOUR),
        (NOW - 2 * HOUR, NOW, NOW - 2 * HOUR),
        (NOW - 3 * HOUR, NOW - 2 * HOUR, NOW - 3 * HOUR),
        (NOW - 30 * 24 * HOUR, NOW, None),
        (NOW // 1000, NOW, None),
        (-5, NOW, None),
    ],
)
def test_a_copy_is_looked_for_only_where_the_window_does_not_reach(
    said_at: int | None, stored: int, from_when: int | None
) -> None:
    found = identity.earliest_copy(said(timestamp=said_at), stored, NOW)

    assert found == (None if from_when is None else from_when - 5 * MINUTE_MS)


@pytest.mark.parametrize(
    ("message", "internal", "group"),
    [
        (said(), False, False),
        (said(source="idle-trigger"), True, False),
        (said(source="proactive:from:x"), True, False),
        (said(source="scheduler", session_type="group"), True, True),
        (said(source="sub-agent", session_type="private", group_id="g"), False, False),
        (said(group_id="g"), False, True),
        (said(session_type="channel", group_id="g"), False, False),
    ],
)
def test_who_speaks_and_where(message: IncomingMessage, *, internal: bool, group: bool) -> None:
    assert identity.is_internal(message) == internal
    assert identity.is_group(message) == group
