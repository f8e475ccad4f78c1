"""This is about overviews: what counts in a session, where it comes from, what it shadows (CMD-22).

The four layers of SES-4 are always shown, strongest first, so that a person sees where a value
would have to stand to win. Below them a model has two more: the agent's own default, and the
first one there is (AG-66).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aalis_agent.ports import SessionView, Sourced
from aalis_contracts.catalogue import Catalogue
from aalis_contracts.messages import ModelRef
from aalis_contracts.models import ModelEntry
from aalis_contracts.text import one_line

LABELS: Final = {"llm": "settingModel", "persona": "settingPersona", "think": "settingThink"}
"""The settings that a person sees and sets, and the catalogue's keys of their names."""

_LAYERS: Final = {
    "session": "sourceSession",
    "parent": "sourceParent",
    "profile": "sourceProfile",
    "default": "sourceDefault",
}
_DEFAULT_LLM: Final = "sourceDefaultLlm"
_FIRST: Final = "sourceFirst"
_NOTHING: Final = "–"


@dataclass(frozen=True, slots=True)
class Offered:
    """The models that may be chosen, and the agent's own default among them."""

    entries: Sequence[ModelEntry]
    default_llm: str | None = None

    @property
    def names(self) -> list[str]:
        """The contextIds of those that can chat, as the providers are sorted."""
        return [entry.context_id for entry in self.entries if entry.can("chat")]


@dataclass(frozen=True, slots=True)
class _Link:
    """One layer of a chain: the catalogue's key of its name, and what it says, if anything."""

    layer: str
    value: str | None


def overview(session_id: str, view: SessionView, offered: Offered, texts: Catalogue) -> list[str]:
    """Return the lines about a session: its name, then each setting and its chain."""
    lines = [_title(session_id, view, texts)]
    for setting in LABELS:
        chain = _chain(setting, view, offered, texts)
        lines.append(_effective(setting, chain, offered, texts))
        links = (
            texts.text("chainLink", source=texts.text(link.layer), value=link.value or _NOTHING)
            for link in chain
        )
        lines.append("  " + " > ".join(links))
    return lines


def in_effect(view: SessionView, offered: Offered, texts: Catalogue) -> list[str]:
    """Return a line about each setting: what counts now, and where it comes from."""
    return [
        _effective(setting, _chain(setting, view, offered, texts), offered, texts)
        for setting in LABELS
    ]


def shown(value: object, texts: Catalogue) -> str:
    """Return a setting's value as a person reads it."""
    match value:
        case None:
            return texts.text("notSet")
        case ModelRef():
            return f"{value.provider}/{value.model}"
        case bool():
            return texts.text("thinkOn" if value else "thinkOff")
        case _:
            return one_line(str(value), 100)


def _title(session_id: str, view: SessionView, texts: Catalogue) -> str:
    known_as = one_line(session_id, 100)
    if view.record is None:
        return texts.text("sessionUnnamed", id=known_as)
    return texts.text("sessionNamed", name=one_line(view.record.name, 100), id=known_as)


def _chain(setting: str, view: SessionView, offered: Offered, texts: Catalogue) -> list[_Link]:
    said = {one.source: one for one in view.values.get(setting, ())}
    chain = [_Link(key, _said(said.get(layer), texts)) for layer, key in _LAYERS.items()]
    if setting == "llm":
        # An unknown default gives way to the first model, as it does in a turn (SPEC AG-1).
        if offered.default_llm in offered.names:
            chain.append(_Link(_DEFAULT_LLM, offered.default_llm))
        chain += [_Link(_FIRST, name) for name in offered.names[:1]]
    return chain


def _said(one: Sourced | None, texts: Catalogue) -> str | None:
    return None if one is None else shown(one.value, texts)


def _effective(setting: str, chain: Sequence[_Link], offered: Offered, texts: Catalogue) -> str:
    label = texts.text(LABELS[setting])
    link = next((link for link in chain if link.value is not None), None)
    if link is None or link.value is None:
        return texts.text("settingUnset", setting=label)
    value = link.value
    if setting == "llm" and value not in offered.names:
        value = texts.text("notOffered", model=value)
    return texts.text("settingValue", setting=label, value=value, source=texts.text(link.layer))
