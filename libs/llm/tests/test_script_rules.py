"""Which rule answers, and with what (LLM-40 to LLM-45). Pure: a request in, a plan out."""

import json

import pytest

from aalis_contracts.messages import FunctionCall, Message, ToolCall
from aalis_contracts.models import ChatRequest, Usage
from aalis_contracts.tools import FunctionDefinition, ToolDefinition
from aalis_llm.heuristic import messages_cost, text_cost, tools_cost
from aalis_llm.script_file import parse_script
from aalis_llm.script_rules import Plan, plan

NO_RULES = parse_script("")


def user(text: str) -> Message:
    return Message(role="user", content=text)


def called(*names: str, iteration: int = 0) -> Message:
    calls = [
        ToolCall(id=f"call_{iteration}_{i}", function=FunctionCall(name=name, arguments="{}"))
        for i, name in enumerate(names)
    ]
    return Message(role="assistant", tool_calls=calls)


def result(text: str, iteration: int = 0, index: int = 0) -> Message:
    return Message(role="tool", content=text, tool_call_id=f"call_{iteration}_{index}")


def tool(name: str) -> ToolDefinition:
    return ToolDefinition(function=FunctionDefinition(name=name))


def ask(script: str, *messages: Message, model: str = "demo", **fields: object) -> Plan:
    request = ChatRequest.model_validate({"messages": list(messages), **fields})
    return plan(parse_script(script), model, request)


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ("{text: '^day'}", True),
        ("{text: 'night'}", False),
        ("{iteration: 2}", True),
        ("{iteration: 1}", False),
        ("{attempt: 1}", True),
        ("{attempt: 2}", False),
        ("{result: 'sec.nd'}", True),
        ("{result: 'first'}", False),
        ("{tool: g}", True),
        ("{tool: f}", False),
        ("{error: true}", True),
        ("{error: false}", False),
        ("{offers: h}", True),
        ("{offers: f}", False),
        ("{model: demo}", True),
        ("{model: tiny}", False),
        ("{think: true}", True),
        ("{think: false}", False),
        ("{purpose: chat}", True),
        ("{purpose: title}", False),
        ("{text: day, iteration: 2, tool: g}", True),
        ("{text: day, iteration: 0, tool: g}", False),
        ("{}", True),
    ],
)
def test_a_rule_answers_when_all_its_keys_hold(when: str, *, holds: bool) -> None:
    planned = ask(
        f"rules:\n- {{when: {when}, reply: rule}}\n- reply: other",
        user("old"),
        user("(1/2 10:00) day"),
        called("f"),
        result('{"first": 1}'),
        called("g", iteration=1),
        result('{"error": "second"}', 1),
        tools=[tool("h")],
        think=True,
    )

    assert planned.content == ("rule" if holds else "other")


def test_results_of_earlier_turns_are_not_looked_at() -> None:
    script = "rules:\n- {when: {result: sunny}, reply: old}\n- {when: {error: false}, reply: old}"
    planned = ask(script, user("a"), called("f"), result("sunny"), user("b"))

    assert planned.content == "b"


def test_a_rule_limited_to_first_attempts_lets_later_ones_pass() -> None:
    script = "rules:\n- {first: 2, fail: {status: 503}}\n- reply: done"

    assert [ask(script, user("a"), attempt=n).content for n in (1, 2, 3)] == ["", "", "done"]
    assert ask(script, user("a"), attempt=2).fail is not None


def test_without_a_rule_the_text_is_echoed_without_its_time_label() -> None:
    assert (
        plan(NO_RULES, "demo", ChatRequest(messages=[user("(2024/1/2 03:04) 你好")])).content
        == "你好"
    )
    assert plan(NO_RULES, "demo", ChatRequest(messages=[])).content == "…"


