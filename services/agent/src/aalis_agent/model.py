"""This is about asking a model: one question, from the working list to the whole answer (AG-24).

Contributions, `agent:llm:before`, trimming, `token:usage`, the provider's shape, the stream,
`agent:llm:after`: in this order before every call. What cannot be answered is a value, `Failure`.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from opentelemetry.trace import Span, SpanKind

from aalis_agent.contributions import contribute
from aalis_agent.tokens import Calibration, heavy
from aalis_agent.trimming import Trimmed, trim
from aalis_agent.usage import CallIdentity, break_down, token_usage
from aalis_contracts.hooks import LLM_AFTER, LLM_BEFORE, LlmAfterData, LlmBeforeData
from aalis_contracts.journal import ModelStarted
from aalis_contracts.models import ChatRequest, ChatResponse
from aalis_contracts.text import well_formed
from aalis_llm.errors import ModelError, person_line
from aalis_llm.response import Collected
from aalis_llm.retry import Attempt
from aalis_llm.shape import as_seen
from aalis_sdk import tracing
from aalis_sdk.arguments import schema_fault
from aalis_sdk.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aalis_agent.budgets import Budgets
    from aalis_agent.frames import FrameWriter
    from aalis_agent.lane import Lane
    from aalis_agent.parts import Parts
    from aalis_agent.planning import Bench
    from aalis_agent.shrinking import Overflow
    from aalis_agent.steps import Ask
    from aalis_contracts.messages import Message
    from aalis_contracts.tools import ToolDefinition

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Failure:
    """The model gave no answer: what the person is told, and what the record says."""

    text: str
    error: str


@dataclass(frozen=True, slots=True)
class _Question:
    """One iteration's question and all that is needed to ask it."""

    parts: Parts
    lane: Lane
    bench: Bench
    frames: FrameWriter
    step: Ask


async def ask(
    parts: Parts, lane: Lane, bench: Bench, frames: FrameWriter, step: Ask
) -> ChatResponse | Failure:
    """Ask what `step` says; the attempt is a fact before the first byte is sent."""
    question = _Question(parts, lane, bench, frames, step)
    tools: list[ToolDefinition] = []
    if step.tools:
        await contribute(parts, lane.turn, bench, step.iteration)
        tools = await _before(question)
    answer = await _ask_within(question, tools, bench.budgets)
    if isinstance(answer, ModelError) and answer.kind == "overflow":
        # SPEC TRIM-15: one more call, trimmed from the same list to four fifths.
        parts.log.warning("the provider says the context is too long; trimming harder")
        again = replace(step, attempt=lane.turn.asked.get(step.iteration, step.attempt) + 1)
        answer = await _ask_within(replace(question, step=again), tools, bench.budgets.lowered())
    if isinstance(answer, ModelError):
        line = person_line(answer, parts.texts)
        parts.log.warning("model call failed", kind=answer.kind, reason=answer.message)
        parts.log.debug("model call failed", raw=answer.raw)
        return Failure(f"{parts.texts.text('errorAnswer')} {line}", f"{answer.kind}: {line}")
    if isinstance(answer, Failure):
        return answer
    return await _after(parts, bench, answer)


async def _ask_within(
    question: _Question, tools: list[ToolDefinition], budgets: Budgets
) -> ChatResponse | Failure | ModelError:
    parts, bench, step = question.parts, question.bench, question.step
    trimmed = await fit(parts, bench, tools, budgets)
    if trimmed.overflow is not None:
        return _too_much(parts, trimmed.overflow)
    bench.shortened = bench.shortened or trimmed.shortened
    await question.lane.append(
        ModelStarted(iteration=step.iteration, attempt=step.attempt, at=parts.now())
    )
    if step.tools:
        await _publish_usage(question, trimmed, budgets)
    request = ChatRequest(
        messages=trimmed.messages,
        tools=tools or None,
        max_tokens=budgets.outgoing_max_tokens(trimmed.used),
        think=bench.config.think,
        attempt=step.attempt,
        purpose="chat",
    )
    question.frames.begin(step.iteration, step.attempt)
    try:
        answer = await _stream(question, request)
    except ModelError as error:
        question.frames.drop()
        return error
    _calibrate(parts, bench, answer, trimmed.used)
    return answer


async def _stream(question: _Question, request: ChatRequest) -> ChatResponse:
    """Have the question answered under a span that says what it took."""
    entry, turn = question.bench.entry, question.lane.turn
    attributes = {
        tracing.OPERATION: "chat",
        tracing.PROVIDER: entry.provider_id,
        tracing.REQUEST_MODEL: entry.id,
        tracing.CONVERSATION_ID: turn.session_id,
        tracing.TURN_ID: turn.answer_id,
    }
    with tracing.span(f"chat {entry.id}", SpanKind.CLIENT, attributes) as span:
        response = await _read(question, request, span)
        span.set_attribute(tracing.RESPONSE_FINISH, [response.finish_reason])
        if response.usage is not None:
            span.set_attribute(tracing.INPUT_TOKENS, response.usage.prompt_tokens)
            span.set_attribute(tracing.OUTPUT_TOKENS, response.usage.completion_tokens)
        return response


