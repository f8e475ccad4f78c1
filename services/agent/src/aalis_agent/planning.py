"""This is about planning: which input is answered, by whom, and with what to begin (AG-22).

`plan` decides once a turn and becomes a fact. `open_bench` builds what every owner of the turn
builds anew from the facts: the working list, the tools, the budgets.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING

from aalis_agent.budgets import Budgets, plan_budgets
from aalis_agent.history import shown_history
from aalis_agent.ports import Refused, Unavailable
from aalis_agent.prompt import Clock, base_list
from aalis_agent.prompt import Turn as PromptTurn
from aalis_agent.reply import cleaned, group_messages
from aalis_agent.resolution import Unresolved, resolve
from aalis_contracts.journal import TurnPlanned
from aalis_contracts.messages import Message, ModelRef
from aalis_contracts.sessions import SessionConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aalis_agent.parts import Parts
    from aalis_agent.steps import Round, Turn
    from aalis_agent.tokens import Counter
    from aalis_contracts.catalogue import Catalogue
    from aalis_contracts.journal import InputPrepared
    from aalis_contracts.models import ModelEntry
    from aalis_contracts.registry import ToolEntry
    from aalis_contracts.rpc import PersonaPrompt


@dataclass(slots=True)
class Bench:
    """What a turn works on: one working list, kept for the whole turn (SPEC AG-25)."""

    entry: ModelEntry
    counter: Counter
    budgets: Budgets
    config: SessionConfig
    tools: list[ToolEntry]
    messages: list[Message]
    last_answer: str | None = None
    shortened: bool = False
    unplaced: set[str] = field(default_factory=set[str])

    def add_group(self, one: Round) -> None:
        """Append a finished group; images of its results serve the next request (AG-49)."""
        self.messages += group_messages(one)

    def forget_images(self) -> None:
        """Drop the images of results: the request that they were for has been answered."""
        self.messages = [
            message.model_copy(update={"images": None})
            if message.role == "tool" and message.images
            else message
            for message in self.messages
        ]

    def add_retry(self, text: str | None, feedback: str, texts: Catalogue) -> None:
        """Append a reply that was refused and the reason, for the model to do better (AG-51)."""
        if text and text.strip():
            self.messages.append(Message(role="assistant", content=text))
        self.messages.append(
            Message(
                role="system",
                content=texts.text("formatFeedback", feedback=feedback),
                metadata={"injector": "system-other"},
            )
        )


class NoModelHere(Unavailable):
    """The turn was planned, elsewhere, with a model that this process does not know (yet)."""

    def __init__(self, context_id: str) -> None:
        super().__init__(f"model {context_id}", "not configured here")
        self.context_id = context_id


async def plan(parts: Parts, turn: Turn) -> TurnPlanned:
    """Choose the newest input that nobody swallowed, and the model that answers it (AG-12)."""
    answered = turn.newest
    if answered is None:
        return TurnPlanned()
    incoming = answered.message
    config = await parts.settings.effective(turn.session_id, incoming.platform)
    entry = resolve(
        [incoming.llm, config.llm],
        parts.options.default_llm,
        parts.models.entries(),
        parts.models.failed(),
        parts.texts,
    )
    if isinstance(entry, Unresolved):
        return TurnPlanned(
            input_seq=answered.input_seq, config=config, unavailable=entry.text, max_iterations=0
        )
    budgets = budgets_of(parts, entry)
    return TurnPlanned(
        input_seq=answered.input_seq,
        llm=ModelRef(provider=entry.provider_id, model=entry.id),
        max_tokens=budgets.max_tokens,
        token_budget=budgets.token_budget,
        max_iterations=iteration_limit(config, parts.options.max_tool_iterations),
        config=config,
    )


def budgets_of(parts: Parts, entry: ModelEntry) -> Budgets:
    """Return the token limits of calls to this model."""
    return plan_budgets(
        entry.context_length,
        entry.max_output_tokens,
        threshold_ratio=parts.options.trim_threshold_ratio,
        memory_budget=parts.options.memory_token_budget,
    )


def iteration_limit(config: SessionConfig, default: int) -> int:
    """Return the session's limit if it is a positive integer, else the default (SPEC AG-40)."""
    wanted = config.max_tool_iterations
    if wanted is not None and wanted >= 1 and wanted == int(wanted):
        return int(wanted)
    return default


