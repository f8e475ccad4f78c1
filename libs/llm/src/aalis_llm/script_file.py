"""This is about reading a script file, and saying where it is wrong (SPEC LLM-40).

A script is read and checked once, at start.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Final

from aalis_llm.checked_yaml import read_yaml, read_yaml_file
from aalis_llm.script import Script

if TYPE_CHECKING:
    from pathlib import Path

DEMO: Final = "demo.yaml"
"""The script that is built in, beside this module."""


def demo_script() -> Script:
    """Return the script that is built in (SPEC LLM-46)."""
    return parse_script(files("aalis_llm").joinpath(DEMO).read_text(encoding="utf-8"), DEMO)


def load_script(path: str | Path) -> Script:
    """Read and check a script file; raise `UnreadableYaml` with file, line and reason."""
    return read_yaml_file(path, Script)


def parse_script(text: str, name: str = "script") -> Script:
    """Check the text of a script; `name` stands for the file in error messages."""
    return read_yaml(text, name, Script)
