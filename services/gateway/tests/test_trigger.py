"""This is about who is meant by a message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aalis_contracts.messages import IncomingMessage
from aalis_gateway import trigger
from aalis_gateway.testing import said

ROOM = "chat:bot9:group:77"


def in_group(content: str = "hi", **more: object) -> IncomingMessage:
    return said(content, **{"session_id": ROOM, "session_type": "group", **more})


def reply(user_id: str | None) -> dict[str, object]:
    return {"messageId": "1", "userId": user_id}


@pytest.mark.parametrize(
    ("message", "addressed"),
    [
        (said("hi"), True),
        (said("hi", session_type="private"), True),
        (said("hi", session_type="channel"), True),
        (said("poke", notice_type="poke"), False),
        (in_group("hi"), False),
        (said("hi", group_id="g"), False),
        (in_group('<at self id="bot9">Bot</at> hi'), True),
        (in_group("so <at id='bot9' self>Bot</at>?"), True),
        (in_group("<at self>Bot</at>"), True),
        (in_group('<at id="u2">self</at> hi'), False),
        (in_group('<at id="self">Bob</at> hi'), False),
        (in_group('<at id="a self b">Bob</at> hi'), False),
        (in_group('<at id="u2" selfish>Bob</at> hi'), False),
        (in_group("<at>all</at> hi"), False),
        (in_group("at self"), False),
        (in_group("<at self"), False),
        (in_group(replyTo=reply("bot9")), True),
        (in_group(replyTo=reply("u2")), False),
        (in_group(replyTo=reply(None)), False),
        (in_group(session_id="room", replyTo=reply("bot9")), False),
        (in_group(session_id="room", replyTo=reply("b"), metadata={"selfId": "b"}), True),
        (in_group(session_id="mail:bot9:group:1", replyTo=reply("bot9")), False),
        (in_group('<at self id="bot9">Bot</at>', notice_type="poke"), False),
    ],
)
def test_a_message_shows_whether_the_bot_is_meant(
    message: IncomingMessage, *, addressed: bool
) -> None:
    assert trigger.is_addressed(message) == addressed


@pytest.mark.parametrize(
    ("text", "names", "called"),
    [
        ("小猫在吗", ["小猫"], True),
        ("大狗在吗", ["小猫"], False),
        ("Hey AI, help", ["ai"], True),
        ("she said so", ["ai"], False),
        ("AI帮我", ["ai"], True),
        ("ai2 is out", ["ai"], False),
        ("c++!", ["C++"], True),
        ("anything", ["", "  "], False),
        ("anything", [], False),
        ('<at id="u2">小猫</at> hi', ["小猫"], False),
        ('<at id="u2">x</at>小猫 hi', ["小猫"], True),
        ("STRASSE", ["straße"], True),
    ],
)
def test_a_nickname_calls_the_bot(text: str, names: list[str], *, called: bool) -> None:
    assert trigger.calls_by_name(text, names) == called


@given(st.text(), st.lists(st.text()))
def test_any_text_and_names_can_be_judged(text: str, names: list[str]) -> None:
    assert trigger.calls_by_name(text, names) in {True, False}
    assert trigger.mentions_self(text) in {True, False}
    assert text.endswith(trigger.without_own_mention(text))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("/help", "/help"),
        ('<at self id="b">Bot</at> /help', "/help"),
        (' <at self>B</at> <at self id="b">B</at>/help', "/help"),
        ('<at id="u">U</at> /help', '<at id="u">U</at> /help'),
        ("", ""),
    ],
)
def test_the_mention_before_a_command_is_not_part_of_it(text: str, left: str) -> None:
    assert trigger.without_own_mention(text) == left


@pytest.mark.parametrize(
    ("message", "unasked"),
    [
        (said(), False),
        (said(trigger_type="interval"), True),
        (said(source="scheduler"), True),
        (in_group(trigger_type="immediate"), True),
    ],
)
def test_a_message_that_says_what_triggers_it_is_believed(
    message: IncomingMessage, *, unasked: bool
) -> None:
    assert trigger.passes_unasked(message) == unasked
