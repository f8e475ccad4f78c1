"""Cards: what may stand in one, and how forgiving it is read (PER-2)."""

import pytest

from aalis_contracts.contract import InvalidBody
from aalis_persona.cards import Card


def test_a_card_may_be_empty_and_says_nothing_then() -> None:
    card = Card.from_object({})

    assert (card.name, card.traits, card.nick_name, card.output_format) == ("", [], [], {})
    assert card.output_format_retries == 1
    assert card.client_side_json_rendering is False
    assert card.unknown_keys == []


def test_a_lone_text_is_a_list_of_one_and_null_is_not_set() -> None:
    card = Card.from_object({"traits": "calm", "nick_name": None, "outputFormatRetries": None})

    assert card.traits == ["calm"]
    assert card.nick_name == []
    assert card.output_format_retries == 1


def test_keys_that_mean_nothing_are_named_in_their_order() -> None:
    card = Card.from_object({"name": "Miu", "z": 1, "promt": "x", "nickName": ["m"]})

    assert card.unknown_keys == ["z", "promt"]
    assert card.nick_name == ["m"]


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({"traits": [1]}, "traits.0"),
        ({"name": 3}, "name"),
        ({"outputFormat": {"a": "string"}}, "outputFormat.a"),
        ({"outputFormatRetries": -1}, "outputFormatRetries"),
        ({"outputFormatRetries": 11}, "outputFormatRetries"),
        ([], "Card"),
    ],
)
def test_a_value_of_another_shape_is_refused_by_name(value: object, complaint: str) -> None:
    with pytest.raises(InvalidBody, match=complaint):
        Card.from_object(value)
