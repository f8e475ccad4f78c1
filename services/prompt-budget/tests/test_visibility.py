"""This is about who may see whose budget."""

import pytest

from aalis_contracts.messages import Actor
from aalis_contracts.tools import ToolCallContext
from aalis_prompt_budget.settings import BudgetSettings
from aalis_prompt_budget.snapshots import Usage
from aalis_prompt_budget.visibility import Allowed, may_see, read_allowed
from aalis_sdk.settings import SettingsError, load

NOBODY = Allowed(frozenset(), frozenset())


def context(
    session: str = "mine",
    platform: str = "webui",
    user: str | None = "u",
    actor: Actor | None = None,
) -> ToolCallContext:
    return ToolCallContext(
        session_id=session,
        platform=platform,
        user_id=user,
        actor=actor,
        turn_id="t",
        call_id="c",
        key="k",
        enabled_groups=[],
    )


def usage(platform: str | None = "webui", user: str | None = "u") -> Usage:
    return Usage(session_id="other", platform=platform, user_id=user)


def test_ones_own_session_is_always_visible() -> None:
    assert may_see(context("mine", user=None), "mine", usage("onebot", "x"), NOBODY)


def test_another_session_of_the_same_person_is_visible() -> None:
    assert may_see(context(), "other", usage(), NOBODY)


@pytest.mark.parametrize(
    ("platform", "user"), [("onebot", "u"), ("webui", "v"), (None, "u"), ("webui", None)]
)
def test_another_persons_session_is_not(platform: str | None, user: str | None) -> None:
    assert not may_see(context(), "other", usage(platform, user), NOBODY)


def test_nobody_is_not_the_same_as_nobody() -> None:
    assert not may_see(context(user=None), "other", usage(user=None), NOBODY)


def test_an_identity_on_the_operators_list_sees_all() -> None:
    allowed = read_allowed("webui:console, onebot:10")
    assert may_see(context(user="console"), "other", usage("x", "y"), allowed)
    assert may_see(context(platform="onebot", user="10"), "other", usage("x", "y"), allowed)
    assert not may_see(context(user="10"), "other", usage("x", "y"), allowed)
    assert not may_see(context(user=None), "other", usage("x", "y"), allowed)


def test_the_actor_is_the_one_who_acts() -> None:
    allowed = read_allowed("webui:console")
    admin = Actor(platform="webui", user_id="console")
    guest = Actor(platform="webui", user_id="guest")
    assert may_see(context(actor=admin), "other", usage("x", "y"), allowed)
    assert not may_see(context(user="console", actor=guest), "other", usage("x", "y"), allowed)


def test_a_session_on_the_operators_list_sees_all() -> None:
    assert may_see(context("ops"), "other", usage("x", "y"), read_allowed("ops"))


def test_a_session_named_like_an_operator_is_not_that_operator() -> None:
    allowed = read_allowed("webui:console")
    assert not may_see(context("webui:console"), "other", usage("x", "y"), allowed)


def test_separators_inside_ids_are_written_percent_encoded() -> None:
    allowed = read_allowed("a%3Ab:c%2Cd,group%3A7,100%25")
    assert allowed.identities == {("a:b", "c,d")}
    assert allowed.sessions == {"group:7", "100%"}


@pytest.mark.parametrize("bad", ["a:b:c", ":x", "x:"])
def test_an_entry_that_is_neither_stops_the_start_with_one_line(
    monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    monkeypatch.setenv("AALIS_BUDGET_ALLOW", f"fine, {bad}")
    with pytest.raises(SettingsError) as refused:
        load(BudgetSettings)
    assert "AALIS_BUDGET_ALLOW" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AALIS_BUDGET_SESSIONS", "0"),
        ("AALIS_BUDGET_SESSIONS", "many"),
        ("AALIS_BUDGET_TTL_SECONDS", "-1"),
        ("AALIS_BUDGET_TTL_SECONDS", "inf"),
        ("AALIS_BUDGET_TTL_SECONDS", "nan"),
    ],
)
def test_a_bound_that_is_no_positive_finite_number_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=name):
        load(BudgetSettings)
