"""The order in which persona is read is one list: docstring and import rule say the same."""

import re
import tomllib
from pathlib import Path

import aalis_persona

ROOT = Path(__file__).parents[3]


def test_the_docstring_and_the_import_rule_are_one_list() -> None:
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = rules["tool"]["importlinter"]["contracts"]
    rule = next(one for one in contracts if one["id"] == "persona-reads-top-to-bottom")
    layers = [layer for layer in rule["layers"] if layer != "__main__"]
    assert re.findall(r"`(\w+)`", aalis_persona.__doc__ or "") == layers
