"""This is about tools: running the calls of one response, side by side (SPEC §2.11, TOOL-3 to 6).

A call that fails, hangs or is refused has an error result and does not touch its siblings. Each
result becomes a fact as soon as it is there; a call that was sent by a dead owner is sent again
under the same key, and its host answers with what it has.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from jsonschema import Draft202012Validator

from aalis_agent.ports import Unavailable
from aalis_agent.results import cut_result, result_limit
from aalis_contracts.events import ToolExecute
from aalis_contracts.hooks import TOOL_AFTER, TOOL_BEFORE, ToolAfterData, ToolBeforeData
from aalis_contracts.journal import ToolFinished, ToolStarted
from aalis_contracts.text import well_formed, well_formed_json
from aalis_contracts.tools import (
    InboundOrigin,
    ToolCallContext,
    ToolCallRequest,
    ToolResult,
    error_result,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aalis_agent.lane import Lane
    from aalis_agent.parts import Parts
    from aalis_agent.planning import Bench
    from aalis_agent.steps import Round
    from aalis_contracts.messages import ToolCall
    from aalis_contracts.registry import ToolEntry
    from aalis_contracts.text import JsonObject

SIMILAR = 3


@dataclass(frozen=True, slots=True)
class Ready:
    """A call that may be sent: its tool, and the arguments as executed."""

    index: int
    call: ToolCall
    entry: ToolEntry
    args: JsonObject
    context: ToolCallContext


@dataclass(frozen=True, slots=True)
class Answered:
    """A call that is not sent: its result stands already."""

    index: int
    result: ToolResult
    refused: bool


async def run_calls(parts: Parts, lane: Lane, bench: Bench, one: Round) -> None:
    """Execute the calls of a round that have no result yet; each result becomes a fact."""
    prepared = await asyncio.gather(
        *(_prepare(parts, lane, bench, one, index) for index in one.pending)
    )
    ready = [each for each in prepared if isinstance(each, Ready)]
    refused = [
        _finished(parts, lane, one, each.index, each.result, refused=each.refused)
        for each in prepared
        if isinstance(each, Answered)
    ]
    fresh = [
        ToolStarted(
            iteration=one.iteration,
            index=each.index,
            key=each.context.key,
            name=each.entry.name,
            args=each.args,
            at=parts.now(),
        )
        for each in ready
        if each.index not in one.started
    ]
    await lane.append(*refused, *fresh)
    async with asyncio.TaskGroup() as group:
        for each in ready:
            group.create_task(_execute(parts, lane, bench, one, each))


async def _prepare(
    parts: Parts, lane: Lane, bench: Bench, one: Round, index: int
) -> Ready | Answered:
    """Decide whether a call may be sent: cut off, malformed, unknown, stopped, or ready."""
    call = one.calls[index]
    name = call.function.name
    context = _context(lane, bench, one, index)
    started = one.started.get(index)
    if started is not None:
        entry = _entry_named(parts, bench, started.name)
        if entry is None:
            # Its host is gone, and with it the only one who knows whether the call was made.
            return Answered(index, error_result(parts.texts.text("outcomeUnknown")), refused=False)
        return Ready(index, call, entry, started.args, context)
    if one.response.finish_reason in {"length", "content_filter"}:
        return Answered(index, error_result(parts.texts.text("callCutOff")), refused=True)
    entry = next((each for each in bench.tools if each.name == name), None)
    if entry is None:
        return Answered(index, error_result(not_found(parts, bench, name)), refused=True)
    args = parse_arguments(call.function.arguments)
    if isinstance(args, str):
        text = parts.texts.text("malformedArguments", problem=args)
        return Answered(index, error_result(text), refused=True)
    return await _intercepted(parts, Ready(index, call, entry, args, context))


async def _intercepted(parts: Parts, ready: Ready) -> Ready | Answered:
    """Ask `agent:tool:before`: it may change the arguments, or stop the call (HOOK-6)."""
    args = ready.args
    if parts.interceptors.anyone(TOOL_BEFORE):
        data = ToolBeforeData(
            name=ready.entry.name, args=args, tool_call_context=ready.context
        )
        chain = await parts.interceptors.run(TOOL_BEFORE, data)
        if chain.stopped_by is not None:
            text = chain.data.result
            if text is None:
                refusal = parts.texts.text("toolRefusedByHook", plugin=chain.stopped_by)
                return Answered(ready.index, error_result(refusal), refused=False)
            return Answered(ready.index, ToolResult(content=text), refused=False)
        args = chain.data.args
    problems = schema_problems(ready.entry.definition.function.parameters, args)
    if problems:
        text = parts.texts.text("schemaProblems", problems=problems)
        return Answered(ready.index, error_result(text), refused=False)
    return Ready(ready.index, ready.call, ready.entry, args, ready.context)


async def _execute(parts: Parts, lane: Lane, bench: Bench, one: Round, ready: Ready) -> None:
    """Send one call and make its result a fact; every start event has its end (AG-42)."""
    await parts.outbound.tool_event(_event(lane, ready, None))
    result = await _call(parts, ready)
    result = await _reworked(parts, ready, result)
    limit = result_limit(bench.entry.context_length, parts.options.tool_result_max_ratio)
    content = cut_result(well_formed(result.content), limit, parts.texts)
    cut = ToolResult(content=content or parts.texts.text("noOutput"), images=result.images)
    await parts.outbound.tool_event(_event(lane, ready, cut.content))
    await lane.append(_finished(parts, lane, one, ready.index, cut, refused=False))


async def _call(parts: Parts, ready: Ready) -> ToolResult:
    request = ToolCallRequest(name=ready.entry.name, args=ready.args, context=ready.context)
    try:
        return await parts.tools.call(ready.entry, request)
    except TimeoutError:
        await parts.tools.cancel(ready.entry.name, ready.context.key, "timeout")
        seconds = f"{ready.entry.timeout_ms / 1000:g}"
        text = parts.texts.text("toolTimedOut", name=ready.entry.name, seconds=seconds)
        if ready.entry.retry == "never":
            text += " " + parts.texts.text("outcomeUnknown")
        return error_result(text)
    except Unavailable as error:
        parts.log.warning("tool is absent", tool=ready.entry.name, why=str(error))
        return error_result(parts.texts.text("toolServiceAbsent", name=ready.entry.name))


async def _reworked(parts: Parts, ready: Ready, result: ToolResult) -> ToolResult:
    if not parts.interceptors.anyone(TOOL_AFTER):
        return result
    data = ToolAfterData(
        name=ready.entry.name,
        args=ready.args,
        result=result.content,
        tool_call_context=ready.context,
    )
    chain = await parts.interceptors.run(TOOL_AFTER, data)
    return ToolResult(content=chain.data.result, images=result.images)


def _context(lane: Lane, bench: Bench, one: Round, index: int) -> ToolCallContext:
    """Say for whom a call is made; platform and user are the physical ones (SPEC AG-49)."""
    turn = lane.turn
    incoming = turn.answered.message
    return ToolCallContext(
        session_id=turn.session_id,
        platform=incoming.platform,
        user_id=incoming.user_id,
        actor=incoming.actor,
        turn_id=turn.answer_id,
        call_id=one.calls[index].id,
        key=f"{turn.answer_id}.{one.iteration}.{index}",
        enabled_groups=bench.config.enabled_tool_groups or [],
        accepts_images=bench.entry.can("vision"),
        inbound=InboundOrigin(source=incoming.source),
    )


def _event(lane: Lane, ready: Ready, result: str | None) -> ToolExecute:
    return ToolExecute(
        session_id=lane.turn.session_id,
        platform=ready.context.platform,
        turn_id=ready.context.turn_id,
        call_id=ready.call.id or ready.context.key,
        tool_name=ready.entry.name,
        args=ready.args,
        phase="start" if result is None else "end",
        result=result,
    )


def _finished(  # noqa: PLR0913 - the fields of the fact
    parts: Parts, lane: Lane, one: Round, index: int, result: ToolResult, *, refused: bool
) -> ToolFinished:
    return ToolFinished(
        iteration=one.iteration,
        index=index,
        key=f"{lane.turn.answer_id}.{one.iteration}.{index}",
        content=result.content,
        images=result.images,
        refused=True if refused else None,
        at=parts.now(),
    )


def _entry_named(parts: Parts, bench: Bench, name: str) -> ToolEntry | None:
    known = (*bench.tools, *parts.tools.entries())
    return next((entry for entry in known if entry.name == name), None)


def parse_arguments(arguments: str) -> JsonObject | str:
    """Read a call's arguments; a text says what is wrong with them (SPEC AG-43)."""
    if not arguments.strip():
        return {}
    try:
        parsed: object = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        return str(error)
    if not isinstance(parsed, dict):
        return f"{type(parsed).__name__} instead of an object"
    return well_formed_json(cast("JsonObject", parsed))


