"""Inputs that broke other agents (tests/data/context_cases.jsonl); each must end well here.

What a case calls the limit is the budget and the hard limit at once. Cases about the wire are
trimmed and then shaped, as before every model call. Cases of whole turns stand in
`test_cases_of_turns`, those of providers and of the store with them.
"""

import copy
import json
from collections import Counter as Tally
from collections.abc import Sequence
from datetime import UTC
from typing import Final

from aalis_agent.budgets import Budgets, plan_budgets
from aalis_agent.history import shown_history
from aalis_agent.prompt import Clock, Turn, base_list
from aalis_agent.results import cut_result, failure_of
from aalis_agent.tokens import HeuristicCounter, TiktokenCounter
from aalis_agent.trimming import Trimmed, trim
from aalis_contracts.catalogue import Catalogue
from aalis_contracts.messages import IncomingMessage, Message
from aalis_contracts.text import JsonObject
from aalis_contracts.tools import ToolDefinition
from aalis_llm.shape import to_provider_messages
from aalis_sdk.testing.cases import Case, case

TEXTS: Final = Catalogue("zh")
RENAMED: Final = {
    "tool_calls": "toolCalls",
    "tool_call_id": "toolCallId",
    "reasoning_content": "reasoningContent",
}


def message(row: Case) -> Message:
    return Message.from_object({RENAMED.get(key, key): item for key, item in row.items()})


def messages_of(name: str, field: str = "messages") -> list[Message]:
    return [message(row) for row in case(name)[field]]


def fitted(messages: Sequence[Message], limit: int, hard_limit: int | None = None) -> Trimmed:
    budgets = Budgets(
        window=limit,
        max_tokens=1,
        token_budget=limit,
        hard_limit=hard_limit or limit,
        memory_budget=4096,
    )
    return trim(messages, budgets, 0, HeuristicCounter(), TEXTS)


def fitted_case(name: str) -> Trimmed:
    return fitted(messages_of(name), case(name)["max_tokens"])


def roles(messages: Sequence[Message]) -> list[str]:
    return [one.role for one in messages]


def unpaired(messages: Sequence[Message]) -> list[Message]:
    """Return the results that no call directly before them asked for, by position."""
    lost: list[Message] = []
    for index, one in enumerate(messages):
        if one.role == "tool":
            start = index
            while messages[start].role == "tool" and start > 0:
                start -= 1
            ids = {call.id for call in messages[start].tool_calls or ()}
            if one.tool_call_id not in ids:
                lost.append(one)
    return lost


def shown(name: str, field: str = "rows") -> list[Message]:
    return shown_history(messages_of(name, field), now=0, zone=UTC).messages


# trim


def test_ctx_001_a_boundary_inside_a_group_leaves_no_result_behind() -> None:
    result = fitted_case("ctx-001")
    assert result.used <= case("ctx-001")["max_tokens"]
    assert not unpaired(result.messages)


def test_ctx_002_a_huge_call_takes_its_result_along() -> None:
    result = fitted_case("ctx-002")
    assert result.used <= case("ctx-002")["max_tokens"]
    assert not unpaired(result.messages)
    assert "ok" not in [one.content for one in result.messages if one.role == "tool"]


def test_ctx_005_the_newest_result_never_stands_alone() -> None:
    result = fitted(messages_of("ctx-005"), 1)
    assert roles(result.messages) == ["user", "assistant", "tool"]


def test_ctx_006_three_parallel_results_all_stay() -> None:
    result = fitted_case("ctx-006")
    assert result.messages == messages_of("ctx-006")


def test_ctx_022_a_hint_is_never_placed_between_call_and_result() -> None:
    filler = [Message(role="user", content="x" * 400) for _ in range(8)]
    first, user, *group = messages_of("ctx-022")
    result = fitted([first, *filler, user, *group], 30, 1_000)
    assert result.hinted
    assert roles(result.messages) == ["system", "user", "system", "assistant", "tool"]
    without_user = fitted(
        [first, *(Message(role="notice", content="x" * 400),) * 8, *group], 20, 1_000
    )
    assert without_user.hinted
    assert roles(without_user.messages) == ["system", "system", "assistant", "tool"]


def test_ctx_024_what_is_left_after_a_deleted_question_is_still_a_legal_list() -> None:
    result = fitted_case("ctx-024")
    assert result.used <= case("ctx-024")["max_tokens"]
    assert not unpaired(result.messages)
    for profile in ("anthropic", "strict"):
        sent = to_provider_messages(result.messages, profile)
        assert next(one.role for one in sent if one.role != "system") == "user"


