"""This is about the draft: a message list while it is made to fit, with its running cost.

Each cost is asked for once and the sum is kept up to date, so that a stage knows at any moment
whether it may stop, and the whole of trimming stays linear. A draft belongs to one trim; the
messages in it are frozen, so replacing one never touches the list it came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from aalis_agent.tokens import Counter
from aalis_contracts.messages import Message

TextPart = Literal["content", "reasoning_content"]


class Draft:
    """Messages with what each costs and what all cost; `originals` are as they came in.

    A text that a stage has shortened is counted and put into its message only when the answer
    depends on it: until then the message has the cost of its other parts and shows the old text,
    and `over` answers from that when it suffices. So whatever a later stage removes anyway is
    never counted at all.
    """

    def __init__(self, messages: Sequence[Message], counter: Counter) -> None:
        self.messages = list(messages)
        self.originals = list(messages)
        self.costs = counter.messages(messages)
        self.total = sum(self.costs)
        self._counter = counter
        self._shortened: dict[int, tuple[TextPart, str]] = {}
        self._gone: set[int] = set()

    def over(self, budget: int) -> bool:
        """Say whether the draft costs more than `budget`."""
        while self._shortened and self.total <= budget:
            self._count(next(iter(self._shortened)))
        return self.total > budget

    def settle(self, indices: Iterable[int] | None = None) -> None:
        """Count what is not counted yet, everywhere or in some messages."""
        for index in tuple(self._shortened) if indices is None else indices:
            if index in self._shortened:
                self._count(index)

    def least(self, group: range) -> int:
        """Return what a group costs at least; exactly, once it is settled."""
        return sum(self.costs[group.start : group.stop])

    def price(self, message: Message) -> int:
        """Return what a message would cost here."""
        return self._counter.message(message)

    def price_text(self, text: str) -> int:
        """Return what a text alone would cost here."""
        return self._counter.text(text)

    def shorten(self, index: int, part: TextPart, text: str) -> None:
        """Put a shorter text in the place of one part of a message."""
        message = self.messages[index]
        before = message.content if part == "content" else message.reasoning_content
        self._add(index, -self.price_text(before or ""))
        self._shortened[index] = (part, text)

    def put(self, index: int, message: Message, cost: int) -> None:
        """Put a message of known cost in the place of the one at `index`."""
        self._shortened.pop(index, None)
        self._add(index, cost - self.costs[index])
        self.messages[index] = message

    def put_if_cheaper(self, index: int, message: Message) -> None:
        """Put `message` at `index` unless a marker or a costlier tail would make it worse."""
        cost = self.price(message)
        if cost < self.costs[index]:
            self.put(index, message, cost)

    def remove(self, indices: Iterable[int]) -> None:
        """Take messages out of the sum; they leave the list when `close` is called."""
        for index in indices:
            self._shortened.pop(index, None)
            self.total -= self.costs[index]
            self._gone.add(index)

    def close(self) -> None:
        """Let the removed messages go; indices change here and in `insert`, nowhere else."""
        if self._gone:
            kept = [index for index in range(len(self.messages)) if index not in self._gone]
            self.messages = [self.messages[index] for index in kept]
            self.originals = [self.originals[index] for index in kept]
            self.costs = [self.costs[index] for index in kept]
            shortened = self._shortened
            self._shortened = {
                now: shortened[was] for now, was in enumerate(kept) if was in shortened
            }
            self._gone = set()

    def insert(self, index: int, message: Message) -> None:
        """Insert a message that was not in the input; everything else is counted by now."""
        cost = self.price(message)
        self.messages.insert(index, message)
        self.originals.insert(index, message)
        self.costs.insert(index, cost)
        self.total += cost

    def _count(self, index: int) -> None:
        part, text = self._shortened.pop(index)
        self.messages[index] = self.messages[index].model_copy(update={part: text})
        self._add(index, self.price_text(text))

    def _add(self, index: int, tokens: int) -> None:
        self.costs[index] += tokens
        self.total += tokens


def groups_of(messages: Sequence[Message]) -> list[range]:
    """Return the tool groups by position, oldest first (SPEC TRIM-12).

    A group is an assistant message with calls and the tool messages directly after it, whatever
    their ids are: ids repeat from turn to turn.
    """
    found: list[range] = []
    start: int | None = None
    for index, message in enumerate(messages):
        if message.role == "tool":
            continue
        if start is not None:
            found.append(range(start, index))
        start = index if message.role == "assistant" and message.tool_calls else None
    if start is not None:
        found.append(range(start, len(messages)))
    return found


def latest_user(messages: Sequence[Message]) -> int | None:
    """Return the index of the latest user message."""
    return next((i for i in reversed(range(len(messages))) if messages[i].role == "user"), None)
