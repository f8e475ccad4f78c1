"""The script that is built in, in both languages (LLM-46)."""

import json

import pytest

from aalis_contracts.messages import FunctionCall, Message, ToolCall
from aalis_contracts.models import ChatRequest
from aalis_contracts.tools import FunctionDefinition, ToolDefinition
from aalis_llm.script_file import demo_script
from aalis_llm.script_rules import Plan, plan

DEMO = demo_script()
BUDGET_TOOL = ToolDefinition(function=FunctionDefinition(name="prompt_budget_info"))
BUDGET = {
    "sessionId": "s",
    "tag": "INFO",
    "used": 17_000,
    "contextWindow": 32_000,
    "usageRatio": 0.5313,
    "top3": [
        {"name": "history", "tokens": 9000},
        {"name": "system", "tokens": 5000},
        {"name": "toolResults", "tokens": 3000},
    ],
    "advice": "Context is healthy; nothing to do.",
}
VOLATILE = Message(
    role="system",
    content="Now: 2026-01-02 10:30 (UTC)",
    metadata={"injector": "persona/persona-volatile"},
)


def answer(*messages: Message, purpose: str = "chat", offers: bool = True) -> Plan:
    fields = {
        "messages": list(messages),
        "tools": [BUDGET_TOOL] if offers else None,
        "purpose": purpose,
    }
    return plan(DEMO, "demo", ChatRequest.model_validate(fields))


def asked(text: str) -> Message:
    return Message(role="user", content=f"(1/2 10:30) {text}")


def looked_up(result: object) -> list[Message]:
    call = ToolCall(id="call_0_0", function=FunctionCall(name="prompt_budget_info", arguments="{}"))
    return [
        Message(role="assistant", tool_calls=[call]),
        Message(role="tool", content=json.dumps(result), tool_call_id="call_0_0"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "上下文还剩多少？",
        "你的上下文用了多少",
        "预算情况如何",
        "还剩多少 token？",
        "How full is your context?",
        "how much context is left",
        "What is your token usage?",
        "Is your context window full?",
    ],
)
def test_a_question_about_its_context_is_looked_up(text: str) -> None:
    planned = answer(asked(text))

    assert [call.function.name for call in planned.calls] == ["prompt_budget_info"]
    assert planned.calls[0].function.arguments == "{}"


@pytest.mark.parametrize("text", ["上下文还剩多少？", "How full is your context?"])
def test_tag_usage_and_the_three_largest_buckets_are_reported(text: str) -> None:
    told = answer(asked(text), *looked_up(BUDGET)).content

    for part in ("INFO", "17000 / 32000", "history 9000", "system 5000", "toolResults 3000"):
        assert part in told
    assert ("上下文状态" in told) == ("上下文" in text)


@pytest.mark.parametrize("text", ["上下文还剩多少？", "How full is your context?"])
@pytest.mark.parametrize(
    "result", [{"noData": True, "sessionId": "s", "advice": "WORDS"}, {"error": "WORDS"}]
)
def test_no_data_and_a_failed_lookup_are_told(text: str, result: object) -> None:
    assert "WORDS" in answer(asked(text), *looked_up(result)).content


def test_without_the_tool_the_question_is_echoed() -> None:
    assert not answer(asked("How full is your context?"), offers=False).calls


@pytest.mark.parametrize("text", ["现在几点？", "今天星期几", "What time is it?", "what day is it"])
def test_the_time_is_read_from_the_volatile_block(text: str) -> None:
    assert "2026-01-02 10:30" in answer(Message(role="system"), VOLATILE, asked(text)).content


def test_the_volatile_block_is_found_where_metadata_is_lost() -> None:
    plain = Message(role="system", content=VOLATILE.content)
    marked = Message(role="user", content=f"[系统提示]\n{VOLATILE.content}")
    merged = Message(
        role="user", content=f"[System hint]\n{VOLATILE.content}\n\nmore\n\n(1/2 10:30) What time?"
    )

    for messages in ([plain, asked("What time?")], [marked, asked("What time?")], [merged]):
        assert "2026-01-02 10:30" in answer(*messages).content


def test_without_a_volatile_block_no_time_is_made_up() -> None:
    assert answer(asked("What time is it?")).content == "My notes say: —"


@pytest.mark.parametrize(
    "text", ["你好", "hello", "Hi there", "[阿明(42)]: 你好呀", "谢谢", "who are you?"]
)
def test_small_talk_has_an_answer_of_its_own(text: str) -> None:
    told = answer(asked(text)).content

    assert told
    assert not told.startswith(text + "\n")


@pytest.mark.parametrize(
    ("text", "hint"), [("北京烤鸭", "我是演示模型"), ("tea, please", "demo model")]
)
def test_everything_else_is_echoed_with_a_hint(text: str, hint: str) -> None:
    told = answer(asked(text)).content

    assert told.startswith(text)
    assert hint in told


@pytest.mark.parametrize(
    "text",
    ["!say 你好吗", "!say tea", "line\n!say tea", "[阿明(42)]: !say 茶", "!say context left"],
)
def test_directives_are_obeyed_by_the_demo_too(text: str) -> None:
    planned = answer(asked(text), offers=False)

    assert planned.content == text.rpartition("!say ")[2]


def test_after_directed_calls_the_demo_lists_the_results() -> None:
    text = asked('!call prompt_budget_info {"sessionId": "s"}')

    assert answer(text).calls
    assert "INFO" in answer(text, *looked_up(BUDGET)).content


def test_titles_and_summaries_are_short_and_repeatable() -> None:
    long = "\n一段很长的文字 " * 500
    title = answer(asked(long), purpose="title").content

    assert 0 < len(title) <= 24
    assert "\n" not in title
    assert 0 < len(answer(asked(long), purpose="summary").content) < 200
    assert answer(
        asked(long), Message(role="assistant", content=title), asked(long), purpose="title"
    )
