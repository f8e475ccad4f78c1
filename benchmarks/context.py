"""What counting, trimming and usage cost, as ratios to one pass of the tokenizer and to a peer.

    python benchmarks/context.py [--rounds N]

The history has 400 messages and about 120,000 tokens, with tool groups and Chinese text. *Cold*
is the first call of a session in a process, nothing counted before; *warm* is the next model call
of the turn; *reread* is the next turn: the same history in new objects. The floor is one plain
pass of the tokenizer over the same texts, `encode`, as its documentation has it; the leanest pass
is what it can do at best (`encode_ordinary`, which our counter uses). Both are measured in the same
run and in turns, so that the ratios hold on any machine. Figures are CPU time, the best of all
rounds. Three budgets: the list fits, needs some trimming, needs all of it.

LangChain's `trim_messages` gets the same texts, the same encoder and the budget of *trimmed*; it is
left out where `langchain-core` is not installed.

At the end, texts that are hard to count: how long each takes, and for how long the event loop was
held up meanwhile (the interpreter's own switch of threads is 5 ms).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import tiktoken

ROOT: Final = Path(__file__).resolve().parent.parent
for source in ("services/agent/src", "libs/llm/src", "libs/contracts/src"):
    sys.path.insert(0, str(ROOT / source))

from aalis_agent.adapters.vocabulary_tiktoken import PATTERNS, counting, ranks_of  # noqa: E402
from aalis_agent.budgets import Budgets  # noqa: E402
from aalis_agent.model import aside  # noqa: E402
from aalis_agent.tokens import Counter, Encoder, TiktokenCounter, heavy  # noqa: E402
from aalis_agent.trimming import trim  # noqa: E402
from aalis_agent.usage import CallIdentity, break_down, token_usage  # noqa: E402
from aalis_contracts.catalogue import Catalogue  # noqa: E402
from aalis_contracts.messages import FunctionCall, Message, ToolCall  # noqa: E402
from aalis_contracts.text import compact_json  # noqa: E402
from aalis_contracts.tools import FunctionDefinition, ToolDefinition  # noqa: E402
from aalis_llm.heuristic import calls_json  # noqa: E402

MESSAGES: Final = 400
FLOOR: Final = "one tokenizer pass"
LEANEST: Final = "its leanest pass"
PEER: Final = "langchain_core, one trim"
TOKENS: Final = 120_000
WINDOW: Final = 128_000
ENCODING: Final = "o200k_base"
HARD_SIZE: Final = 1_000_001
HARD: Final = {
    "a": "a",
    "blanks": " ",
    "字": "字",
    "emoji families": "👨‍👩‍👧",
    "<|endoftext|>": "<|endoftext|>",
    "prose": "the quick brown fox, jumps over it. ",
}
IDENTITY: Final = CallIdentity("bench", "cli")
TEXTS: Final = Catalogue("zh")
WORDS: Final = [
    "the",
    "session",
    "keeps",
    "what",
    "people",
    "said",
    "and",
    "a",
    "tool",
    "answers",
    "with",
    "records",
    "from",
    "the",
    "store",
    "please",
    "summarise",
    "the",
    "open",
    "tasks",
    "before",
    "the",
    "next",
    "release",
    "of",
    "/srv/data/report.json",
]
WIDE_SHARE: Final = 0.3
WIDE: Final = "今天的会议纪要已经整理完毕请把剩余的任务按照优先级排序并在周五之前完成测试报告"


def main() -> None:
    """Measure, and print one line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="times each figure is measured")
    rounds = parser.parse_args().rounds
    encoding = tiktoken.Encoding(
        ENCODING,
        pat_str=PATTERNS[ENCODING],
        mergeable_ranks=ranks_of(ENCODING),
        special_tokens={},
    )
    encode = counting(encoding.encode_ordinary)
    messages = history()
    texts = [text for message in messages for text in texts_of(message)]
    texts.append(compact_json([tool.to_object() for tool in TOOLS]))
    tokens = sum(map(encode, texts))
    print(f"{len(messages)} messages, {sum(map(len, texts)):,} characters, {tokens:,} tokens")

    works: dict[str, Callable[[], object]] = {
        FLOOR: lambda: [len(encoding.encode(text, disallowed_special=())) for text in texts],
        LEANEST: lambda: [encode(text) for text in texts],
    }
    for label, share in (("fits", 1.1), ("trimmed", 0.8), ("trimmed hard", 0.2)):
        works |= kinds_of_call(label, messages, budgets_for(int(tokens * share)), encode)
    peer = langchain(messages, encode)
    if peer is not None:
        works[PEER] = peer
    times = measured(works, rounds)
    print(f"{'':28} {'CPU':>12}   of a pass   of the leanest")
    for name, seconds in times.items():
        shares = f"{seconds / times[FLOOR]:9.3f}   {seconds / times[LEANEST]:14.3f}"
        print(f"{name:28} {seconds * 1e3:9.2f} ms   {shares}")
    if peer is None:
        print(f"{PEER:28} not installed")
    else:
        print(f"{'trimmed, warm, is':28} {times[PEER] / times['trimmed, warm']:9.0f} times faster")
    asyncio.run(hard_texts(encode))


