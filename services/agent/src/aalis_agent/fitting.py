"""This is about fitting: what may be left out of a body that is too long for one message (JRN-8).

The broker takes no message above its limit, and a turn must not be lost because somebody sent a
huge picture or a tool wrote a book. Each kind of body has a few shorter forms, what is missed
least goes first; whoever sends one tries them until one fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar, cast

from aalis_contracts.contract import Contract
from aalis_contracts.events import ToolExecute, TurnAfter
from aalis_contracts.journal import (
    InputPrepared,
    ModelResponded,
    ToolFinished,
    TurnEnded,
    TurnReplying,
)
from aalis_contracts.messages import ContentSegment, IncomingMessage, Message, OutgoingMessage
from aalis_contracts.text import cut

KEPT: Final = 200_000
"""Characters that stay of a text that has to be cut."""

ELLIPSIS: Final = "…"

Body = TypeVar("Body", bound=Contract)


def shorter(body: Body) -> Iterator[Body]:
    """Return ever shorter forms of `body`; none for one that must go out as it is."""
    # Each form is made of the one before, so that what was left out stays out.
    for form in _forms(body):
        yield cast("Body", form)


def _forms(body: Contract) -> Iterator[Contract]:  # noqa: C901 - one case a kind of body
    match body:
        case IncomingMessage():
            yield from _incoming(body)
        case InputPrepared():
            for message in _incoming(body.message):
                yield body.model_copy(update={"message": message, "archived": _row(body.archived)})
            yield body.model_copy(
                update={
                    "message": _last(_incoming(body.message)),
                    "archived": _row(body.archived),
                    "metadata": {},
                }
            )
        case TurnAfter():
            for message in _incoming(body.message):
                yield body.model_copy(update={"message": message, "metadata": None})
            yield body.model_copy(
                update={
                    "message": _last(_incoming(body.message)),
                    "metadata": None,
                    "reply": _text(body.reply),
                }
            )
        case ModelResponded():
            lean = body.response.model_copy(
                update={
                    "reasoning_content": _text(body.response.reasoning_content),
                    "provider_data": None,
                }
            )
            yield body.model_copy(update={"response": lean})
            short = lean.model_copy(update={"content": _text(lean.content)})
            yield body.model_copy(update={"response": short})
        case ToolFinished():
            yield body.model_copy(update={"images": None})
            yield body.model_copy(
                update={"images": None, "content": cut(body.content, KEPT, ELLIPSIS)}
            )
        case TurnReplying() | OutgoingMessage():
            yield from _reply(body)
        case Message():
            yield from _rows(body)
        case ToolExecute():
            yield body.model_copy(update={"result": _text(body.result)})
            yield body.model_copy(update={"result": _text(body.result), "args": {}})
        case TurnEnded():
            yield body.model_copy(update={"text": _text(body.text), "error": _text(body.error)})
        case _:
            return


def _incoming(message: IncomingMessage) -> Iterator[IncomingMessage]:
    """Leave out what attachments hold, then metadata, then the end of the text."""
    bare = [one.model_copy(update={"data": None}) for one in message.attachments or ()]
    message = message.model_copy(update={"attachments": bare or None})
    yield message
    message = message.model_copy(update={"metadata": None})
    yield message
    yield message.model_copy(update={"content": cut(message.content, KEPT, ELLIPSIS)})


def _reply(body: TurnReplying | OutgoingMessage) -> Iterator[Contract]:
    """Leave out the tools' results, then the whole timeline, the reasoning, the end of the text."""
    body = body.model_copy(update={"segments": _without_results(body.segments)})
    yield body
    changes: dict[str, object] = {"segments": None, "reasoning_content": None}
    if isinstance(body, TurnReplying):
        changes["last_reasoning"] = None
    body = body.model_copy(update=changes)
    yield body
    changes = {"content": cut(body.content, KEPT, ELLIPSIS)}
    if isinstance(body, TurnReplying):
        changes["archive_content"] = _text(body.archive_content)
        changes["visible_content"] = _text(body.visible_content)
    yield body.model_copy(update=changes)


def _rows(row: Message) -> Iterator[Message]:
    row = row.model_copy(update={"segments": _without_results(row.segments), "images": None})
    yield row
    row = row.model_copy(update={"segments": None, "provider_data": None})
    yield row
    row = row.model_copy(update={"reasoning_content": _text(row.reasoning_content)})
    yield row
    yield row.model_copy(update={"content": _text(row.content)})


def _row(row: Message | None) -> Message | None:
    return None if row is None else _last(_rows(row))


def _without_results(segments: list[ContentSegment] | None) -> list[ContentSegment] | None:
    if segments is None:
        return None
    return [one.model_copy(update={"result": None, "args": None}) for one in segments]


def _text(text: str | None) -> str | None:
    return None if text is None else cut(text, KEPT, ELLIPSIS)


def _last(forms: Iterator[Body]) -> Body:
    *_, last = forms
    return last
