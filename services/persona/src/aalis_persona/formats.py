"""This is about output formats: what a card demands of an answer, and how that is told (PER-5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, cast, get_args

from aalis_contracts.catalogue import Catalogue
from aalis_contracts.text import compact_json
from aalis_persona.cards import Card

FieldType = Literal["string", "number", "boolean"]
TYPES: Final[tuple[FieldType, ...]] = get_args(FieldType)
_EXAMPLES: Final[dict[FieldType, object]] = {"string": "…", "number": 0, "boolean": True}


@dataclass(frozen=True)
class Format:
    """The fields of an answer, and the one that is said to the person."""

    fields: Mapping[str, FieldType]
    reply: str
    retries: int


def format_problem(card: Card) -> str | None:
    """Say why a card's format cannot be used; None when it can, or when there is none."""
    for name, field in card.output_format.items():
        if field.type not in TYPES:
            return f"field {name!r} has type {field.type!r}; use one of {', '.join(TYPES)}"
    marked = sum(field.reply for field in card.output_format.values())
    if card.output_format and marked != 1:
        return f"{marked} fields are marked `reply: true`; mark exactly one"
    return None


def format_of(card: Card) -> Format | None:
    """Return the format that a card demands, None if it demands none that can be used."""
    if not card.output_format or format_problem(card) is not None:
        return None
    fields: dict[str, FieldType] = {
        name: cast("FieldType", field.type) for name, field in card.output_format.items()
    }
    reply = next(name for name, field in card.output_format.items() if field.reply)
    return Format(fields, reply, card.output_format_retries)


def instruction(card: Card, demanded: Format, texts: Catalogue) -> str:
    """Return what a model is told of the format: the card's own words or ours, then the fields."""
    lines = [card.output_format_prompt.strip() or texts.text("personaFormat")]
    for name, kind in demanded.fields.items():
        said = card.output_format[name].description.strip()
        if not said and name == demanded.reply:
            said = texts.text("personaReplyField")
        lines.append(f"- {name} ({kind}): {said}" if said else f"- {name} ({kind})")
    example = compact_json({name: _EXAMPLES[kind] for name, kind in demanded.fields.items()})
    lines.append(texts.text("personaFormatExample", example=example))
    return "\n".join(lines)
