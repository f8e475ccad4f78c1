"""This is about the prompt: the message list that a turn begins with, and what plugins add to it.

`base_list` puts together what stays the same for a turn (SPEC §2.4); `assemble` puts prompt
contributions at their anchors before each model call (SPEC §2.6). The order follows one wish:
whatever changes from turn to turn stands after the history, so that a provider's cache can keep
everything before it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Final, Literal, get_args

from aalis_agent.draft import latest_user
from aalis_agent.history import time_label
from aalis_contracts.catalogue import Catalogue, any_form
from aalis_contracts.messages import (
    DELEGATION_KIND,
    AttachmentKind,
    IncomingMessage,
    Message,
    sender_label,
)
from aalis_contracts.text import JsonObject

Anchor = Literal["identity", "knowledge", "context", "turn-context", "turn-hint"]
ANCHORS: Final[tuple[Anchor, ...]] = get_args(Anchor)
"""The order in which slots are filled."""

PERSONA: Final = "persona"
VOLATILE: Final = "persona-volatile"
FOCUS: Final = "focus-guidance"
OTHER: Final = "system-other"

PROACTIVE_SOURCE: Final = "proactive:from:"
HISTORY_TOOL: Final = "session_get_history"
OWN_PLATFORMS: Final = frozenset({"webui", "cli"})
"""Where there is only one speaker, and no sender is put in front of a text (SPEC ARC-1)."""

_WORDS = "|".join(re.escape(word) for kind in ("image", "file") for word in any_form(kind))
_PREPARED = re.compile(rf"\[(?:{_WORDS})\d*[:：]|--- 文件内容 ---")
_FULL_WIDTH = str.maketrans({"\n": " ", "|": "｜", "]": "］"})


@dataclass(frozen=True, slots=True)
class Clock:
    """The present moment, in milliseconds since the epoch, and the agent's time zone."""

    now: int
    zone: tzinfo


