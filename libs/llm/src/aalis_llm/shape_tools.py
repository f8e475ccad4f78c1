"""This is about calls and their results: each call answered once, in order (SHAPE-1, 2, 4)."""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from typing import TypeAlias

from aalis_contracts.catalogue import Catalogue
from aalis_contracts.messages import Message, ToolCall
from aalis_contracts.text import MAX_NESTING, compact_json, well_formed, well_formed_json
from aalis_contracts.tools import error_result
from aalis_llm.profiles import LONGEST_TOOL_NAME, TOOL_NAME_CHARACTERS, Profile

Repairs: TypeAlias = Counter[str]
"""How often each kind of structural repair was made."""

_SHOWN_ARGUMENTS = 200


def mend_calls(messages: Sequence[Message]) -> list[Message]:
    """Give every call a legal name and arguments that are a JSON object (SPEC SHAPE-4)."""
    return [_with_calls(m, [_mended(call) for call in m.tool_calls or []]) for m in messages]


def pair_results(
    messages: Sequence[Message], catalogue: Catalogue, repairs: Repairs
) -> list[Message]:
    """Put behind each assistant message with calls exactly their results, in call order (SHAPE-1).

    What stood between follows the run. Foreign and late results are dropped; a call without one
    gets an error result.
    """
    paired: list[Message] = []
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        if message.role == "tool":
            repairs["resultDropped"] += 1
        elif not message.tool_calls:
            paired.append(message)
        else:
            end = _next_assistant(messages, at)
            paired.append(message)
            paired.extend(_run(message.tool_calls, messages[at:end], catalogue, repairs))
            at = end
    return paired


def unique_ids(messages: Sequence[Message], profile: Profile) -> list[Message]:
    """Make call ids non-empty, unique in the list and legal, results alike (SPEC SHAPE-2).

    Expects paired results: those of a message follow it in call order.
    """
    taken: set[str] = set()
    suffixes: dict[str, int] = {}
    calls = 0
    pending: deque[str] = deque()
    named: list[Message] = []
    for message in messages:
        if message.role == "tool" and pending:
            new = pending.popleft()
            same = message.tool_call_id == new
            named.append(message if same else message.model_copy(update={"tool_call_id": new}))
            continue
        renamed: list[ToolCall] = []
        for call in message.tool_calls or []:
            calls += 1
            new = _free(_legal(call.id, profile) or f"call-{calls}", taken, suffixes)
            taken.add(new)
            pending.append(new)
            renamed.append(call if call.id == new else call.model_copy(update={"id": new}))
        named.append(_with_calls(message, renamed))
    return named


def is_json_object(arguments: str) -> bool:
    """Say whether `arguments` is the strict JSON text of an object that can be written again."""
    try:
        value: object = json.loads(arguments, parse_constant=_refuse)
        if arguments.count("{") + arguments.count("[") > MAX_NESTING:
            well_formed_json(value)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict)


def _refuse(constant: str) -> object:
    raise ValueError(constant)


def _mended(call: ToolCall) -> ToolCall:
    function = call.function
    name = TOOL_NAME_CHARACTERS.sub("_", function.name)[:LONGEST_TOOL_NAME]
    if not function.name.strip():
        name = "unknown_tool"
    arguments = well_formed(function.arguments)
    if not arguments.strip():
        arguments = "{}"
    elif not is_json_object(arguments):
        arguments = compact_json({"_invalid": arguments[:_SHOWN_ARGUMENTS]})
    if name == function.name and arguments == function.arguments:
        return call
    mended = function.model_copy(update={"name": name, "arguments": arguments})
    return call.model_copy(update={"function": mended})


def _with_calls(message: Message, calls: list[ToolCall]) -> Message:
    if all(new is old for new, old in zip(calls, message.tool_calls or [], strict=True)):
        return message
    return message.model_copy(update={"tool_calls": calls})


def _next_assistant(messages: Sequence[Message], start: int) -> int:
    for at in range(start, len(messages)):
        if messages[at].role == "assistant":
            return at
    return len(messages)


def _run(
    calls: Sequence[ToolCall], section: Sequence[Message], catalogue: Catalogue, repairs: Repairs
) -> list[Message]:
    """Return the results of `calls` found in `section`, then everything else that stood there."""
    wanted = Counter(call.id for call in calls)
    found: defaultdict[str, list[int]] = defaultdict(list)
    for at, message in enumerate(section):
        if message.role != "tool":
            continue
        places = found[message.tool_call_id or ""]
        if len(places) == wanted[message.tool_call_id or ""]:
            repairs["resultDropped"] += 1
            places[-1:] = [at] if places else []
        else:
            places.append(at)
    queues = {call_id: deque(places) for call_id, places in found.items()}
    order = [queues[call.id].popleft() if queues.get(call.id) else None for call in calls]
    expected = [at for at in order if at is not None]
    others = [at for at, message in enumerate(section) if message.role != "tool"]
    if expected != sorted(expected) or (expected and others and others[0] < expected[-1]):
        repairs["resultMoved"] += 1
    if missing := order.count(None):
        repairs["resultMissing"] += missing
    run = [
        _missing(call, catalogue) if at is None else section[at]
        for call, at in zip(calls, order, strict=True)
    ]
    return run + [section[at] for at in others]


def _missing(call: ToolCall, catalogue: Catalogue) -> Message:
    told = error_result(catalogue.text("resultMissing"))
    return Message(role="tool", content=told.content, tool_call_id=call.id)


def _legal(call_id: str, profile: Profile) -> str:
    if not call_id.strip():
        return ""
    mended = well_formed(call_id)
    return profile.foreign_in_id.sub("_", mended) if profile.foreign_in_id else mended


def _free(call_id: str, taken: set[str], suffixes: dict[str, int]) -> str:
    """Return `call_id`, with the next free suffix if it is taken."""
    if call_id not in taken:
        return call_id
    number = suffixes.get(call_id, 1) + 1
    while f"{call_id}-{number}" in taken:
        number += 1
    suffixes[call_id] = number
    return f"{call_id}-{number}"
