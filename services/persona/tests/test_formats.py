"""Formats: what a card demands of an answer, and how a model is told."""

from typing import Any

import pytest

from aalis_contracts.catalogue import Catalogue
from aalis_persona.cards import Card
from aalis_persona.formats import Format, format_of, format_problem, instruction

MOOD = {"type": "string", "description": "how you feel"}
REPLY = {"type": "string", "reply": True}


def card(fields: dict[str, Any], **more: object) -> Card:
    return Card.from_object({"outputFormat": fields, **more})


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, None),
        ({"mood": MOOD, "reply": REPLY}, None),
        ({"say": {"reply": True}}, None),
        ({"mood": MOOD}, "0 fields are marked"),
        ({"a": REPLY, "b": REPLY}, "2 fields are marked"),
        ({"reply": REPLY, "n": {"type": "integer"}}, "field 'n' has type 'integer'"),
    ],
)
def test_exactly_one_field_is_the_reply_and_types_are_known(
    fields: dict[str, Any], problem: str | None
) -> None:
    found = format_problem(card(fields))
    assert (found is None) if problem is None else (problem in (found or ""))
    assert (format_of(card(fields)) is None) == (problem is not None or not fields)


def test_a_format_keeps_the_order_of_its_fields_and_how_often_it_may_fail() -> None:
    demanded = format_of(card({"mood": MOOD, "reply": REPLY}, outputFormatRetries=3))
    assert demanded == Format({"mood": "string", "reply": "string"}, "reply", 3)
    assert demanded is not None
    assert list(demanded.fields) == ["mood", "reply"]


def test_a_model_is_told_every_field_with_type_and_meaning() -> None:
    one = card({"mood": MOOD, "warm": {"type": "number"}, "reply": REPLY})
    demanded = format_of(one)
    assert demanded is not None
    assert instruction(one, demanded, Catalogue("en")).splitlines() == [
        "Answer with one JSON object and nothing before or after it. Its fields:",
        "- mood (string): how you feel",
        "- warm (number)",
        "- reply (string): what you say to the other person",
        'For example: {"mood":"…","warm":0,"reply":"…"}',
    ]


def test_a_card_may_say_it_in_its_own_words() -> None:
    one = card({"reply": {**REPLY, "description": "say it"}}, outputFormatPrompt=" JSON only! ")
    demanded = format_of(one)
    assert demanded is not None
    lines = instruction(one, demanded, Catalogue("en")).splitlines()
    assert lines[:2] == ["JSON only!", "- reply (string): say it"]