def test_ctx_030_trimming_stops_as_soon_as_the_list_fits() -> None:
    limit = case("ctx-030")["max_tokens"]
    result = fitted_case("ctx-030")
    assert limit * case("ctx-030")["assert_min_fill"] <= result.used <= limit


def test_ctx_031_a_hint_in_the_middle_reaches_an_anthropic_model_as_text() -> None:
    sent = to_provider_messages(fitted(messages_of("ctx-031"), 10_000).messages, "anthropic")
    assert any("check: number not grounded" in (one.content or "") for one in sent[1:])
    assert all(one.role != "system" for one in sent[1:])


def test_ctx_034_neighbours_of_one_role_are_merged_where_roles_must_alternate() -> None:
    sent = to_provider_messages(fitted(messages_of("ctx-034"), 10_000).messages, "anthropic")
    spoken = [one.role for one in sent if one.role != "tool"]
    assert spoken == ["user", "assistant", "user"]
    assert sent[1].content == "I will look."
    assert sent[1].tool_calls


def test_ctx_035_system_messages_are_transparent_for_alternation() -> None:
    sent = to_provider_messages(fitted(messages_of("ctx-035"), 10_000).messages, "strict")
    assert roles(sent) == ["system", "user"]
    assert all(part in (sent[1].content or "") for part in ("one", "hint", "two"))


def test_ctx_038_an_empty_result_is_sent_as_a_placeholder_and_stays_as_it_was() -> None:
    stored = messages_of("ctx-038")
    result = fitted(stored, 10_000)
    sent = to_provider_messages(result.messages, "openai")
    assert sent[2].content == TEXTS.text("noOutput")
    assert stored[2].content == ""


def test_ctx_042_null_contents_cost_nothing_and_break_nothing() -> None:
    result = fitted_case("ctx-042")
    assert result.used <= case("ctx-042")["max_tokens"]
    assert fitted(messages_of("ctx-042"), 1).overflow is not None


def test_ctx_045_reasoning_is_shortened_and_never_removed_where_it_is_required() -> None:
    result = fitted_case("ctx-045")
    assert result.used <= case("ctx-045")["max_tokens"]
    assert (result.messages[1].reasoning_content or "").startswith("why why")
    assert len(result.messages[1].reasoning_content or "") < 500
    sent = to_provider_messages(result.messages, "deepseek")
    assert all(one.reasoning_content is not None for one in sent if one.tool_calls)


def test_ctx_051_an_endless_turn_is_shrunk_by_its_old_results() -> None:
    # The case in our contracts: calls and results are messages of their own.
    question, first, result, second, last = case("ctx-051")["messages"]
    calls = [
        {"id": part["id"], "function": {"name": part["name"], "arguments": "{}"}}
        for row in (first, second)
        for part in row["content"]
        if part["type"] == "tool_use"
    ]
    listed = [
        message(question),
        message({"role": "assistant", "reasoning_content": "t", "tool_calls": [calls[0]]}),
        message({"role": "tool", "tool_call_id": "1", "content": result["content"][0]["content"]}),
        message({"role": "assistant", "tool_calls": [calls[1]]}),
        message({"role": "tool", "tool_call_id": "2", "content": last["content"][0]["content"]}),
    ]
    trimmed = fitted(listed, case("ctx-051")["max_tokens"])
    assert trimmed.used <= case("ctx-051")["max_tokens"]
    assert roles(trimmed.messages) == ["user", "assistant", "assistant", "tool"]


def test_ctx_076_two_thousand_messages_are_read_a_constant_number_of_times() -> None:
    listed = [
        Message(
            role="assistant" if number % 2 else "user",
            content=f"sentence number {number} with some words " * 20,
        )
        for number in range(2000)
    ]
    counted: list[int] = []

    def encode(text: str) -> int:
        counted.append(len(text))
        return len(text) // 4

    budgets = Budgets(
        window=20_000, max_tokens=1, token_budget=16_000, hard_limit=16_000, memory_budget=4096
    )
    result = trim(listed, budgets, 0, TiktokenCounter(encode), TEXTS)
    assert result.used <= 16_000
    assert sum(counted) <= 1.01 * sum(len(one.content or "") for one in listed)


