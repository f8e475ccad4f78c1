"""This is about errands: what is said during a chaos run, and what must come of it. Pure.

The words of a message say all: `#WORD KIND`. The scripted model acts on the kind of the newest one,
and answers with the word, so that each reply, effect and model call can be told apart afterwards.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from aalis_llm.script import CallSpec, Rule, Script, StreamSpec, When

PLATFORM: Final = "chaos"
_SAID: Final = r"(?s)(?:\A|.*\s)#(\S+) {kind}\s*\Z"
_WORDS: Final = re.compile(_SAID.format(kind=r"(\S+)"))


@dataclass(frozen=True)
class Kind:
    """One kind of errand: the calls of each round before the answer, and how it is written."""

    name: str
    rounds: tuple[tuple[CallSpec, ...], ...] = ()
    pace_ms: int = 0
    """Milliseconds between two chunks of each answer."""

    @property
    def stamps(self) -> tuple[str, ...]:
        """The tools whose effects an errand of this kind leaves, in order."""
        return tuple(
            call.tool
            for calls in self.rounds
            for call in calls
            if call.tool != "prompt_budget_info"
        )


def _call(tool: str, **more: object) -> CallSpec:
    return CallSpec(tool=tool, args={"word": "{match.1}", **more})  # type: ignore[dict-item]


KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind("talk"),
        Kind("slow", pace_ms=200),
        Kind("stamp", ((_call("stamp"),),)),
        Kind("both", ((_call("stamp"), _call("restamp")),)),
        Kind("chain", ((_call("stamp"),), (_call("restamp"),))),
        Kind("long", ((_call("stamp", ms=2500),),)),
        Kind("budget", ((CallSpec(tool="prompt_budget_info"),),)),
    )
}


@dataclass(frozen=True)
class Errand:
    """Something that is said once, and must be answered once."""

    word: str
    session_id: str
    kind: Kind = field(default=KINDS["stamp"])

    @property
    def text(self) -> str:
        """What is said."""
        return f"#{self.word} {self.kind.name}"

    @property
    def opening(self) -> str:
        """How its reply begins."""
        return f"{self.kind.name} {self.word}:"


def word_of(text: str) -> str | None:
    """Return the word of the newest errand in a text, if there is one."""
    found = _WORDS.match(text)
    return found[1] if found else None


def script() -> Script:
    """Return what the scripted model does for each kind."""
    return Script(rules=[rule for kind in KINDS.values() for rule in _rules(kind)])


def _rules(kind: Kind) -> list[Rule]:
    text = _SAID.format(kind=kind.name)
    stream = StreamSpec(delay_ms=kind.pace_ms)
    calling = [
        Rule(when=When(text=text, iteration=number), call=list(calls), stream=stream)
        for number, calls in enumerate(kind.rounds)
    ]
    tale = f"{kind.name} {{match.1}}: {{result}} " + "and so it goes on " * 6
    return [*calling, Rule(when=When(text=text), reply=tale, repeat=True, stream=stream)]
