"""This is about the order of roles: who stands where, first and last (SHAPE-3, 5, 6)."""

from __future__ import annotations

from collections.abc import Sequence

from aalis_contracts.catalogue import Catalogue
from aalis_contracts.messages import DELEGATION_KIND, Message
from aalis_llm.profiles import Profile


def leading_system(messages: Sequence[Message]) -> int:
    """Return how many system messages open the list."""
    for at, message in enumerate(messages):
        if message.role != "system":
            return at
    return len(messages)


def place_system(
    messages: Sequence[Message], profile: Profile, catalogue: Catalogue
) -> list[Message]:
    """Show system texts behind the leading run as marked user texts where need be (SHAPE-5)."""
    if profile.late_system == "stays":
        return list(messages)
    start = leading_system(messages)
    late = [_as_user(message, profile, catalogue) for message in messages[start:]]
    return [*messages[:start], *late]


def join_leading_system(messages: Sequence[Message]) -> list[Message]:
    """Make one message of the leading system run, joined by blank lines (SPEC LLM-5)."""
    start = leading_system(messages)
    if start <= 1:
        return list(messages)
    text = "\n\n".join(message.content or "" for message in messages[:start])
    return [messages[0].model_copy(update={"content": text}), *messages[start:]]


def merge_neighbours(messages: Sequence[Message]) -> list[Message]:
    """Merge neighbours of one role where roles must alternate (SPEC SHAPE-6)."""
    start = leading_system(messages)
    merged: list[Message] = list(messages[:start])
    group: list[Message] = []
    for message in messages[start:]:
        if group and (message.role != group[-1].role or message.role == "tool"):
            merged.append(_merged(group))
            group = []
        group.append(message)
    if group:
        merged.append(_merged(group))
    return merged


def ensure_first_and_last(
    messages: Sequence[Message], profile: Profile, catalogue: Catalogue
) -> list[Message]:
    """See to it that a user speaks, first and last where the provider demands it (SHAPE-3)."""
    listed = list(messages)
    start = leading_system(listed)
    if all(message.role != "user" for message in listed):
        listed.insert(start, _note("noUserMessage", catalogue))
    if not profile.alternates:
        return listed
    if listed[start].role != "user":
        listed.insert(start, _note("historyStart", catalogue))
    if listed[-1].role == "assistant":
        listed.append(_note("noUserMessage", catalogue))
    return listed


def _as_user(message: Message, profile: Profile, catalogue: Catalogue) -> Message:
    if message.role != "system" or (profile.keeps_delegation and _is_delegation(message)):
        return message
    text = message.content or ""
    marked = text if text.startswith("[") else f"{catalogue.text('systemHint')}\n{text}"
    return message.model_copy(update={"role": "user", "content": marked, "name": None})


def _is_delegation(message: Message) -> bool:
    label = (message.injector or "").rpartition("/")[2]
    return DELEGATION_KIND in {label, message.kind}


def _merged(group: Sequence[Message]) -> Message:
    """Return one message that says what the group says; signed reasoning does not survive that."""
    if len(group) == 1:
        return group[0]
    # The person's message gives its metadata, so that what was injected beside it does not
    # pass for an injected message as a whole.
    speaker = next((m for m in reversed(group) if m.injector is None), group[-1])
    texts = [m.content for m in group if m.content and not m.content.isspace()]
    calls = [call for m in group for call in m.tool_calls or []]
    images = [image for m in group for image in m.images or []]
    names = {m.name for m in group if m.injector is None}
    return speaker.model_copy(
        update={
            "content": "\n\n".join(texts) if texts else group[-1].content,
            "tool_calls": calls or None,
            "images": images or None,
            "name": speaker.name if len(names) == 1 else None,
            "kind": speaker.kind if len({m.kind for m in group}) == 1 else None,
            "reasoning_content": None,
            "provider_data": None,
        }
    )


def _note(key: str, catalogue: Catalogue) -> Message:
    metadata = {"injector": "system-other"}
    return Message.model_validate(
        {"role": "user", "content": catalogue.text(key), "metadata": metadata}
    )
