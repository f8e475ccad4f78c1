"""This is about what a script can look at: the parts of a request that rules name (SPEC LLM-41).

Pure. A request may come straight from the agent or over the wire, where metadata is lost and some
profiles carry system texts as user messages; both are read alike.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final, cast

from aalis_contracts.catalogue import any_form
from aalis_contracts.messages import Message
from aalis_contracts.models import ChatRequest
from aalis_contracts.text import compact_json

_TIME_LABEL: Final = re.compile(r"\((?:\d{4}/)?\d{1,2}/\d{1,2} \d{2}:\d{2}\) ")
_CLOCK: Final = re.compile(r"(?<![\d(/])\d{1,2}:\d{2}(?!\d)")
_PLACEHOLDER: Final = re.compile(
    r"\{(text|result|tools|count|volatile|match\.\d{1,3}|result\.[\w$-]+(?:\.[\w$-]+)*)\}"
)
_SYSTEM_MARKERS: Final = any_form("systemHint")


@dataclass(frozen=True)
class Scene:
    """What a rule can look at: the parts of a request that `when` and placeholders name."""

    text: str
    iteration: int
    attempt: int
    result: str
    result_tool: str
    result_is_error: bool
    results: tuple[tuple[str, str], ...]
    tools: tuple[str, ...]
    model: str
    think: bool | None
    purpose: str
    user_count: int
    volatile: str
    last_answer: str


def read_scene(model: str, request: ChatRequest) -> Scene:
    """Look at a request once, the way rules do."""
    messages = request.messages
    said = _latest_user(messages)
    since = messages if said is None else messages[said + 1 :]
    groups = [message for message in since if message.tool_calls]
    results = [
        (_tool_of(at, since), m.content or "") for at, m in enumerate(since) if m.role == "tool"
    ]
    tool, result = results[-1] if results else ("", "")
    return Scene(
        text="" if said is None else _without_label(messages[said].content or ""),
        iteration=len(groups),
        attempt=request.attempt or 1,
        result=result,
        result_tool=tool,
        result_is_error=_is_error(result),
        results=tuple(results),
        tools=tuple(tool.name for tool in request.tools or []),
        model=model,
        think=request.think,
        purpose=request.purpose or "chat",
        user_count=sum(_is_said_by_user(message) for message in messages),
        volatile=_volatile(messages),
        last_answer=_last_answer(messages if said is None else messages[:said]),
    )


def fill_placeholders(text: str, scene: Scene, match: tuple[str, ...] = ()) -> str:
    """Replace the placeholders of SPEC LLM-42 and `{volatile}`; what is not there becomes ''."""

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name.startswith("match."):
            number = int(name.removeprefix("match."))
            return match[number] if number < len(match) else ""
        if name.startswith("result."):
            return _at_path(scene.result, name.removeprefix("result."))
        values = {
            "text": scene.text,
            "result": scene.result,
            "tools": ", ".join(scene.tools),
            "count": str(scene.user_count),
            "volatile": scene.volatile or "—",
        }
        return values[name]

    return _PLACEHOLDER.sub(value, text)


def _at_path(result: str, path: str) -> str:
    """Read `a.b.0.c` of a JSON result as text; '' where there is nothing."""
    value = _parsed(result)
    for step in path.split("."):
        if isinstance(value, dict):
            value = cast("dict[str, object]", value).get(step)
        elif isinstance(value, list) and step.isdecimal():
            items = cast("list[object]", value)
            value = items[int(step)] if int(step) < len(items) else None
        else:
            return ""
    if value is None:
        return ""
    return value if isinstance(value, str) else compact_json(value)


def _is_said_by_user(message: Message) -> bool:
    """Whether a person said it: some profiles carry system texts as marked user messages."""
    text = message.content or ""
    if message.role != "user":
        return False
    return not text.startswith(_SYSTEM_MARKERS) or _TIME_LABEL.search(text) is not None


def _latest_user(messages: list[Message]) -> int | None:
    for at in range(len(messages) - 1, -1, -1):
        if _is_said_by_user(messages[at]):
            return at
    return None


def _without_label(text: str) -> str:
    """Return what the person said: behind the time label, and behind merged system texts."""
    if text.startswith(_SYSTEM_MARKERS):
        labels = list(_TIME_LABEL.finditer(text))
        return text[labels[-1].end() :] if labels else text
    label = _TIME_LABEL.match(text)
    return text[label.end() :] if label else text


def _tool_of(at: int, messages: list[Message]) -> str:
    """Return the tool that gave the result at `at`: of the nearest call before it with its id."""
    result = messages[at]
    for message in reversed(messages[:at]):
        for call in message.tool_calls or []:
            if call.id == result.tool_call_id:
                return call.function.name
    return result.name or "unknown_tool"


def _is_error(result: str) -> bool:
    value = _parsed(result)
    return isinstance(value, dict) and "error" in value


def _parsed(text: str) -> object:
    try:
        return cast("object", json.loads(text))
    except (ValueError, RecursionError):
        return None


def _volatile(messages: list[Message]) -> str:
    """Return the block that says what time it is, wherever the profile put it; '' without one."""
    for message in reversed(messages):
        label = (message.injector or "").rpartition("/")[2]
        if label == "persona-volatile":
            return message.content or ""
    for message in reversed(messages):
        text = message.content or ""
        system = message.role == "system" or text.startswith(_SYSTEM_MARKERS)
        if system and _CLOCK.search(text):
            return _paragraph_with_clock(text)
    return ""


def _paragraph_with_clock(text: str) -> str:
    return next((part for part in text.split("\n\n") if _CLOCK.search(part)), text)


def _last_answer(messages: list[Message]) -> str:
    for message in reversed(messages):
        if message.role == "assistant" and message.content:
            return message.content
    return ""