@dataclass(frozen=True, slots=True)
class Turn:
    """What a turn's prompt is made of.

    `said_at` is the time of the input; `archived` its text as stored, None when nothing was
    archived; `images` its image attachments, readable by a model. The persona's two texts are
    empty without a persona.
    """

    incoming: IncomingMessage
    said_at: int
    clock: Clock
    history: Sequence[Message] = ()
    system_prompt: str = ""
    persona: str = ""
    volatile: str = ""
    archived: str | None = None
    images: Sequence[str] = ()
    tool_names: Collection[str] = field(default_factory=frozenset[str])


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one plugin adds to the prompt: texts in order, under one key, at one anchor."""

    key: str
    anchor: str
    blocks: str | Sequence[str] | None


@dataclass(frozen=True, slots=True)
class Assembled:
    """The list with the contributions in place, and the keys whose anchor nobody knows."""

    messages: list[Message]
    unplaced: list[str]


def base_list(turn: Turn, texts: Catalogue) -> list[Message]:
    """Return the list that a turn begins with (SPEC AG-30 to AG-36)."""
    incoming = turn.incoming
    messages = [main_prompt(turn.persona, turn.system_prompt, texts), *turn.history]
    if incoming.trigger_type == "proactive":
        return [*messages, delegation(incoming, turn.tool_names, texts)]
    if _PREPARED.search(_current_text(turn)):
        messages.append(_system(texts.text("fusedAnswer"), OTHER))
    if turn.volatile.strip():
        messages.append(_system(turn.volatile, VOLATILE))
    if incoming.session_type == "group" and incoming.trigger_type in {"direct", "immediate"}:
        messages.append(_system(texts.text("focusGuidance"), FOCUS))
    return [*messages, current_message(turn)]


def main_prompt(persona: str, system_prompt: str, texts: Catalogue) -> Message:
    """Return message 0: who the model is, how it behaves, how it reads input (SPEC AG-30)."""
    parts = (persona, system_prompt, texts.text("inputConventions"))
    return _system("\n\n".join(part for part in parts if part.strip()), PERSONA)


def delegation(incoming: IncomingMessage, tool_names: Collection[str], texts: Catalogue) -> Message:
    """Return the message that hands a task over from another session (SPEC AG-32)."""
    source = (incoming.source or "").removeprefix(PROACTIVE_SOURCE)
    text = texts.text("delegation", source=source or "?", task=incoming.content)
    if HISTORY_TOOL in tool_names and source:
        text += "\n" + texts.text("delegationHistory", source=source)
    metadata: JsonObject = {"injector": DELEGATION_KIND}
    if source:
        metadata["sourceSessionId"] = source
    return Message(role="system", content=text, metadata=metadata)


def current_message(turn: Turn) -> Message:
    """Return the message that is answered: its time, its text, its images (SPEC AG-36)."""
    label = time_label(turn.said_at, turn.clock.now, turn.clock.zone)
    return Message(
        role="user",
        content=label + _current_text(turn),
        name=turn.incoming.user_id,
        timestamp=turn.said_at,
        images=list(turn.images) or None,
    )


def attachment_reference(
    kind: AttachmentKind, description: str | None, ref: str | None, texts: Catalogue
) -> str:
    """Return how a text names an attachment: `[图片: desc | ref:x]` (SPEC CON-42)."""
    desc, name = (_reference_part(part) for part in (description, ref))
    text = texts.text(kind) + (f": {desc}" if desc else "")
    return f"[{text} | ref:{name}]" if name else f"[{text}]"


def injected_keys(messages: Iterable[Message]) -> frozenset[str]:
    """Return the keys that already stand in the list and are not built again (SPEC HOOK-13)."""
    return frozenset(m.injector for m in messages if m.role == "system" and m.injector is not None)


def assemble(messages: Sequence[Message], contributions: Iterable[Contribution]) -> Assembled:
    """Put contributions at their anchors, whoever answered first (SPEC HOOK-13 to HOOK-16)."""
    present = injected_keys(messages)
    ordered = sorted(contributions, key=lambda contribution: contribution.key)
    fresh = [contribution for contribution in ordered if contribution.key not in present]
    placed = list(messages)
    for anchor in ANCHORS:
        blocks = [block for c in fresh if c.anchor == anchor for block in materialised(c)]
        place = _place(anchor, placed) if blocks else None
        if place is not None:
            placed[place:place] = blocks
    return Assembled(placed, [c.key for c in fresh if c.anchor not in ANCHORS])


def materialised(contribution: Contribution) -> list[Message]:
    """Return the system messages of a contribution, one for each text (SPEC HOOK-14)."""
    blocks = contribution.blocks
    all_texts = [blocks] if isinstance(blocks, str) else blocks or ()
    return [_system(text, contribution.key) for text in all_texts if text]


def _place(anchor: Anchor, messages: Sequence[Message]) -> int | None:
    """Return the index before which an anchor's blocks go (SPEC HOOK-15); None: nowhere."""
    user = latest_user(messages)
    if anchor == "identity":
        return 1 + next((i for i, m in enumerate(messages) if m.role == "system"), -1)
    if anchor in {"knowledge", "context"}:
        return next((i for i, m in enumerate(messages) if m.role != "system"), len(messages))
    if anchor == "turn-hint":
        return user
    places = (_injected_at(messages, DELEGATION_KIND), _injected_at(messages, VOLATILE), user)
    return next((place for place in places if place is not None), len(messages))


def _injected_at(messages: Sequence[Message], injector: str) -> int | None:
    """Return the index of the latest system message with this injector."""
    return next(
        (
            index
            for index in reversed(range(len(messages)))
            if messages[index].role == "system" and messages[index].injector == injector
        ),
        None,
    )


def _current_text(turn: Turn) -> str:
    """Return the archived text, else the raw one with its sender in front."""
    if turn.archived is not None:
        return turn.archived
    incoming = turn.incoming
    sender = sender_label(incoming.nickname, incoming.user_id)
    if sender is None or incoming.platform in OWN_PLATFORMS:
        return incoming.content
    return f"[{sender}]: {incoming.content}"


def _reference_part(part: str | None) -> str:
    return (part or "").translate(_FULL_WIDTH).strip()


def _system(content: str, injector: str) -> Message:
    return Message(role="system", content=content, metadata={"injector": injector})
