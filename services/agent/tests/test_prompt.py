"""The list that a turn begins with, and what plugins add to it."""

from dataclasses import replace
from datetime import UTC

import pytest

from aalis_agent.prompt import (
    Clock,
    Contribution,
    Turn,
    assemble,
    attachment_reference,
    base_list,
    injected_keys,
)
from aalis_contracts.catalogue import Catalogue
from aalis_contracts.messages import IncomingMessage, Message

TEXTS = Catalogue("zh")
NOON = 1_899_979_200_000  # 2030-03-17 12:00 UTC
RULES = TEXTS.text("inputConventions")
HISTORY = [Message(role="user", content="hi"), Message(role="assistant", content="hello")]


def incoming(**fields: object) -> IncomingMessage:
    return IncomingMessage.model_validate(
        {"content": "how are you", "session_id": "s", "platform": "qq", **fields}
    )


def turn(message: IncomingMessage | None = None, **fields: object) -> Turn:
    plain = Turn(incoming=message or incoming(), said_at=NOON, clock=Clock(NOON, UTC))
    return replace(plain, **fields)  # pyright: ignore[reportArgumentType] - fields of Turn


def labels(messages: list[Message]) -> list[str]:
    return [message.injector or message.role for message in messages]


@pytest.mark.parametrize(
    ("persona", "system_prompt", "text"),
    [
        ("I am A.", "Be kind.", f"I am A.\n\nBe kind.\n\n{RULES}"),
        ("", "Be kind.", f"Be kind.\n\n{RULES}"),
        ("I am A.", " \n", f"I am A.\n\n{RULES}"),
        ("", "", RULES),
    ],
)
def test_the_main_prompt_ends_with_how_to_read_input(
    persona: str, system_prompt: str, text: str
) -> None:
    first = base_list(turn(persona=persona, system_prompt=system_prompt), TEXTS)[0]
    assert first == Message(role="system", content=text, metadata={"injector": "persona"})


def test_a_plain_turn_is_prompt_history_and_message() -> None:
    messages = base_list(turn(history=HISTORY), TEXTS)
    assert labels(messages) == ["persona", "user", "assistant", "user"]
    assert messages[1:3] == HISTORY
    assert messages[3].content == "(3/17 12:00) how are you"


def test_everything_there_is_has_its_place() -> None:
    message = incoming(
        session_type="group", trigger_type="immediate", content="[图片1：a cat] look"
    )
    messages = base_list(turn(message, history=HISTORY, volatile="It is noon."), TEXTS)
    assert labels(messages) == [
        "persona",
        "user",
        "assistant",
        "system-other",
        "persona-volatile",
        "focus-guidance",
        "user",
    ]


@pytest.mark.parametrize(
    ("session_type", "trigger", "guided"),
    [
        ("group", "direct", True),
        ("group", "immediate", True),
        ("group", None, False),
        ("group", "interval", False),
        ("private", "direct", False),
        (None, "direct", False),
    ],
)
def test_the_focus_is_named_only_where_somebody_is_addressed_in_a_group(
    session_type: str | None, trigger: str | None, guided: bool
) -> None:
    message = incoming(session_type=session_type, trigger_type=trigger)
    assert ("focus-guidance" in labels(base_list(turn(message), TEXTS))) is guided


@pytest.mark.parametrize(
    ("text", "hinted"),
    [
        ("[图片: a cat | ref:x]", True),
        ("[图片12：a cat]", True),
        ("[文件: report]", True),
        ("[image: a cat]", True),
        ("[file2: report]", True),
        ("--- 文件内容 ---\nabc", True),
        ("[图片]", False),
        ("[音频: a song]", False),
        ("图片: a cat", False),
    ],
)
def test_prepared_attachments_ask_for_one_answer(text: str, hinted: bool) -> None:
    from_archive = base_list(turn(archived=text), TEXTS)
    assert ("system-other" in labels(from_archive)) is hinted
    assert ("system-other" in labels(base_list(turn(incoming(content=text)), TEXTS))) is hinted


def test_a_blank_volatile_block_is_none() -> None:
    assert labels(base_list(turn(volatile=" \n"), TEXTS)) == ["persona", "user"]


def test_the_current_message_is_the_archived_text_with_its_time_name_and_images() -> None:
    message = incoming(user_id="u1", nickname="Ann")
    current = base_list(turn(message, archived="[Ann(u1)]: hey", images=["data:x"]), TEXTS)[-1]
    assert current.content == "(3/17 12:00) [Ann(u1)]: hey"
    assert current.name == "u1"
    assert current.images == ["data:x"]


@pytest.mark.parametrize(
    ("platform", "user_id", "text"),
    [("qq", "u1", "[u1]: how are you"), ("cli", "u1", "how are you"), ("qq", None, "how are you")],
)
def test_what_was_not_archived_is_labelled_as_it_would_have_been(
    platform: str, user_id: str | None, text: str
) -> None:
    message = incoming(platform=platform, user_id=user_id)
    assert base_list(turn(message), TEXTS)[-1].content == f"(3/17 12:00) {text}"


def test_an_empty_archived_text_is_still_the_archived_one() -> None:
    assert base_list(turn(archived=""), TEXTS)[-1].content == "(3/17 12:00) "