def test_placeholders_are_filled_in_text_reasoning_and_arguments() -> None:
    script = """
rules:
- when: {text: '(\\w+) in (\\w+)(x)?', iteration: 0}
  think: about {match.2}
  reply: calling {tools}
  call:
  - {tool: 'get_{match.1}', args: {city: '{match.2}', deep: [{n: '{count}', s: '{match.3}'}], k: 3}}
  - {tool: raw, args: '{"broken": "{match.2}', id: given}
- reply: '{result} {result.a.b.1} {result.a.c}
    <{result.n}{result.none.x}{result.a.b.9}{result.a.c.d}> {other} {"j":1}'
"""
    first = ask(script, user("weather in Oslo"), tools=[tool("a"), tool("b")])

    assert first.reasoning == "about Oslo"
    assert first.content == "calling a, b"
    assert first.finish == "tool_calls"
    assert [(c.id, c.function.name, c.function.arguments) for c in first.calls] == [
        ("call_0_0", "get_weather", '{"city":"Oslo","deep":[{"n":"1","s":""}],"k":3}'),
        ("given", "raw", '{"broken": "Oslo'),
    ]

    value = {"a": {"b": [0, {"x": "é"}], "c": "text"}, "n": None}
    second = ask(script, user("x"), called("f"), result(json.dumps(value)))

    assert second.content == f'{json.dumps(value)} {{"x":"é"}} text <> {{other}} {{"j":1}}'


def test_call_ids_name_iteration_and_index() -> None:
    planned = ask("rules:\n- call: [{tool: f}, {tool: f}]", user("a"), called("f"), result("r"))

    assert [call.id for call in planned.calls] == ["call_1_0", "call_1_1"]


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ("", "same"),
        ("same", "same (2)"),
        ("same (2)", "same (3)"),
        ("same (11)", "same (12)"),
        ("same (1)", "same"),
        ("same (x)", "same"),
        ("same (2", "same"),
        ("other", "same"),
    ],
)
def test_a_repeated_answer_is_numbered(last: str, said: str) -> None:
    messages = [user("a"), Message(role="assistant", content=last), user("b")]

    assert ask("rules:\n- reply: same", *messages).content == said
    assert ask("rules:\n- {reply: same, repeat: true}", *messages).content == "same"


def test_only_the_answer_before_the_question_counts_as_repeated() -> None:
    retried = [user("a"), Message(role="assistant", content="same")]

    assert ask("rules:\n- reply: same", *retried).content == "same"


def test_usage_is_what_the_rule_says_or_what_the_heuristic_counts() -> None:
    given = ask("rules:\n- {reply: a, usage: {promptTokens: 7, cachedPromptTokens: 0}}", user("q"))
    messages, tools = [user("question")], [tool("f")]
    counted = ask("rules:\n- {reply: answer, think: why}", *messages, tools=tools)
    calling = ask("rules:\n- call: [{tool: f}]", *messages)

    assert given.usage == Usage(
        prompt_tokens=7, completion_tokens=0, total_tokens=7, cached_prompt_tokens=0
    )
    prompt = messages_cost(messages) + tools_cost(tools)
    assert counted.usage == Usage(
        prompt_tokens=prompt, completion_tokens=3, total_tokens=prompt + 3
    )
    assert calling.usage is not None
    written = '[{"id":"call_0_0","type":"function","function":{"name":"f","arguments":"{}"}}]'
    assert calling.usage.completion_tokens == text_cost(written)


def test_endings_are_passed_on() -> None:
    assert ask("rules:\n- hang: true", user("a")).hang
    overflow = ask("rules:\n- overflow: true", user("a")).fail
    assert overflow is not None
    assert overflow.code == "context_length_exceeded"
    planned = ask("rules:\n- {reply: a, cut: {after: 2, how: noDone}, finish: length}", user("a"))
    assert planned.cut is not None
    assert planned.cut.after == 2
    assert planned.finish == "length"


