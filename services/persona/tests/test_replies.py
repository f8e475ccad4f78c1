"""Replies: what becomes of a model's text under a persona."""

import pytest

from aalis_contracts.catalogue import Catalogue
from aalis_contracts.hooks import ReplyBeforeData
from aalis_persona.cards import Card
from aalis_persona.replies import Verdict, judge

EN = Catalogue("en")
FREE = Card(name="free")
JUDGED = Card.from_object(
    {
        "outputFormat": {"mood": {"type": "string"}, "reply": {"type": "string", "reply": True}},
        "outputFormatRetries": 2,
    }
)
GOOD = '{"mood": "calm", "reply": "hi"}'
WHOLE = '{"mood":"calm","reply":"hi"}'


def data(content: str, attempt: int = 0, **more: object) -> ReplyBeforeData:
    return ReplyBeforeData.from_object(
        {
            "content": content,
            "attempt": attempt,
            "sessionId": "s",
            "turnId": "t",
            "platform": "cli",
            **more,
        }
    )


def test_without_a_format_text_is_left_alone_and_json_unwrapped() -> None:
    assert judge(data("hello"), FREE, EN) == Verdict()
    assert judge(data('{"text":"hello"}'), FREE, EN).patch == {
        "content": "hello",
        "archiveContent": "hello",
    }


def test_a_right_answer_is_sent_as_its_reply_and_archived_whole() -> None:
    verdict = judge(data(f"sure! {GOOD}"), JUDGED, EN)
    assert verdict.patch == {"content": "hi", "archiveContent": WHOLE, "visibleContent": "hi"}
    assert verdict.state == {"mood": "calm"}


@pytest.mark.parametrize(
    ("session", "card", "rendered"),
    [(True, False, True), (None, True, True), (False, True, False), (None, False, False)],
)
def test_who_renders_json_gets_the_json(session: bool | None, card: bool, rendered: bool) -> None:
    one = JUDGED.model_copy(update={"client_side_json_rendering": card})
    patch = judge(data(GOOD, clientSideJsonRendering=session), one, EN).patch
    assert patch["content"] == (WHOLE if rendered else "hi")
    assert patch["visibleContent"] == "hi"


def test_an_empty_reply_field_is_meant_as_silence_for_everybody() -> None:
    silent = GOOD.replace('"hi"', '" "')
    for rendering in (False, True):
        patch = judge(data(silent, clientSideJsonRendering=rendering), JUDGED, EN).patch
        assert str(patch["content"]).strip() == ""


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "No JSON object was found."),
        ("words", "No JSON object was found."),
        ('{"reply":"hi"}', "What was wrong: mood is missing."),
        ('{"mood":1,"reply":"hi"}', "What was wrong: mood is not a string."),
    ],
)
def test_a_wrong_answer_goes_back_with_the_fields_and_the_reason(content: str, told: str) -> None:
    patch = judge(data(content), JUDGED, EN).patch
    assert patch["retryRequested"] is True
    assert patch["maxRetries"] == 2
    assert patch["retryFeedback"] == (
        f"It must be one JSON object with these fields: mood (string), reply (string). {told}"
    )


def test_when_no_attempt_is_left_nothing_is_sent_and_the_archive_says_why() -> None:
    patch = judge(data("words", attempt=2), JUDGED, EN).patch
    assert patch == {
        "content": "",
        "archiveContent": "[not sent: the output never had the required format]",
    }


def test_a_session_may_do_without_the_format() -> None:
    assert judge(data("words", disableOutputFormat=True), JUDGED, EN) == Verdict()


def test_what_another_interceptor_has_refused_is_not_judged_again() -> None:
    assert judge(data("words", retryRequested=True), JUDGED, EN) == Verdict()
