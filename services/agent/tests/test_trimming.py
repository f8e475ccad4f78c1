"""Stages 1 to 5 and the hint, one by one; the vectors cover them together."""

import pytest

from aalis_agent.budgets import Budgets
from aalis_agent.draft import Draft, groups_of
from aalis_agent.tokens import HeuristicCounter, TiktokenCounter
from aalis_agent.trimming import (
    Trimmed,
    collapse_groups,
    cut_tool_outputs,
    delete_injected,
    delete_oldest,
    insert_hint,
    shorten_injected,
    shorten_reasoning,
    trim,
    trim_to_budget,
)
from aalis_contracts.catalogue import Catalogue
from aalis_contracts.messages import FunctionCall, Message, ToolCall

TEXTS = Catalogue("zh")


def system(size: int = 7) -> Message:
    return Message(role="system", content="s" * size, metadata={"injector": "a/b"})


def user(text: str = "question") -> Message:
    return Message(role="user", content=text)


def said(text: str | None = "answer", reasoning: str | None = None) -> Message:
    return Message(role="assistant", content=text, reasoning_content=reasoning)


def caller(*names: str, text: str | None = None, arguments: str = "{}") -> Message:
    calls = [
        ToolCall(id=f"c{index}", function=FunctionCall(name=name, arguments=arguments))
        for index, name in enumerate(names)
    ]
    return Message(role="assistant", content=text, tool_calls=calls)


def result(text: str | None = "r", call_id: str = "c0") -> Message:
    return Message(role="tool", content=text, tool_call_id=call_id)


def draft(*messages: Message) -> Draft:
    return Draft(messages, HeuristicCounter())


def roles(messages: list[Message]) -> str:
    return "".join(message.role[0] for message in messages)


def trimmed(*messages: Message, budget: int, memory: int = 4096) -> Trimmed:
    return trim_to_budget(messages, budget, memory, HeuristicCounter(), TEXTS)


def whole(*messages: Message) -> int:
    return sum(HeuristicCounter().messages(messages))


def test_what_fits_comes_back_as_it_was() -> None:
    messages = [system(), system(900), user(), caller("f"), result("x" * 9000), said()]
    kept = trimmed(*messages, budget=whole(*messages), memory=1)
    assert kept.messages == messages
    assert (kept.before, kept.before_tokens, kept.tokens) == (6, kept.tokens, whole(*messages))
    assert kept.removed == 0
    assert kept.log_line is None


def test_injected_messages_shrink_in_proportion_to_their_share() -> None:
    one = draft(system(3500), system(700), system(1400), user(), system(900))
    shorten_injected(one, memory_budget=304, texts=TEXTS)
    one.settle()
    marker = TEXTS.text("memoryShortened")
    assert [message.content for message in one.messages[1:3]] == [
        "s" * 350 + marker,
        "s" * 700 + marker,
    ]
    assert (one.messages[0], one.messages[4]) == (system(3500), system(900))


def test_injected_messages_keep_two_hundred_characters() -> None:
    one = draft(system(), system(201), system(200), user())
    shorten_injected(one, memory_budget=1, texts=TEXTS)
    one.settle()
    assert [len(message.content or "") for message in one.messages[1:3]] == [200 + 9, 200]


def test_injected_messages_within_their_share_stay() -> None:
    one = draft(system(), system(700), user())
    shorten_injected(one, memory_budget=204, texts=TEXTS)
    one.settle()
    assert one.messages == one.originals


def test_an_empty_injected_message_is_left_alone() -> None:
    one = draft(system(), Message(role="system"), user())
    shorten_injected(one, memory_budget=1, texts=TEXTS)
    assert one.messages[1] == Message(role="system")


def test_tool_outputs_are_cut_oldest_first_until_it_fits() -> None:
    group = (caller("f", "g"), result("x" * 1501), result("x" * 1500), result("y" * 3000))
    messages = (user(), *group, user())
    one = draft(*messages)
    cut_tool_outputs(one, whole(*messages) - 1, TEXTS)
    one.settle()
    marker = TEXTS.text("toolOutputTruncated")
    assert [len(message.content or "") for message in one.messages[2:5]] == [
        500 + len(marker),
        1500,
        3000,
    ]
    cut_tool_outputs(one, 1, TEXTS)
    one.settle()
    assert one.messages[4].content == "y" * 500 + marker


def test_the_last_message_and_empty_results_are_not_cut() -> None:
    one = draft(user(), caller("f"), result(None), caller("f"), result("x" * 3000))
    cut_tool_outputs(one, 1, TEXTS)
    one.settle()
    assert one.messages == one.originals


