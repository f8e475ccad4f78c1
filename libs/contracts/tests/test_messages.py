"""Messages: what people say, what is kept, and how odd content is read (SPEC CON-7, 20 to 27)."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aalis_contracts.contract import InvalidBody
from aalis_contracts.messages import (
    IncomingMessage,
    Message,
    MessageAttachment,
    flatten_content,
    sender_label,
)
from aalis_contracts.text import JsonObject


def part(**fields: object) -> dict[str, object]:
    return fields


@pytest.mark.parametrize(
    ("content", "text", "images"),
    [
        pytest.param(None, None, [], id="null"),
        pytest.param("", "", [], id="empty text"),
        pytest.param("中🙂", "中🙂", [], id="text"),
        pytest.param("\ud800", "\ufffd", [], id="broken text"),
        pytest.param(5, "5", [], id="number"),
        pytest.param(0.5, "0.5", [], id="float"),
        pytest.param(True, "true", [], id="boolean"),
        pytest.param(math.nan, "null", [], id="NaN"),
        pytest.param(math.inf, "null", [], id="infinity"),
        pytest.param([], "", [], id="empty list"),
        pytest.param([None, None], "", [], id="nulls"),
        pytest.param(["a", None, "b"], "a\nb", [], id="texts"),
        pytest.param([1, [2, [3]]], "1\n[2,[3]]", [], id="numbers and lists"),
        pytest.param([math.nan], "null", [], id="NaN in a list"),
        pytest.param(part(type="text", text="one"), "one", [], id="a lone part"),
        pytest.param([part(type="text", text="a"), part(text="b")], "a\nb", [], id="text parts"),
        pytest.param([part(type="input_text", text="a")], "a", [], id="input text"),
        pytest.param([part(type="output_text", text="a")], "a", [], id="output text"),
        pytest.param([part(type="text", text="\udc00")], "\ufffd", [], id="broken text part"),
        pytest.param([part(type="text", text=None)], '{"type":"text","text":null}', [], id="none"),
        pytest.param([part(type="text", text=["a"])], '{"type":"text","text":["a"]}', [], id="l"),
        pytest.param([part(type=["text"], text="a")], '{"type":["text"],"text":"a"}', [], id="lt"),
        pytest.param([part(type="x", text="a")], '{"type":"x","text":"a"}', [], id="unknown"),
        pytest.param([part()], "{}", [], id="empty part"),
        pytest.param(
            [part(type="image_url", image_url=part(url="https://e.org/a.png"))],
            "",
            ["https://e.org/a.png"],
            id="OpenAI image",
        ),
        pytest.param(
            [part(type="image_url", image_url="data:x")], "", ["data:x"], id="image by text"
        ),
        pytest.param(
            [part(type="input_image", image_url="data:x"), "and"], "and", ["data:x"], id="input"
        ),
        pytest.param([part(type="image", url="a.png")], "", ["a.png"], id="plain image"),
        pytest.param(
            [part(type="image", source=part(type="url", url="u"))], "", ["u"], id="Anthropic url"
        ),
        pytest.param(
            [part(type="image", source=part(media_type="image/gif", data="R0"))],
            "",
            ["data:image/gif;base64,R0"],
            id="Anthropic data",
        ),
        pytest.param(
            [part(type="image", source=part(data="R0", media_type=5))],
            "",
            ["data:image/png;base64,R0"],
            id="data of an unknown type",
        ),
        pytest.param(
            [part(type="image", data="R0", mimeType="image/webp")],
            "",
            ["data:image/webp;base64,R0"],
            id="MCP image",
        ),
        pytest.param(
            [part(type="image_url", image_url=part(url="\ud800"))], "", ["\ufffd"], id="broken url"
        ),
        pytest.param(
            [part(type="image_url", image_url=part(url=None))],
            '{"type":"image_url"}',
            [],
            id="image without url",
        ),
        pytest.param([part(type="image")], '{"type":"image"}', [], id="image without source"),
        pytest.param(
            [part(type="image", source="R0", alt="a")],
            '{"type":"image","alt":"a"}',
            [],
            id="image with an unknown source",
        ),
        pytest.param(
            [part(type="image", source=part(data=5))], '{"type":"image"}', [], id="no data"
        ),
        pytest.param(
            [part(type="audio", data="UklG", input_audio=part(data="x"), seconds=2)],
            '{"type":"audio","seconds":2}',
            [],
            id="binary fields",
        ),
        pytest.param(
            [part(type="x", raw=b"\x00", more=bytearray(2), n=1)],
            '{"type":"x","n":1}',
            [],
            id="bytes",
        ),
        pytest.param([b"\x00\x01"], '"<2 bytes>"', [], id="bytes as a part"),
        pytest.param([{1: "a", None: "b", (1, 2): "c"}], '{"1":"a","None":"b","(1, 2)":"c"}', []),
        pytest.param({1, 2}, '"<set>"', [], id="set"),
        pytest.param(["\ud800", {"k": "\ud800"}], '\ufffd\n{"k":"\ufffd"}', [], id="surrogates"),
    ],
)
def test_content_of_any_kind_becomes_text_and_images(
    content: object, text: str | None, images: list[str]
) -> None:
    assert flatten_content(content) == (text, images)


def test_parts_nested_without_end_are_named() -> None:
    deep: object = "x"
    for _ in range(10_000):
        deep = [deep]
    loop: list[object] = []
    loop.append(loop)
    assert flatten_content([deep, loop]) == ('"<list>"\n"<list>"', [])
    assert flatten_content({"type": "x", "deep": deep}) == ('"<dict>"', [])


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary(max_size=4)
    | st.sampled_from(["text", "image", "image_url"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(
            st.sampled_from(["type", "text", "url", "image_url", "source", "data", "media_type"])
            | st.integers(),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(anything)
def test_whatever_content_is_nothing_raises_and_the_result_is_well_formed(content: object) -> None:
    text, images = flatten_content(content)
    assert (text is None) == (content is None)
    for result in [text or "", *images]:
        assert result.encode().decode() == result


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b'"x"', "x"),
        (b"null", None),
        (b"5", "5"),
        (b"[]", ""),
        (b'[{"type":"text","text":"a"},{"type":"text","text":"b"}]', "a\nb"),
        (b"NaN", "null"),
    ],
)
def test_odd_content_of_a_body_is_flattened_while_it_is_read(
    content: bytes, text: str | None
) -> None:
    assert Message.from_json(b'{"role":"user","content":' + content + b"}").content == text


def test_image_parts_of_a_message_join_its_images() -> None:
    body: JsonObject = {
        "role": "user",
        "content": ["see", {"type": "image", "url": "b.png"}],
        "images": ["a.png"],
    }
    message = Message.from_json(json.dumps(body))
    assert (message.content, message.images) == ("see", ["a.png", "b.png"])
    alone = Message.from_object({**body, "images": None})
    assert alone.images == ["b.png"]


def test_image_parts_of_an_incoming_message_join_its_attachments() -> None:
    body: JsonObject = {
        "content": [{"type": "image", "url": "b.png"}, "see"],
        "sessionId": "s",
        "platform": "p",
        "attachments": [{"kind": "file", "name": "a.txt"}],
    }
    image = MessageAttachment(kind="image", data="b.png")
    message = IncomingMessage.from_json(json.dumps(body))
    assert message.content == "see"
    assert message.attachments == [MessageAttachment(kind="file", name="a.txt"), image]
    assert IncomingMessage.from_object({**body, "attachments": None}).attachments == [image]


def test_an_incoming_message_with_null_content_has_empty_content_and_without_any_is_refused() -> (
    None
):
    assert (
        IncomingMessage.from_json(b'{"content":null,"sessionId":"s","platform":"p"}').content == ""
    )
    with pytest.raises(InvalidBody, match=r"^IncomingMessage: content: Field required$"):
        IncomingMessage.from_json(b'{"sessionId":"s","platform":"p"}')


def test_descriptions_of_attachments_may_have_holes() -> None:
    body = b'{"content":"","sessionId":"s","platform":"p","attachmentDescriptions":["a",null,"b"]}'
    message = IncomingMessage.from_json(body)
    assert message.attachment_descriptions == ["a", None, "b"]
    assert message.to_json() == body


@pytest.mark.parametrize("session", ["", None])
def test_a_message_without_a_session_is_refused(session: str | None) -> None:
    with pytest.raises(InvalidBody, match="sessionId"):
        IncomingMessage.from_object({"content": "", "platform": "p", "sessionId": session})


@pytest.mark.parametrize(
    ("source", "lane"), [(None, "user"), ("", "user"), ("scheduler", "scheduler")]
)
def test_a_lane_is_named_by_the_source_or_is_the_users(source: str | None, lane: str) -> None:
    message = IncomingMessage(content="", session_id="s", platform="p", source=source)
    assert message.lane == lane


@pytest.mark.parametrize(
    ("metadata", "injector"),
    [
        (None, None),
        ({}, None),
        ({"injector": ""}, None),
        ({"injector": 5}, None),
        ({"injector": "persona"}, "persona"),
    ],
)
def test_an_injector_is_a_non_empty_text(metadata: JsonObject | None, injector: str | None) -> None:
    assert Message(role="system", metadata=metadata).injector == injector


def test_reading_leaves_the_given_object_alone() -> None:
    content: list[object] = [{"type": "image", "url": "b.png"}]
    raw: dict[str, object] = {"role": "user", "content": content, "images": ["a.png"]}
    Message.from_object(raw)
    assert raw == {
        "role": "user",
        "content": [{"type": "image", "url": "b.png"}],
        "images": ["a.png"],
    }


def test_any_role_is_legal() -> None:
    assert Message(role="notice", kind="poke").role == "notice"


@pytest.mark.parametrize(
    ("nickname", "user_id", "label"),
    [("Ann", "u1", "Ann(u1)"), ("Ann", None, "Ann"), ("", "u1", "u1"), (None, "", None)],
)
def test_a_sender_is_named_by_what_is_known(
    nickname: str | None, user_id: str | None, label: str | None
) -> None:
    assert sender_label(nickname, user_id) == label
