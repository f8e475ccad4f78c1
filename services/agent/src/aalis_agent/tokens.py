"""This is about tokens: what a text, a message and a set of tool definitions cost (SPEC §2.7).

Trimming, the usage buckets and the budget tool all need the same figures, at every model call of
a turn, over a history that hardly changes between calls. So a counter remembers what it has
counted, keyed by what the message says and not by the object that says it: history is read from
the store anew each turn. The vocabulary comes from an adapter as a plain function; without one
the heuristic counter serves.

Counting is synchronous. Before a call, ask `heavy`: what it names is better counted by
`prime` in a thread, off the event loop; everything after that is a look-up.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from aalis_contracts.messages import Message, ToolCall
from aalis_contracts.text import compact_json
from aalis_contracts.tools import ToolDefinition
from aalis_llm.heuristic import MESSAGE_COST, calls_json, text_cost

CounterName = Literal["tiktoken", "heuristic"]

IMAGE_COST: Final = 1_000
"""What one image costs, however many bytes it has (SPEC TOK-4)."""

SLICE: Final = 200_000
"""Characters given to an encoder at once: its regular expressions fail near 1,000,000 blanks."""

HEAVY: Final = 50_000
"""Uncounted characters above which counting leaves the event loop (SPEC TOK-6)."""

MEMORY: Final = 16_000_000
"""Characters of counted messages that a counter keeps: about forty long sessions."""

Encoder = Callable[[str], int]
"""Counts the tokens of a text of at most `SLICE` characters; ValueError when it cannot."""


class Counter(Protocol):
    """What things cost in tokens; one counter counts everything in a call (SPEC TOK-1)."""

    @property
    def name(self) -> CounterName:
        """Which of the two counters this is."""
        ...

    def text(self, text: str) -> int:
        """Return what `text` alone costs."""
        ...

    def message(self, message: Message) -> int:
        """Return what `message` costs, its overhead included."""
        ...

    def messages(self, messages: Sequence[Message]) -> list[int]:
        """Return what each message costs, in order."""
        ...

    def tools(self, tools: Sequence[ToolDefinition]) -> int:
        """Return what this array of tool definitions costs; 0 when it is empty."""
        ...

    def heavy(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages that `prime` should count in a thread; usually none."""
        ...

    def prime(self, messages: Sequence[Message]) -> None:
        """Count `messages` now, from whatever thread, so that later calls only look up."""
        ...


_Key = str | tuple[str, ...]
"""A text, or the strings of a message's calls."""


class _Remembered:
    """Costs by text, bounded by the characters of the texts; safe to share among threads.

    Two generations instead of a list in order of use: when the young one has half of the bound
    it becomes the old one, and what is found there is young again. So a hit is one look-up
    without a lock, and what was used lately survives, which is all that least-recently-used is
    for.
    """

    def __init__(self, bound: int) -> None:
        self._half = bound // 2
        self._young: dict[_Key, int] = {}
        self._old: dict[_Key, int] = {}
        self._weight = 0
        self._lock = threading.Lock()

    def get(self, key: _Key) -> int | None:
        """Return the cost kept under `key`, and keep it longer."""
        cost = self._young.get(key)
        if cost is None:
            cost = self._old.get(key)
            if cost is not None:
                self.put(key, cost)
        return cost

    def put(self, key: _Key, cost: int) -> None:
        """Keep `cost`; a key heavier than a generation is not worth what it would push out."""
        weight = _ENTRY + _size(key)
        if weight > self._half:
            return
        with self._lock:
            if self._weight + weight > self._half:
                self._old, self._young, self._weight = self._young, {}, 0
            self._young[key] = cost
            self._weight += weight


