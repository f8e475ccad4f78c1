"""Where the tokens of a call went, and when the log says so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aalis_agent.budgets import Budgets
from aalis_agent.tokens import Calibration
from aalis_agent.usage import (
    CallIdentity,
    LogState,
    UsageLog,
    break_down,
    log_line,
    tag_of,
    token_usage,
)
from aalis_contracts.events import TokenUsage, UsageBreakdown
from aalis_contracts.messages import Message


def system(injector: object, **metadata: object) -> Message:
    return Message.model_validate(
        {"role": "system", "content": "x", "metadata": {"injector": injector, **metadata}}
    )


def parts_of(*messages: Message, costs: list[int] | None = None) -> UsageBreakdown:
    return break_down(messages, costs or [10] * len(messages), 7, 99)


def usage(used: int, window: int, session: str = "s1") -> TokenUsage:
    budgets = Budgets(window, 100, 900, 900, 0)
    return token_usage(
        CallIdentity(session, "cli"),
        budgets,
        break_down([Message(role="user")], [used], 0, 100),
    )


@pytest.mark.parametrize(
    ("injector", "bucket"),
    [
        ("persona", "persona"),
        (None, "persona"),
        (3, "persona"),
        ("", "persona"),
        ("memory-summary", "memory_summary"),
        ("a/b/memory-summary", "memory_summary"),
        ("memory-vector", "memory_vector"),
        ("platform", "platform"),
        ("x/platform-onebot", "platform"),
        ("skills-discovery", "skills"),
        ("skills-activation:calc", "skills"),
        ("parent-status", "subtask"),
        ("system-other", "system_other"),
    ],
)
def test_a_system_message_goes_by_the_last_part_of_its_injector(
    injector: object, bucket: str
) -> None:
    parts = parts_of(Message(role="user"), system(injector))
    assert getattr(parts, bucket) == 10
    assert parts.system == 10
    assert parts.injectors == {}


@pytest.mark.parametrize(
    ("injector", "label"),
    [
        ("persona-volatile", "persona-volatile"),
        ("acme/thing/block", "block"),
        ("skills-discovery-x", "skills-discovery-x"),
        ("a/", "a/"),
    ],
)
def test_whoever_else_injects_is_named(injector: str, label: str) -> None:
    parts = parts_of(Message(role="user"), system(injector), system(injector))
    assert parts.system_other == 20
    assert parts.injectors == {label: 20}


def test_results_have_their_bucket_and_every_other_role_is_history() -> None:
    roles = ("user", "assistant", "tool", "notice", "whatever")
    parts = parts_of(*(Message(role=role) for role in roles))
    assert (parts.tool_results, parts.history, parts.system) == (10, 40, 0)
    assert (parts.tool_defs, parts.reserved_for_reply) == (7, 99)


def test_appended_parts_are_taken_from_the_first_message() -> None:
    first = system("persona", _tokenContributions={"skills": 35, "subtask": 7, "todo": 3})
    parts = parts_of(first, costs=[100])
    assert (parts.skills, parts.subtask, parts.system_other, parts.persona) == (10, 2, 1, 87)
    assert parts.system == 100


def test_appended_parts_never_take_more_than_there_is_and_go_in_key_order() -> None:
    first = system("persona", _tokenContributions={"subtask": 700, "skills": 28, "a": 7})
    parts = parts_of(first, costs=[12])
    assert (parts.system_other, parts.skills, parts.subtask, parts.persona) == (2, 8, 2, 0)


@pytest.mark.parametrize("said", [None, 3, [1], {"skills": -5}, {"skills": True}, {"skills": "9"}])
def test_appended_parts_that_are_no_numbers_are_ignored(said: object) -> None:
    assert parts_of(system("persona", _tokenContributions=said)).persona == 10


def test_appended_parts_count_for_the_main_prompt_only() -> None:
    later = system("persona", _tokenContributions={"skills": 7})
    user = Message(role="user", metadata={"_tokenContributions": {"skills": 7}})
    assert parts_of(user, later).skills == 0


labels = st.sampled_from(
    [
        None,
        "persona",
        "a/memory-summary",
        "memory-vector",
        "platform-x",
        "skills-discovery",
        "parent-status",
        "system-other",
        "mine",
        "x/y",
        "z/",
    ]
)
contributions = st.dictionaries(st.sampled_from(["skills", "subtask", "z"]), st.integers(-5, 900))


@st.composite
def listed(draw: st.DrawFn) -> tuple[list[Message], list[int]]:
    roles = st.sampled_from(["system", "system", "user", "tool", "notice"])
    messages = [
        Message.model_validate(
            {
                "role": draw(roles),
                "metadata": {"injector": draw(labels), "_tokenContributions": draw(contributions)},
            }
        )
        for _ in range(draw(st.integers(0, 12)))
    ]
    return messages, [draw(st.integers(4, 500)) for _ in messages]


@given(listed(), st.integers(0, 100))
def test_the_sum_of_the_parts_is_what_is_used(
    case: tuple[list[Message], list[int]], defs: int
) -> None:
    messages, costs = case
    parts = break_down(messages, costs, defs, 50)
    event = token_usage(CallIdentity("s", "p"), Budgets(100, 50, 50, 50, 0), parts)
    numbers = parts.to_object()
    injectors = numbers.pop("injectors")
    assert len(numbers) == 12
    assert all(isinstance(number, int) and number >= 0 for number in numbers.values())
    assert event.used == sum(costs) + defs
    assert parts.system == (
        parts.persona
        + parts.memory_summary
        + parts.memory_vector
        + parts.skills
        + parts.platform
        + parts.subtask
        + parts.system_other
    )
    assert injectors == parts.injectors
    assert sum((parts.injectors or {}).values()) <= parts.system_other


def test_an_event_says_who_and_how_much_and_its_ratio_is_not_rounded() -> None:
    parts = parts_of(Message(role="user"))
    identity = CallIdentity("s1", "cli", user_id="u", turn_id="t", iteration=2)
    event = token_usage(identity, Budgets(300, 99, 200, 250, 0), parts, Calibration(1.5, 3))
    assert event.used == 17
    assert event.usage_ratio == 17 / 300
    assert (event.context_window, event.max_tokens, event.token_budget) == (300, 99, 200)
    assert (event.user_id, event.turn_id, event.iteration) == ("u", "t", 2)
    assert event.calibrated_used == 26


def test_a_window_of_nothing_has_the_ratio_nothing() -> None:
    event = usage(5, 0)
    assert event.usage_ratio == 0
    assert "5/0 (0.0%)" in log_line(event)


def test_an_event_without_reports_has_no_calibrated_figure() -> None:
    parts = parts_of(Message(role="user"))
    budgets = Budgets(300, 99, 200, 250, 0)
    assert token_usage(CallIdentity("s", "p"), budgets, parts).calibrated_used is None
    assert (
        token_usage(CallIdentity("s", "p"), budgets, parts, Calibration()).calibrated_used is None
    )


@pytest.mark.parametrize(
    ("ratio", "tag"),
    [
        (0, "OK"),
        (0.49999, "OK"),
        (0.5, "INFO"),
        (0.69996, "INFO"),
        (0.7, "WARN"),
        (0.84999, "WARN"),
        (0.85, "CRITICAL"),
        (1.2, "CRITICAL"),
    ],
)
def test_a_boundary_belongs_to_the_higher_tag(ratio: float, tag: str) -> None:
    assert tag_of(ratio) == tag


@pytest.mark.parametrize(
    ("used", "window", "percent"),
    [
        (12_345, 32_000, "38.6"),
        (1, 2000, "0.1"),
        (1, 2001, "0.0"),
        (5, 2000, "0.3"),
        (3, 2, "150.0"),
    ],
)
def test_the_percentage_rounds_halves_up(used: int, window: int, percent: str) -> None:
    assert f"{used}/{window} ({percent}%)" in log_line(usage(used, window))


def printed(*used: int) -> list[bool]:
    log = UsageLog()
    return [log.line(usage(tokens, 100)) is not None for tokens in used]


def test_the_first_usage_and_each_change_of_tag_is_printed() -> None:
    assert printed(10, 20, 50, 60, 70, 90, 89, 40, 41) == [
        True,
        False,
        True,
        False,
        True,
        True,
        False,
        True,
        False,
    ]


def test_without_a_change_every_tenth_is_printed() -> None:
    lines = printed(*[10] * 31)
    assert [number for number, line in enumerate(lines, start=1) if line] == [1, 11, 21, 31]


def test_the_log_remembers_the_sessions_used_most_lately() -> None:
    log = UsageLog(sessions=2)
    for session in ("a", "b", "a", "c"):
        log.line(usage(10, 100, session))
    assert log.line(usage(10, 100, "a")) is None
    assert log.line(usage(10, 100, "b")) is not None


def test_a_log_state_is_a_value() -> None:
    assert LogState().after(0.6) == (LogState(1, 1), True)
    assert LogState(1, 1).after(0.6) == (LogState(2, 1), False)


def test_the_line_is_the_one_people_know() -> None:
    messages = [system("persona"), system("memory-summary"), Message(role="tool")]
    parts = break_down(messages, [100, 20, 30], 40, 4096)
    event = token_usage(CallIdentity("web:1", "cli"), Budgets(32_000, 4096, 1, 1, 0), parts)
    assert log_line(event) == (
        "[token-usage:OK] web:1 190/32000 (0.6%) sys=120(persona=100 mem=20 skills=0 subtask=0 "
        "other=0) hist=0 tools=30+40def reserve=4096"
    )
