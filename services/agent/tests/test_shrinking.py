"""Stage 6: what is protected is shortened, each step only while needed."""

import json

import pytest

from aalis_agent.budgets import Budgets
from aalis_agent.shrinking import keep_ends, shorten_descriptions
from aalis_agent.tokens import HeuristicCounter
from aalis_agent.trimming import Trimmed, trim
from aalis_contracts.catalogue import Catalogue
from aalis_contracts.messages import FunctionCall, Message, ToolCall

TEXTS = Catalogue("zh")
COUNTER = HeuristicCounter()
PROMPT = Message(role="system", content="prompt", metadata={"injector": "persona"})


def user(text: str | None) -> Message:
    return Message(role="user", content=text)


def caller(*arguments: str) -> Message:
    calls = [
        ToolCall(id=f"c{index}", function=FunctionCall(name="f", arguments=text))
        for index, text in enumerate(arguments)
    ]
    return Message(role="assistant", tool_calls=calls)


def result(text: str | None, call_id: str = "c0") -> Message:
    return Message(role="tool", content=text, tool_call_id=call_id)


def whole(*messages: Message) -> int:
    return sum(COUNTER.messages(messages))


def fitted(*messages: Message, limit: int, budget: int | None = None, tools: int = 0) -> Trimmed:
    budgets = Budgets(
        window=limit,
        max_tokens=1,
        token_budget=budget or limit,
        hard_limit=limit,
        memory_budget=4096,
    )
    return trim(messages, budgets, tools, COUNTER, TEXTS)


def texts(trimmed: Trimmed) -> list[str]:
    return [message.content or "" for message in trimmed.messages]


def arguments(trimmed: Trimmed, index: int) -> list[str]:
    return [call.function.arguments for call in trimmed.messages[index].tool_calls or ()]


def test_within_the_hard_limit_nothing_is_forced() -> None:
    messages = (PROMPT, user("x" * 3500))
    kept = fitted(*messages, limit=whole(*messages), budget=10)
    assert kept.messages == list(messages)
    assert not kept.shortened
    assert kept.overflow is None


def test_the_hint_goes_first_if_that_is_enough() -> None:
    filler = [user("x" * 400)] * 7
    messages = (PROMPT, *filler, user("now"))
    bare = whole(PROMPT, user("now"))
    with_room = fitted(*messages, limit=1000, budget=5)
    assert with_room.hinted
    without = fitted(*messages, limit=bare, budget=5)
    assert without.messages == [PROMPT, user("now")]
    assert not without.hinted
    assert without.removed == 7


def test_the_hint_stays_if_dropping_it_would_not_be_enough() -> None:
    messages = (PROMPT, *[user("x" * 400)] * 7, user("now " * 400))
    kept = fitted(*messages, limit=250, budget=5)
    assert kept.hinted
    assert kept.shortened
    assert kept.used <= 250


def test_the_largest_result_shrinks_first_and_keeps_both_ends() -> None:
    long = "a" * 5000 + "z" * 3000
    messages = (PROMPT, user("q"), caller("{}", "{}"), result("b" * 1000), result(long, "c1"))
    kept = fitted(*messages, limit=whole(*messages) - 1000)
    marker = TEXTS.text("middleCut", omitted=4000)
    assert texts(kept)[3] == "b" * 1000
    assert texts(kept)[4] == "a" * 2400 + marker + "z" * 1600
    assert kept.used <= whole(*messages) - 1000


def test_an_error_result_keeps_more_of_its_end() -> None:
    long = '{"error":"' + "a" * 990 + "z" * 1000
    messages = (PROMPT, user("q"), caller("{}"), result(long))
    kept = fitted(*messages, limit=whole(*messages) - 100)
    assert texts(kept)[3] == long[:200] + TEXTS.text("middleCut", omitted=1000) + "z" * 800


def test_results_stop_at_four_hundred_characters_with_one_marker() -> None:
    messages = (PROMPT, user("q"), caller("{}", "{}"), result("a" * 9000), result("b" * 700, "c1"))
    kept = fitted(*messages, limit=310)
    assert texts(kept)[3] == "a" * 240 + TEXTS.text("middleCut", omitted=8600) + "a" * 160
    assert texts(kept)[4] == "b" * 240 + TEXTS.text("middleCut", omitted=300) + "b" * 160


def test_a_result_that_stage_two_has_cut_is_cut_again_from_its_full_text() -> None:
    messages = (PROMPT, user("q"), caller("{}", "{}"), result("a" * 8999 + "z"), result("b", "c1"))
    kept = fitted(*messages, limit=170)
    assert texts(kept)[3].count("…") == 2
    assert texts(kept)[3].endswith("a" * 100 + "z")


def test_a_result_that_would_not_get_cheaper_stays() -> None:
    almost = "a" * 405
    messages = (PROMPT, user("q " * 500), caller("{}"), result(almost))
    kept = fitted(*messages, limit=whole(*messages) - 50)
    assert texts(kept)[3] == almost
    assert kept.shortened


def test_a_missing_result_text_is_no_obstacle() -> None:
    kept = fitted(PROMPT, user("q " * 900), caller("{}"), result(None), limit=200)
    assert kept.messages[3] == result(None)
    assert kept.used <= 200


