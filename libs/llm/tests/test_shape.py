"""The ten rules of SPEC §2.9, by tables and on any list that hypothesis thinks of."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aalis_contracts.catalogue import Catalogue
from aalis_contracts.messages import FunctionCall, Message, ToolCall
from aalis_contracts.models import ProfileName
from aalis_contracts.text import well_formed
from aalis_llm.shape import shape, to_provider_messages
from aalis_llm.shape_reasoning import prefix_digest
from aalis_llm.testing import broken_rules
from aalis_sdk.testing.properties import examples

ALL: list[ProfileName] = ["openai", "deepseek", "anthropic", "strict"]
ZH = Catalogue("zh")
GO_ON, START, MARK = ZH.text("noUserMessage"), ZH.text("historyStart"), ZH.text("systemHint")
PNG = "data:image/png;base64,AAAA"


def system(text: str | None, injector: str | None = None) -> Message:
    metadata = {"injector": injector} if injector else None
    return Message.model_validate({"role": "system", "content": text, "metadata": metadata})


def user(text: str | None, *images: str) -> Message:
    return Message(role="user", content=text, images=list(images) or None)


def said(text: str | None, *calls: tuple[str, str, str]) -> Message:
    made = [ToolCall(id=i, function=FunctionCall(name=n, arguments=a)) for i, n, a in calls]
    return Message(role="assistant", content=text, tool_calls=made or None)


def calls(*ids: str) -> Message:
    return said("", *((call_id, "f", "{}") for call_id in ids))


def result(call_id: str, text: str | None = "r", *images: str) -> Message:
    return Message(role="tool", content=text, tool_call_id=call_id, images=list(images) or None)


def told(messages: Sequence[Message]) -> list[tuple[str, str | None]]:
    return [(message.role, message.content) for message in messages]


IDS = st.sampled_from(["", " ", "a", "b", "call_0", "a:b", "a-2"])
TEXTS = st.one_of(
    st.none(), st.sampled_from(["", " ", "hi", "[x] y", "\ud83d", MARK + "\nx", "好"])
)
NAMES = st.sampled_from(["f", "", "  ", "a.b", "x" * 70, "字"])
ARGUMENTS = st.sampled_from(
    [
        "",
        "{}",
        '{"a":1}',
        "[]",
        "3",
        "null",
        '"x"',
        '{"a":',
        '{"a":NaN}',
        r'{"a":"\udc00"}',
        "\ud83d",
    ]
)
CALLS = st.builds(
    ToolCall, id=IDS, function=st.builds(FunctionCall, name=NAMES, arguments=ARGUMENTS)
)
IMAGES = st.one_of(
    st.none(), st.lists(st.sampled_from([PNG, "data/images/x.png", "https://x/\ud83d"]), max_size=2)
)
MESSAGES = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "assistant", "tool", "tool", "notice"]),
    content=TEXTS,
    tool_calls=st.one_of(st.none(), st.lists(CALLS, max_size=3)),
    tool_call_id=st.one_of(st.none(), IDS),
    kind=st.sampled_from([None, None, None, "event-marker", "cross-session-delegation", "poke"]),
    reasoning_content=st.sampled_from([None, "", "why"]),
    images=IMAGES,
    metadata=st.sampled_from([None, {"injector": "x/persona-volatile"}]),
    provider_data=st.sampled_from([None, {"provider": "p", "model": "m", "blocks": []}]),
)
LISTS = st.lists(MESSAGES, max_size=9)


@examples(300)
@given(LISTS, st.sampled_from(ALL), st.booleans())
def test_any_list_fits_afterwards_and_fitting_it_again_changes_nothing(
    messages: list[Message],
    name: ProfileName,
    vision: bool,
) -> None:
    before = [message.model_copy(deep=True) for message in messages]
    once = to_provider_messages(messages, name, vision=vision, provider_id="p", model="m")

    assert broken_rules(once, name, vision=vision) == []
    assert messages == before
    again = shape(once, name, vision=vision, provider_id="p", model="m")
    assert again.messages == once
    assert again.repairs == {}


@examples(100)
@given(LISTS)
def test_what_a_model_signed_on_the_wire_goes_back_as_it_was(messages: list[Message]) -> None:
    sent = to_provider_messages(messages, "anthropic", provider_id="p", model="m")
    block = {"type": "thinking", "thinking": "so", "signature": "SIG"}
    for at, message in enumerate(sent):
        if message.role == "assistant":
            data = {"provider": "p", "model": "m", "blocks": [block]}
            data["prefix"] = prefix_digest(sent[:at])
            sent[at] = message.model_copy(update={"reasoning_content": "so", "provider_data": data})

    assert broken_rules(sent, "anthropic") == []
    again = to_provider_messages(sent, "anthropic", provider_id="p", model="m")
    assert again == sent
    stranger = to_provider_messages(sent, "anthropic", provider_id="p", model="other")
    assert all(one.provider_data is None for one in stranger)


@given(LISTS, st.sampled_from(ALL))
def test_the_last_real_user_text_survives(messages: list[Message], name: ProfileName) -> None:
    texts = [m.content for m in messages if m.role == "user" and m.kind != "event-marker"]
    spoken = [text for text in texts if text and text.strip()]
    shown = to_provider_messages(messages, name)

    if spoken:
        assert any(well_formed(spoken[-1]) in (message.content or "") for message in shown)


FITTING = [
    system("persona"),
    user("(1/2 10:00) a"),
    calls("c1", "c2"),
    result("c1"),
    result("c2", '{"error":"no"}'),
    said("done"),
    user("(1/2 10:01) b"),
]


@pytest.mark.parametrize("name", ALL)
def test_a_list_that_fits_comes_back_equal(name: ProfileName) -> None:
    shaped = shape(FITTING, name)

    assert [m.model_copy(update={"reasoning_content": None}) for m in shaped.messages] == [
        m.model_copy(update={"content": None}) if name == "anthropic" and m.tool_calls else m
        for m in FITTING
    ]
    assert shaped.repairs == {}


PAIRING: list[tuple[str, list[Message], list[tuple[str, str]], dict[str, int]]] = [
    (
        "a text between call and result follows the run",
        [calls("a", "b"), result("b", "rb"), user("x"), result("a", "ra")],
        [("assistant", ""), ("tool", "ra"), ("tool", "rb"), ("user", "x")],
        {"resultMoved": 1},
    ),
    (
        "a hint between call and result follows the run",
        [calls("a"), system("[hint]"), result("a")],
        [("assistant", ""), ("tool", "r"), ("system", "[hint]")],
        {"resultMoved": 1},
    ),
    (
        "of several results the last counts",
        [calls("a"), result("a", "first"), result("a", "last")],
        [("assistant", ""), ("tool", "last")],
        {"resultDropped": 1},
    ),
    (
        "a foreign result is dropped",
        [calls("a"), result("z"), result("a")],
        [("assistant", ""), ("tool", "r")],
        {"resultDropped": 1},
    ),
    (
        "a late result is dropped and its call answered by an error",
        [calls("a"), said("t"), result("a")],
        [
            ("assistant", ""),
            ("tool", '{"error":"' + ZH.text("resultMissing") + '"}'),
            ("assistant", "t"),
        ],
        {"resultDropped": 1, "resultMissing": 1},
    ),
    (
        "a result without any call is dropped",
        [result("a"), said("t")],
        [("assistant", "t")],
        {"resultDropped": 1},
    ),
    (
        "an event marker never reaches a model",
        [Message(role="system", content="x", kind="event-marker")],
        [],
        {"controlDropped": 1},
    ),
]


@pytest.mark.parametrize(
    ("messages", "expected", "repairs"),
    [case[1:] for case in PAIRING],
    ids=[case[0] for case in PAIRING],
)
def test_calls_and_results_are_paired_by_position(
    messages: list[Message], expected: list[tuple[str, str]], repairs: dict[str, int]
) -> None:
    shaped = shape([user("q"), *messages], "openai")

    assert told(shaped.messages) == [("user", "q"), *expected]
    assert shaped.repairs == repairs


def ids_of(messages: Sequence[Message]) -> tuple[list[str], list[str | None]]:
    made = [call.id for message in messages for call in message.tool_calls or []]
    return made, [message.tool_call_id for message in messages if message.role == "tool"]


@pytest.mark.parametrize(
    ("given_ids", "openai", "strict"),
    [
        ([["call_0"], ["call_0"]], ["call_0", "call_0-2"], ["call_0", "call_0-2"]),
        ([["a", "a"]], ["a", "a-2"], ["a", "a-2"]),
        ([["a"], ["a-2"], ["a"], ["a"]], ["a", "a-2", "a-3", "a-4"], ["a", "a-2", "a-3", "a-4"]),
        ([[""], ["x"], [" "]], ["call-1", "x", "call-3"], ["call-1", "x", "call-3"]),
        ([["shell:0"], ["shell:0"]], ["shell:0", "shell:0-2"], ["shell_0", "shell_0-2"]),
        ([["a:b"], ["a_b"]], ["a:b", "a_b"], ["a_b", "a_b-2"]),
    ],
)
def test_ids_become_unique_and_legal_and_results_follow(
    given_ids: list[list[str]], openai: list[str], strict: list[str]
) -> None:
    messages = [user("q")]
    for group in given_ids:
        messages += [calls(*group), *(result(call_id) for call_id in group), user("next")]

    assert ids_of(to_provider_messages(messages, "openai")) == (openai, openai)
    assert ids_of(to_provider_messages(messages, "strict")) == (strict, strict)


def test_two_calls_with_one_id_keep_their_own_results() -> None:
    messages = [user("q"), calls("a", "a"), result("a", "ra"), result("a", "rb")]

    assert told(to_provider_messages(messages, "openai"))[2:] == [("tool", "ra"), ("tool", "rb")]


def nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ("", {}),
        ("  ", {}),
        ('{"a": 1}', {"a": 1}),
        ("[]", {"_invalid": "[]"}),
        ("3", {"_invalid": "3"}),
        ("null", {"_invalid": "null"}),
        ('"x"', {"_invalid": '"x"'}),
        ('{"cmd":"git commit -m \\"feat', {"_invalid": '{"cmd":"git commit -m \\"feat'}),
        ('{"a":' * 100_000, {"_invalid": ('{"a":' * 40)}),
        (nested(240), json.loads(nested(240))),
        (nested(241), {"_invalid": nested(241)[:200]}),
        (nested(900), {"_invalid": nested(900)[:200]}),
        (json.dumps({"a": "[" * 300}), {"a": "[" * 300}),
        ('{"a":' * 300 + "1" + "}" * 300, {"_invalid": ('{"a":' * 40)}),
        ('{"a":NaN}', {"_invalid": '{"a":NaN}'}),
        ('{"a": 1e999}', {"a": float("inf")}),
        (r'{"a": "x\ud83d y", "b\udE00": 1}', {"a": "x\ufffd y", "b\ufffd": 1}),
        (r'{"a": "\ud83d\ude00"}', {"a": "😀"}),
    ],
)
def test_arguments_become_the_text_of_an_object(arguments: str, sent: dict[str, object]) -> None:
    shown = to_provider_messages(
        [user("q"), said("", ("a", "f", arguments)), result("a")], "openai"
    )

    assert shown[1].tool_calls is not None
    assert json.loads(shown[1].tool_calls[0].function.arguments) == sent


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("f", "f"),
        ("", "unknown_tool"),
        ("  ", "unknown_tool"),
        ("a.b c", "a_b_c"),
        ("x" * 70, "x" * 64),
    ],
)
def test_names_become_legal(name: str, sent: str) -> None:
    shown = to_provider_messages([user("q"), said("", ("a", name, "{}")), result("a")], "strict")

    assert shown[1].tool_calls is not None
    assert shown[1].tool_calls[0].function.name == sent


LATE = [
    system("persona"),
    system("knowledge"),
    user("one"),
    system("hint"),
    system("[关于] known"),
    system(" "),
    user("two"),
]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "openai",
            [
                ("system", "persona"),
                ("system", "knowledge"),
                ("user", "one"),
                ("system", "hint"),
                ("system", "[关于] known"),
                ("user", "two"),
            ],
        ),
        (
            "deepseek",
            [
                ("system", "persona"),
                ("system", "knowledge"),
                ("user", "one"),
                ("user", f"{MARK}\nhint"),
                ("user", "[关于] known"),
                ("user", "two"),
            ],
        ),
        (
            "anthropic",
            [
                ("system", "persona"),
                ("system", "knowledge"),
                ("user", f"one\n\n{MARK}\nhint\n\n[关于] known\n\ntwo"),
            ],
        ),
        (
            "strict",
            [
                ("system", "persona\n\nknowledge"),
                ("user", f"one\n\n{MARK}\nhint\n\n[关于] known\n\ntwo"),
            ],
        ),
    ],
)
def test_system_texts_stand_where_the_provider_wants_them(
    name: ProfileName, expected: list[tuple[str, str]]
) -> None:
    assert told(to_provider_messages(LATE, name)) == expected


@pytest.mark.parametrize("name", ALL)
def test_a_hint_after_an_assistant_message_is_still_seen(name: ProfileName) -> None:
    messages = [system("persona"), user("price?"), said("100"), system("check: not grounded")]
    last = to_provider_messages(messages, name)[-1]

    assert last.role == ("system" if name == "openai" else "user")
    assert "check: not grounded" in (last.content or "")


def test_a_delegation_stays_system_for_deepseek() -> None:
    messages = [user("a"), said("b"), system("[x] do", "cross-session-delegation")]

    assert to_provider_messages(messages, "deepseek")[-1].role == "system"
    assert to_provider_messages(messages, "strict")[-1].role == "user"


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([], [("user", GO_ON)]),
        ([system("p")], [("system", "p"), ("user", GO_ON)]),
        (
            [system("p"), said("a")],
            [("system", "p"), ("user", GO_ON), ("assistant", "a"), ("user", GO_ON)],
        ),
        (
            [said("a"), user("b")],
            [("user", START), ("assistant", "a"), ("user", "b")],
        ),
        ([user("a"), said("b")], [("user", "a"), ("assistant", "b"), ("user", GO_ON)]),
        ([user("hi"), said(""), user("there?")], [("user", "hi\n\nthere?")]),
        (
            [user("a"), said("x"), said("y"), user("b")],
            [("user", "a"), ("assistant", "x\n\ny"), ("user", "b")],
        ),
    ],
)
def test_roles_alternate_and_a_user_speaks_first_and_last(
    messages: list[Message], expected: list[tuple[str, str]]
) -> None:
    assert told(to_provider_messages(messages, "strict")) == expected
    assert told(to_provider_messages(messages, "anthropic")) == expected


def test_without_alternation_only_a_user_is_demanded() -> None:
    assert told(to_provider_messages([said("a")], "openai")) == [
        ("user", GO_ON),
        ("assistant", "a"),
    ]
    assert told(to_provider_messages([user("a"), said("b")], "openai"))[-1] == ("assistant", "b")


def test_a_text_and_a_calling_message_of_one_speaker_become_one() -> None:
    messages = [
        user("go"),
        said("I will look."),
        calls("l1"),
        result("l1"),
        user("stop"),
        user("b"),
    ]
    shown = to_provider_messages(messages, "anthropic")

    assert told(shown) == [
        ("user", "go"),
        ("assistant", "I will look."),
        ("tool", "r"),
        ("user", "stop\n\nb"),
    ]
    assert shown[1].tool_calls is not None


def test_a_merged_user_message_is_the_persons_not_the_injectors() -> None:
    person = user("q").model_copy(update={"name": "u1"})
    shown = to_provider_messages(
        [system("p"), user("x"), said("y"), system("now", "v"), person], "strict"
    )

    assert shown[-1].injector is None
    assert shown[-1].name == "u1"


@pytest.mark.parametrize("name", ALL)
def test_nothing_empty_is_sent(name: ProfileName) -> None:
    messages = [user("next"), calls("f9"), result("f9", None), said(None), user(" "), user("")]
    shown = to_provider_messages(messages, name)

    assert (shown[2].role, shown[2].content) == ("tool", ZH.text("noOutput"))
    assert told(shown[3:]) == [("user", GO_ON)]


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (Message(role="notice", content="poked"), ("system", "[系统通知] poked")),
        (Message(role="notice", content="[System notice] x"), ("system", "[System notice] x")),
        (
            Message(role="notice", content="do", kind="cross-session-delegation"),
            ("system", "[跨会话委派] do"),
        ),
        (Message(role="critic", content="hm"), ("system", "hm")),
        (
            Message(role="user", content="do", kind="cross-session-delegation"),
            ("user", "[跨会话委派] do"),
        ),
    ],
)
def test_foreign_roles_become_system_texts_that_say_who_speaks(
    message: Message, shown: tuple[str, str]
) -> None:
    assert told(to_provider_messages([user("a"), message], "openai"))[-1] == shown


@pytest.mark.parametrize("name", ["openai", "deepseek"])
def test_images_of_results_ride_behind_the_run_where_results_carry_none(name: ProfileName) -> None:
    messages = [
        user("see", PNG, "data/images/gone.png"),
        said("", ("a", "shot", "{}"), ("b", "shot", "{}")),
        result("a", "one", PNG),
        result("b", "", "data/x.png"),
        user("next"),
    ]
    shown = to_provider_messages(messages, name, vision=True)

    assert [(m.role, m.content, m.images) for m in shown if m.role != "assistant"] == [
        ("user", f"see\n{ZH.text('imageOmitted')}", [PNG]),
        ("tool", "one", None),
        ("tool", ZH.text("imageOmitted"), None),
        ("user", f"{MARK}\nshot: 图片", [PNG]),
        ("user", "next", None),
    ]


def test_images_of_results_stay_where_results_carry_them() -> None:
    messages = [user(None, PNG), calls("a"), result("a", None, PNG)]
    shown = to_provider_messages(messages, "anthropic", vision=True)

    assert shown[0].images == [PNG]
    assert (shown[2].content, shown[2].images) == (ZH.text("noOutput"), [PNG])


@pytest.mark.parametrize(
    ("name", "vision"),
    [("openai", False), ("deepseek", False), ("anthropic", False), ("strict", True)],
)
def test_without_vision_a_note_stands_for_images(name: ProfileName, *, vision: bool) -> None:
    messages = [user(None, PNG), calls("a"), result("a", "r", PNG), user("b")]
    shown = to_provider_messages(messages, name, vision=vision)

    assert not any(message.images for message in shown)
    assert shown[0].content == ZH.text("imageOmitted")
    assert shown[2].content == f"r\n{ZH.text('imageOmitted')}"


BLOCK = {"type": "thinking", "thinking": "because", "signature": "SIG=="}
BEFORE = [system("s"), user("q")]


def signed(**changes: object) -> Message:
    data = {
        "provider": "anthropic",
        "model": "m",
        "blocks": [BLOCK],
        "prefix": prefix_digest(BEFORE),
        **{key: value for key, value in changes.items() if key != "reasoning"},
    }
    return Message.model_validate(
        {
            "role": "assistant",
            "toolCalls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}],
            "reasoningContent": changes.get("reasoning", "because"),
            "providerData": data,
        }
    )


def shown_to_anthropic(*messages: Message, model: str = "m") -> Message:
    listed = to_provider_messages(messages, "anthropic", provider_id="anthropic", model=model)
    return next(message for message in listed if message.role == "assistant")


def test_signed_reasoning_goes_back_unchanged_to_who_signed_it() -> None:
    message = signed()

    assert shown_to_anthropic(*BEFORE, message, result("a")) == message


@pytest.mark.parametrize(
    ("before", "message", "model"),
    [
        (BEFORE, signed(provider="other"), "m"),
        (BEFORE, signed(), "newer"),
        (BEFORE, signed(reasoning="beca\n[…推理已缩减]"), "m"),
        (BEFORE, signed(reasoning=None), "m"),
        ([system("s"), user("q, shortened")], signed(), "m"),
        ([system("summary"), user("q")], signed(), "m"),
        (BEFORE, signed(prefix=None), "m"),
        (BEFORE, signed(blocks=[]), "m"),
        (BEFORE, signed(blocks="x"), "m"),
    ],
)
def test_signed_reasoning_is_dropped_whole_when_anything_changed(
    before: list[Message], message: Message, model: str
) -> None:
    shown = shown_to_anthropic(*before, message, result("a"), model=model)

    assert shown.reasoning_content is None
    assert shown.provider_data is None


def test_dropping_one_block_drops_the_later_ones_that_were_bound_to_it() -> None:
    first, later = signed(), signed(prefix=prefix_digest([*BEFORE, signed(), result("a")]))
    kept = to_provider_messages(
        [*BEFORE, first, result("a"), later, result("a")],
        "anthropic",
        provider_id="anthropic",
        model="m",
    )
    changed = to_provider_messages(
        [*BEFORE, signed(reasoning="cut"), result("a"), later, result("a")],
        "anthropic",
        provider_id="anthropic",
        model="m",
    )

    assert [m.provider_data is not None for m in kept if m.role == "assistant"] == [True, True]
    assert all(message.provider_data is None for message in changed)


def test_unsigned_reasoning_never_goes_to_a_signing_provider() -> None:
    plain = Message(role="assistant", content="b", reasoning_content="t")

    assert shown_to_anthropic(user("a"), plain, user("c")).reasoning_content is None


def test_deepseek_gets_reasoning_on_every_message_with_calls() -> None:
    messages = [
        user("q"),
        calls("a").model_copy(update={"reasoning_content": "why"}),
        result("a"),
        calls("b"),
        result("b"),
        Message(role="assistant", content="x", reasoning_content="kept"),
        Message(role="assistant", content="y"),
        user("n").model_copy(update={"reasoning_content": "odd"}),
    ]
    shown = to_provider_messages(messages, "deepseek")

    assert [m.reasoning_content for m in shown] == [
        None,
        "why",
        None,
        "",
        None,
        "kept",
        None,
        None,
    ]


def test_broken_characters_are_mended_wherever_they_stand() -> None:
    broken = Message(role="user", content="a\ud83d", name="n\ud83d")
    thought = Message(role="assistant", content="b", reasoning_content="t\ud83d")
    shown = to_provider_messages([broken, thought], "deepseek")

    assert (shown[0].content, shown[0].name) == ("a\ufffd", "n\ufffd")
    assert shown[1].reasoning_content == "t\ufffd"


def test_images_at_the_end_of_a_list_ride_behind_it_too() -> None:
    shown = to_provider_messages(
        [user("q"), calls("a"), result("a", "r", PNG)], "openai", vision=True
    )

    assert shown[-1].images == [PNG]


@pytest.mark.parametrize("name", ["openai", "strict"])
def test_other_profiles_get_no_reasoning_and_no_foreign_data(name: ProfileName) -> None:
    messages = [user("q"), signed(), result("a")]
    shown = to_provider_messages(messages, name, provider_id="openai", model="gpt")
    own = to_provider_messages(messages, name, provider_id="anthropic", model="m")

    assert shown[1].reasoning_content is shown[1].provider_data is None
    assert own[1].provider_data is not None


def test_the_notes_speak_the_language_of_the_catalogue() -> None:
    shown = to_provider_messages([system("p")], "strict", catalogue=Catalogue("en"))

    assert shown[-1].content == "[System hint] Please go on."


def test_a_long_list_takes_linear_work() -> None:
    group = [calls("a", "a"), result("a"), result("a"), system("h")]
    messages = [user("q"), *(group * 2_000)]

    for name in ALL:
        assert len(ids_of(to_provider_messages(messages, name))[0]) == 4_000