async def _read(question: _Question, request: ChatRequest, span: Span) -> ChatResponse:
    """Read the answer; every delta goes out as a frame, a new attempt voids what came before."""
    frames = question.frames
    began = asyncio.get_running_loop().time()
    collected = Collected()
    async with aclosing(question.parts.models.stream(question.bench.entry, request)) as events:
        async for event in events:
            if isinstance(event, Attempt):
                if event.reason is not None:
                    await _begin_again(question, event)
                collected = Collected()
                continue
            first = not collected.begun
            collected.add(event)
            if first and collected.begun:
                failpoint("agent.model.streaming")
                waited = asyncio.get_running_loop().time() - began
                span.set_attribute(tracing.TIME_TO_FIRST_CHUNK, waited)
            await frames.write(event)
    await frames.close()
    failpoint("agent.model.answered")
    return collected.response()


async def _begin_again(question: _Question, attempt: Attempt) -> None:
    parts, iteration = question.parts, question.step.iteration
    parts.log.warning(
        "model call is tried again",
        attempt=attempt.number,
        reason=str(attempt.reason),
        wait=round(attempt.wait, 2),
    )
    started = ModelStarted(iteration=iteration, attempt=attempt.number, at=parts.now())
    await question.lane.append(started)
    question.frames.begin(iteration, attempt.number)


async def fit(parts: Parts, bench: Bench, tools: list[ToolDefinition], budgets: Budgets) -> Trimmed:
    """Trim the working list for one call."""
    messages, counter = as_seen(bench.messages, bench.entry, parts.texts), bench.counter

    def trimmed_list() -> Trimmed:
        return trim(messages, budgets, counter.tools(tools), counter, parts.texts)

    trimmed = await aside(messages, trimmed_list)
    if trimmed.log_line is not None:
        parts.log.info(trimmed.log_line)
    return trimmed


async def aside(messages: Sequence[Message], work: Callable[[], Answer]) -> Answer:
    """Do `work` on messages, off the event loop when they are long (SPEC TOK-6)."""
    return await asyncio.to_thread(work) if heavy(messages) else work()


async def _before(question: _Question) -> list[ToolDefinition]:
    """Let the interceptors change the list and narrow the tools; the call happens anyway."""
    parts, bench = question.parts, question.bench
    tools = [entry.definition for entry in bench.tools]
    if not parts.interceptors.anyone(LLM_BEFORE):
        return tools
    incoming = question.lane.turn.answered.message
    data = LlmBeforeData(
        messages=bench.messages,
        tools=tools,
        session_id=question.lane.turn.session_id,
        user_id=incoming.user_id,
        platform=incoming.platform,
        trigger_type=incoming.trigger_type,
        dry_run=False,
        iteration=question.step.iteration,
    )
    chain = await parts.interceptors.run(LLM_BEFORE, data)
    if chain.stopped_by is not None:
        parts.log.warning("agent:llm:before was stopped; the call goes on", plugin=chain.stopped_by)
    if chain.data.messages:
        bench.messages = chain.data.messages
    return _askable(parts, chain.data.tools)


def _askable(parts: Parts, tools: Sequence[ToolDefinition]) -> list[ToolDefinition]:
    """Leave out what an interceptor put there and a provider would refuse the request for."""
    kept: dict[str, ToolDefinition] = {}
    for tool in tools:
        twice = "its name is there twice" if tool.name in kept else ""
        if why := twice or schema_fault(tool.function.parameters):
            parts.log.warning("tool left out of the call", tool=tool.name, why=why)
        else:
            kept[tool.name] = tool
    return list(kept.values())


async def _after(parts: Parts, bench: Bench, response: ChatResponse) -> ChatResponse:
    if not parts.interceptors.anyone(LLM_AFTER):
        return response
    data = LlmAfterData(response=response, messages=bench.messages)
    chain = await parts.interceptors.run(LLM_AFTER, data)
    changed = chain.data.response
    return changed.model_copy(update={"content": _mended(changed.content)})


def _mended(text: str | None) -> str | None:
    return None if text is None else well_formed(text)


async def _publish_usage(question: _Question, trimmed: Trimmed, budgets: Budgets) -> None:
    parts, bench, turn = question.parts, question.bench, question.lane.turn
    incoming = turn.answered.message
    usage = token_usage(
        CallIdentity(
            session_id=turn.session_id,
            platform=incoming.platform,
            user_id=incoming.user_id,
            turn_id=turn.answer_id,
            iteration=question.step.iteration,
        ),
        budgets,
        break_down(trimmed.messages, trimmed.costs, trimmed.tool_tokens, budgets.max_tokens),
        parts.calibrations.get(bench.entry.context_id),
    )
    line = parts.usage_log.line(usage)
    if line is not None:
        parts.log.info(line)
    await parts.outbound.usage(usage)


def _calibrate(parts: Parts, bench: Bench, response: ChatResponse, estimate: int) -> None:
    if response.usage is None:
        return
    name = bench.entry.context_id
    known = parts.calibrations.get(name, Calibration())
    parts.calibrations[name] = known.after(response.usage.prompt_tokens, estimate)


def _too_much(parts: Parts, overflow: Overflow) -> Failure:
    text = parts.texts.text(
        "overflow",
        used=overflow.used,
        limit=overflow.limit,
        system=overflow.system,
        tools=overflow.tools,
        latest=overflow.latest,
        group=overflow.group,
    )
    return Failure(f"{parts.texts.text('errorAnswer')} {text}", f"overflow: {text}")
