"""This is about cases: inputs that broke other agents, by id (tests/data/context_cases.jsonl).

Each line has an `id`, a `kind`, what happens (`trigger`), how it must end (`expected`) and the
`input`, in the shape of the OpenAI chat API, with a shorthand for what is long. Every id is the
name of a test, or stands in docs/cases.md with the reason why it cannot occur here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, cast

Case = dict[str, Any]

FILE: Final = Path(__file__).resolve().parents[5] / "tests/data/context_cases.jsonl"


def case(name: str) -> Case:
    """Return the input of a case, written out."""
    return expanded(cases()[name]["input"])


def cases() -> dict[str, Case]:
    """Return all cases as they stand in the file, by id."""
    rows = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    return {row["id"]: row for row in rows}


def expanded(value: Any) -> Any:  # noqa: ANN401 - a case holds values of any shape
    """Write out the shorthand: `$repeat`, `$concat`, and `replace` inside strings."""
    if isinstance(value, list):
        return [expanded(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    value = cast("Case", value)
    if set(value) == {"$repeat"}:
        return value["$repeat"][0] * value["$repeat"][1]
    if set(value) == {"$concat"}:
        return "".join(expanded(part) for part in value["$concat"])
    fields = {key: expanded(item) for key, item in value.items()}
    for word, text in fields.pop("replace", {}).items():
        fields = json.loads(json.dumps(fields).replace(word, text))
    return fields
