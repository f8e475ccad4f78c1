"""This is about who may run what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aalis_contracts.messages import Actor
from aalis_contracts.registry import Confirm, Risk, Visibility
from aalis_sdk.authority import (
    AuthorityData,
    Demand,
    Verdict,
    decide,
    demand,
    identity,
    strictest,
)

DATA = AuthorityData(
    levels={"chat:one": 1, "chat:two": 2, "chat:banned": -1, "chat:owner": -1},
    owners=["chat:owner"],
    denied=["clear", "rm"],
)


@pytest.mark.parametrize(
    ("risk", "visibility", "level"),
    [
        ("dangerous", "public", 2),
        ("sensitive", "public", 1),
        ("safe", "public", 0),
        ("safe", "restricted", 0),
        ("sensitive", "restricted", 1),
        (None, "restricted", 2),
        (None, "public", 0),
    ],
)
def test_a_declared_risk_decides_the_level_alone(
    risk: Risk | None, visibility: Visibility, level: int
) -> None:
    assert demand(risk, visibility).level == level


@pytest.mark.parametrize(
    ("who", "level", "verdict"),
    [
        (None, 0, "allowed"),
        (None, 1, "denied"),
        ("chat:any", 0, "allowed"),
        ("chat:any", 1, "denied"),
        ("chat:one", 1, "allowed"),
        ("chat:one", 2, "denied"),
        ("chat:two", 2, "allowed"),
        ("chat:banned", 0, "denied"),
        ("chat:owner", 2, "allowed"),
        ("webui:console", 2, "allowed"),
        ("cli:console", 2, "allowed"),
        ("chat:console", 2, "denied"),
    ],
)
def test_a_level_is_reached_or_not(who: str | None, level: int, verdict: Verdict) -> None:
    decision = decide(who, level, ["x"], DATA)

    assert (decision.verdict, decision.level) == (verdict, level)
    assert decision.allowed == (verdict == "allowed")


@pytest.mark.parametrize("who", [None, "chat:two", "chat:owner", "webui:console"])
def test_what_is_denied_is_denied_to_owners_too(who: str | None) -> None:
    assert decide(who, 0, ["clear", "clear.all"], DATA).verdict == "switched-off"


@pytest.mark.parametrize("who", [None, "chat:two", "webui:console"])
def test_unreadable_data_refuses_what_demands_a_level(who: str | None) -> None:
    assert decide(who, 0, ["x"], None).allowed
    assert decide(who, 1, ["x"], None).verdict == "unreadable"
    assert decide(who, 2, ["x"], None).verdict == "unreadable"


def test_the_actor_acts_if_there_is_one() -> None:
    assert identity("chat", "u") == "chat:u"
    assert identity("chat", "u", Actor(platform="cli", user_id="console")) == "cli:console"
    assert identity("chat", None) is None
    assert identity("chat", "") is None


@given(*[st.text(min_size=1)] * 4)
def test_two_people_never_share_an_identity(a: str, b: str, c: str, d: str) -> None:
    left, right = identity(a, b), identity(c, d)

    assert (left == right) == ((a, b) == (c, d))


levels = st.builds(Demand, st.integers(0, 2), st.sampled_from([None, "session", "always"]))


@given(st.lists(levels))
def test_more_declarations_never_loosen(demands: list[Demand]) -> None:
    order: dict[Confirm | None, int] = {None: 0, "session": 1, "always": 2}
    together = strictest(demands)

    assert together.level == max((each.level for each in demands), default=0)
    assert order[together.confirm] == max((order[e.confirm] for e in demands), default=0)
