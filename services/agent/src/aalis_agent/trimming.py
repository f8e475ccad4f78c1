"""This is about trimming: making a message list fit into what a call may take (SPEC §2.8).

Called before every model call with the working list, which it never changes: what is cut here is
cut for that call only. The stages are tried in order, gentlest first, and trimming stops as soon
as the list fits; message 0, the latest user message, the last tool group and the last message are
never removed. When even the protected parts are too big for the model, `shrinking` takes over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor
from typing import Final

from aalis_agent.budgets import Budgets
from aalis_agent.draft import Draft, groups_of, latest_user
from aalis_agent.shrinking import Overflow, shrink_protected
from aalis_agent.tokens import Counter
from aalis_contracts.catalogue import Catalogue
from aalis_contracts.messages import Message
from aalis_contracts.text import cut
from aalis_llm.heuristic import MESSAGE_COST

MEMORY_KEPT: Final = 200
TOOL_OUTPUT_LONG: Final = 1500
TOOL_OUTPUT_KEPT: Final = 500
REASONING_KEPT: Final = 200
NEWEST_REASONING_KEPT: Final = 400
PREVIEW: Final = 100
HINT_AFTER: Final = 6
"""How many messages shorter a list is when the model is told about it (SPEC TRIM-11)."""

HINT_INJECTOR: Final = "system-other"


@dataclass(frozen=True, slots=True)
class Trimmed:
    """A list that fits as well as it can, and what had to be done for it.

    `costs` are the tokens of `messages`, one by one; `before` and `before_tokens` say how many
    messages came in and what they cost. `overflow` is set when no call may be made with the list.
    """

    messages: list[Message]
    costs: list[int]
    tool_tokens: int
    before: int
    before_tokens: int
    hinted: bool = False
    shortened: bool = False
    overflow: Overflow | None = None

    @property
    def tokens(self) -> int:
        """Return what the messages cost."""
        return sum(self.costs)

    @property
    def used(self) -> int:
        """Return what the call costs: messages and tool definitions."""
        return self.tokens + self.tool_tokens

    @property
    def removed(self) -> int:
        """Return how many messages of the input are no longer there."""
        return self.before - len(self.messages) + self.hinted

    @property
    def log_line(self) -> str | None:
        """Return the line to log, if messages were removed (SPEC TRIM-16)."""
        if not self.removed:
            return None
        return (
            f"trimmed {self.before} -> {len(self.messages)} messages, "
            f"estimate {self.before_tokens} -> {self.tokens} tokens"
        )


def trim(
    messages: Sequence[Message],
    budgets: Budgets,
    tool_tokens: int,
    counter: Counter,
    texts: Catalogue,
) -> Trimmed:
    """Make `messages` fit beside `tool_tokens` of tool definitions (SPEC TRIM-2 to TRIM-13)."""
    draft = Draft(messages, counter)
    before, before_tokens = len(draft.messages), draft.total
    hint = _go_through_stages(
        draft, budgets.for_messages(tool_tokens), budgets.memory_budget, texts
    )
    shrunk = shrink_protected(draft, budgets.hard_limit - tool_tokens, hint, texts)
    overflow = shrunk.overflow
    return Trimmed(
        messages=draft.messages,
        costs=draft.costs,
        tool_tokens=tool_tokens,
        before=before,
        before_tokens=before_tokens,
        hinted=hint is not None and not shrunk.hint_dropped,
        shortened=shrunk.shortened,
        overflow=overflow and overflow.beside_tools(tool_tokens),
    )


def trim_to_budget(
    messages: Sequence[Message],
    budget: int,
    memory_budget: int,
    counter: Counter,
    texts: Catalogue,
) -> Trimmed:
    """Run stages 1 to 5 and the hint alone: what fits by removing, nothing by force."""
    draft = Draft(messages, counter)
    before, before_tokens = len(draft.messages), draft.total
    hint = _go_through_stages(draft, budget, memory_budget, texts)
    return Trimmed(
        messages=draft.messages,
        costs=draft.costs,
        tool_tokens=0,
        before=before,
        before_tokens=before_tokens,
        hinted=hint is not None,
    )


def _go_through_stages(
    draft: Draft, budget: int, memory_budget: int, texts: Catalogue
) -> int | None:
    """Run the stages until the draft fits; return where the hint stands, if it was needed."""
    before = len(draft.messages)
    if draft.over(budget):
        shorten_injected(draft, memory_budget, texts)
    if draft.over(budget):
        cut_tool_outputs(draft, budget, texts)
    if draft.over(budget):
        shorten_reasoning(draft, budget, texts)
    if draft.over(budget):
        collapse_groups(draft, budget, texts)
    if draft.over(budget):
        delete_oldest(draft, budget)
    removing_was_enough = not draft.over(budget)
    if not removing_was_enough:
        delete_injected(draft, budget)
    draft.settle()
    if removing_was_enough or before - len(draft.messages) < HINT_AFTER:
        return None
    return insert_hint(draft, texts)


def shorten_injected(draft: Draft, memory_budget: int, texts: Catalogue) -> None:
    """Stage 1: bring injected system messages down to their share, each in proportion."""
    inner = range(1, len(draft.messages) - 1)
    injected = [index for index in inner if draft.messages[index].role == "system"]
    total = sum(draft.costs[index] for index in injected)
    if total <= memory_budget:
        return
    ratio = memory_budget / total
    for index in injected:
        text = draft.messages[index].content or ""
        if len(text) > MEMORY_KEPT:
            kept = max(MEMORY_KEPT, floor(len(text) * ratio))
            draft.shorten(index, "content", cut(text, kept, texts.text("memoryShortened")))


def cut_tool_outputs(draft: Draft, budget: int, texts: Catalogue) -> None:
    """Stage 2: cut long tool output, oldest first."""
    marker = texts.text("toolOutputTruncated")
    long = [
        index
        for index, message in enumerate(draft.messages[1:-1], start=1)
        if message.role == "tool" and len(message.content or "") > TOOL_OUTPUT_LONG
    ]
    for index in long:
        if not draft.over(budget):
            return
        text = draft.messages[index].content or ""
        draft.shorten(index, "content", cut(text, TOOL_OUTPUT_KEPT, marker))


def shorten_reasoning(draft: Draft, budget: int, texts: Catalogue) -> None:
    """Stage 2.5: shorten reasoning, oldest first; the field stays, some models demand it."""
    marker = texts.text("reasoningShortened")
    long = [
        index
        for index, message in enumerate(draft.messages)
        if message.role == "assistant" and len(message.reasoning_content or "") > REASONING_KEPT
    ]
    for index in long:
        if not draft.over(budget):
            return
        kept = NEWEST_REASONING_KEPT if index == long[-1] else REASONING_KEPT
        text = draft.messages[index].reasoning_content or ""
        draft.shorten(index, "reasoning_content", cut(text, kept, marker))


def collapse_groups(draft: Draft, budget: int, texts: Catalogue) -> None:
    """Stage 3: turn every group but the last into one line of text, where that costs less.

    A group that begins with message 0 stays: message 0 is never removed.
    """
    write = _line_writer(texts)
    for group in groups_of(draft.messages)[:-1]:
        if not draft.over(budget):
            break
        if group.start == 0:
            continue
        text = write(draft.messages[group.start : group.stop])
        cost = MESSAGE_COST + draft.price_text(text)
        if cost >= draft.least(group):
            draft.settle(group)
        if cost < draft.least(group):
            draft.put(group.start, Message(role="assistant", content=text), cost)
            draft.remove(group[1:])
    draft.close()


def delete_oldest(draft: Draft, budget: int) -> None:
    """Stage 4: delete what is oldest and not protected, a call together with its results."""
    groups = groups_of(draft.messages)
    members = {index: group for group in groups for index in group}
    spared = {0, len(draft.messages) - 1, latest_user(draft.messages)}
    if groups:
        spared.update(groups[-1])
    spared.update(members.get(0, ()))
    for index in range(1, len(draft.messages)):
        if not draft.over(budget):
            break
        if index in spared or draft.messages[index].role == "system":
            continue
        group = members.get(index, range(index, index + 1))
        if group.start == index:
            draft.remove(group)
    draft.close()


def delete_injected(draft: Draft, budget: int) -> None:
    """Stage 5: delete injected system messages, front to back."""
    for index in range(1, len(draft.messages) - 1):
        if not draft.over(budget):
            break
        if draft.messages[index].role == "system":
            draft.remove([index])
    draft.close()


def insert_hint(draft: Draft, texts: Catalogue) -> int:
    """Tell the model that earlier parts are gone (SPEC TRIM-11); return where the hint stands."""
    index = _hint_place(draft.messages)
    hint = Message(
        role="system",
        content=texts.text("continuationHint"),
        metadata={"injector": HINT_INJECTOR},
    )
    draft.insert(index, hint)
    return index


def _hint_place(messages: Sequence[Message]) -> int:
    """Return the index after the latest user message, else before the last message's group."""
    user = latest_user(messages)
    if user is not None:
        return user + 1
    last = len(messages) - 1
    groups = groups_of(messages)
    place = groups[-1].start if groups and last in groups[-1] else last
    # Nothing may stand before the main prompt, not even when it is all there is.
    return place or len(messages)


def _line_writer(texts: Catalogue) -> Callable[[Sequence[Message]], str]:
    """Return what writes the one line that stands for a whole group (SPEC TRIM-8).

    Its previews are shorter than what stage 2 leaves of a result, so that it does not matter
    whether the results are the cut ones.
    """
    opening, nothing = texts.text("collapsedGroup"), texts.text("noResult")
    ellipsis = texts.text("previewEllipsis")

    def write(group: Sequence[Message]) -> str:
        caller = group[0]
        parts: list[str] = []
        for position, call in enumerate(caller.tool_calls or (), start=1):
            result = group[position].content if position < len(group) else None
            preview = nothing if result is None else cut(result, PREVIEW, ellipsis)
            parts.append(f"{call.function.name} → {preview}")
        said = f"{caller.content}\n" if caller.content else ""
        return said + opening + " | ".join(parts)

    return write
