"""This is about texts and images of single messages: roles, blanks, omissions (SHAPE-8 to 10)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from aalis_contracts.catalogue import Catalogue, any_form
from aalis_contracts.messages import CONTROL_KINDS, DELEGATION_KIND, Message
from aalis_contracts.text import well_formed
from aalis_llm.profiles import Profile

_STANDARD_ROLES: Final = frozenset({"system", "user", "assistant", "tool"})
_PREFIXES: Final = (*any_form("delegationPrefix"), *any_form("systemNotice"))
_SENDABLE: Final = ("data:", "http://", "https://")


def translate_roles(
    messages: Iterable[Message], catalogue: Catalogue, repairs: Counter[str]
) -> list[Message]:
    """Give every message one of the four roles and well-formed text (SPEC CON-40, SHAPE-10)."""
    kept: list[Message] = []
    for message in messages:
        if message.kind in CONTROL_KINDS:
            repairs["controlDropped"] += 1
            continue
        role = message.role if message.role in _STANDARD_ROLES else "system"
        content = well_formed(message.content) if message.content else message.content
        if content and message.role == "notice" and message.kind != DELEGATION_KIND:
            content = _opened(content, catalogue.text("systemNotice"))
        update: dict[str, object] = {}
        if role != message.role:
            update["role"] = role
        if content != message.content:
            update["content"] = content
        reasoning = message.reasoning_content
        if reasoning is not None and reasoning != (mended := well_formed(reasoning)):
            update["reasoning_content"] = mended
        if message.name is not None and message.name != (name := well_formed(message.name)):
            update["name"] = name
        images = message.images
        if images and images != (mended_images := [well_formed(image) for image in images]):
            update["images"] = mended_images
        if message.tool_calls is not None and (role != "assistant" or not message.tool_calls):
            update["tool_calls"] = None
        kept.append(message.model_copy(update=update) if update else message)
    return kept


def prefix_delegations(messages: Iterable[Message], catalogue: Catalogue) -> list[Message]:
    """Open every text that another session sent with who sent it (SPEC CON-40)."""
    opened: list[Message] = []
    for message in messages:
        text = message.content
        if message.kind == DELEGATION_KIND and text:
            told = _opened(text, catalogue.text("delegationPrefix"))
            opened.append(message.model_copy(update={"content": told}) if told != text else message)
        else:
            opened.append(message)
    return opened


def place_images(
    messages: Sequence[Message], profile: Profile, catalogue: Catalogue, *, vision: bool
) -> list[Message]:
    """Leave images only where the provider takes them (SPEC SHAPE-9).

    Where results may not carry any, those of a run ride on one user message behind it.
    """
    on_user = profile.takes_images(vision=vision)
    on_results = on_user and profile.images == "user and results"
    placed: list[Message] = []
    riding: list[tuple[str, str]] = []
    names: dict[str | None, str] = {}
    for message in messages:
        if message.role != "tool" and riding:
            placed.append(_carrier(riding, catalogue))
            riding = []
        for call in message.tool_calls or []:
            names[call.id] = call.function.name
        sendable = [i for i in message.images or [] if i.startswith(_SENDABLE)]
        if message.role == "tool" and on_user and not on_results:
            riding.extend((names.get(message.tool_call_id, "unknown_tool"), i) for i in sendable)
            moved = message.model_copy(update={"images": None})
            lost = len(sendable) < len(message.images or [])
            placed.append(_with_omission(moved, catalogue) if lost else _as_it_was(message, moved))
        else:
            allowed = on_results if message.role == "tool" else on_user and message.role == "user"
            placed.append(_with_images(message, sendable if allowed else [], catalogue))
    if riding:
        placed.append(_carrier(riding, catalogue))
    return placed


def omit_images(messages: Iterable[Message], catalogue: Catalogue) -> list[Message]:
    """Leave out all images, as `place_images` does for a model that takes none (SPEC SHAPE-9)."""
    return [_with_images(message, [], catalogue) for message in messages]


def drop_empty(
    messages: Sequence[Message], profile: Profile, catalogue: Catalogue
) -> list[Message]:
    """Leave no empty text where a provider would refuse it (SPEC SHAPE-8)."""
    latest = max((at for at, m in enumerate(messages) if m.role == "user"), default=-1)
    kept: list[Message] = []
    for at, message in enumerate(messages):
        if message.content and not message.content.isspace():
            kept.append(message)
        elif message.role == "tool":
            kept.append(message.model_copy(update={"content": catalogue.text("noOutput")}))
        elif message.tool_calls:
            content = "" if profile.text_with_calls == "empty" else None
            same = message.content == content
            kept.append(message if same else message.model_copy(update={"content": content}))
        elif message.role == "user" and message.images:
            kept.append(message)
        elif at == latest:
            kept.append(message.model_copy(update={"content": catalogue.text("noUserMessage")}))
    return kept


def _opened(text: str, prefix: str) -> str:
    """Return `text` behind `prefix` and a blank, unless some prefix stands there already."""
    return text if text.startswith(_PREFIXES) else f"{prefix} {text}"


def _with_images(message: Message, images: list[str], catalogue: Catalogue) -> Message:
    """Return the message with `images` only; a note stands for the others."""
    if images == (message.images or []):
        return message
    fewer = message.model_copy(update={"images": images or None})
    return _with_omission(fewer, catalogue)


def _with_omission(message: Message, catalogue: Catalogue) -> Message:
    note = catalogue.text("imageOmitted")
    text = message.content
    told = note if not text or text.isspace() else f"{text}\n{note}"
    return message.model_copy(update={"content": told})


def _as_it_was(message: Message, moved: Message) -> Message:
    return moved if message.images else message


def _carrier(riding: Sequence[tuple[str, str]], catalogue: Catalogue) -> Message:
    """Return the user message on which the images of a run of results ride."""
    names = ", ".join(dict.fromkeys(name for name, _ in riding))
    text = f"{catalogue.text('systemHint')}\n{names}: {catalogue.text('image')}"
    return Message(
        role="user",
        content=text,
        images=[image for _, image in riding],
        metadata={"injector": "system-other"},
    )
