"""This is about the system prompt: who the assistant is, and nothing that changes (SPEC PER-3).

The same card and options give the same bytes, so that a provider can keep what comes first.
"""

from __future__ import annotations

from aalis_contracts.catalogue import Catalogue
from aalis_persona.cards import Card
from aalis_persona.formats import Format, instruction


def system_prompt(
    name: str, card: Card, extra: str, demanded: Format | None, texts: Catalogue
) -> str:
    """Return name, description, traits, prompt, what the session adds, then the output format."""
    traits = [f"- {trait.strip()}" for trait in card.traits if trait.strip()]
    parts = [
        "\n".join((texts.text("personaName", name=name), card.description.strip())),
        "\n".join((texts.text("personaTraits"), *traits)) if traits else "",
        card.prompt,
        extra,
        instruction(card, demanded, texts) if demanded is not None else "",
    ]
    return "\n\n".join(text for part in parts if (text := part.strip()))
