"""This is about shrinking: the last resort, when what is protected is too big (SPEC TRIM-13).

Stages 1 to 5 only remove what may be missing. If the rest still exceeds the model's hard limit,
the parts that must stay are shortened, each step only while needed: results of the last group,
call arguments, attachment descriptions, and last the middle of what the person wrote, so that a
pasted log is answered and not refused. If that is not enough, no call is made and the sizes say
why.
"""

from __future__ import annotations

import heapq
import re
from dataclasses import dataclass, replace
from typing import Final

from pydantic import JsonValue

from aalis_agent.draft import Draft, groups_of, latest_user
from aalis_contracts.catalogue import Catalogue, any_form
from aalis_contracts.messages import ToolCall
from aalis_contracts.text import compact_json, cut, parse_object

RESULT_KEPT: Final = 400
ARGUMENTS_LONG: Final = 1_000
ARGUMENT_KEPT: Final = 200
DESCRIPTION_KEPT: Final = 200
SLACK: Final = 8
"""Tokens that may stay unused when the middle of a message is cut."""

ERROR_START: Final = '{"error"'

_KINDS = "|".join(
    re.escape(word) for kind in ("image", "audio", "video", "file") for word in any_form(kind)
)
_REFERENCE_START = re.compile(rf"\[(?:{_KINDS})\d*[:：] ?")
_REFERENCE_END = re.compile(r" \||[\]\n]")


@dataclass(frozen=True, slots=True)
class Overflow:
    """Why no call can be made, in tokens, before anything was shortened by force."""

    used: int
    limit: int
    system: int
    tools: int
    latest: int
    group: int

    def beside_tools(self, tool_tokens: int) -> Overflow:
        """Return the same with the tool definitions counted in."""
        return replace(
            self,
            used=self.used + tool_tokens,
            limit=self.limit + tool_tokens,
            tools=tool_tokens,
        )


@dataclass(frozen=True, slots=True)
class Shrunk:
    """What the last resort did to the draft."""

    hint_dropped: bool = False
    shortened: bool = False
    overflow: Overflow | None = None


def shrink_protected(draft: Draft, limit: int, hint: int | None, texts: Catalogue) -> Shrunk:
    """Bring (stage 6) the draft within `limit` tokens of messages, or say why it cannot be."""
    if draft.total <= limit:
        return Shrunk()
    if hint is not None and draft.total - draft.costs[hint] <= limit:
        draft.remove([hint])
        draft.close()
        return Shrunk(hint_dropped=True)
    sizes = _sizes(draft, limit)
    shrink_results(draft, limit, texts)
    shrink_arguments(draft, limit, texts)
    user = latest_user(draft.messages)
    shortened = user is not None and draft.total > limit and shrink_user(draft, user, limit, texts)
    return Shrunk(shortened=shortened, overflow=sizes if draft.total > limit else None)