def schema_problems(schema: JsonObject, args: JsonObject) -> str:
    """Return all problems of the arguments in one text; empty = none (SPEC TOOL-5)."""
    found = sorted(Draft202012Validator(schema).iter_errors(args), key=str)  # type: ignore[no-untyped-call]
    return "; ".join(
        f"{'.'.join(str(part) for part in error.absolute_path) or 'arguments'}: {error.message}"
        for error in found
    )


def not_found(parts: Parts, bench: Bench, name: str) -> str:
    """Say that a tool does not exist, with similar ones of the allowed set (SPEC TOOL-4).

    A tool outside the caller's groups is answered in the same words, and never suggested.
    """
    text = parts.texts.text("toolNotFound", name=name)
    if any(entry.name == name for entry in parts.tools.entries()):
        return text
    names = similar(name, [entry.name for entry in bench.tools])
    return f"{text} {parts.texts.text('similarTools', names=', '.join(names))}" if names else text


def similar(name: str, allowed: Sequence[str]) -> list[str]:
    """Return up to three similar names: 2 for a substring either way, 1 per shared word."""
    words = set(_words(name))
    scored = [(_score(name, words, other), other) for other in allowed]
    best = sorted((-score, other) for score, other in scored if score)
    return [other for _, other in best[:SIMILAR]]


def _score(name: str, words: set[str], other: str) -> int:
    left, right = name.lower(), other.lower()
    substring = 2 if left and (left in right or right in left) else 0
    return substring + len(words.intersection(_words(other)))


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[_\-\s]+", name.lower()) if word]
