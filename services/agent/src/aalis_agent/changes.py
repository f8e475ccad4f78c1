"""This is about changes: what is to be written of a session, or all that is wrong (CMD-23 to 25).

A change is a patch: what it does not name stays, an explicit null goes back to unset (CON-2). So
it can be made again on a newer record, and two at once lose nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from aalis_agent.overview import LABELS, shown
from aalis_agent.resolution import EXAMPLES, WANTED_LIMIT, Unresolved, named
from aalis_contracts.catalogue import Catalogue
from aalis_contracts.messages import ModelRef
from aalis_contracts.models import ModelEntry
from aalis_contracts.sessions import SessionConfig, SessionInfo
from aalis_contracts.text import JsonObject, one_line

NAME_LIMIT: Final = 100
THINK: Final = {"on": True, "off": False}
FIELDS: Final = {"model": "llm", "persona": "persona", "think": "think"}
"""The options of both commands, and the settings they stand for."""


@dataclass(frozen=True, slots=True)
class Known:
    """What may be chosen; `personas` None = they cannot be listed, `failed` = providers without."""

    entries: Sequence[ModelEntry]
    failed: Sequence[str] = ()
    personas: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Wrong:
    """An option that cannot be; `text` says why."""

    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be written."""

    config: SessionConfig
    name: str | None = None

    def applied(self, record: SessionInfo) -> SessionInfo:
        """Return the record with this change; what it does not name is as it was."""
        config = record.config.patched(self.config)
        name = record.name if self.name is None else self.name
        return record.model_copy(update={"config": config, "name": name})


def wanted(options: JsonObject, known: Known, texts: Catalogue) -> Change | list[str]:
    """Read the options of `/session.set`; a list says all that is wrong with them."""
    settings: dict[str, object] = {}
    name: str | None = None
    problems: list[str] = []
    for option, read_option in _READERS.items():
        value = options.get(option)
        if value is None:
            continue
        text = str(value).strip()
        read = read_option(text, known, texts) if text else _empty(option, texts)
        if isinstance(read, Wrong):
            problems.append(read.text)
        elif option in FIELDS:
            settings[FIELDS[option]] = read
        else:
            name = one_line(text, NAME_LIMIT)
    return problems or Change(SessionConfig.model_validate(settings), name)


def unset(options: JsonObject) -> Change:
    """Read the flags of `/session.reset`: the named settings, without any all of them.

    A flag that says no (`--no-model`) keeps its setting. The display name is never touched.
    """
    named_ones = [field for option, field in FIELDS.items() if options.get(option) is True]
    kept = [field for option, field in FIELDS.items() if options.get(option) is False]
    fields = named_ones or [field for field in FIELDS.values() if field not in kept]
    return Change(SessionConfig.model_validate(dict.fromkeys(fields)))


def report(before: SessionInfo, after: SessionInfo, change: Change, texts: Catalogue) -> str:
    """Say what a change has changed, and what was so before."""
    lines = [
        _line(LABELS[field], getattr(before.config, field), getattr(after.config, field), texts)
        for field in LABELS
        if field in change.config.model_fields_set
    ]
    if change.name is not None:
        lines.append(_line("settingName", before.name, after.name, texts))
    header = "sessionSame" if change.applied(before) == before else "sessionSet"
    return "\n".join([texts.text(header), *lines])


def _line(label: str, before: object, after: object, texts: Catalogue) -> str:
    key = "settingSame" if before == after else "settingChanged"
    values = {"before": shown(before, texts)} if before != after else {}
    return texts.text(key, setting=texts.text(label), after=shown(after, texts), **values)


def _empty(option: str, texts: Catalogue) -> Wrong:
    return Wrong(texts.text("problemMissingValue", option=f"--{option}"))


def _model(text: str, known: Known, texts: Catalogue) -> ModelRef | Wrong:
    """Find a model by its contextId; provider and model are those of its entry (CMD-24)."""
    entry = named(text, known.entries, known.failed, texts)
    if isinstance(entry, Unresolved):
        return Wrong(entry.text)
    return ModelRef(provider=entry.provider_id, model=entry.id)


def _persona(text: str, known: Known, texts: Catalogue) -> str | Wrong:
    if known.personas is None or text in known.personas:
        return text
    names = sorted(set(known.personas))
    if not names:
        return Wrong(texts.text("noPersonas"))
    values = {"wanted": one_line(text, WANTED_LIMIT), "examples": ", ".join(names[:EXAMPLES])}
    return Wrong(texts.text("unknownPersona", total=len(names), **values))


def _think(text: str, _: Known, texts: Catalogue) -> bool | Wrong:
    if text in THINK:
        return THINK[text]
    choices = ", ".join(THINK)
    return Wrong(texts.text("problemNotAChoice", name="--think", value=text, choices=choices))


def _name(text: str, _: Known, __: Catalogue) -> str:
    return text


_READERS: Final[dict[str, Callable[[str, Known, Catalogue], object]]] = {
    "model": _model,
    "persona": _persona,
    "think": _think,
    "name": _name,
}
