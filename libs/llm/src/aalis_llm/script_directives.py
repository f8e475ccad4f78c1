"""This is about directives: lines by which a person tells the scripted model what to do (LLM-45).

    !say TEXT            !think TEXT          !call TOOL {json}   (several: parallel calls)
    !slow MS             !fail STATUS         !cut CHUNKS         !hang

With calls, `!fail`, `!cut` and `!hang` happen after the results, so that one can kill, abort or
lose a turn whose tools have run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from aalis_llm.script import CallSpec

_SENDER: Final = re.compile(r"\A\[[^\n]{0,200}?\]: ")
_LINE: Final = re.compile(r"!(say|think|call|slow|fail|cut|hang)(?![\w-])[ \t]*(.*)", re.DOTALL)
_LONGEST_WAIT: Final = 600_000
_STATUSES: Final = range(400, 600)


@dataclass(frozen=True)
class Directives:
    """What the directives of one text ask for."""

    say: str = ""
    think: str = ""
    calls: tuple[CallSpec, ...] = ()
    slow_ms: int = 0
    fail: int | None = None
    cut: int | None = None
    hang: bool = False


def read_directives(text: str) -> Directives | None:
    """Read the directives of a user text, None without any; a sender label before them is fine."""
    lines = _SENDER.sub("", text).splitlines()
    found = [match for match in map(_LINE.fullmatch, (line.strip() for line in lines)) if match]
    if not found:
        return None
    texts: dict[str, list[str]] = {"say": [], "think": []}
    numbers: dict[str, int] = {}
    calls: list[CallSpec] = []
    for word, rest in (match.groups() for match in found):
        if word in texts:
            texts[word].append(rest)
        elif word == "call" and rest:
            tool, _, arguments = rest.partition(" ")
            calls.append(CallSpec(tool=tool, args=arguments.strip()))
        elif rest.isdecimal():
            numbers[word] = int(rest[:9])
    status = numbers.get("fail", 500)
    return Directives(
        say="\n".join(texts["say"]),
        think="\n".join(texts["think"]),
        calls=tuple(calls),
        slow_ms=min(numbers.get("slow", 0), _LONGEST_WAIT),
        fail=(status if status in _STATUSES else 500) if _has(found, "fail") else None,
        cut=numbers.get("cut", 0) if _has(found, "cut") else None,
        hang=_has(found, "hang"),
    )


def _has(found: list[re.Match[str]], word: str) -> bool:
    return any(match[1] == word for match in found)
