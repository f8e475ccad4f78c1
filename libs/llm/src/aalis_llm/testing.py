"""This is about the ten rules of a request, read once more (SPEC SHAPE-1 to SHAPE-10).

For tests, ours and those of whoever writes a provider or records what one was sent. It shares
nothing with `shape` but the words of the catalogue: what both got wrong alike would go unseen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final

from aalis_contracts.messages import DELEGATION_KIND, Message
from aalis_contracts.models import ProfileName
from aalis_llm.shape_reasoning import prefix_digest

_ALTERNATING: Final = {"anthropic", "strict"}
_PLAIN_IDS: Final = {"anthropic", "strict"}
_WORD: Final = re.compile(r"[A-Za-z0-9_-]+")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_IMAGES: Final = {
    "openai": {"user"},
    "deepseek": {"user"},
    "anthropic": {"user", "tool"},
    "strict": set[str](),
}
"""Whose images a provider takes, if the model sees at all."""


def broken_rules(
    messages: Sequence[Message], profile: ProfileName, *, vision: bool = False
) -> list[str]:
    """Return the rules that a list breaks on its way to a provider, empty for none."""
    found = [
        *_pairs(messages),
        *_ids(messages, profile),
        *_places(messages, profile),
        *_reasoning(messages, profile),
    ]
    for message in messages:
        found += [*_of_message(message, profile, vision=vision), *_of_calls(message)]
    return sorted(set(found))


def _pairs(messages: Sequence[Message]) -> Iterator[str]:
    waiting: list[str] = []
    for message in messages:
        if message.role == "tool":
            if not waiting or message.tool_call_id != waiting.pop(0):
                yield "SHAPE-1: a result answers no call before it"
        elif waiting:
            yield "SHAPE-1: a call has no answer"
            waiting = []
        if message.tool_calls:
            waiting = [call.id for call in message.tool_calls]
    if waiting:
        yield "SHAPE-1: a call has no answer"


def _ids(messages: Iterable[Message], profile: ProfileName) -> Iterator[str]:
    ids = [call.id for message in messages for call in message.tool_calls or ()]
    if len(set(ids)) != len(ids):
        yield "SHAPE-2: an id repeats"
    if any(not one or (profile in _PLAIN_IDS and not _WORD.fullmatch(one)) for one in ids):
        yield "SHAPE-2: an id is not legal"


def _places(messages: Sequence[Message], profile: ProfileName) -> Iterator[str]:
    runs = [(role, len(list(some))) for role, some in groupby(one.role for one in messages)]
    leading = runs[0][1] if runs and runs[0][0] == "system" else 0
    talk = messages[leading:]
    if not any(one.role == "user" for one in messages):
        yield "SHAPE-3: no user speaks"
    if any(one.role == "system" and not _may_be_late(one, profile) for one in talk):
        yield "SHAPE-5: a system message stands too late"
    if profile == "strict" and leading > 1:
        yield "SHAPE-5: there is more than one leading system message"
    if profile not in _ALTERNATING:
        return
    if talk and talk[0].role != "user":
        yield "SHAPE-3: no user speaks first"
    if talk and talk[-1].role not in {"user", "tool"}:
        yield "SHAPE-3: neither a user nor a result is last"
    if any(one.role == other.role != "tool" for one, other in pairwise(talk)):
        yield "SHAPE-6: one role speaks twice in a row"


def _may_be_late(message: Message, profile: ProfileName) -> bool:
    if profile != "deepseek":
        return profile == "openai"
    label = (message.injector or "").rpartition("/")[2]
    return DELEGATION_KIND in {label, message.kind}


def _reasoning(messages: Sequence[Message], profile: ProfileName) -> Iterator[str]:
    for at, message in enumerate(messages):
        reasoning, data = message.reasoning_content, message.provider_data
        match profile:
            case "openai" | "strict":
                if reasoning is not None:
                    yield "SHAPE-7: reasoning is sent to who takes none"
            case "deepseek":
                if message.tool_calls and reasoning is None:
                    yield "SHAPE-7: reasoning is missing beside a call"
            case "anthropic":
                if reasoning is not None and not data:
                    yield "SHAPE-7: unsigned reasoning is sent"
                if data and not _is_as_signed(message, messages[:at]):
                    yield "SHAPE-7: signed reasoning is not as it was signed"


def _is_as_signed(message: Message, before: Sequence[Message]) -> bool:
    data = message.provider_data or {}
    blocks = data.get("blocks")
    if not isinstance(blocks, list) or not blocks:
        return False
    texts = [str(one.get("thinking") or "") for one in blocks if isinstance(one, dict)]
    same = "".join(texts) == (message.reasoning_content or "")
    return same and data.get("prefix") == prefix_digest(before)


def _of_message(message: Message, profile: ProfileName, *, vision: bool) -> Iterator[str]:
    text, calls = message.content, message.tool_calls or []
    if not (text and text.strip()):
        wanted = None if profile == "anthropic" else ""
        if calls and text != wanted:
            yield "SHAPE-8: a call does not have its kind of empty text"
        elif not calls and not (message.role == "user" and message.images):
            yield "SHAPE-8: a message is empty"
    if message.images and not (vision and message.role in _IMAGES[profile]):
        yield "SHAPE-9: an image is sent where none is taken"
    if message.role not in {"system", "user", "assistant", "tool"}:
        yield "SHAPE-10: a role is unknown"
    if message.kind == "event-marker":
        yield "SHAPE-10: a control kind is sent"
    strings = [text, message.name, message.reasoning_content, message.tool_call_id]
    if not all(_is_well_formed(one) for one in (*strings, *(message.images or ())) if one):
        yield "SHAPE-10: a string is not well-formed"


def _of_calls(message: Message) -> Iterator[str]:
    calls = message.tool_calls or []
    if message.tool_calls is not None and not (calls and message.role == "assistant"):
        yield "SHAPE-1: calls are made by nobody, or there are none"
    if not all(_NAME.fullmatch(call.function.name) for call in calls):
        yield "SHAPE-4: a tool name is not legal"
    if not all(_is_object(call.function.arguments) for call in calls):
        yield "SHAPE-4: arguments are no JSON object"
    strings = [one for call in calls for one in (call.id, call.function.arguments)]
    if not all(map(_is_well_formed, strings)):
        yield "SHAPE-10: a string is not well-formed"


def _is_object(arguments: str) -> bool:
    try:
        value: object = json.loads(arguments, parse_constant=_not_json)
        # As a provider's own reader would write it again.
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict)


def _not_json(constant: str) -> object:
    raise ValueError(constant)


def _is_well_formed(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
