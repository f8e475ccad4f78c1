"""Planning: which tools a turn offers, and how many rounds it may take."""

import pytest

from aalis_agent.adapters.fakes import FakeTools
from aalis_agent.planning import iteration_limit, offered
from aalis_contracts.sessions import SessionConfig


async def nothing(*_: object) -> str:
    return ""


@pytest.mark.parametrize(
    ("groups", "names"),
    [
        (None, ["free"]),
        ([], ["free"]),
        (["files"], ["free", "read"]),
        (["web", "files"], ["both", "free", "read"]),
        (["unknown"], ["free"]),
        (["*"], ["both", "free", "read"]),
    ],
)
def test_tools_are_offered_by_group(groups: list[str] | None, names: list[str]) -> None:
    tools = FakeTools()
    tools.add("read", nothing, groups=["files"])
    tools.add("free", nothing)
    tools.add("both", nothing, groups=["web", "other"])
    assert [entry.name for entry in offered(tools.entries(), groups)] == names


@pytest.mark.parametrize(
    ("wanted", "limit"), [(None, 30), (0, 30), (-1, 30), (2.5, 30), (1, 1), (7, 7), (7.0, 7)]
)
def test_a_session_limits_its_rounds_by_a_positive_integer(
    wanted: float | None, limit: int
) -> None:
    config = SessionConfig.from_object({"maxToolIterations": wanted})
    assert iteration_limit(config, 30) == limit
