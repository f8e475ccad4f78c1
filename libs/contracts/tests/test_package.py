"""What the package may lean on: pydantic and the types of the standard library."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import aalis_contracts

SOURCES = sorted(Path(str(aalis_contracts.__file__)).parent.glob("*.py"))
ALLOWED = {
    "__future__",
    "aalis_contracts",
    "argparse",
    "collections",
    "functools",
    "inspect",
    "json",
    "math",
    "pathlib",
    "pydantic",
    "pydantic_core",
    "re",
    "sys",
    "types",
    "typing",
    "urllib",
}


def imported(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


@pytest.mark.parametrize("path", SOURCES, ids=[path.stem for path in SOURCES])
def test_a_module_imports_words_only(path: Path) -> None:
    roots = {name.split(".")[0] for name in imported(path.read_text("utf-8"))}
    assert roots <= ALLOWED


def test_an_import_in_any_place_would_be_seen() -> None:
    source = "def f():\n    import asyncio.events\n    from os import path\n    from . import x\n"
    assert list(imported(source)) == ["asyncio.events", "os", "."]


def test_the_words_are_there_without_an_event_loop() -> None:
    program = (
        "import sys, aalis_contracts.subjects, aalis_contracts.journal, aalis_contracts.rpc\n"
        "found = {'aalis_sdk', 'asyncio', 'nats', 'faststream'} & sys.modules.keys()\n"
        "raise SystemExit(', '.join(sorted(found)) or None)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        capture_output=True,
        env={"PYTHONPATH": str(SOURCES[0].parents[1])},
        text=True,
    )
    assert (ended.returncode, ended.stderr.strip()) == (0, "")


def test_every_module_says_what_it_is_about() -> None:
    for path in SOURCES:
        docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        if path.stem == "__init__":
            assert all(f"`{other.stem}`" in docstring for other in SOURCES if other != path)
        else:
            assert docstring.startswith("This is about ")