def shrink_results(draft: Draft, limit: int, texts: Catalogue) -> None:
    """Halve (step b) the results of the last group, largest first, down to 400 characters.

    Always cut from the full text, so that a result carries one marker however often it shrank.
    """
    groups = groups_of(draft.messages)
    results = groups[-1][1:] if groups else range(0)
    heap = [(-len(draft.messages[index].content or ""), index) for index in results]
    heapq.heapify(heap)
    while heap and draft.total > limit:
        size, index = heapq.heappop(heap)
        kept = max(RESULT_KEPT, -size // 2)
        if kept >= -size:
            return
        full = draft.originals[index].content or ""
        share = 0.2 if full.lstrip().startswith(ERROR_START) else 0.6
        shorter = keep_ends(full, kept, share, texts)
        draft.put_if_cheaper(index, draft.messages[index].model_copy(update={"content": shorter}))
        heapq.heappush(heap, (-kept, index))


def shrink_arguments(draft: Draft, limit: int, texts: Catalogue) -> None:
    """Cut (step c) long call arguments, oldest first; what remains is a valid JSON object."""
    for index, message in enumerate(draft.messages):
        if draft.total <= limit:
            return
        calls = message.tool_calls or []
        if any(len(call.function.arguments) > ARGUMENTS_LONG for call in calls):
            shorter = [_with_short_arguments(call, texts) for call in calls]
            draft.put_if_cheaper(index, message.model_copy(update={"tool_calls": shorter}))


def shrink_user(draft: Draft, index: int, limit: int, texts: Catalogue) -> bool:
    """Shorten the user's message: its attachment descriptions (d), then its middle (e)."""
    original = draft.messages[index]
    described = shorten_descriptions(original.content or "", texts)
    draft.put_if_cheaper(index, original.model_copy(update={"content": described}))
    if draft.total > limit:
        _cut_middle(draft, index, limit, texts)
    return draft.messages[index] is not original


def _cut_middle(draft: Draft, index: int, limit: int, texts: Catalogue) -> None:
    """Cut (step e) as little of the middle as the limit asks for; nothing if nothing would help.

    Looks for the longest text that fits, to within a few tokens. Guesses follow the proportion
    of tokens to characters, so that a text far too long is not counted over and over; every
    second one halves what is left, so that the search ends whatever the text looks like.
    """
    message = draft.messages[index]
    full = message.content or ""
    bare = draft.price(message.model_copy(update={"content": None}))
    room = limit - (draft.total - draft.costs[index]) - bare
    fits, too_long, best = -1, len(full), None
    guess, halving = len(full) * max(room, 0) // draft.costs[index], False
    while too_long - fits > 1:
        text = keep_ends(full, guess, 0.5, texts)
        cost = draft.price_text(text)
        if cost <= room:
            fits, best = guess, (text, cost)
            if room - cost <= SLACK:
                break
        else:
            too_long = guess
        towards = guess * room // max(cost, 1) if not halving else (fits + too_long) // 2
        guess, halving = min(max(towards, fits + 1), too_long - 1), not halving
    if best is not None:
        draft.put(index, message.model_copy(update={"content": best[0]}), best[1] + bare)


def keep_ends(text: str, kept: int, head_share: float, texts: Catalogue) -> str:
    """Return `kept` characters of `text`, from both ends, around a marker with what is missing."""
    if len(text) <= kept:
        return text
    head = int(kept * head_share)
    tail = kept - head
    marker = texts.text("middleCut", omitted=len(text) - kept)
    return text[:head] + marker + text[len(text) - tail :]


def shorten_descriptions(text: str, texts: Catalogue) -> str:
    """Return `text` with the attachment descriptions in it cut to 200 characters each (CON-42).

    A bracket that is never closed is something the person wrote, not a reference.
    """
    ellipsis = texts.text("previewEllipsis")
    parts: list[str] = []
    done = 0
    while (start := _REFERENCE_START.search(text, done)) is not None:
        end = _REFERENCE_END.search(text, start.end())
        if end is None:
            break
        described = text[start.end() : end.start()]
        if end[0] != "\n":
            described = cut(described, DESCRIPTION_KEPT, ellipsis)
        parts += (text[done : start.end()], described)
        done = end.start()
    return "".join((*parts, text[done:]))


def _sizes(draft: Draft, limit: int) -> Overflow:
    messages, costs = draft.messages, draft.costs
    first = messages[0].role if messages else ""
    user, groups = latest_user(messages), groups_of(messages)
    return Overflow(
        used=draft.total,
        limit=limit,
        system=costs[0] if first == "system" else 0,
        tools=0,
        latest=sum(costs[-1:]) if user is None else costs[user],
        group=sum(costs[index] for index in groups[-1]) if groups else 0,
    )


def _with_short_arguments(call: ToolCall, texts: Catalogue) -> ToolCall:
    arguments = call.function.arguments
    if len(arguments) <= ARGUMENTS_LONG:
        return call
    shorter = _short_object(arguments, texts.text("previewEllipsis"))
    if shorter is None:
        # What a provider is sent for arguments that are no object (SPEC SHAPE-4).
        shorter = compact_json({"_invalid": arguments[:ARGUMENT_KEPT]})
    function = call.function.model_copy(update={"arguments": shorter})
    return call.model_copy(update={"function": function})


def _short_object(arguments: str, ellipsis: str) -> str | None:
    """Return a JSON object with its long strings cut; None if it is none."""
    try:
        return compact_json(_short_strings(parse_object(arguments), ellipsis))
    except ValueError:
        return None


def _short_strings(value: JsonValue, ellipsis: str) -> JsonValue:
    if isinstance(value, str):
        return cut(value, ARGUMENT_KEPT, ellipsis)
    if isinstance(value, list):
        return [_short_strings(item, ellipsis) for item in value]
    if isinstance(value, dict):
        return {key: _short_strings(item, ellipsis) for key, item in value.items()}
    return value
