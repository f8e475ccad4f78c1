"""What counts in a session, and why (SPEC CMD-22)."""

from __future__ import annotations

import pytest

from aalis_agent.overview import Offered, in_effect, overview, shown
from aalis_agent.ports import SessionView, Sourced
from aalis_contracts.catalogue import Catalogue
from aalis_contracts.messages import ModelRef
from aalis_contracts.sessions import SessionInfo

from .conftest import entry

EN = Catalogue("en")
ZH = Catalogue("zh")


def ref(context_id: str) -> ModelRef:
    provider, _, model = context_id.rpartition("/")
    return ModelRef(provider=provider, model=model)


def record(name: str = "Night shift") -> SessionInfo:
    return SessionInfo(id="s", name=name, created_at=1, updated_at=1)


BELOW = "AALIS_DEFAULT_LLM p/second > 首个可用模型 p/first"
OFFERED = Offered([entry("p/first"), entry("p/second"), entry("p/ear", "audio")], "p/second")


def test_nothing_set_shows_the_whole_chain_down_to_the_first_model() -> None:
    assert overview("s", SessionView(None, {}), Offered([entry("p/first")]), EN) == [
        "Session: s",
        "Model: p/first (from: first model)",
        "  session – > parent session – > platform profile – > default – > first model p/first",
        "Persona: not set",
        "  session – > parent session – > platform profile – > default –",
        "Thinking: not set",
        "  session – > parent session – > platform profile – > default –",
    ]


def test_the_strongest_value_counts_and_the_others_are_shown_behind_it() -> None:
    view = SessionView(
        record(),
        {
            "llm": [
                Sourced("session", ref("p/second")),
                Sourced("parent", ref("p/first")),
                Sourced("default", ref("q/x")),
            ],
            "persona": [Sourced("profile", "catgirl"), Sourced("default", "plain")],
            "think": [Sourced("parent", value=False), Sourced("profile", value=True)],
            "maxToolIterations": [Sourced("session", 3)],
        },
    )
    assert overview("s", view, OFFERED, ZH) == [
        "会话：Night shift（s）",
        "模型：p/second（来源：本会话）",
        "  本会话 p/second > 上级会话 p/first > 平台配置 – > 全局默认 q/x > " + BELOW,
        "人设：catgirl（来源：平台配置）",
        "  本会话 – > 上级会话 – > 平台配置 catgirl > 全局默认 plain",
        "思考：关（来源：上级会话）",
        "  本会话 – > 上级会话 关 > 平台配置 开 > 全局默认 –",
    ]


@pytest.mark.parametrize(
    ("default_llm", "line"),
    [
        ("p/second", "Model: p/second (from: AALIS_DEFAULT_LLM)"),
        ("p/gone", "Model: p/first (from: first model)"),
        ("p/ear", "Model: p/first (from: first model)"),
        (None, "Model: p/first (from: first model)"),
    ],
)
def test_a_default_that_cannot_chat_gives_way_as_it_does_in_a_turn(
    default_llm: str | None, line: str
) -> None:
    offered = Offered(OFFERED.entries, default_llm)
    assert in_effect(SessionView(record(), {}), offered, EN)[0] == line


def test_a_model_that_is_set_and_not_offered_says_so() -> None:
    view = SessionView(record(), {"llm": [Sourced("session", ref("p/gone"))]})
    assert in_effect(view, OFFERED, EN)[0] == "Model: p/gone, not available now (from: session)"


def test_without_any_model_none_is_in_effect() -> None:
    assert in_effect(SessionView(None, {}), Offered([]), EN)[0] == "Model: not set"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "not set"),
        (True, "on"),
        (False, "off"),
        (ref("a/b:c/d"), "a/b:c/d"),
        ("two\nlines", "two lines"),
    ],
)
def test_a_value_reads_as_a_person_says_it(value: object, text: str) -> None:
    assert shown(value, EN) == text


def test_a_name_of_several_lines_stays_on_its_line() -> None:
    lines = overview("a\nb", SessionView(record("x\ny"), {}), OFFERED, EN)
    assert lines[0] == "Session: x y (a b)"
