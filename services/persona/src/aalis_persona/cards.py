"""This is about cards: what a persona is, as somebody wrote it down in YAML (SPEC PER-2).

A card is known by the name of its file. Keys that no card has are kept aside, so that a mistyped
one can be named to whoever wrote it.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field

from aalis_contracts.contract import Contract


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


Texts = Annotated[list[str], BeforeValidator(_listed)]
"""A list of texts; a lone text counts as a list of one."""


class OutputField(Contract):
    """One field of the JSON that a model is to answer with; `reply` marks what the person reads."""

    type: str = "string"
    description: str = ""
    reply: bool = False


class Card(Contract):
    """A persona: identity, what it is called, and the format of its answers."""

    model_config = ConfigDict(extra="allow")

    name: str = ""
    description: str = ""
    prompt: str = ""
    traits: Texts = Field(default_factory=list[str])
    nick_name: Texts = Field(default_factory=list[str])
    greeting: str = ""
    output_format: dict[str, OutputField] = Field(default_factory=dict[str, OutputField])
    output_format_prompt: str = ""
    output_format_retries: Annotated[int, Field(ge=0, le=10)] = 1
    client_side_json_rendering: bool = False

    @property
    def unknown_keys(self) -> list[str]:
        """The keys that mean nothing here, in the order in which they were written."""
        return list(self.model_extra or {})
