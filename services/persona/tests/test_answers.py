"""Answers: the JSON in a model's text, held against a format (PER-6)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aalis_persona.answers import Answer, Mismatch, read_answer, unwrapped
from aalis_persona.formats import Format

FORMAT = Format({"mood": "string", "warm": "number", "shy": "boolean", "say": "string"}, "say", 1)
ALONE = Format({"say": "string"}, "say", 1)
GOOD = '{"mood":"calm","warm":3,"shy":false,"say":"hi"}'
FIELDS = {"mood": "calm", "warm": 3, "shy": False, "say": "hi"}


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"Here it is:\n```json\n{GOOD}\n```",
        f'{{"an earlier": "try"}} {GOOD}',
        GOOD.replace(",", " ,\n "),
        GOOD[:-1],
        GOOD.replace("3", '"3"').replace("false", '" False "'),
        GOOD.replace('"say"', '"reply"'),
        GOOD.replace('"say"', '"msg"'),
        GOOD.replace('"say"', '"whatever"'),
        GOOD[:-1] + ',"undeclared":[1]}',
    ],
)
def test_a_right_answer_is_read_however_it_is_wrapped(text: str) -> None:
    assert read_answer(text, FORMAT) == Answer("hi", FIELDS)


def test_fields_stay_in_the_order_in_which_they_came() -> None:
    answer = read_answer('{"text":"hi","shy":true,"mood":"calm","warm":1}', FORMAT)
    assert isinstance(answer, Answer)
    assert list(answer.fields) == ["say", "shy", "mood", "warm"]


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ('{"reply":"no","say":"yes"}', "yes"),
        ('{"msg":"later","response":"first"}', "first"),
        ('{"response":7,"answer":"a text"}', "a text"),
        ('{"say":""}', ""),
    ],
)
def test_the_reply_has_its_own_name_or_the_first_alias_that_holds_one(
    text: str, reply: str
) -> None:
    assert read_answer(text, ALONE) == Answer(reply, {"say": reply})


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ('{"a":"x","b":"y"}', ("say",)),
        ('{"text":"a field of its own"}', ("say",)),
        ("{}", None),
    ],
)
def test_a_field_of_another_meaning_is_never_taken_for_the_reply(
    text: str, missing: tuple[str, ...] | None
) -> None:
    demanded = Format({"text": "string", "say": "string"}, "say", 1)
    found = read_answer(text, demanded)
    assert isinstance(found, Mismatch)
    assert (found.missing[-1:] or None) == missing


@pytest.mark.parametrize(
    ("text", "mismatch"),
    [
        ("just words", Mismatch(found=False)),
        ("", Mismatch(found=False)),
        ("[1, 2]", Mismatch(found=False)),
        (GOOD.replace('"mood":"calm",', ""), Mismatch(found=True, missing=("mood",))),
        (GOOD.replace("3", '"very"'), Mismatch(found=True, mistyped=("warm",))),
        (GOOD.replace("3", "true"), Mismatch(found=True, mistyped=("warm",))),
        (GOOD.replace("3", "1e999"), Mismatch(found=True, mistyped=("warm",))),
        (GOOD.replace("3", "NaN"), Mismatch(found=True, mistyped=("warm",))),
        (GOOD.replace("3", "9" * 400), Mismatch(found=True, mistyped=("warm",))),
        (GOOD.replace("false", '"maybe"'), Mismatch(found=True, mistyped=("shy",))),
        (GOOD.replace("false", "0"), Mismatch(found=True, mistyped=("shy",))),
        (GOOD.replace('"hi"', "null"), Mismatch(found=True, mistyped=("say",))),
        (
            '{"shy":1,"say":"hi"}',
            Mismatch(found=True, missing=("mood", "warm"), mistyped=("shy",)),
        ),
    ],
)
def test_a_wrong_answer_says_what_is_wrong(text: str, mismatch: Mismatch) -> None:
    assert read_answer(text, FORMAT) == mismatch


@pytest.mark.parametrize(
    ("said", "number", "text"),
    [
        ("7", 7, "7"),
        ('"7"', 7, "7"),
        ('"007"', 7, "7"),
        ('" -2.5 "', -2.5, "-2.5"),
        ('"1e3"', 1000.0, "1000.0"),
    ],
)
def test_a_number_may_come_as_text_and_may_be_what_is_said(
    said: str, number: float, text: str
) -> None:
    found = read_answer(f'{{"n": {said}}}', Format({"n": "number"}, "n", 1))
    assert found == Answer(text, {"n": number})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"response":"hi"}', "hi"),
        ('  {"message":"hi","mood":1}\n', "hi"),
        ('{"message":"later","reply":"first"}', "first"),
        ('{"reply":5,"text":"hi"}', "hi"),
        ('{"other":"hi"}', None),
        ('{"reply": "cut', None),
        ('{"reply": "hi"} and more', None),
        ('say {"reply":"hi"}', None),
        ("plain", None),
        ("", None),
        ('{"a":' * 100_000, None),
    ],
)
def test_json_that_nobody_asked_for_is_unwrapped(text: str, said: str | None) -> None:
    assert unwrapped(text) == said


@given(st.text(alphabet='{}[]",:\\a1e. truefalsnm\ud800', max_size=60))
def test_no_text_raises(text: str) -> None:
    for demanded in (FORMAT, ALONE):
        assert isinstance(read_answer(text, demanded), Answer | Mismatch)
    assert isinstance(unwrapped(text), str | None)