def test_directives_say_think_and_call() -> None:
    text = '(1/2 10:00) !say one\n!say  two\n!think why\n!call f {"a": 1}\n!call g\nplain'
    planned = plan(NO_RULES, "demo", ChatRequest(messages=[user(text)]))

    assert planned.content == "one\ntwo"
    assert planned.reasoning == "why"
    assert [(c.function.name, c.function.arguments) for c in planned.calls] == [
        ("f", '{"a": 1}'),
        ("g", ""),
    ]


def test_after_directed_calls_the_reply_lists_the_results() -> None:
    messages = [user("!call f\n!call g"), called("f", "g"), result("r1"), result("r2", 0, 1)]
    planned = plan(NO_RULES, "demo", ChatRequest(messages=messages))

    assert planned.content == "f → r1\ng → r2"
    assert not planned.calls


@pytest.mark.parametrize("ending", ["!fail 429", "!cut 0", "!hang"])
def test_directed_endings_happen_after_directed_calls(ending: str) -> None:
    text = f"!call f\n{ending}"
    before = plan(NO_RULES, "demo", ChatRequest(messages=[user(text)]))
    after = plan(NO_RULES, "demo", ChatRequest(messages=[user(text), called("f"), result("r")]))

    assert before.calls
    assert after.fail or after.cut or after.hang


@pytest.mark.parametrize(
    ("text", "status"), [("!fail 429", 429), ("!fail", 500), ("!fail 200", 500), ("!fail x", 500)]
)
def test_a_directed_failure_has_an_error_status(text: str, status: int) -> None:
    fail = plan(NO_RULES, "demo", ChatRequest(messages=[user(text)])).fail

    assert fail is not None
    assert fail.status == status


def test_a_directed_cut_and_wait_are_read() -> None:
    planned = plan(NO_RULES, "demo", ChatRequest(messages=[user("!say abc\n!cut 3\n!slow 5")]))

    assert planned.cut is not None
    assert planned.cut.after == 3
    assert planned.stream.delay_ms == 5
    assert plan(NO_RULES, "demo", ChatRequest(messages=[user("!hang")])).hang


@pytest.mark.parametrize("text", ["!unknown x", "say !hang", "!hangman", "hello", "!call"])
def test_what_is_no_directive_is_echoed(text: str) -> None:
    planned = plan(NO_RULES, "demo", ChatRequest(messages=[user(text)]))

    assert planned.content in {text, ""}
    assert not planned.hang
    assert not planned.calls


def test_a_sender_label_before_a_directive_is_fine() -> None:
    assert plan(NO_RULES, "demo", ChatRequest(messages=[user("[阿明(42)]: !hang")])).hang


def test_rules_come_before_directives() -> None:
    assert ask("rules:\n- reply: rule", user("!hang")).content == "rule"


def test_system_texts_that_a_profile_shows_as_user_messages_are_not_the_question() -> None:
    hint = user("[系统提示]\n现在 10:30")
    carried = user("[系统提示]\nscreenshot: 图片")
    merged = user("[系统提示]\n现在 10:30\n\n还有一行\n\n(1/2 10:00) 问题\n\n第二段")

    assert ask("", user("q"), hint).content == "q"
    assert ask("rules:\n- {when: {iteration: 1}, reply: ok}", user("q"), called("f"), carried)
    assert ask("", merged).content == "问题\n\n第二段"


def test_a_result_whose_call_is_gone_has_a_tool_name_all_the_same() -> None:
    script = "rules:\n- {when: {tool: unknown_tool}, reply: none}\n- {when: {tool: f}, reply: f}"

    assert ask(script, user("q"), result("r")).content == "none"
    assert ask(script, user("q"), called("f"), result("r")).content == "f"


def test_the_same_request_gives_the_same_plan() -> None:
    script = "rules:\n- {reply: '{text} {count}', call: [{tool: f, args: {b: 1, a: 2}}]}"

    assert ask(script, user("q")) == ask(script, user("q"))
