"""This is about the archive: how what people said becomes a row (SPEC §6.2). Pure.

What a model later reads of a message is made once, here: who said it, what it quotes, the text,
what was attached. Everything else goes into the row's metadata, which no model sees.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from aalis_contracts.catalogue import Catalogue, any_form
from aalis_contracts.errors import InvalidRequest
from aalis_contracts.messages import (
    DELEGATION_KIND,
    AttachmentKind,
    IncomingMessage,
    Message,
    MessageAttachment,
    sender_label,
)
from aalis_contracts.rpc import ArchiveNotice
from aalis_contracts.text import JsonObject

UNLABELLED_PLATFORMS: Final = frozenset({"webui", "cli"})
"""Where there is one speaker, who needs no label (ARC-1)."""
IDLE_SOURCE: Final = "idle-trigger"
PROACTIVE: Final = "proactive"

_KINDS: Final[tuple[AttachmentKind, ...]] = ("image", "audio", "video", "file")
# Written by whoever prepared the attachment; `[图片1: …]` and full-width colons occur (AG-33).
_PREPARED: Final = re.compile(
    r"\[(?:"
    + "|".join(re.escape(word) for kind in _KINDS for word in any_form(kind))
    + r")\s*\d*\s*[:：|\]]"
)
_FILE_CONTENT: Final = "--- 文件内容 ---"
_MENTION: Final = re.compile(r'<at(?: self)? id="([^"<>]+)">')


def incoming_row(
    incoming: IncomingMessage, catalogue: Catalogue, timestamp: int, input_seq: int | None
) -> Message:
    """Return the row of an incoming message (ARC-1, ARC-3).

    A proactive input is a notice that delegates work, said by nobody. An idle trigger is no
    message at all: `InvalidRequest`, code `refused`.
    """
    if incoming.source == IDLE_SOURCE:
        raise InvalidRequest("an idle trigger is not archived", "refused")
    proactive = incoming.trigger_type == PROACTIVE
    return Message(
        role="notice" if proactive else "user",
        kind=DELEGATION_KIND if proactive else None,
        name=None if proactive else incoming.user_id or None,
        content=incoming_text(incoming, catalogue),
        timestamp=timestamp,
        metadata=incoming_metadata(incoming),
        input_seq=input_seq,
        index=None if input_seq is None else 0,
    )


def incoming_text(incoming: IncomingMessage, catalogue: Catalogue) -> str:
    """Return the text of an incoming message as it is kept (ARC-1)."""
    lines: list[str] = []
    quoted = incoming.reply_to
    if quoted is not None and quoted.content and quoted.content.strip():
        who = bracketed_label(quoted.nickname, quoted.user_id) or "?"
        text = _one_line(quoted.content.strip())
        lines.append(catalogue.text("quoted", label=who, text=text))
    said = [incoming.content] if incoming.content.strip() else []
    body = "\n".join([*said, *attachment_lines(incoming, catalogue)])
    label = None
    if incoming.platform not in UNLABELLED_PLATFORMS:
        label = bracketed_label(incoming.nickname, incoming.user_id)
    lines.append(f"[{label}]: {body}" if label else body)
    return "\n".join(lines)


def bracketed_label(nickname: str | None, user_id: str | None) -> str | None:
    """Return the sender's label as it may stand in brackets (CON-41).

    A bracket or a line break in a nickname would let it put words into another's mouth.
    """
    return sender_label(_inside_brackets(nickname or ""), _inside_brackets(user_id or ""))


def attachment_lines(incoming: IncomingMessage, catalogue: Catalogue) -> list[str]:
    """Return one line for each described attachment.

    A description that came with the message is used (media is recognised once). When a message
    has neither text nor descriptions, its attachments are named without one: a row that says
    nothing would not be history.
    """
    attachments = incoming.attachments or []
    given = incoming.attachment_descriptions or []
    lines: list[str] = []
    for position in range(max(len(attachments), len(given))):
        attachment = attachments[position] if position < len(attachments) else None
        description = given[position] if position < len(given) else None
        if not (description or "").strip() and attachment is not None:
            description = attachment.description
        if description and description.strip():
            lines.append(_described(attachment, description.strip(), catalogue))
    if not lines and not incoming.content.strip():
        lines = [attachment_reference(each, catalogue) for each in attachments]
    return lines


def attachment_reference(
    attachment: MessageAttachment, catalogue: Catalogue, description: str | None = None
) -> str:
    """Return `[图片: desc | ref:x]`, with whichever of the two parts there are (CON-42)."""
    text = _inside_reference(description or attachment.description or "")
    reference = _inside_reference(attachment.ref or "")
    word = catalogue.text(attachment.kind)
    head = f"{word}: {text}" if text else word
    return f"[{head} | ref:{reference}]" if reference else f"[{head}]"


def incoming_metadata(incoming: IncomingMessage) -> JsonObject:
    """Return what is kept beside the text, only what is non-empty (ARC-3)."""
    files = [a.name for a in incoming.attachments or [] if a.kind == "file" and a.name]
    values: JsonObject = {
        "userId": incoming.user_id,
        "nickname": incoming.nickname,
        "platform": incoming.platform,
        "groupId": incoming.group_id,
        "groupName": incoming.group_name,
        "sessionType": incoming.session_type,
        "messageId": incoming.message_id,
        "fileNames": list(files),
        "triggerType": incoming.trigger_type,
        "source": incoming.source,
        "mentions": list(mentions(incoming.content)),
    }
    return {key: value for key, value in values.items() if value}


def mentions(text: str) -> list[str]:
    """Return the ids mentioned in a text, each once, in order; `<at>all</at>` names nobody."""
    return list(dict.fromkeys(_MENTION.findall(text)))


def notice_row(notice: ArchiveNotice, timestamp: int) -> Message | None:
    """Return the row of a platform notice; None when its text is blank (ARC-4)."""
    if not notice.content.strip():
        return None
    ids = {
        "platform": notice.platform,
        "userId": notice.user_id,
        "groupId": notice.group_id,
        "messageId": notice.message_id,
    }
    # `injector` marks what is never stored (MEM-3); a notice is stored whatever its data say.
    data = {key: value for key, value in (notice.data or {}).items() if key != "injector"}
    metadata: JsonObject = {**data, **{key: value for key, value in ids.items() if value}}
    return Message(
        role="notice",
        kind=notice.notice_type,
        content=notice.content,
        timestamp=timestamp,
        metadata=metadata or None,
    )


def outgoing_rows(
    attachments: Iterable[MessageAttachment], catalogue: Catalogue, timestamp: int
) -> list[Message]:
    """Return a marker row for each attachment that was sent, unless it asks for none (ARC-6)."""
    return [
        Message(
            role="assistant",
            kind=f"outbound-{attachment.kind}",
            content=attachment_reference(attachment, catalogue),
            timestamp=timestamp,
        )
        for attachment in attachments
        if not attachment.skip_archive
    ]


def _described(attachment: MessageAttachment | None, description: str, catalogue: Catalogue) -> str:
    """Format a description, unless it has its form already."""
    if attachment is None or _PREPARED.match(description) or _FILE_CONTENT in description:
        return description
    return attachment_reference(attachment, catalogue, description)


def _one_line(text: str) -> str:
    """Replace each line break by a blank."""
    return " ".join(text.splitlines())


def _inside_brackets(text: str) -> str:
    return _one_line(text.strip()).replace("]", "］")


def _inside_reference(text: str) -> str:
    """Clean a part of a reference: one line, without the characters that end it (CON-42)."""
    return _inside_brackets(text).replace("|", "｜")
