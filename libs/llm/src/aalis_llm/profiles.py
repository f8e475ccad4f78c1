"""This is about what each kind of provider accepts: the table of SPEC LLM-5, as data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from aalis_contracts.models import ProfileName

TOOL_NAME_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9_-]")
LONGEST_TOOL_NAME: Final = 64


@dataclass(frozen=True)
class Profile:
    """One column of the table.

    `late_system`: what becomes of system messages after the leading run; `keeps_delegation`
    exempts the cross-session delegation. `alternates` also means that a user comes first and a
    user or tool last. `foreign_in_id` matches characters that a call id may not hold.
    """

    name: ProfileName
    late_system: Literal["stays", "marked"]
    alternates: bool
    reasoning: Literal["dropped", "required", "signed"]
    images: Literal["none", "user", "user and results"]
    keeps_delegation: bool = False
    joins_leading_system: bool = False
    text_with_calls: Literal["empty", "absent"] = "empty"
    foreign_in_id: re.Pattern[str] | None = None

    def takes_images(self, *, vision: bool) -> bool:
        """Say whether any image goes to a model that can or cannot see."""
        return vision and self.images != "none"


_PLAIN_IDS: Final = re.compile(r"[^A-Za-z0-9_-]")

PROFILES: Final[dict[ProfileName, Profile]] = {
    "openai": Profile(
        name="openai",
        late_system="stays",
        alternates=False,
        reasoning="dropped",
        images="user",
    ),
    "deepseek": Profile(
        name="deepseek",
        late_system="marked",
        keeps_delegation=True,
        alternates=False,
        reasoning="required",
        images="user",
    ),
    "anthropic": Profile(
        name="anthropic",
        late_system="marked",
        alternates=True,
        reasoning="signed",
        images="user and results",
        text_with_calls="absent",
        foreign_in_id=_PLAIN_IDS,
    ),
    "strict": Profile(
        name="strict",
        late_system="marked",
        joins_leading_system=True,
        alternates=True,
        reasoning="dropped",
        images="none",
        foreign_in_id=_PLAIN_IDS,
    ),
}