class _Counting(ABC):
    """What both counters share: the sum of TOK-4, and each text counted once.

    Costs are kept by text rather than by message: a trim that shortens one part of a message
    then counts that part alone.
    """

    def __init__(self, memory: int = MEMORY) -> None:
        self._costs = _Remembered(memory)
        self._tool_costs: dict[tuple[int, ...], tuple[tuple[ToolDefinition, ...], int]] = {}

    @abstractmethod
    def _count(self, text: str) -> int:
        """Count a text that has not been counted before."""

    def _extras(self, message: Message) -> int:
        """Return what a message costs beyond the parts that every counter counts."""
        del message
        return 0

    def text(self, text: str) -> int:
        """Return what `text` alone costs."""
        cost = self._costs.get(text)
        if cost is None:
            cost = self._count(text)
            self._costs.put(text, cost)
        return cost

    def message(self, message: Message) -> int:
        """Return 4 + content + compact JSON of the calls + reasoning (SPEC TOK-4)."""
        cost = MESSAGE_COST + self._extras(message)
        if message.content:
            cost += self.text(message.content)
        if message.tool_calls:
            cost += self._calls(message.tool_calls)
        if message.reasoning_content:
            cost += self.text(message.reasoning_content)
        return cost

    def messages(self, messages: Sequence[Message]) -> list[int]:
        """Return what each message costs, in order."""
        return [self.message(message) for message in messages]

    def tools(self, tools: Sequence[ToolDefinition]) -> int:
        """Return the text cost of the compact JSON of the array (SPEC TOK-5).

        Found again by identity: an agent offers the same definition objects call after call,
        and the entry keeps them alive, so that no other object can take over their addresses.
        """
        if not tools:
            return 0
        key = tuple(map(id, tools))
        known = self._tool_costs.get(key)
        if known is not None:
            return known[1]
        array = [tool.model_dump(by_alias=True, exclude_none=True) for tool in tools]
        cost = self.text(compact_json(array))
        if len(self._tool_costs) >= _TOOL_SETS:
            self._tool_costs.clear()
        self._tool_costs[key] = (tuple(tools), cost)
        return cost

    def heavy(self, messages: Sequence[Message]) -> list[Message]:
        """Return what is not counted yet, if that is more than the event loop should bear."""
        unknown: list[Message] = []
        size = 0
        for message in messages:
            sizes = [_size(key) for key in _keys(message) if self._costs.get(key) is None]
            if sizes:
                unknown.append(message)
                size += sum(sizes)
        return unknown if size > HEAVY else []

    def prime(self, messages: Sequence[Message]) -> None:
        """Count `messages` now, from whatever thread, so that later calls only look up."""
        self.messages(messages)

    def _calls(self, calls: Sequence[ToolCall]) -> int:
        """Return the cost of a message's calls; known ones are found without writing JSON."""
        key = _calls_key(calls)
        cost = self._costs.get(key)
        if cost is None:
            cost = self._count(_key_json(key))
            self._costs.put(key, cost)
        return cost


_ENTRY = 100
"""What an entry weighs beside its text: two dictionary slots and a string head."""

_TOOL_SETS = 64
"""Sets of tool definitions whose cost is kept; interceptors may send new objects every time."""


class HeuristicCounter(_Counting):
    """Counts by the shape of the characters; needs no vocabulary and is never absent."""

    name: CounterName = "heuristic"

    def _count(self, text: str) -> int:
        return text_cost(text)


class TiktokenCounter(_Counting):
    """Counts with a model's own vocabulary, given as a function (SPEC TOK-2)."""

    name: CounterName = "tiktoken"

    def __init__(self, encode: Encoder, memory: int = MEMORY) -> None:
        super().__init__(memory)
        self._encode = encode

    def _count(self, text: str) -> int:
        if len(text) <= SLICE:
            return self._slice(text)
        starts = range(0, len(text), SLICE)
        return sum(self._slice(text[start : start + SLICE]) for start in starts)

    def _slice(self, text: str) -> int:
        """Count a slice; one that cannot be encoded is estimated."""
        try:
            return self._encode(text)
        except ValueError:
            return text_cost(text)

    def _extras(self, message: Message) -> int:
        """Return what the speaker's name and the images cost."""
        name = self.text(message.name) + 1 if message.name else 0
        return name + IMAGE_COST * len(message.images or ())


def characters(messages: Sequence[Message]) -> int:
    """Return how much text there is to work through."""
    return sum(_size(key) for message in messages for key in _keys(message))


def _size(key: _Key) -> int:
    return len(key) if isinstance(key, str) else sum(map(len, key))


def _keys(message: Message) -> list[_Key]:
    """Return the keys under which the long parts of a message are kept."""
    keys = [text for text in (message.content, message.reasoning_content) if text]
    return [*keys, _calls_key(message.tool_calls)] if message.tool_calls else [*keys]


def _calls_key(calls: Sequence[ToolCall]) -> tuple[str, ...]:
    """Return what identifies calls: their strings, or their JSON if they carry more than that."""
    parts: list[str] = []
    for call in calls:
        function = call.function
        if call.model_extra or function.model_extra:
            return (calls_json(calls),)
        parts += (call.id, function.name, function.arguments)
    return tuple(parts)


def _key_json(key: tuple[str, ...]) -> str:
    """Return what `calls_json` writes for the calls of a key, without asking pydantic."""
    if len(key) == 1:
        return key[0]
    strings = iter(key)
    return compact_json(
        [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in zip(strings, strings, strings, strict=True)
        ]
    )


@dataclass(frozen=True, slots=True)
class Calibration:
    """How far a model's own count lies from our estimate (SPEC TOK-7); advisory, losable."""

    factor: float = 1.0
    reports: int = 0

    def after(self, prompt_tokens: int, estimate: int) -> Calibration:
        """Return the calibration after a response that reported `prompt_tokens`."""
        if prompt_tokens <= 0 or estimate <= 0:
            return self
        ratio = min(1.5, max(0.8, prompt_tokens / estimate))
        return Calibration(self.factor + 0.2 * (ratio - self.factor), self.reports + 1)

    def calibrated(self, used: int) -> int | None:
        """Return `used` as the model would count it; None before the first report."""
        return int(used * self.factor + 0.5) if self.reports else None
