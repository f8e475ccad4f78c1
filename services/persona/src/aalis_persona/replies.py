"""This is about replies: what becomes of a model's text under a persona (SPEC PER-6, PER-7)."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import JsonValue

from aalis_contracts.catalogue import Catalogue
from aalis_contracts.hooks import ReplyBeforeData
from aalis_contracts.text import JsonObject, compact_json
from aalis_persona.answers import Answer, Mismatch, read_answer, unwrapped
from aalis_persona.cards import Card
from aalis_persona.formats import Format, format_of


@dataclass(frozen=True)
class Verdict:
    """The patch for `agent:reply:before`, and the state that an accepted answer leaves."""

    patch: JsonObject = field(default_factory=dict[str, JsonValue])
    state: JsonObject | None = None


def judge(data: ReplyBeforeData, card: Card, texts: Catalogue) -> Verdict:
    """Decide on the text of a turn that was planned with this card."""
    if data.retry_requested:
        return Verdict()  # somebody before us has refused this text already
    demanded = None if data.disable_output_format else format_of(card)
    if demanded is None:
        said = unwrapped(data.content)
        return Verdict() if said is None else Verdict({"content": said, "archiveContent": said})
    answer = read_answer(data.content, demanded)
    if isinstance(answer, Mismatch):
        return _refused(data, answer, demanded, texts)
    return _accepted(data, answer, card, demanded)


def _accepted(data: ReplyBeforeData, answer: Answer, card: Card, demanded: Format) -> Verdict:
    whole = compact_json(answer.fields)
    rendered = data.client_side_json_rendering
    if rendered is None:
        rendered = card.client_side_json_rendering
    # An empty reply is meant as silence, also for who would draw the rest.
    content = whole if rendered and answer.reply.strip() else answer.reply
    state = {name: value for name, value in answer.fields.items() if name != demanded.reply}
    return Verdict(
        {"content": content, "archiveContent": whole, "visibleContent": answer.reply}, state
    )


def _refused(
    data: ReplyBeforeData, mismatch: Mismatch, demanded: Format, texts: Catalogue
) -> Verdict:
    if data.attempt < demanded.retries:
        return Verdict(
            {
                "retryRequested": True,
                "retryFeedback": feedback(mismatch, demanded, texts),
                "maxRetries": demanded.retries,
            }
        )
    return Verdict({"content": "", "archiveContent": texts.text("personaFormatGivenUp")})


def feedback(mismatch: Mismatch, demanded: Format, texts: Catalogue) -> str:
    """Return what a model is told of an answer that does not fit: the fields, and what is wrong."""
    fields = ", ".join(f"{name} ({kind})" for name, kind in demanded.fields.items())
    needed = texts.text("personaFormatNeeded", fields=fields)
    if not mismatch.found:
        return f"{needed} {texts.text('personaFormatAbsent')}"
    problems = [texts.text("personaFieldMissing", name=name) for name in mismatch.missing]
    problems += [
        texts.text("personaFieldMistyped", name=name, type=demanded.fields[name])
        for name in mismatch.mistyped
    ]
    return f"{needed} {texts.text('personaFormatProblems', problems='; '.join(problems))}"
