"""This is about tools: running the calls of one response, side by side (SPEC §2.11, TOOL-3 to 6).

A call that fails, hangs or is refused has an error result and does not touch its siblings. Each
result becomes a fact as soon as it is there; a call that was sent by a dead owner is sent again
under the same key, and its host answers with what it has.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from aalis_agent.ports import ChainFailed, Unavailable
from aalis_agent.results import cut_result, failure_of, result_limit
from aalis_agent.together import together
from aalis_contracts.events import ToolExecute
from aalis_contracts.hooks import TOOL_AFTER, TOOL_BEFORE, ToolAfterData, ToolBeforeData
from aalis_contracts.journal import ToolFinished, ToolStarted
from aalis_contracts.text import MAX_CARRIED, parse_object, well_formed
from aalis_contracts.tools import (
    InboundOrigin,
    ToolCallContext,
    ToolCallRequest,
    ToolResult,
    error_result,
)
from aalis_sdk.arguments import schema_problems
from aalis_sdk.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aalis_agent.lane import Lane
    from aalis_agent.parts import Parts
    from aalis_agent.planning import Bench
    from aalis_agent.ports import Chain
    from aalis_agent.steps import Round
    from aalis_contracts.messages import ToolCall
    from aalis_contracts.registry import ToolEntry
    from aalis_contracts.text import JsonObject

SIMILAR = 3
COMPRESS = "memory_compress"
"""The tool that replaces stored messages by a summary (SPEC SUM-10)."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A call that may be sent: its tool, and the arguments as executed.

    `sent_before`: an earlier owner of the turn has, or may have, sent it already.
    """

    index: int
    call: ToolCall
    entry: ToolEntry
    args: JsonObject
    context: ToolCallContext
    sent_before: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """A call that is not sent: its result stands already.

    `shown` are the arguments with which the call is told of; None for one that was never a call
    (SPEC AG-43: no `tool:execute` for it).
    """

    index: int
    result: ToolResult
    refused: bool = False
    shown: JsonObject | None = None


async def run_calls(parts: Parts, lane: Lane, bench: Bench, one: Round) -> None:
    """Execute the calls of a round that have no result yet; each result becomes a fact."""
    prepared = await asyncio.gather(
        *(_prepare(parts, lane, bench, one, index) for index in one.pending)
    )
    ready = [each for each in prepared if isinstance(each, Ready)]
    answered = [each for each in prepared if isinstance(each, Answered)]
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
    await together(_tell(parts, lane, one, each) for each in answered)
    await lane.append(*(_finished(parts, lane, one, each) for each in answered), *fresh)
    await together(_execute(parts, lane, bench, one, each) for each in ready)


async def _prepare(
    parts: Parts, lane: Lane, bench: Bench, one: Round, index: int
) -> Ready | Answered:
    """Decide whether a call may be sent: cut off, malformed, unknown, stopped, or ready."""
    call = one.calls[index]
    context = _context(lane, bench, one, index)
    started = one.started.get(index)
    if started is not None:
        entry = _entry_named(parts, bench, started.name)
        if entry is None:
            # Its host is gone, and with it the only one who knows whether the call was made.
            unknown = error_result(parts.texts.text("outcomeUnknown"))
            return Answered(index, unknown, shown=started.args)
        return Ready(index, call, entry, started.args, context, sent_before=True)
    if one.response.finish_reason in {"length", "content_filter"}:
        return Answered(index, error_result(parts.texts.text("callCutOff")), refused=True)
    args = parse_arguments(call.function.arguments)
    if isinstance(args, str):
        text = parts.texts.text("malformedArguments", problem=args)
        return Answered(index, error_result(text), refused=True)
    entry = _offered_named(bench, call.function.name)
    if entry is None:
        text = not_found(parts, bench, call.function.name)
        return Answered(index, error_result(text), refused=True, shown=args)
    return await _intercepted(parts, bench, Ready(index, call, entry, args, context))


async def _intercepted(parts: Parts, bench: Bench, ready: Ready) -> Ready | Answered:
    """Ask `agent:tool:before`: it may change name and arguments, or stop the call (HOOK-6)."""
    entry, args = ready.entry, ready.args
    if parts.interceptors.anyone(TOOL_BEFORE):
        data = ToolBeforeData(name=entry.name, args=args, tool_call_context=ready.context)
        try:
            chain = await parts.interceptors.run(TOOL_BEFORE, data)
        except ChainFailed as error:
            return Answered(ready.index, failure_of(error), shown=args)
        args = chain.data.args
        if chain.stopped_by is not None:
            return Answered(ready.index, _stopped(parts, chain), shown=args)
        if chain.data.name != entry.name:
            renamed = _offered_named(bench, chain.data.name)
            if renamed is None:
                text = not_found(parts, bench, chain.data.name)
                return Answered(ready.index, error_result(text), shown=args)
            entry = renamed
    problems = schema_problems(entry.definition.function.parameters, args)
    if problems:
        text = parts.texts.text("schemaProblems", problems=problems)
        return Answered(ready.index, error_result(text), shown=args)
    return replace(ready, entry=entry, args=args)


def _stopped(parts: Parts, chain: Chain[ToolBeforeData]) -> ToolResult:
    if chain.data.result is not None:
        return ToolResult(content=chain.data.result)
    return error_result(parts.texts.text("toolRefusedByHook", plugin=chain.stopped_by))


async def _tell(parts: Parts, lane: Lane, one: Round, answered: Answered) -> None:
    """Show a call that was not sent, so that whoever watches sees its result too."""
    if answered.shown is None:
        return
    call = one.calls[answered.index]
    key = _key(lane, one, answered.index)
    started = ToolExecute(
        session_id=lane.turn.session_id,
        platform=lane.turn.answered.message.platform,
        turn_id=lane.turn.answer_id,
        call_id=call.id or key,
        tool_name=call.function.name,
        args=answered.shown,
        phase="start",
    )
    await parts.outbound.tool_event(started, key)
    ended = {"phase": "end", "result": answered.result.content}
    await parts.outbound.tool_event(started.model_copy(update=ended), key)


async def _execute(parts: Parts, lane: Lane, bench: Bench, one: Round, ready: Ready) -> None:
    """Send one call and make its result a fact; every start event has its end (AG-42)."""
    key = ready.context.key
    await parts.outbound.tool_event(_event(lane, ready, None), key)
    result = await _call(parts, ready)
    failpoint("agent.tool.answered")
    result = await _reworked(parts, ready, result)
    limit = result_limit(bench.entry.context_length, parts.options.tool_result_max_ratio)
    text = well_formed(result.content)
    content = cut_result(text, limit, parts.texts, result.original_length)
    cut = ToolResult(content=content or parts.texts.text("noOutput"), images=result.images)
    await parts.outbound.tool_event(_event(lane, ready, cut.content), key)
    await lane.append(_finished(parts, lane, one, Answered(ready.index, cut)))


async def _call(parts: Parts, ready: Ready) -> ToolResult:
    request = ToolCallRequest(name=ready.entry.name, args=ready.args, context=ready.context)
    try:
        return await parts.tools.call(ready.entry, request, begun=ready.sent_before)
    except TimeoutError:
        await parts.tools.cancel(ready.entry.name, ready.context.key, "timeout")
        seconds = f"{ready.entry.timeout_ms / 1000:g}"
        text = parts.texts.text("toolTimedOut", name=ready.entry.name, seconds=seconds)
        if ready.entry.retry == "never":
            text += " " + parts.texts.text("outcomeUnknown")
        return error_result(text)
    except Unavailable as error:
        parts.log.warning("tool is absent", tool=ready.entry.name, why=str(error))
        text = parts.texts.text("toolServiceAbsent", name=ready.entry.name)
        if ready.entry.retry == "never" and error.begun:
            text += " " + parts.texts.text("outcomeUnknown")
        return error_result(text)


async def _reworked(parts: Parts, ready: Ready, result: ToolResult) -> ToolResult:
    if not parts.interceptors.anyone(TOOL_AFTER):
        return result
    data = ToolAfterData(
        name=ready.entry.name,
        args=ready.args,
        result=result.content,
        tool_call_context=ready.context,
    )
    try:
        chain = await parts.interceptors.run(TOOL_AFTER, data)
    except ChainFailed as error:
        return failure_of(error)
    if chain.data.result == result.content:
        return result
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
        key=_key(lane, one, index),
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


def _finished(parts: Parts, lane: Lane, one: Round, answered: Answered) -> ToolFinished:
    return ToolFinished(
        iteration=one.iteration,
        index=answered.index,
        key=_key(lane, one, answered.index),
        content=answered.result.content,
        images=answered.result.images,
        refused=True if answered.refused else None,
        at=parts.now(),
    )


def _key(lane: Lane, one: Round, index: int) -> str:
    """Return the id under which a call happens once, whoever asks for it (TOOL-7)."""
    return f"{lane.turn.answer_id}.{one.iteration}.{index}"


def _offered_named(bench: Bench, name: str) -> ToolEntry | None:
    return next((entry for entry in bench.tools if entry.name == name), None)


def _entry_named(parts: Parts, bench: Bench, name: str) -> ToolEntry | None:
    known = (*bench.tools, *parts.tools.entries())
    return next((entry for entry in known if entry.name == name), None)


def changed_the_history(one: Round) -> bool:
    """Say whether a call of this round has compressed what is stored (SPEC AG-37, SUM-10)."""
    return any(
        call.function.name == COMPRESS
        and (done := one.finished.get(index)) is not None
        and _says_ok(done.content)
        for index, call in enumerate(one.calls)
    )


def _says_ok(content: str) -> bool:
    try:
        return parse_object(content).get("ok") is True
    except ValueError:
        return False


def parse_arguments(arguments: str) -> JsonObject | str:
    """Read a call's arguments; a text says what is wrong with them (SPEC AG-43)."""
    if not arguments.strip():
        return {}
    try:
        return parse_object(arguments, MAX_CARRIED)
    except ValueError as error:
        return str(error)


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