async def hard_texts(encode: Encoder) -> None:
    """Print what a message of one hard text costs before a call, and the loop's longest gap."""
    print(f"\n{'1,000,000 characters of':28} {'wall':>12}   longest gap of the event loop")
    for name, unit in HARD.items():
        long = (unit * (HARD_SIZE // len(unit) + 1))[:HARD_SIZE]
        messages = [Message(role="system", content="s"), Message(role="user", content=long)]
        budgets = budgets_for(TOKENS)
        work = partial(call, messages, budgets, TiktokenCounter(encode))
        stop = asyncio.Event()
        watch = asyncio.create_task(longest_gap(stop))
        await asyncio.sleep(0)
        began = time.perf_counter()
        await aside(messages, work)
        seconds = time.perf_counter() - began
        stop.set()
        print(f"{name:28} {seconds * 1e3:9.0f} ms   {await watch * 1e3:.1f} ms")


async def longest_gap(stop: asyncio.Event) -> float:
    """Return the longest time, in seconds, that this loop did not get round to us."""
    longest, last = 0.0, time.perf_counter()
    while not stop.is_set():
        await asyncio.sleep(0)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest


def kinds_of_call(
    label: str, messages: Sequence[Message], budgets: Budgets, encode: Encoder
) -> dict[str, Callable[[], object]]:
    """Return what is to be measured with one budget."""
    counter = TiktokenCounter(encode)
    call(messages, budgets, counter)
    bodies = [message.to_json() for message in messages]
    stored: list[list[Message]] = []

    def read_again() -> None:
        # New down to the strings, as from the store; reading them is not part of the figure.
        stored[:] = [[Message.from_json(body) for body in bodies]]

    return {
        f"{label}, cold": lambda: call(messages, budgets, TiktokenCounter(encode)),
        f"{label}, warm": lambda: call(messages, budgets, counter),
        f"{label}, reread": Prepared(read_again, lambda: call(stored[0], budgets, counter)),
    }


@dataclass(frozen=True)
class Prepared:
    """Work that needs something done before each measurement."""

    prepare: Callable[[], None]
    work: Callable[[], object]

    def __call__(self) -> object:
        """Do the work."""
        return self.work()


def call(messages: Sequence[Message], budgets: Budgets, counter: Counter) -> None:
    """Do what the agent does before a model call: weigh, count, trim, sort into buckets."""
    heavy(messages)
    tool_tokens = counter.tools(TOOLS)
    trimmed = trim(messages, budgets, tool_tokens, counter, TEXTS)
    parts = break_down(trimmed.messages, trimmed.costs, tool_tokens, budgets.max_tokens)
    token_usage(IDENTITY, budgets, parts)


def measured(works: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the best seconds of each work, taken in turns: a busy machine hits all alike."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(rounds):
        for name, work in works.items():
            if isinstance(work, Prepared):
                work.prepare()
            gc.collect()
            gc.disable()
            began = time.process_time()
            work()
            best[name] = min(best[name], time.process_time() - began)
            gc.enable()
    return best


def history() -> list[Message]:
    """Return 400 messages: a prompt, memory, and turns with one or two tool groups each."""
    draw = random.Random(7)
    messages = [
        Message(role="system", content=text(draw, 2400), metadata={"injector": "persona"}),
        Message(role="system", content=text(draw, 3000), metadata={"injector": "m/memory-summary"}),
    ]
    while len(messages) < MESSAGES - 1:
        messages.append(Message(role="user", content=text(draw, 300), name="u1"))
        for _ in range(draw.randint(1, 2)):
            messages += group(draw, len(messages))
        messages.append(Message(role="assistant", content=text(draw, 400)))
    return [*messages[: MESSAGES - 1], Message(role="user", content=text(draw, 300), name="u1")]


def group(draw: random.Random, number: int) -> list[Message]:
    """Return an assistant message with one to three calls, and their results."""
    ids = [f"call_{number}_{index}" for index in range(draw.randint(1, 3))]
    calls = [
        ToolCall(
            id=i, function=FunctionCall(name="search", arguments='{"q":"' + text(draw, 60) + '"}')
        )
        for i in ids
    ]
    caller = Message(
        role="assistant", content="", tool_calls=calls, reasoning_content=text(draw, 300)
    )
    results = [
        Message(role="tool", tool_call_id=i, content=text(draw, draw.choice((200, 900, 2000))))
        for i in ids
    ]
    return [caller, *results]


def text(draw: random.Random, size: int) -> str:
    """Return filler of `size` characters, a third of it Chinese."""
    parts: list[str] = []
    length = 0
    while length < size:
        start = draw.randrange(len(WIDE) - 8)
        part = WIDE[start : start + 8] if draw.random() < WIDE_SHARE else draw.choice(WORDS) + " "
        parts.append(part)
        length += len(part)
    return "".join(parts)[:size]


def texts_of(message: Message) -> list[str]:
    """Return the texts of a message that cost something."""
    calls = calls_json(message.tool_calls) if message.tool_calls else None
    return [part for part in (message.content, calls, message.reasoning_content) if part]


def budgets_for(tokens: int) -> Budgets:
    """Return limits that leave `tokens` for a call."""
    return Budgets(
        window=max(WINDOW, tokens),
        max_tokens=4096,
        token_budget=tokens,
        hard_limit=max(WINDOW, tokens),
        memory_budget=4096,
    )


TOOLS: Final = [
    ToolDefinition(
        function=FunctionDefinition(
            name=f"tool_{number}",
            description="Looks something up and answers with the records found.",
            parameters={"type": "object", "properties": {"q": {"type": "string"}}},
        )
    )
    for number in range(12)
]


def langchain(messages: Sequence[Message], encode: Encoder) -> Callable[[], object] | None:
    """Return LangChain's trim of the same list to the same budget, where it is installed."""
    try:
        peer: Any = importlib.import_module("langchain_core.messages")
    except ImportError:
        return None
    classes = {"system": peer.SystemMessage, "user": peer.HumanMessage, "assistant": peer.AIMessage}
    theirs = [
        peer.ToolMessage(content=m.content, tool_call_id=m.tool_call_id)
        if m.role == "tool"
        else classes[m.role]("\n".join(texts_of(m)))
        for m in messages
    ]

    def count(some: Sequence[Any]) -> int:
        return sum(encode(message.content) for message in some)

    return lambda: peer.trim_messages(
        theirs, max_tokens=TOKENS * 4 // 5, token_counter=count, include_system=True
    )


if __name__ == "__main__":
    main()
