"""This is about which rule of a script answers a request, and with what (SPEC LLM-40 to LLM-45).

Pure: a request and a script give one `Plan`; the same request gives the same plan. `scripted`
plays it through the port, `scripted_http` over the wire.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, cast

from aalis_contracts.messages import FunctionCall, ToolCall
from aalis_contracts.models import ChatRequest, FinishReason, Usage
from aalis_contracts.text import compact_json
from aalis_llm.heuristic import calls_json, messages_cost, text_cost, tools_cost
from aalis_llm.script import CallSpec, CutSpec, FailSpec, Rule, Script, StreamSpec, UsageSpec
from aalis_llm.script_directives import Directives, read_directives
from aalis_llm.script_scene import Scene, fill_placeholders, read_scene

_OVERFLOW: Final = FailSpec(
    status=400,
    message="This model's maximum context length was exceeded by the messages",
    code="context_length_exceeded",
)


@dataclass(frozen=True)
class Plan:
    """What is answered: a failure, a silence that lasts until aborted, or text and calls."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: FinishReason = "stop"
    usage: Usage | None = None
    stream: StreamSpec = field(default_factory=StreamSpec)
    fail: FailSpec | None = None
    cut: CutSpec | None = None
    hang: bool = False


def plan(script: Script, model: str, request: ChatRequest) -> Plan:
    """Return what the script answers to `request`, asked of `model`."""
    scene = read_scene(model, request)
    planned = _by_rules(script, scene) or _by_directives(scene) or _echo(scene)
    return replace(planned, usage=_usage(planned, request))


def _by_rules(script: Script, scene: Scene) -> Plan | None:
    for rule in script.rules:
        match = _holds(rule, scene)
        if match is not None:
            return _answer(rule, scene, match)
    return None


def _holds(rule: Rule, scene: Scene) -> tuple[str, ...] | None:
    """Return the groups of the rule's match on the text, or None if the rule does not hold."""
    when = rule.when
    equal: list[tuple[object, object]] = [
        (when.iteration, scene.iteration),
        (when.attempt, scene.attempt),
        (when.tool, scene.result_tool),
        (when.error, scene.result_is_error if scene.result_tool else None),
        (when.model, scene.model),
        (when.think, scene.think),
        (when.purpose, scene.purpose),
    ]
    if any(wanted is not None and wanted != found for wanted, found in equal):
        return None
    if rule.first is not None and scene.attempt > rule.first:
        return None
    if when.offers is not None and when.offers not in scene.tools:
        return None
    if when.result is not None and not (scene.result_tool and re.search(when.result, scene.result)):
        return None
    if when.text is None:
        return ()
    match = re.search(when.text, scene.text)
    return None if match is None else (match[0], *(group or "" for group in match.groups()))


def _answer(rule: Rule, scene: Scene, match: tuple[str, ...]) -> Plan:
    if rule.hang:
        return Plan(hang=True)
    if rule.overflow or rule.fail:
        return Plan(fail=rule.fail or _OVERFLOW)

    def fill(text: str) -> str:
        return fill_placeholders(text, scene, match)

    calls = tuple(_call(spec, scene.iteration, i, fill) for i, spec in enumerate(rule.call))
    content = fill(rule.reply or "")
    if not rule.repeat and not calls:
        content = _not_again(content, scene.last_answer)
    return Plan(
        content=content,
        reasoning=fill(rule.think or ""),
        calls=calls,
        finish=rule.finish or ("tool_calls" if calls else "stop"),
        usage=_given_usage(rule.usage),
        stream=rule.stream,
        cut=rule.cut,
    )


def _by_directives(scene: Scene) -> Plan | None:
    """Answer the lines that begin with `!`, if there are any (SPEC LLM-45)."""
    directives = read_directives(scene.text)
    if directives is None:
        return None
    stream = StreamSpec(delay_ms=directives.slow_ms)
    if directives.calls and scene.iteration == 0:
        calls = tuple(_call(spec, 0, i, _as_is) for i, spec in enumerate(directives.calls))
        return Plan(
            content=directives.say,
            reasoning=directives.think,
            calls=calls,
            finish="tool_calls",
            stream=stream,
        )
    if directives.hang:
        return Plan(hang=True)
    if directives.fail is not None:
        return Plan(fail=FailSpec(status=directives.fail))
    content = _not_again(_told(directives, scene), scene.last_answer)
    cut = None if directives.cut is None else CutSpec(after=directives.cut)
    return Plan(content=content, reasoning=directives.think, stream=stream, cut=cut)


def _told(directives: Directives, scene: Scene) -> str:
    """Return the text that directives ask for: what was to be said, or the list of results."""
    if not directives.calls:
        return directives.say
    return "\n".join(f"{name} → {result}" for name, result in scene.results)


def _echo(scene: Scene) -> Plan:
    return Plan(content=_not_again(scene.text or scene.result or "…", scene.last_answer))


def _call(spec: CallSpec, iteration: int, index: int, fill: Callable[[str], str]) -> ToolCall:
    raw = fill(spec.args) if isinstance(spec.args, str) else compact_json(_filled(spec.args, fill))
    return ToolCall(
        id=fill(spec.id) if spec.id is not None else f"call_{iteration}_{index}",
        function=FunctionCall(name=fill(spec.tool), arguments=raw),
    )


def _filled(value: object, fill: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return fill(value)
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value).items()
        return {key: _filled(inner, fill) for key, inner in pairs}
    if isinstance(value, list):
        return [_filled(inner, fill) for inner in cast("list[object]", value)]
    return value


def _as_is(text: str) -> str:
    return text


def _not_again(content: str, last_answer: str) -> str:
    """Append a number to a repeated answer, which the agent would take for a stuck model."""
    if content and last_answer == content:
        return f"{content} (2)"
    if content and last_answer.startswith(f"{content} ("):
        number = last_answer[len(content) + 2 : -1]
        if last_answer.endswith(")") and number.isdecimal() and int(number) > 1:
            return f"{content} ({int(number) + 1})"
    return content


def _given_usage(spec: UsageSpec | None) -> Usage | None:
    if spec is None:
        return None
    prompt, completion = spec.prompt_tokens or 0, spec.completion_tokens or 0
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion,
        cached_prompt_tokens=spec.cached_prompt_tokens,
    )


def _usage(planned: Plan, request: ChatRequest) -> Usage:
    """Return what the rule says was used, or what the heuristic counts."""
    if planned.usage is not None:
        return planned.usage
    prompt = messages_cost(request.messages) + tools_cost(request.tools)
    completion = text_cost(planned.content) + text_cost(planned.reasoning)
    if planned.calls:
        completion += text_cost(calls_json(planned.calls))
    return Usage(
        prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion
    )
