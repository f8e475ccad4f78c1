"""Every example, as its own process beside the real stack, changes a real turn as it says."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aalis_contracts.subjects import tool_key
from aalis_sdk.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aalis_sdk.testing.person import Person
    from aalis_sdk.testing.processes import ServiceProcess, Spawner
    from aalis_sdk.testing.stack import Stack

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "plugins.md"
NAMES = {  # what each calls itself in the registry; None = it is not there
    "abbreviations": "writing",
    "greet": "greet",
    "guard": "guard",
    "house_rules": "house",
    "plain_nats": None,
    "signature": "signature",
    "watch": "watch",
    "weather": "weather",
}


def test_no_example_is_left_out_and_the_page_shows_each_as_it_is() -> None:
    files = {file.stem: file.read_text(encoding="utf-8") for file in ROOT.glob("examples/*.py")}
    assert set(files) == set(NAMES)
    shown = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert sorted(shown) == sorted(files.values())


@pytest.mark.timeout(240)
async def test_each_example_acts_on_a_real_turn(
    stack: Stack,
    spawn_service: Spawner,
    person: Callable[..., Awaitable[Person]],
    subtests: pytest.Subtests,
) -> None:
    somebody = await person()
    before = await somebody.ask("!say brb")
    assert before.content == "brb"
    running = await _start_all(spawn_service, somebody)
    signed = "\n— Aalis"

    with subtests.test("a preprocessor rewrites, an interceptor changes the reply"):
        assert (await somebody.ask("!say brb now")).content == "be right back now" + signed

    with subtests.test("a tool is called"):
        answer = await somebody.ask('!call weather {"city": "Lisbon"}')
        assert "It is sunny in Lisbon." in answer.content

    with subtests.test("a tool in plain NATS is called"):
        answer = await somebody.ask('!call roman {"number": 1984}')
        assert "MCMLXXXIV" in answer.content

    with subtests.test("an interceptor stops a call"):
        answer = await somebody.ask('!call weather {"city": "Atlantis"}')
        assert "Nobody has been to Atlantis" in answer.content
        assert "sunny" not in answer.content

    with subtests.test("a contribution is part of the prompt"):
        injectors = somebody.usages[-1].breakdown.injectors or {}
        assert injectors["rules"] > 0
        assert "rules" not in (somebody.usages[0].breakdown.injectors or {})

    with subtests.test("a slash command answers"):
        assert (await somebody.ask("/greet Ann")).content == "Hello, Ann!"

    with subtests.test("an observer is told"):
        await running["watch"].wait_for_log("'!say be right back now' -> replied", 30.0)

    for service in ("agent", "gateway"):
        assert stack.warnings(service) == []
    assert all(process.alive for process in running.values())


async def _start_all(spawn: Spawner, somebody: Person) -> dict[str, ServiceProcess]:
    """Start every example at once and see that all they offer is known."""
    started = await asyncio.gather(
        *(
            spawn(ROOT / "examples" / f"{file}.py", name=name or file, ready=name is not None)
            for file, name in NAMES.items()
        )
    )
    registry = Registry(somebody.mesh)
    await registry.start()
    assert await registry.wait_for(lambda: registry.get(tool_key("roman")) is not None, 30.0)
    return dict(zip(NAMES, started, strict=True))