def test_reasoning_is_shortened_oldest_first_and_the_newest_keeps_more() -> None:
    messages = (said(reasoning="a" * 900), said(reasoning="b" * 200), said(reasoning="c" * 900))
    one = draft(user(), *messages, said())
    shorten_reasoning(one, 1, TEXTS)
    one.settle()
    marker = TEXTS.text("reasoningShortened")
    assert [message.reasoning_content for message in one.messages[1:4]] == [
        "a" * 200 + marker,
        "b" * 200,
        "c" * 400 + marker,
    ]
    two = draft(user(), *messages, said())
    shorten_reasoning(two, two.total - 1, TEXTS)
    two.settle()
    assert [len(message.reasoning_content or "") for message in two.messages[1:4]] == [
        200 + len(marker),
        200,
        900,
    ]


def test_old_groups_become_one_line_and_the_last_one_stays() -> None:
    first = (
        caller("search", "read", "list", text="I look."),
        result("x" * 150),
        result("y", "c1"),
    )
    one = draft(user(), *first, caller("f"), result())
    collapse_groups(one, 1, TEXTS)
    assert one.messages[1] == said(
        f"I look.\n[历史工具调用] search → {'x' * 100}… | read → y | list → (无结果)"
    )
    assert roles(one.messages) == "uaat"
    assert one.total == whole(*one.messages)


def test_a_result_without_text_is_shown_as_none() -> None:
    one = draft(user(), caller("search", arguments='{"q":"something"}'), result(None), caller("f"))
    collapse_groups(one, 1, TEXTS)
    assert one.messages[1].content == "[历史工具调用] search → (无结果)"


def test_groups_are_collapsed_oldest_first_until_it_fits() -> None:
    group = (caller("f", arguments="x" * 300), result())
    messages = (user(), *group, *group, *group)
    one = draft(*messages)
    collapse_groups(one, whole(*messages) - 1, TEXTS)
    assert roles(one.messages) == "uaatat"


def test_a_group_that_would_cost_more_as_a_line_stays() -> None:
    def encode(text: str) -> int:
        return 1000 if "历史工具调用" in text else len(text)

    messages = [user(), caller("f"), result("x" * 100), caller("f")]
    one = Draft(messages, TiktokenCounter(encode))
    collapse_groups(one, 1, TEXTS)
    assert one.messages == messages


def test_a_group_at_the_very_front_is_kept_whole() -> None:
    one = draft(caller("f", arguments="x" * 300), result(), user(), caller("g"), result())
    collapse_groups(one, 1, TEXTS)
    delete_oldest(one, 1)
    assert roles(one.messages) == "atuat"


def test_a_cut_result_decides_exactly_whether_its_group_is_worth_a_line() -> None:
    # The cut leaves 500 characters; until they are counted the group seems to cost too little.
    tape: list[str] = []

    def encode(text: str) -> int:
        tape.append(text)
        return 1 if "历史工具调用" in text else len(text)

    messages = (user(), caller("f"), result("x" * 2000), caller("g"), result(), user())
    one = Draft(messages, TiktokenCounter(encode))
    cut_tool_outputs(one, 1, TEXTS)
    collapse_groups(one, 1, TEXTS)
    assert roles(one.messages) == "uaatu"
    assert not any(text.startswith("x" * 500 + "\n") for text in tape)


def test_the_oldest_go_first_and_a_call_takes_its_results_along() -> None:
    messages = (
        system(),
        user("a"),
        caller("f"),
        result(),
        system(),
        user("b"),
        caller("f"),
        result(),
    )
    one = draft(*messages, said())
    delete_oldest(one, one.total - 1)
    assert roles(one.messages) == "satsuata"
    delete_oldest(one, one.total - 1)
    assert roles(one.messages) == "ssuata"
    delete_oldest(one, 1)
    assert roles(one.messages) == "ssuata"


def test_everything_unprotected_goes_if_it_must() -> None:
    group = (caller("f", "g"), result(), result())
    one = draft(system(), user(), *group, said(), *group, user(), said())
    delete_oldest(one, 1)
    assert roles(one.messages) == "sattua"


def test_results_that_nobody_asked_for_are_deleted_one_by_one() -> None:
    one = draft(user(), result(), said(), result(), user())
    delete_oldest(one, 1)
    assert roles(one.messages) == "uu"


def test_injected_messages_are_deleted_front_to_back_until_it_fits() -> None:
    one = draft(system(70), system(71), user(), system(72), system(73))
    delete_injected(one, one.total - 1)
    assert [len(message.content or "") for message in one.messages] == [70, 8, 72, 73]
    delete_injected(one, 1)
    assert [len(message.content or "") for message in one.messages] == [70, 8, 73]


def long_list(*last: Message) -> list[Message]:
    return [system(), *(said("x" * 400) for _ in range(7)), *last]


