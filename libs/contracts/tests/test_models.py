"""Models: what they can do, what they are asked, what they answer (SPEC CON-36 to CON-39)."""

from __future__ import annotations

import pytest

from aalis_contracts.contract import InvalidBody
from aalis_contracts.models import ChatResponse, ModelEntry, Usage


def entry(**changes: object) -> ModelEntry:
    fields: dict[str, object] = {
        "providerId": "openai:main",
        "id": "org/gpt:4o",
        "contextLength": 1000,
        "capabilities": ["chat"],
    }
    return ModelEntry.from_object({**fields, **changes})


@pytest.mark.parametrize("length", [0, -1, None, "many", 1.5])
def test_an_entry_without_a_positive_window_is_refused(length: object) -> None:
    with pytest.raises(InvalidBody, match="contextLength"):
        entry(contextLength=length)


def test_the_context_id_keeps_slashes_and_colons_of_both_parts() -> None:
    assert entry().context_id == "openai:main/org/gpt:4o"


def test_an_entry_can_what_it_claims_and_nothing_else() -> None:
    assert entry().can("chat")
    assert not entry().can("vision")


@pytest.mark.parametrize("cached", [None, 0, 5])
def test_an_unknown_number_of_cached_tokens_differs_from_none(cached: int | None) -> None:
    usage = Usage(
        prompt_tokens=9, completion_tokens=1, total_tokens=10, cached_prompt_tokens=cached
    )
    assert Usage.from_json(usage.to_json()).cached_prompt_tokens == cached
    assert (b"cachedPromptTokens" in usage.to_json()) == (cached is not None)


def test_an_empty_answer_stopped() -> None:
    assert ChatResponse.from_json(b"{}") == ChatResponse(content=None, finish_reason="stop")
