"""This is about conformance: vector files, checked against the product's pure parts.

For us, and for whoever ports or embeds these parts: each line holds an input and what must come
out. The lines use the `heuristic` counter and the `zh` texts, so that the result depends on
nothing that is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC
from typing import Annotated, Final, NamedTuple

from pydantic import Field, JsonValue

from aalis_agent.budgets import Budgets
from aalis_agent.history import shown_history
from aalis_agent.prompt import Contribution, assemble
from aalis_agent.tokens import HeuristicCounter
from aalis_agent.trimming import trim_to_budget
from aalis_agent.usage import CallIdentity, break_down, log_line, token_usage
from aalis_contracts.catalogue import Catalogue
from aalis_contracts.contract import Contract
from aalis_contracts.events import TokenUsage
from aalis_contracts.messages import Message
from aalis_contracts.models import ProfileName
from aalis_contracts.tools import ToolDefinition
from aalis_llm.shape import to_provider_messages


class Outcome(NamedTuple):
    """How many lines passed, and the ids of those that did not."""

    passed: int
    failed: list[str]


class _Estimate(Contract):
    text: str
    tokens: int


class _History(Contract):
    history: list[Message]
    expected: list[Message]


class _Trim(Contract):
    messages: list[Message]
    budget: int
    memory_token_budget: int
    expected: list[Message]
    estimated_before: int
    estimated_after: int


class _Usage(Contract):
    id: str
    messages: list[Message]
    tools: list[ToolDefinition]
    context_length: int
    max_tokens: int
    token_budget: int
    expected: TokenUsage
    log: str


class _Block(Contract):
    key: str
    anchor: str
    blocks: str | list[str] | None = None


class _Assembly(Contract):
    messages: list[Message]
    contributions: list[_Block]
    expected: list[Message]


class _Provider(Contract):
    """A list and how it goes out; `vision`, `provider` and `model` are those of the entry asked."""

    messages: list[Message]
    profile: ProfileName
    vision: bool = False
    provider: str = ""
    model: str = ""
    expected: list[Message]


class _Named(Contract):
    id: Annotated[JsonValue, Field(default=None)]


_TEXTS: Final = Catalogue("zh")


def run(kind: str, lines: Iterable[str | bytes]) -> Outcome:
    """Check vector lines of one kind; blank lines are skipped, unreadable ones fail.

    A line without an id is named by its number. Raises ValueError for an unknown kind.
    """
    check = CHECKS.get(kind)
    if check is None:
        raise ValueError(f"unknown kind {kind!r}; use one of {', '.join(CHECKS)}")
    passed = 0
    failed: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if _holds(check, line):
            passed += 1
        else:
            failed.append(_name(line, number))
    return Outcome(passed, failed)


def _holds(check: Callable[[str | bytes], bool], line: str | bytes) -> bool:
    # A line that cannot be read, and a bug that a line finds, both fail that line alone.
    try:
        return check(line)
    except Exception:  # noqa: BLE001
        return False


def _name(line: str | bytes, number: int) -> str:
    try:
        name = _Named.from_json(line).id
    except ValueError:
        name = None
    return f"line {number}" if name is None else str(name)


def _estimate(line: str | bytes) -> bool:
    case = _Estimate.from_json(line)
    return HeuristicCounter().text(case.text) == case.tokens


def _history(line: str | bytes) -> bool:
    case = _History.from_json(line)
    return _same(shown_history(case.history, now=0, zone=UTC).messages, case.expected)


def _trim(line: str | bytes) -> bool:
    case = _Trim.from_json(line)
    trimmed = trim_to_budget(
        case.messages, case.budget, case.memory_token_budget, HeuristicCounter(), _TEXTS
    )
    return (
        _same(trimmed.messages, case.expected)
        and trimmed.before_tokens == case.estimated_before
        and trimmed.tokens == case.estimated_after
    )


def _usage(line: str | bytes) -> bool:
    case = _Usage.from_json(line)
    counter = HeuristicCounter()
    budgets = Budgets(
        window=case.context_length,
        max_tokens=case.max_tokens,
        token_budget=case.token_budget,
        hard_limit=case.token_budget,
        memory_budget=0,
    )
    identity = CallIdentity(session_id="s" + case.id.rpartition("-")[2], platform="cli")
    costs = counter.messages(case.messages)
    parts = break_down(case.messages, costs, counter.tools(case.tools), case.max_tokens)
    usage = token_usage(identity, budgets, parts)
    return usage.to_object() == case.expected.to_object() and log_line(usage) == case.log


def _assembly(line: str | bytes) -> bool:
    case = _Assembly.from_json(line)
    added = [Contribution(block.key, block.anchor, block.blocks) for block in case.contributions]
    return _same(assemble(case.messages, added).messages, case.expected)


def _provider(line: str | bytes) -> bool:
    case = _Provider.from_json(line)
    sent = to_provider_messages(
        case.messages,
        case.profile,
        vision=case.vision,
        provider_id=case.provider,
        model=case.model,
        catalogue=_TEXTS,
    )
    return _same(sent, case.expected)


def _same(ours: Iterable[Message], theirs: Iterable[Message]) -> bool:
    return [message.to_object() for message in ours] == [message.to_object() for message in theirs]


CHECKS: Final[dict[str, Callable[[str | bytes], bool]]] = {
    "estimate": _estimate,
    "trim": _trim,
    "history": _history,
    "usage": _usage,
    "assembly": _assembly,
    "provider": _provider,
}
"""Each kind of vector file, and what checks one line of it."""