def test_ctx_083_fixed_parts_that_are_too_big_are_an_answer_with_numbers() -> None:
    result = fitted_case("ctx-083")
    assert result.overflow is not None
    assert result.overflow.used > result.overflow.limit == case("ctx-083")["max_tokens"]
    assert result.overflow.system > result.overflow.limit
    assert result.messages[-1].content == "hi"


def test_ctx_084_a_lone_message_that_is_too_big_is_cut_in_its_middle() -> None:
    result = fitted_case("ctx-084")
    assert result.shortened
    assert result.overflow is None
    assert result.used <= case("ctx-084")["max_tokens"]
    (only,) = result.messages
    text = case("ctx-084")["messages"][0]["content"]
    assert (only.content or "").startswith(text[:100])
    assert (only.content or "").endswith(text[-100:])
    assert "中间省略" in (only.content or "")


def test_ctx_095_results_read_in_parts_go_oldest_first() -> None:
    limit = 800  # scaled: with this counter the case's own limit does not trigger
    result = fitted(messages_of("ctx-095"), limit)
    assert result.used <= limit
    verbatim = [one.content for one in result.messages if one.role == "tool"]
    assert len(verbatim) == 2
    assert verbatim == [one.content for one in messages_of("ctx-095") if one.role == "tool"][1:]


def test_ctx_098_an_item_cleared_earlier_does_not_end_the_scan() -> None:
    result = fitted_case("ctx-098")
    assert result.used <= case("ctx-098")["max_tokens"]
    assert not any(len(one.content or "") > 1500 for one in result.messages)


def test_ctx_108_the_input_is_unchanged_to_its_depths() -> None:
    listed = messages_of("ctx-108")
    before = copy.deepcopy(listed)
    for limit in range(1, 80):
        fitted(listed, limit)
        shown_history(listed, now=0, zone=UTC)
    assert listed == before


def test_ctx_112_a_collapsed_call_does_not_look_like_a_call() -> None:
    listed = messages_of("ctx-112")
    # Scaled: with this counter the case's own limit does not trigger.
    result = fitted(listed, sum(HeuristicCounter().messages(listed)) - 1)
    line = result.messages[1].content or ""
    assert line == "[历史工具调用] shell → done"
    assert "rm -rf" not in line
    assert result.messages[1].tool_calls is None


def test_ctx_123_a_reused_id_keeps_the_new_result_with_its_caller() -> None:
    result = fitted_case("ctx-123")
    assert result.used <= case("ctx-123")["max_tokens"]
    place = next(i for i, one in enumerate(result.messages) if one.content == "new")
    assert result.messages[place - 1].tool_calls
    assert not unpaired(result.messages)


def test_ctx_142_reasoning_stays_at_its_own_place_or_is_dropped() -> None:
    blobs = [item for item in case("ctx-142")["items"] if item.get("type") == "reasoning"]
    turns = [
        Message(role=role, content="text", reasoning_content=reasoning)
        for blob in blobs
        for role, reasoning in (("user", None), ("assistant", blob["encrypted_content"]))
    ]
    listed = [*turns, Message(role="user", content="hi")]
    sent = to_provider_messages(fitted(listed, 10_000).messages, "openai")
    assert roles(sent) == roles(listed)
    assert all(one.reasoning_content is None for one in sent)


def signed(reasoning: str, content: str) -> Message:
    block: JsonObject = {"type": "thinking", "thinking": reasoning, "signature": "SIG=="}
    return Message(
        role="assistant",
        content=content,
        reasoning_content=reasoning,
        provider_data={"provider": "p", "model": "m", "blocks": [block], "prefix": "as it was"},
    )


def test_ctx_143_a_signature_never_travels_with_a_changed_thought() -> None:
    raw = case("ctx-143")["messages"]
    answer = signed(raw[1]["reasoning_content"], "answer")
    result = fitted([message(raw[0]), answer, message(raw[2])], case("ctx-143")["max_tokens"])
    assert result.messages[1].reasoning_content != answer.reasoning_content
    sent = to_provider_messages(result.messages, "anthropic", provider_id="p", model="m")
    assert sent[1].provider_data is None
    assert sent[1].reasoning_content is None


def test_ctx_144_a_thought_bound_to_what_came_before_goes_when_that_has_changed() -> None:
    listed = messages_of("ctx-144")
    listed[5] = signed("t", "a")
    result = fitted(listed, case("ctx-144")["max_tokens"])
    sent = to_provider_messages(result.messages, "anthropic", provider_id="p", model="m")
    assert all(one.provider_data is None for one in sent)


