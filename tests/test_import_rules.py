"""Each import rule, broken once on purpose: a rule nobody has seen fail may not be watching."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("cli/src", "libs/*/src", "services/*/src")

# rule, the file that breaks it (new, or added to), the import that breaks it
BREACHES = [
    ("packages", "libs/contracts/src/aalis_contracts/planted.py", "import aalis_sdk"),
    ("packages", "libs/sdk/src/aalis_sdk/planted.py", "import aalis_llm"),
    ("packages", "libs/llm/src/aalis_llm/planted.py", "import aalis_agent"),
    ("packages", "services/agent/src/aalis_agent/lane.py", "import aalis_memory"),
    ("packages", "services/gateway/src/aalis_gateway/records.py", "import aalis_agent"),
    ("packages", "services/memory/src/aalis_memory/planted.py", "import aalis_cli"),
    ("contracts-are-words", "libs/contracts/src/aalis_contracts/planted.py", "import asyncio"),
    ("contracts-are-words", "libs/contracts/src/aalis_contracts/planted.py", "import os.path"),
    (
        "prompt-budget-is-a-plugin",
        "services/prompt-budget/src/aalis_prompt_budget/app.py",
        "import aalis_llm",
    ),
    (
        "persona-is-a-plugin",
        "services/persona/src/aalis_persona/replies.py",
        "import aalis_llm.port",
    ),
    ("llm-pure-modules", "libs/llm/src/aalis_llm/shape.py", "import asyncio"),
    ("llm-pure-modules", "libs/llm/src/aalis_llm/script_rules.py", "import random"),
    ("one-importer-anthropic", "services/agent/src/aalis_agent/lane.py", "import anthropic"),
    ("one-importer-anthropic", "libs/llm/src/aalis_llm/openai.py", "import anthropic"),
    ("one-importer-openai", "services/memory/src/aalis_memory/planted.py", "import openai.types"),
    ("one-importer-nats", "services/agent/src/aalis_agent/lane.py", "import nats.js"),
    ("one-importer-nats", "services/gateway/src/aalis_gateway/records.py", "import faststream"),
    ("one-importer-sqlalchemy", "services/memory/src/aalis_memory/planted.py", "import sqlalchemy"),
    (
        "one-importer-redis",
        "services/prompt-budget/src/aalis_prompt_budget/lookup.py",
        "import redis.asyncio",
    ),
    (
        "prompt-budget-reads-top-to-bottom",
        "services/prompt-budget/src/aalis_prompt_budget/snapshots.py",
        "import aalis_prompt_budget.lookup",
    ),
    (
        "prompt-budget-reads-top-to-bottom",
        "services/prompt-budget/src/aalis_prompt_budget/planted.py",
        "import json",
    ),
    (
        "prompt-budget-pure-modules",
        "services/prompt-budget/src/aalis_prompt_budget/budget.py",
        "import time",
    ),
    (
        "persona-reads-top-to-bottom",
        "services/persona/src/aalis_persona/formats.py",
        "import aalis_persona.answers",
    ),
    (
        "persona-pure-modules",
        "services/persona/src/aalis_persona/surroundings.py",
        "import time",
    ),
    (
        "agent-reads-top-to-bottom",
        "services/agent/src/aalis_agent/lane.py",
        "import aalis_agent.turn",
    ),
    (
        "agent-reads-top-to-bottom",
        "services/agent/src/aalis_agent/planted.py",
        "import json",
    ),
    (
        "agent-pure-modules",
        "services/agent/src/aalis_agent/steps.py",
        "import time",
    ),
    (
        "gateway-reads-top-to-bottom",
        "services/gateway/src/aalis_gateway/outbound.py",
        "import aalis_gateway.dispatch",
    ),
    (
        "gateway-reads-top-to-bottom",
        "services/gateway/src/aalis_gateway/planted.py",
        "import json",
    ),
    (
        "gateway-pure-modules",
        "services/gateway/src/aalis_gateway/questions.py",
        "import time",
    ),
]

# What the rules exist to allow: a door that is walked through must stay open.
DOORS = [
    ("libs/llm/src/aalis_llm/anthropic.py", "import anthropic"),
    ("libs/sdk/src/aalis_sdk/planted.py", "import nats, redis, aalis_contracts"),
    ("services/agent/src/aalis_agent/adapters/planted.py", "import nats"),
    ("services/memory/src/aalis_memory/adapters/planted.py", "import sqlalchemy"),
    ("cli/src/aalis_cli/planted.py", "import aalis_agent, aalis_sdk"),
]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of the source trees with the rules beside them."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for pattern in SOURCES:
        for source in ROOT.glob(pattern):
            shutil.copytree(
                source,
                tmp_path / source.relative_to(ROOT),
                ignore=shutil.ignore_patterns("__pycache__"),
            )
    return tmp_path


def plant(checkout: Path, file: str, statement: str) -> None:
    path = checkout / file
    path.parent.mkdir(exist_ok=True)
    (path.parent / "__init__.py").touch()
    with path.open("a", encoding="utf-8") as text:
        text.write(f"\n{statement}\n")


def broken_rules(checkout: Path) -> tuple[set[str], str]:
    """Return the names of the rules that import-linter calls broken, and its whole answer."""
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-logo", "--no-cache"],
        cwd=checkout,
        env={
            "COLUMNS": "400",
            "PYTHONPATH": ":".join(
                str(source) for pattern in SOURCES for source in checkout.glob(pattern)
            ),
        },
        check=False,
        capture_output=True,
        encoding="utf-8",
    )
    answer = done.stdout + done.stderr
    broken = {line.rpartition(" BROKEN")[0] for line in answer.splitlines() if " BROKEN" in line}
    assert (done.returncode == 0) == (not broken), answer
    return broken, answer


def rules() -> list[dict[str, Any]]:
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = configuration["tool"]["importlinter"]["contracts"]
    return found


def test_the_tree_as_it_is_keeps_every_rule(checkout: Path) -> None:
    broken, answer = broken_rules(checkout)

    assert not broken, answer
    assert f"Contracts: {len(rules())} kept, 0 broken." in answer


@pytest.mark.parametrize(("rule", "file", "statement"), BREACHES)
def test_a_planted_import_breaks_its_rule(
    checkout: Path, rule: str, file: str, statement: str
) -> None:
    plant(checkout, file, statement)

    broken, answer = broken_rules(checkout)

    assert {found["id"] for found in rules() if found["name"] in broken} == {rule}, answer


def test_the_doors_are_open(checkout: Path) -> None:
    for file, statement in DOORS:
        plant(checkout, file, statement)

    broken, answer = broken_rules(checkout)

    assert not broken, answer


def test_no_rule_goes_without_a_breach() -> None:
    assert {rule for rule, _, _ in BREACHES} == {found["id"] for found in rules()}