def test_a_list_that_lost_six_messages_on_the_way_through_stage_five_says_so() -> None:
    kept = trimmed(*long_list(user(), said()), budget=10)
    assert kept.hinted
    assert roles(kept.messages) == "susa"
    assert kept.messages[2].content == TEXTS.text("continuationHint")
    assert kept.messages[2].injector == "system-other"
    assert kept.removed == 7
    assert kept.log_line is not None
    assert kept.log_line.startswith("trimmed 10 -> 4 messages, estimate ")
    assert kept.tokens == whole(*kept.messages)


def test_when_stage_four_was_enough_there_is_no_hint() -> None:
    assert not trimmed(*long_list(user(), said()), budget=20).hinted


def test_five_messages_less_are_not_worth_a_hint() -> None:
    messages = [system(), *(said("x" * 400) for _ in range(5)), user()]
    kept = trimmed(*messages, budget=1)
    assert roles(kept.messages) == "su"
    assert not kept.hinted


def test_without_a_user_message_the_hint_stands_before_the_last_group() -> None:
    assert roles(trimmed(*long_list(said()), budget=1).messages) == "ssa"
    assert roles(trimmed(*long_list(caller("f"), result()), budget=1).messages) == "ssat"
    group_inside = long_list(caller("f"), result(), said())
    assert roles(trimmed(*group_inside, budget=1).messages) == "satsa"


def test_nothing_stands_before_message_zero() -> None:
    alone = trimmed(said(), *[result()] * 6, said(), budget=1)
    assert roles(alone.messages) == "asa"
    group = trimmed(caller("f"), *[result()] * 9, budget=1)
    assert roles(group.messages) == "a" + "t" * 9
    whole_list_is_a_group = draft(caller("f"), result())
    assert insert_hint(whole_list_is_a_group, TEXTS) == 2
    assert insert_hint(draft(system()), TEXTS) == 1


@pytest.mark.parametrize(
    ("listed", "groups"),
    [
        ("", []),
        ("ua", []),
        ("utt", []),
        ("uCttaCt", [range(1, 4), range(5, 7)]),
        ("CCt", [range(1), range(1, 3)]),
        ("CtuC", [range(2), range(3, 4)]),
        ("Cst", [range(1)]),
    ],
)
def test_groups_are_found_by_position(listed: str, groups: list[range]) -> None:
    kinds = {"u": user(), "a": said(), "t": result(), "C": caller("f"), "s": system()}
    assert groups_of([kinds[letter] for letter in listed]) == groups


def test_a_text_is_counted_only_when_the_answer_depends_on_it() -> None:
    tape: list[str] = []

    def encode(text: str) -> int:
        tape.append(text)
        return len(text)

    one = Draft([user("x" * 100), user("y" * 100)], TiktokenCounter(encode))
    tape.clear()
    one.shorten(0, "content", "x" * 10)
    one.shorten(1, "content", "y" * 10)
    assert one.over(5)
    assert tape == []
    assert one.over(20)
    assert tape == ["x" * 10, "y" * 10]
    assert (one.total, one.costs) == (28, [14, 14])
    assert not one.over(28)


def test_what_is_removed_or_replaced_is_never_counted() -> None:
    one = draft(user("x" * 700), user("y" * 700), user("z" * 700))
    for index in range(3):
        one.shorten(index, "content", "short")
    one.put(0, user("0"), 5)
    one.remove([1])
    one.close()
    one.settle([0])
    one.settle()
    assert [message.content for message in one.messages] == ["0", "short"]
    assert one.total == whole(*one.messages)


def test_tool_definitions_take_their_part_of_the_budget() -> None:
    messages = [system(), user(), caller("f", arguments="x" * 300), result(), caller("f"), result()]
    total = whole(*messages)
    budgets = Budgets(9000, 1, total + 50, total + 50, 4096)
    counter = HeuristicCounter()
    assert trim(messages, budgets, 50, counter, TEXTS).messages == messages
    smaller = trim(messages, budgets, 51, counter, TEXTS)
    assert roles(smaller.messages) == "suaat"
    assert smaller.used == whole(*smaller.messages) + 51 <= total + 50


def test_nothing_at_all_is_fine_and_tool_definitions_alone_can_be_too_much() -> None:
    counter = HeuristicCounter()
    assert trim([], Budgets(100, 1, 50, 50, 10), 50, counter, TEXTS).messages == []
    overflow = trim([], Budgets(100, 1, 50, 50, 10), 51, counter, TEXTS).overflow
    assert overflow is not None
    assert (overflow.used, overflow.limit, overflow.tools) == (51, 50, 51)
    assert (overflow.system, overflow.latest, overflow.group) == (0, 0, 0)