def test_ctx_148_many_results_just_under_the_threshold_do_not_block_trimming() -> None:
    result = fitted_case("ctx-148")
    assert result.used <= case("ctx-148")["max_tokens"]
    assert result.overflow is None


def test_ctx_152_a_huge_argument_is_cut_and_stays_valid_json() -> None:
    result = fitted_case("ctx-152")
    assert result.overflow is None
    assert result.used <= case("ctx-152")["max_tokens"]
    (call,) = result.messages[2].tool_calls or []
    assert json.loads(call.function.arguments)["text"].startswith("lorem ipsum")


# loader


def test_ctx_018_a_group_with_a_lost_result_is_left_out_and_a_closed_one_is_kept() -> None:
    rows = messages_of("ctx-018", "rows")
    rest = shown_history([*rows, message(case("ctx-018")["then_append"])], now=0, zone=UTC)
    assert [one.content for one in rest.messages] == ["run three", "go on"]
    assert rest.dropped == 3
    cancelled = message({"role": "tool", "tool_call_id": "b3", "content": '{"error":"已取消"}'})
    assert shown_history([*rows, cancelled], now=0, zone=UTC).messages == [*rows, cancelled]


def test_ctx_025_rows_are_ordered_by_key_and_not_by_clock() -> None:
    rows = [
        message({**row, "inputSeq": 1, "index": row["seq"], "timestamp": row["ts"]})
        for row in case("ctx-025")["rows"]
    ]
    history = shown_history(rows, now=0, zone=UTC)
    assert roles(history.messages) == ["user", "assistant", "tool"]
    assert history.dropped == 0


def test_ctx_028_a_window_that_begins_with_an_assistant_gets_a_first_user_message() -> None:
    rows = messages_of("ctx-028", "rows")[-case("ctx-028")["limit"] :]
    listed = [Message(role="system", content="s"), *shown_history(rows, now=0, zone=UTC).messages]
    for profile in ("anthropic", "strict"):
        assert to_provider_messages(listed, profile)[1].role == "user"


def test_ctx_033_what_was_injected_is_not_loaded_again() -> None:
    rows = [
        message({**row, "metadata": {"injector": "k8s/cluster"}} if "injected" in row else row)
        for row in case("ctx-033")["rows"]
    ]
    history = shown_history(rows, now=0, zone=UTC)
    assert roles(history.messages) == ["user", "assistant", "user"]
    assert history.dropped == 0


def test_ctx_036_and_039_an_assistant_row_without_text_or_calls_is_not_sent() -> None:
    for name in ("ctx-036", "ctx-039"):
        sent = to_provider_messages(shown(name), "anthropic")
        assert roles(sent) == ["user"]


def test_ctx_047_a_call_stored_without_reasoning_is_sent_with_the_empty_field() -> None:
    sent = to_provider_messages(shown("ctx-047", "messages"), "deepseek")
    assert roles(sent) == ["user", "assistant", "tool", "user"]
    assert sent[1].reasoning_content == ""


def test_ctx_115_a_broken_character_is_mended_on_reading() -> None:
    history = shown("ctx-115")
    assert roles(history) == ["user", "assistant", "tool"]
    (history[2].content or "").encode()
    assert "failed" in (history[2].content or "")


def test_ctx_117_and_118_arguments_that_are_no_object_keep_their_results() -> None:
    for name in ("ctx-117", "ctx-118"):
        history = shown(name, "messages")
        assert len(history) == len(messages_of(name))
        sent = to_provider_messages(history, "openai")
        assert not unpaired(sent)
        for one in sent:
            for call in one.tool_calls or ():
                assert isinstance(json.loads(call.function.arguments), dict)


def test_ctx_122_two_calls_with_one_id_have_two_results_and_two_ids_on_the_wire() -> None:
    history = shown("ctx-122", "messages")
    assert len(history) == 5
    sent = to_provider_messages(history, "openai")
    ids = Tally(call.id for one in sent for call in one.tool_calls or ())
    assert set(ids.values()) == {1}
    assert [one.tool_call_id for one in sent if one.role == "tool"] == list(ids)


def test_ctx_139_an_input_taken_up_again_is_not_also_history() -> None:
    rows = [
        message({**row, "inputSeq": 7, "index": index})
        for index, row in enumerate(case("ctx-139")["rows"])
    ]
    history = shown_history(rows, now=0, zone=UTC, before=7)
    turn = prompt_at(0, history.messages)
    assert roles(base_list(turn, TEXTS)).count("user") == 1


