"""This is about the last step before a model call: the list in a shape its provider accepts.

Whatever the history holds (old aborts, foreign imports, rows of another model), the ten rules of
SPEC §2.9 hold afterwards; a list that already fits comes back equal. Pure, idempotent and linear;
the input is untouched. The steps stand in `shape_texts`, `shape_tools`, `shape_roles` and
`shape_reasoning`, in the order in which they run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aalis_contracts.catalogue import Catalogue
from aalis_contracts.messages import Message
from aalis_contracts.models import ModelEntry, ProfileName
from aalis_llm.profiles import PROFILES
from aalis_llm.shape_reasoning import keep_reasoning
from aalis_llm.shape_roles import (
    ensure_first_and_last,
    join_leading_system,
    merge_neighbours,
    place_system,
)
from aalis_llm.shape_texts import (
    drop_empty,
    omit_images,
    place_images,
    prefix_delegations,
    translate_roles,
)
from aalis_llm.shape_tools import Repairs, mend_calls, pair_results, unique_ids

_NO_CATALOGUE: Final = Catalogue()


@dataclass(frozen=True)
class Shaped:
    """The list as it goes on the wire, and what had to be mended structurally.

    `repairs` counts by name (`resultDropped`, `resultMissing`, `resultMoved`, `controlDropped`);
    empty for a list that the agent itself built (SPEC SHAPE-11).
    """

    messages: list[Message]
    repairs: Mapping[str, int]


def as_seen(messages: Sequence[Message], entry: ModelEntry, catalogue: Catalogue) -> list[Message]:
    """Return `messages` without the images that this model would not be sent anyway.

    For whoever reckons what a list will cost: an image that is left out must not count.
    """
    if PROFILES[entry.profile].takes_images(vision=entry.can("vision")):
        return list(messages)
    return omit_images(messages, catalogue)


def to_provider_messages(
    messages: Sequence[Message],
    profile: ProfileName,
    *,
    vision: bool = False,
    provider_id: str = "",
    model: str = "",
    catalogue: Catalogue = _NO_CATALOGUE,
) -> list[Message]:
    """Return `messages` as the provider accepts them (SPEC SHAPE-1 to SHAPE-11)."""
    return shape(
        messages,
        profile,
        vision=vision,
        provider_id=provider_id,
        model=model,
        catalogue=catalogue,
    ).messages


def shape(
    messages: Sequence[Message],
    profile: ProfileName,
    *,
    vision: bool = False,
    provider_id: str = "",
    model: str = "",
    catalogue: Catalogue = _NO_CATALOGUE,
) -> Shaped:
    """Do what `to_provider_messages` does, and report the structural repairs.

    `provider_id` and `model` name the entry that is asked: reasoning that another one signed does
    not go to it.
    """
    rules, repairs = PROFILES[profile], Repairs()
    listed = translate_roles(messages, catalogue, repairs)
    listed = mend_calls(listed)
    listed = pair_results(listed, catalogue, repairs)
    listed = unique_ids(listed, rules)
    listed = place_images(listed, rules, catalogue, vision=vision)
    listed = drop_empty(listed, rules, catalogue)
    listed = prefix_delegations(listed, catalogue)
    listed = place_system(listed, rules, catalogue)
    if rules.joins_leading_system:
        listed = join_leading_system(listed)
    if rules.alternates:
        listed = merge_neighbours(listed)
    listed = ensure_first_and_last(listed, rules, catalogue)
    listed = keep_reasoning(listed, rules, provider_id, model)
    return Shaped(listed, dict(repairs))
