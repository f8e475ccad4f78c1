"""How what people said becomes a row (SPEC ARC-1 to ARC-4, ARC-6, CON-41, CON-42)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aalis_contracts.catalogue import Catalogue
from aalis_contracts.errors import InvalidRequest
from aalis_contracts.messages import IncomingMessage, MessageAttachment
from aalis_contracts.rpc import ArchiveNotice
from aalis_memory.archive import (
    attachment_reference,
    bracketed_label,
    incoming_row,
    incoming_text,
    mentions,
    notice_row,
    outgoing_rows,
)

ZH = Catalogue("zh")
EN = Catalogue("en")


def incoming(**fields: Any) -> IncomingMessage:
    body = {"content": "hello", "sessionId": "s", "platform": "qq", **fields}
    return IncomingMessage.from_object(body)


def image(**fields: Any) -> dict[str, Any]:
    return {"kind": "image", **fields}


@pytest.mark.parametrize(
    ("nickname", "user_id", "label"),
    [
        ("Ann", "42", "Ann(42)"),
        ("Ann", None, "Ann"),
        (None, "42", "42"),
        ("", "42", "42"),
        (" ", "42", "42"),
        (None, None, None),
        ("a]: x\n[b", "42", "a］: x [b(42)"),
    ],
)
def test_a_sender_is_named_by_nickname_and_id(
    nickname: str | None, user_id: str | None, label: str | None
) -> None:
    assert bracketed_label(nickname, user_id) == label


TEXTS: list[tuple[str, dict[str, Any], str]] = [
    ("a sender", {"nickname": "Ann", "userId": "42"}, "[Ann(42)]: hello"),
    ("nobody known", {}, "hello"),
    ("the page", {"platform": "webui", "nickname": "Ann", "userId": "42"}, "hello"),
    ("the terminal", {"platform": "cli", "userId": "42"}, "hello"),
    (
        "a quote",
        {"userId": "1", "replyTo": {"messageId": "9", "content": "a\nb", "nickname": "Bo"}},
        "[引用 Bo 的消息: a b]\n[1]: hello",
    ),
    (
        "a quote of nobody",
        {"replyTo": {"messageId": "9", "content": "x {y}"}},
        "[引用 ? 的消息: x {y}]\nhello",
    ),
    ("a blank quote", {"replyTo": {"messageId": "9", "content": " "}}, "hello"),
    ("a quote without text", {"replyTo": {"messageId": "9", "userId": "5"}}, "hello"),
    (
        "descriptions with a hole",
        {
            "userId": "1",
            "attachments": [image(ref="r1"), image(), {"kind": "file", "name": "f.txt"}],
            "attachmentDescriptions": ["a cat", None, "a list"],
        },
        "[1]: hello\n[图片: a cat | ref:r1]\n[文件: a list]",
    ),
    (
        "a description of the attachment's own",
        {"attachments": [image(description="a dog")], "attachmentDescriptions": [" "]},
        "hello\n[图片: a dog]",
    ),
    (
        "descriptions alone",
        {"content": " ", "userId": "1", "attachments": [image()], "attachmentDescriptions": ["x"]},
        "[1]: [图片: x]",
    ),
    (
        "a prepared description",
        {
            "attachments": [image(), image(), {"kind": "file"}],
            "attachmentDescriptions": [
                "[图片1：a | b]",
                "[image: from another locale]",
                "--- 文件内容 ---\nline\nline",
            ],
        },
        "hello\n[图片1：a | b]\n[image: from another locale]\n--- 文件内容 ---\nline\nline",
    ),
    (
        "more descriptions than attachments",
        {"attachmentDescriptions": ["", "alone"]},
        "hello\nalone",
    ),
    (
        "attachments that nobody described",
        {"content": "", "userId": "1", "attachments": [image(ref="r"), {"kind": "video"}]},
        "[1]: [图片 | ref:r]\n[视频]",
    ),
    ("attachments beside a text", {"attachments": [image(ref="r")]}, "hello"),
    ("nothing at all", {"content": ""}, ""),
]


@pytest.mark.parametrize(
    ("fields", "text"), [(fields, text) for _, fields, text in TEXTS], ids=[t[0] for t in TEXTS]
)
def test_a_message_is_kept_as_one_text(fields: dict[str, Any], text: str) -> None:
    assert incoming_text(incoming(**fields), ZH) == text


def test_the_text_follows_the_locale() -> None:
    message = incoming(
        replyTo={"messageId": "9", "content": "x", "userId": "5"},
        attachments=[image()],
        attachmentDescriptions=["a cat"],
    )
    assert incoming_text(message, EN) == "[quoting 5: x]\nhello\n[image: a cat]"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"description": "a cat", "ref": "x"}, "[图片: a cat | ref:x]"),
        ({"description": "a cat"}, "[图片: a cat]"),
        ({"description": "  ", "ref": "x"}, "[图片 | ref:x]"),
        ({}, "[图片]"),
        ({"kind": "audio"}, "[音频]"),
        ({"description": "a|b]\nc\r\nd", "ref": "x]|y"}, "[图片: a｜b］ c d | ref:x］｜y]"),
    ],
)
def test_a_reference_is_one_bracket(fields: dict[str, Any], text: str) -> None:
    attachment = MessageAttachment.from_object({"kind": "image", **fields})
    assert attachment_reference(attachment, ZH) == text


@given(description=st.text(), reference=st.text())
def test_no_description_breaks_out_of_its_reference(description: str, reference: str) -> None:
    attachment = MessageAttachment(kind="image", ref=reference)
    made = attachment_reference(attachment, ZH, description)
    assert made.splitlines() == [made]
    assert made.count("]") == 1
    assert made.endswith("]")
    assert made.count("|") <= 1


def test_an_incoming_message_becomes_a_user_row() -> None:
    row = incoming_row(incoming(userId="42", nickname="Ann"), ZH, 12, 7)
    assert row.to_object() == {
        "role": "user",
        "content": "[Ann(42)]: hello",
        "name": "42",
        "timestamp": 12,
        "metadata": {"userId": "42", "nickname": "Ann", "platform": "qq"},
        "inputSeq": 7,
        "index": 0,
    }


def test_metadata_holds_what_is_known_and_nothing_empty() -> None:
    message = incoming(
        content='<at id="1">a</at> <at self id="2">b</at> <at>all</at> <at id="1">a</at>',
        userId="42",
        nickname="",
        groupId="g",
        groupName="G",
        sessionType="group",
        messageId="m",
        attachments=[{"kind": "file", "name": "f.txt"}, image(name="i.png"), {"kind": "file"}],
        triggerType="direct",
        source="user",
        metadata={"adapter": "private"},
    )
    assert incoming_row(message, ZH, 1, 1).metadata == {
        "userId": "42",
        "platform": "qq",
        "groupId": "g",
        "groupName": "G",
        "sessionType": "group",
        "messageId": "m",
        "fileNames": ["f.txt"],
        "triggerType": "direct",
        "source": "user",
        "mentions": ["1", "2"],
    }


def test_a_proactive_input_is_a_delegation_that_nobody_said() -> None:
    row = incoming_row(incoming(triggerType="proactive", source="proactive:from:p"), ZH, 1, 1)
    assert (row.role, row.kind, row.name) == ("notice", "cross-session-delegation", None)


def test_an_idle_trigger_is_never_a_row() -> None:
    with pytest.raises(InvalidRequest) as refused:
        incoming_row(incoming(source="idle-trigger"), ZH, 1, 1)
    assert refused.value.code == "refused"


def test_a_message_without_an_input_has_no_place_yet() -> None:
    row = incoming_row(incoming(), ZH, 1, None)
    assert (row.input_seq, row.index) == (None, None)


def test_archiving_leaves_the_message_as_it_was() -> None:
    message = incoming(attachments=[image(description="x")], attachmentDescriptions=["y"])
    before = message.to_json()
    incoming_row(message, ZH, 1, 1)
    assert message.to_json() == before


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", []),
        ("<at>all</at>", []),
        ('<at id="a">x</at><at self id="b">y</at>', ["a", "b"]),
        ('<at id="">x</at> <at id="a', []),
        ("<at id=" * 10_000, []),
        ('<at id="' + "x" * 100_000, []),
    ],
)
def test_mentions_are_read_from_their_marks(text: str, ids: list[str]) -> None:
    assert mentions(text) == ids


def notice(**fields: Any) -> ArchiveNotice:
    body = {"sessionId": "s", "noticeType": "poke", "content": "poked", **fields}
    return ArchiveNotice.from_object(body)


def test_a_notice_is_a_row_of_its_own_kind() -> None:
    row = notice_row(notice(userId="1", platform="qq", data={"target": "2", "userId": "x"}), 5)
    assert row is not None
    assert row.to_object() == {
        "role": "notice",
        "kind": "poke",
        "content": "poked",
        "timestamp": 5,
        "metadata": {"target": "2", "userId": "1", "platform": "qq"},
    }


def test_a_notice_cannot_make_itself_vanish() -> None:
    row = notice_row(notice(data={"injector": "persona"}), 5)
    assert row is not None
    assert row.metadata is None


@pytest.mark.parametrize("blank", ["", "  ", "\n\t"])
def test_a_blank_notice_is_nothing(blank: str) -> None:
    assert notice_row(notice(content=blank), 5) is None


def test_what_was_sent_leaves_a_marker_row() -> None:
    attachments = [
        MessageAttachment(kind="image", description="a cat", ref="r"),
        MessageAttachment(kind="audio", skip_archive=True),
        MessageAttachment(kind="video"),
    ]
    rows = outgoing_rows(attachments, ZH, 5)
    assert [(row.kind, row.content) for row in rows] == [
        ("outbound-image", "[图片: a cat | ref:r]"),
        ("outbound-video", "[视频]"),
    ]