def test_a_delegation_ends_the_list_and_names_its_source() -> None:
    message = incoming(
        content="water the plants", trigger_type="proactive", source="proactive:from:web:1"
    )
    messages = base_list(
        turn(message, history=HISTORY, volatile="noon", tool_names={"session_get_history"}), TEXTS
    )
    assert labels(messages) == ["persona", "user", "assistant", "cross-session-delegation"]
    text = messages[-1].content or ""
    assert text.startswith("[跨会话委派]")
    assert "water the plants" in text
    assert text.endswith(TEXTS.text("delegationHistory", source="web:1"))
    assert messages[-1].role == "system"
    assert messages[-1].metadata == {
        "injector": "cross-session-delegation",
        "sourceSessionId": "web:1",
    }


def test_a_delegation_does_not_name_a_tool_that_is_not_offered() -> None:
    message = incoming(trigger_type="proactive", source="proactive:from:web:1")
    text = base_list(turn(message), TEXTS)[-1].content or ""
    assert "session_get_history" not in text


def test_a_delegation_from_nowhere_says_so() -> None:
    tools = {"session_get_history"}
    last = base_list(turn(incoming(trigger_type="proactive"), tool_names=tools), TEXTS)[-1]
    assert "来源会话：?" in (last.content or "")
    assert "session_get_history" not in (last.content or "")
    assert last.metadata == {"injector": "cross-session-delegation"}


@pytest.mark.parametrize(
    ("description", "ref", "text"),
    [
        ("a cat", "x1", "[图片: a cat | ref:x1]"),
        (" ", "x1", "[图片 | ref:x1]"),
        ("a cat", None, "[图片: a cat]"),
        (None, None, "[图片]"),
        ("a|b]\nc", "x]|\n", "[图片: a｜b］ c | ref:x］｜]"),
    ],
)
def test_an_attachment_is_named_in_one_line_that_nothing_can_close_early(
    description: str | None, ref: str | None, text: str
) -> None:
    assert attachment_reference("image", description, ref, TEXTS) == text


def test_an_attachment_is_named_in_the_language_of_the_agent() -> None:
    assert attachment_reference("file", "a", None, Catalogue("en")) == "[file: a]"


def system(injector: str) -> Message:
    return Message(role="system", content=injector, metadata={"injector": injector})


USER = Message(role="user", content="now")


def places(messages: list[Message], *anchors: str) -> list[str]:
    added = [Contribution(f"p/{anchor}", anchor, "text") for anchor in anchors]
    return labels(assemble(messages, added).messages)


def test_each_anchor_has_its_place() -> None:
    messages = [system("persona"), system("other"), *HISTORY, system("persona-volatile"), USER]
    anchors = ("turn-hint", "turn-context", "context", "knowledge", "identity")
    assert places(messages, *anchors) == [
        "persona",
        "p/identity",
        "other",
        "p/knowledge",
        "p/context",
        "user",
        "assistant",
        "p/turn-context",
        "persona-volatile",
        "p/turn-hint",
        "user",
    ]


def test_without_a_system_message_the_front_is_the_place() -> None:
    assert places([USER], "identity") == ["p/identity", "user"]
    assert places([USER], "context", "knowledge") == ["p/knowledge", "p/context", "user"]
    assert places([], "context", "turn-context") == ["p/context", "p/turn-context"]


def test_turn_context_stands_before_the_delegation_first_of_all() -> None:
    block = system("cross-session-delegation")
    messages = [system("persona"), system("persona-volatile"), USER, block]
    assert places(messages, "turn-context") == [
        "persona",
        "persona-volatile",
        "user",
        "p/turn-context",
        "cross-session-delegation",
    ]


def test_turn_context_stands_before_the_user_or_at_the_end() -> None:
    assert places([*HISTORY, USER], "turn-context") == [
        "user",
        "assistant",
        "p/turn-context",
        "user",
    ]
    assert places(HISTORY[1:], "turn-context") == ["assistant", "p/turn-context"]


def test_a_turn_hint_without_a_user_message_is_dropped() -> None:
    assert places(HISTORY[1:], "turn-hint") == ["assistant"]


def test_blocks_keep_their_order_and_keys_theirs_whoever_answered_first() -> None:
    added = [
        Contribution("b/x", "context", ["3", "", "4"]),
        Contribution("a/x", "context", "2"),
        Contribution("B/x", "context", "1"),
        Contribution("c/x", "context", None),
        Contribution("d/x", "context", ""),
    ]
    expected = assemble([USER], added).messages
    assert [message.content for message in expected] == ["1", "2", "3", "4", "now"]
    assert assemble([USER], added[::-1]).messages == expected


def test_a_key_that_stands_in_the_list_is_not_added_again() -> None:
    added = [Contribution("a/x", "context", "new"), Contribution("b/x", "context", "new")]
    messages = [system("a/x"), USER]
    assert injected_keys(messages) == {"a/x"}
    assert labels(assemble(messages, added).messages) == ["a/x", "b/x", "user"]


def test_only_system_messages_hold_a_key() -> None:
    said = Message(role="user", content="x", metadata={"injector": "a/x"})
    assert injected_keys([said]) == frozenset()


def test_an_unknown_anchor_is_named_and_its_text_dropped() -> None:
    added = [Contribution("b/x", "somewhere", "text"), Contribution("a/x", "", "text")]
    assembled = assemble([USER], added)
    assert assembled.messages == [USER]
    assert assembled.unplaced == ["a/x", "b/x"]


def test_the_list_that_came_in_is_not_touched() -> None:
    messages = [system("persona"), USER]
    assemble(messages, [Contribution("a/x", "identity", "text")])
    assert labels(messages) == ["persona", "user"]
