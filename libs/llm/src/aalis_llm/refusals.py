"""This is about what a provider refuses: SPEC §2.9, read apart from what keeps to it. Pure.

`shape` makes lists fit; whoever wants to know whether a list fits asks here: tests, and chaos runs
that see what a model is sent after somebody has died.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from aalis_contracts.messages import Message
from aalis_contracts.models import ProfileName
from aalis_contracts.text import well_formed
from aalis_llm.profiles import PROFILES
from aalis_llm.shape_tools import is_json_object


def problems(messages: Sequence[Message], name: ProfileName, *, vision: bool) -> set[str]:
    """Say which rules of SPEC §2.9 a list breaks; empty = this provider takes it."""
    profile = PROFILES[name]
    roles = [message.role for message in messages]
    leading = next((at for at, role in enumerate(roles) if role != "system"), len(roles))
    talk = roles[leading:]
    ids = [call.id for message in messages for call in message.tool_calls or []]
    broken = {
        "nobody speaks": "user" not in roles,
        "ids repeat": len(set(ids)) != len(ids),
        "an id is not legal": any(
            not i or (profile.foreign_in_id and profile.foreign_in_id.search(i)) for i in ids
        ),
        "late system": name in {"anthropic", "strict"} and "system" in talk,
        "two leading systems": profile.joins_leading_system and leading > 1,
        "repeated role": profile.alternates and any(a == b != "tool" for a, b in pairwise(talk)),
        "first is not user": profile.alternates and talk[:1] != ["user"],
        "last is assistant": profile.alternates and talk[-1] == "assistant",
        "calls and results do not pair": not _paired(messages),
    }
    found = {problem for problem, is_so in broken.items() if is_so}
    return found.union(*(_problems_of(message, name, vision=vision) for message in messages))


def _paired(messages: Sequence[Message]) -> bool:
    waiting: list[str] = []
    for message in messages:
        if message.role == "tool":
            if not waiting or message.tool_call_id != waiting.pop(0):
                return False
        elif waiting:
            return False
        else:
            waiting = [call.id for call in message.tool_calls or []]
    return not waiting


def _problems_of(message: Message, name: ProfileName, *, vision: bool) -> set[str]:
    profile, text, made = PROFILES[name], message.content, message.tool_calls or []
    blank = not (text and text.strip())
    takers = {"user", "tool"} if profile.images == "user and results" else {"user"}
    takers.intersection_update(takers if vision and profile.images != "none" else ())
    broken = {
        "foreign role": message.role not in {"system", "user", "assistant", "tool"},
        "control kind": message.kind == "event-marker",
        "empty": blank and not made and not message.images,
        "call without its kind of text": bool(made)
        and blank
        and text != ("" if profile.text_with_calls == "empty" else None),
        "not well-formed": text is not None and text != well_formed(text),
        "bad name": not all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", c.function.name) for c in made),
        "bad arguments": not all(is_json_object(call.function.arguments) for call in made),
        "image": bool(message.images) and message.role not in takers,
        "reasoning": profile.reasoning == "dropped" and message.reasoning_content is not None,
        "no reasoning": profile.reasoning == "required"
        and bool(made)
        and message.reasoning_content is None,
    }
    return {problem for problem, is_so in broken.items() if is_so}