def test_ctx_146_unsigned_thoughts_do_not_reach_a_signing_provider() -> None:
    listed = shown("ctx-146")
    assert [one.content for one in listed] == ["a", "b", "c"]
    assert listed[1].reasoning_content == "t"
    for profile in ("anthropic", "openai", "strict"):
        sent = to_provider_messages(listed, profile)
        assert [one.content for one in sent] == ["a", "b", "c"]
        assert sent[1].reasoning_content is None


# estimator (those that need a vocabulary stand in test_vocabulary_tiktoken.py)


def counting_letters() -> TiktokenCounter:
    return TiktokenCounter(len)


def test_ctx_063_an_image_costs_the_same_whatever_its_bytes() -> None:
    url = case("ctx-063")["messages"][0]["files"][0]["url"]
    one = Message(role="user", content="see file", images=[url])
    assert counting_letters().message(one) <= case("ctx-063")["expect_max"]


def test_ctx_067_a_message_of_images_alone_costs_something() -> None:
    (one,) = messages_of("ctx-067")
    assert counting_letters().message(one) >= case("ctx-067")["expect_min"]


def test_ctx_070_a_tool_costs_what_its_schema_says() -> None:
    small, large = (ToolDefinition.from_object(tool) for tool in case("ctx-070")["tools"])
    counter = HeuristicCounter()
    assert counter.tools([large]) > 10 * counter.tools([small])


def test_ctx_072_a_call_without_text_costs_its_call() -> None:
    (one,) = messages_of("ctx-072")
    counter = HeuristicCounter()
    assert counter.message(one) > counter.message(Message(role="assistant"))


def test_ctx_073_unknown_parts_are_counted_without_their_bytes() -> None:
    (one,) = messages_of("ctx-073")
    assert 0 < HeuristicCounter().message(one) < 200


def test_ctx_150_a_name_costs_something() -> None:
    counter = counting_letters()
    for one in messages_of("ctx-150"):
        nameless = one.model_copy(update={"name": None})
        expected = len(one.name) + 1 if one.name else 0
        assert counter.message(one) - counter.message(nameless) == expected


# budget


def planned(window: int, max_output_tokens: int) -> Budgets:
    return plan_budgets(window, max_output_tokens, threshold_ratio=1, memory_budget=4096)


def test_ctx_077_a_budget_is_positive_and_below_the_window() -> None:
    given = case("ctx-077")
    budgets = planned(given["context_window"], given["fixed_reserve"])
    assert 0 < budgets.token_budget < given["context_window"]
    assert budgets.clamped


def test_ctx_078_an_answer_as_long_as_the_window_leaves_half_of_it() -> None:
    given = case("ctx-078")
    budgets = planned(given["context_window"], given["max_tokens"])
    assert budgets.token_budget >= 40_000
    assert budgets.max_tokens == given["context_window"] // 2


def test_ctx_081_the_answer_length_sent_is_never_zero_or_negative() -> None:
    given = case("ctx-081")
    budgets = planned(given["context_window"], 2048)
    assert budgets.outgoing_max_tokens(given["prompt_tokens"]) == 1


def prompt_at(now: int, history: Sequence[Message]) -> Turn:
    return Turn(
        incoming=IncomingMessage(content="plan trip", session_id="s", platform="cli"),
        said_at=0,
        clock=Clock(now, UTC),
        history=history,
        persona="You are helpful.",
        volatile=f"Now: {now}",
    )


def test_ctx_140_five_seconds_later_the_prompt_is_the_same_up_to_the_history() -> None:
    history = [Message(role="user", content="hi"), Message(role="assistant", content="hello")]
    earlier, later = (base_list(prompt_at(now, history), TEXTS) for now in (0, 5_000))
    assert [one.to_json() for one in earlier[:3]] == [one.to_json() for one in later[:3]]
    assert earlier[3] != later[3]


# toolresult


def test_ctx_040_an_error_without_a_message_is_named_by_its_class() -> None:
    raised = case("ctx-040")["tool_raises"]
    assert failure_of(RuntimeError(raised["message"])).content == '{"error":"RuntimeError"}'


def test_ctx_096_a_result_of_few_long_lines_is_cut_by_characters() -> None:
    limit = case("ctx-096")["cap_chars"]
    once = cut_result(case("ctx-096")["tool_return"], limit, TEXTS)
    again = cut_result(once, limit, TEXTS)
    assert len(once) < limit + 40
    assert again[:limit] == once[:limit]
    assert len(again) < limit + 40
