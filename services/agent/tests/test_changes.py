"""What is to be written of a session, or what is wrong with it (SPEC CMD-23 to CMD-25)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from aalis_agent.changes import Change, Known, report, unset, wanted
from aalis_contracts.catalogue import Catalogue
from aalis_contracts.messages import ModelRef
from aalis_contracts.sessions import SessionConfig, SessionInfo
from aalis_contracts.text import JsonObject

from .conftest import entry

EN = Catalogue("en")
GPT = "@aalis/plugin-llm-openai:main/gpt-4o"
PERSONAS = "2 personas available, for example: catgirl, strict-reviewer."
MODELS = [entry(GPT), entry("p/ear", "audio"), entry("p/b")]


def known(personas: Sequence[str] | None = ("catgirl", "strict-reviewer")) -> Known:
    return Known(MODELS, (), personas)


def read(options: JsonObject, world: Known | None = None) -> Change:
    change = wanted(options, world or known(), EN)
    assert isinstance(change, Change), change
    return change


def problems(options: JsonObject, world: Known | None = None) -> list[str]:
    found = wanted(options, world or known(), EN)
    assert isinstance(found, list), found
    return found


@pytest.mark.parametrize(
    ("options", "config", "name"),
    [
        (
            {"model": GPT, "persona": "catgirl"},
            {"llm": {"provider": "@aalis/plugin-llm-openai:main", "model": "gpt-4o"}}
            | {"persona": "catgirl"},
            None,
        ),
        ({"persona": "strict-reviewer"}, {"persona": "strict-reviewer"}, None),
        ({"think": "off"}, {"think": False}, None),
        ({"think": "on"}, {"think": True}, None),
        ({"name": "深夜助手"}, {}, "深夜助手"),
        ({"name": " two \n lines "}, {}, "two lines"),
        ({"name": "x" * 200}, {}, "x" * 100 + "…"),
        ({"name": None, "other": "x"}, {}, None),
    ],
)
def test_valid_options_become_a_change(
    options: JsonObject, config: dict[str, object], name: str | None
) -> None:
    change = read(options)
    assert (change.config, change.name) == (SessionConfig.from_object(config), name)
    assert set(change.config.model_fields_set) == set(config)


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        (
            {"model": "p/gone"},
            [f"Model p/gone not found. 2 models available, for example: {GPT}, p/b."],
        ),
        (
            {"model": "gpt-4o"},
            [f"Model gpt-4o not found. 2 models available, for example: {GPT}, p/b."],
        ),
        (
            {"model": "p/ear"},
            [f"Model p/ear not found. 2 models available, for example: {GPT}, p/b."],
        ),
        (
            {"persona": "catgirl.yaml"},
            [f"Persona catgirl.yaml not found. {PERSONAS}"],
        ),
        ({"think": "maybe"}, ["--think cannot be maybe; choose one of on, off"]),
        ({"think": "ON"}, ["--think cannot be ON; choose one of on, off"]),
        ({"think": True}, ["--think cannot be True; choose one of on, off"]),
        ({"name": "  "}, ["option --name needs a value"]),
        ({"model": ""}, ["option --model needs a value"]),
    ],
)
def test_a_wrong_option_says_what_may_stand_there(options: JsonObject, lines: list[str]) -> None:
    assert problems(options) == lines


def test_everything_that_is_wrong_is_said_at_once_in_the_order_of_the_options() -> None:
    found = problems({"think": "x", "name": "fine", "persona": "nobody", "model": "gone"})
    assert [line.split()[0] for line in found] == ["Model", "Persona", "--think"]


def test_a_wrong_name_of_any_length_makes_one_short_line() -> None:
    for option in ("model", "persona"):
        (line,) = problems({option: "x\n" * 5000})
        assert "\n" not in line
        assert len(line) < 500


def test_a_persona_is_taken_as_it_is_when_personas_cannot_be_listed() -> None:
    assert read({"persona": "nobody"}, known(None)).config.persona == "nobody"


def test_no_persona_at_all_can_be_chosen_where_there_are_none() -> None:
    assert problems({"persona": "catgirl"}, known(())) == ["There are no personas."]


def test_without_any_model_the_person_is_told_to_configure_one() -> None:
    assert problems({"model": "a/b"}, Known([]))[0].startswith("No model available: configure")
    failed = problems({"model": "a/b"}, Known([entry("p/ear", "audio")], ["openai:main"]))
    assert "openai:main" in failed[0]


@pytest.mark.parametrize(
    ("flags", "fields"),
    [
        ({}, {"llm", "persona", "think"}),
        ({"model": True}, {"llm"}),
        ({"persona": True}, {"persona"}),
        ({"think": True}, {"think"}),
        ({"model": True, "think": True}, {"llm", "think"}),
        ({"model": False}, {"persona", "think"}),
        ({"model": False, "think": True}, {"think"}),
    ],
)
def test_flags_unset_only_the_named_and_no_flags_all(flags: JsonObject, fields: set[str]) -> None:
    change = unset(flags)
    assert change.config.model_fields_set == fields
    assert all(getattr(change.config, field) is None for field in fields)
    assert change.name is None


RECORD = SessionInfo(
    id="s",
    name="old",
    config=SessionConfig(
        llm=ModelRef(provider="p", model="b"), persona="catgirl", think=False, max_tool_iterations=3
    ),
    metadata={"kept": None},
    created_at=1,
    updated_at=1,
)


def test_a_change_leaves_alone_what_it_does_not_name() -> None:
    after = read({"think": "on"}).applied(RECORD)
    assert after == RECORD.model_copy(
        update={"config": RECORD.config.model_copy(update={"think": True})}
    )


def test_a_reset_leaves_the_name_and_every_other_setting() -> None:
    after = unset({}).applied(RECORD)
    assert (after.name, after.config) == ("old", SessionConfig(max_tool_iterations=3))
    assert b"null" not in after.config.to_json()


def test_two_changes_of_one_record_lose_nothing_in_either_order() -> None:
    first, second = read({"think": "on", "name": "new"}), read({"persona": "strict-reviewer"})
    one = second.applied(first.applied(RECORD))
    assert one == first.applied(second.applied(RECORD))
    assert (one.name, one.config.think, one.config.persona) == ("new", True, "strict-reviewer")


def test_the_report_lists_what_was_and_what_is() -> None:
    change = read({"model": GPT, "think": "off", "name": "new"})
    assert report(RECORD, change.applied(RECORD), change, EN).split("\n") == [
        "This session's settings have changed:",
        f"Model: p/b → {GPT}",
        "Thinking: off (unchanged)",
        "Name: old → new",
    ]


def test_a_change_of_nothing_says_so() -> None:
    change = read({"think": "off"})
    assert report(RECORD, RECORD, change, Catalogue("zh")).split("\n") == [
        "设置没有变化：",
        "思考：关（未变）",
    ]