def test_long_arguments_are_cut_inside_their_object_oldest_first() -> None:
    old, new = ({"text": mark * 2000, "n": 1, "deep": [{"x": mark * 300}, None]} for mark in "ab")
    # A group at the very front is never collapsed, so there are two groups to shrink.
    first = caller(json.dumps(old))
    messages = (first, result("r"), user("q"), caller(json.dumps(new), "{}"), result("r"))
    kept = fitted(*messages, limit=whole(*messages) - 500)
    assert json.loads(arguments(kept, 0)[0]) == {
        "text": "a" * 200 + "…",
        "n": 1,
        "deep": [{"x": "a" * 200 + "…"}, None],
    }
    assert json.loads(arguments(kept, 3)[0]) == new
    both = fitted(*messages, limit=whole(*messages) - 800)
    assert json.loads(arguments(both, 3)[0])["text"] == "b" * 200 + "…"
    assert arguments(both, 3)[1] == "{}"


@pytest.mark.parametrize(
    "broken",
    [
        '{"text": "' + "x" * 2000,
        json.dumps(["x" * 2000]),
        json.dumps("x" * 2000),
        '{"text": NaN, "more": "' + "x" * 2000 + '"}',
        '{"a":' * 5000 + "1" + "}" * 5000,
        "9" * 6000,
    ],
)
def test_arguments_that_are_no_object_become_one(broken: str) -> None:
    messages = (PROMPT, user("q"), caller(broken), result("r"))
    kept = fitted(*messages, limit=whole(*messages) - 100)
    assert json.loads(arguments(kept, 2)[0]) == {"_invalid": broken[:200]}


def test_arguments_without_long_strings_stay_and_the_message_gives_way() -> None:
    numbers = json.dumps({"n": list(range(400))}, separators=(",", ":"))
    messages = (PROMPT, user("q " * 900), caller(numbers), result("r"))
    kept = fitted(*messages, limit=whole(*messages) - 200)
    assert arguments(kept, 2) == [numbers]
    assert kept.shortened


def test_descriptions_shrink_before_the_words_of_the_person() -> None:
    described = f"look [图片: {'d' * 900} | ref:x1] and {'w' * 900}"
    kept = fitted(PROMPT, user(described), limit=whole(PROMPT, user(described)) - 50)
    assert texts(kept)[1] == f"look [图片: {'d' * 200}… | ref:x1] and {'w' * 900}"
    assert kept.shortened


@pytest.mark.parametrize(
    ("text", "shorter"),
    [
        (f"[图片: {'d' * 201}]", f"[图片: {'d' * 200}…]"),
        (f"[图片: {'d' * 200}]", None),
        (f"[image2：{'d' * 201}]", f"[image2：{'d' * 200}…]"),
        (f"[文件: {'d' * 201} | ref:{'r' * 300}]", f"[文件: {'d' * 200}… | ref:{'r' * 300}]"),
        (f"[音频: a][视频: {'d' * 300}]!", f"[音频: a][视频: {'d' * 200}…]!"),
        (f"[图片: {'d' * 300}\n]", None),
        (f"[图片: {'d' * 300}", None),
        (f"[照片: {'d' * 300}]", None),
        ("", None),
    ],
)
def test_only_closed_references_are_shortened(text: str, shorter: str | None) -> None:
    assert shorten_descriptions(text, TEXTS) == (text if shorter is None else shorter)


def test_the_middle_is_cut_as_little_as_needed() -> None:
    text = "".join(f"line {number} 的内容\n" for number in range(3000))
    for limit in (500, 5_000, whole(PROMPT, user(text)) - 1):
        kept = fitted(PROMPT, user(text), limit=limit)
        assert kept.shortened
        assert limit - 16 <= kept.used <= limit
        head, _, tail = texts(kept)[1].partition("\n[…")
        assert text.startswith(head)
        assert text.endswith(tail.partition("…]\n")[2])


@pytest.mark.parametrize("limit", range(14, 60))
def test_a_text_of_uneven_density_still_fits(limit: int) -> None:
    text = "字" * 40 + "x" * 4000 + "字" * 40
    kept = fitted(user(text), limit=limit)
    assert (kept.used <= limit) is (kept.overflow is None)
    assert kept.shortened is (kept.overflow is None)


def test_when_nothing_helps_the_sizes_say_why() -> None:
    messages = (PROMPT.model_copy(update={"content": "p" * 3500}), user("q" * 35), caller("{}"))
    kept = fitted(*messages, result("r" * 35), limit=500, tools=100)
    group = whole(caller("{}"), result("r" * 35))
    assert kept.overflow is not None
    assert kept.overflow.used == whole(*messages, result("r" * 35)) + 100
    assert kept.overflow.limit == 500
    assert (kept.overflow.system, kept.overflow.tools) == (1004, 100)
    assert (kept.overflow.latest, kept.overflow.group) == (14, group)


def test_without_a_user_message_the_last_one_is_the_latest() -> None:
    block = Message(role="system", content="task " * 700)
    overflow = fitted(PROMPT, block, limit=100).overflow
    assert overflow is not None
    assert (overflow.latest, overflow.group) == (whole(block), 0)
    first_is_user = fitted(user(None), Message(role="assistant", content="x" * 400), limit=50)
    assert first_is_user.overflow is not None
    assert first_is_user.overflow.system == 0


@pytest.mark.parametrize(
    ("kept", "share", "text"),
    [
        (10, 0.5, "0123456789"),
        (4, 0.5, "01{6}89"),
        (5, 0.6, "012{5}89"),
        (5, 0.2, "0{5}6789"),
        (1, 0.5, "{9}9"),
        (0, 0.5, "{10}"),
    ],
)
def test_both_ends_are_kept_around_a_marker_with_what_is_missing(
    kept: int, share: float, text: str
) -> None:
    expected = text
    for missing in (5, 6, 9, 10):
        expected = expected.replace(f"{{{missing}}}", TEXTS.text("middleCut", omitted=missing))
    assert keep_ends("0123456789", kept, share, TEXTS) == expected
