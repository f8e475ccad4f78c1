"""The journal: what a lane remembers of its turns (SPEC §1.7)."""

from __future__ import annotations

from typing import cast, get_args

import pytest

from aalis_contracts.contract import Contract, InvalidBody
from aalis_contracts.examples import EXAMPLES, example
from aalis_contracts.journal import Fact, JournalEntry

FACTS = cast("tuple[type[Contract], ...]", get_args(get_args(Fact)[0]))


def test_the_facts_are_those_of_the_specification() -> None:
    assert [cls.model_fields["type"].default for cls in FACTS] == [
        "turn.started",
        "turn.resumed",
        "input.prepared",
        "turn.planned",
        "model.started",
        "model.responded",
        "tool.started",
        "tool.finished",
        "rows.saved",
        "reply.retried",
        "turn.replying",
        "turn.ended",
    ]


def test_facts_of_every_kind_come_back_in_order_and_as_what_they_were() -> None:
    facts = [EXAMPLES[cls.__name__] for cls in FACTS]
    entry = example(JournalEntry).model_copy(update={"facts": facts})
    read = JournalEntry.from_json(entry.to_json())
    assert read == entry
    assert [type(fact) for fact in read.facts] == list(FACTS)


@pytest.mark.parametrize("fact", [{}, {"type": None}, {"type": "turn.forgotten"}, "turn.started"])
def test_a_fact_without_a_known_type_is_refused(fact: object) -> None:
    body = {**example(JournalEntry).to_object(), "facts": [fact]}
    with pytest.raises(InvalidBody, match=r"^JournalEntry: facts\.0"):
        JournalEntry.from_object(body)