def offered(tools: Sequence[ToolEntry], groups: Sequence[str] | None) -> list[ToolEntry]:
    """Return the tools for these groups, sorted by name (SPEC AG-23)."""
    enabled = set(groups or ())
    chosen = [entry for entry in tools if entry.open_to(enabled)]
    return sorted(chosen, key=lambda entry: entry.name)


async def open_bench(parts: Parts, turn: Turn) -> Bench:
    """Build the working list from the facts: the base list, then the groups there are so far.

    Raises `NoModelHere` when this process cannot ask the turn's model.
    """
    entry = _entry(parts, turn)
    config = (turn.plan.config if turn.plan is not None else None) or SessionConfig()
    tools = offered(parts.tools.entries(), config.enabled_tool_groups)
    history, persona, counter = await asyncio.gather(
        _history(parts, turn),
        _persona(parts, config, turn.answered),
        parts.counter_for(entry.id),
    )
    base = base_list(_prompt_turn(parts, turn, history, persona, tools), parts.texts)
    bench = Bench(
        entry=entry,
        counter=counter,
        budgets=budgets_of(parts, entry),
        config=config,
        tools=tools,
        messages=base,
        last_answer=_last_answer(history),
    )
    for one in turn.groups:
        if not one.pending:
            bench.add_group(one)
        if one is not turn.rounds[-1]:
            bench.forget_images()
    for number, retry in enumerate(turn.retries):
        bench.add_retry(_text_before(turn, number), retry.feedback, parts.texts)
    return bench


def _entry(parts: Parts, turn: Turn) -> ModelEntry:
    wanted = turn.plan.llm if turn.plan is not None else None
    if wanted is None:
        message = f"turn {turn.turn_id} has no model to work with"
        raise ValueError(message)
    context_id = f"{wanted.provider}/{wanted.model}"
    for entry in parts.models.entries():
        if entry.context_id == context_id:
            return entry
    raise NoModelHere(context_id)


def _text_before(turn: Turn, retry: int) -> str | None:
    """Return the text that the format retry number `retry` was about."""
    texts = [one.response.content for one in turn.rounds if one.reply_attempt == retry]
    return cleaned(texts[-1] or "")[0] if texts else None


def _prompt_turn(
    parts: Parts,
    turn: Turn,
    history: list[Message],
    persona: PersonaPrompt | None,
    tools: list[ToolEntry],
) -> PromptTurn:
    answered = turn.answered
    incoming = answered.message
    images = [one.data for one in incoming.attachments or () if one.kind == "image" and one.data]
    return PromptTurn(
        incoming=incoming,
        said_at=incoming.timestamp or answered.arrived_at,
        clock=Clock(parts.now(), parts.zone),
        history=history,
        system_prompt=parts.options.system_prompt,
        persona=persona.system_prompt if persona is not None else "",
        volatile=(persona.volatile_prompt or "") if persona is not None else "",
        archived=answered.archived.content if answered.archived is not None else None,
        images=images,
        tool_names={entry.name for entry in tools},
    )


async def _history(parts: Parts, turn: Turn) -> list[Message]:
    limit = parts.options.history_limit
    if limit <= 0:
        return []
    before = turn.answered.input_seq
    rows = await read_history(parts, turn.session_id, limit, before)
    shown = shown_history(rows, now=parts.now(), zone=parts.zone, before=before)
    # The window's edge may cut a group in two; what else lacks its other half is worth a word.
    cut = sum(1 for _ in takewhile(lambda row: row.role == "tool", rows))
    if shown.dropped > cut:
        parts.log.warning("incomplete tool groups left out", count=shown.dropped - cut)
    return shown.messages


async def read_history(parts: Parts, session_id: str, limit: int, before: int) -> list[Message]:
    """Return stored rows; none when memory does not answer or answers no (SPEC HIST-6)."""
    try:
        return await parts.memory.history(session_id, limit, before)
    except Unavailable:
        return []
    except Refused as error:
        parts.log.warning("answering without a history", why=str(error))
        return []


async def _persona(
    parts: Parts, config: SessionConfig, answered: InputPrepared
) -> PersonaPrompt | None:
    try:
        return await parts.personas.prompt(config, answered.message)
    except Unavailable as error:
        parts.log.warning("answering without a persona", why=str(error))
        return None


def _last_answer(history: list[Message]) -> str | None:
    """Return the text of the history's last assistant message (SPEC AG-53)."""
    for message in reversed(history):
        if message.role == "assistant":
            return message.content
    return None
