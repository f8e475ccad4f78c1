"""This is about resolution: which model answers, and what to say when none can (SPEC AG-66)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aalis_agent.budgets import plan_budgets
from aalis_agent.options import Options
from aalis_contracts.catalogue import Catalogue
from aalis_contracts.messages import ModelRef
from aalis_contracts.models import ModelEntry

EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Unresolved:
    """No model can answer; `text` says so to the person."""

    text: str


def resolve(
    wanted: Sequence[ModelRef | None],
    default: str | None,
    entries: Sequence[ModelEntry],
    failed: Sequence[str],
    texts: Catalogue,
) -> ModelEntry | Unresolved:
    """Choose a model: the first whole reference of `wanted`, else `default`, else the first entry.

    A reference must match a contextId exactly; there is no silent fallback from one. The default
    is a preference: an unknown one gives way to the first entry (SPEC AG-1).
    """
    chat = [entry for entry in entries if entry.can("chat")]
    if not chat:
        return Unresolved(_nothing(failed, texts))
    for reference in wanted:
        if reference is not None and reference.provider and reference.model:
            context_id = f"{reference.provider}/{reference.model}"
            found = _named(context_id, chat)
            return found if found is not None else Unresolved(unknown(context_id, chat, texts))
    preferred = _named(default, chat) if default else None
    return preferred if preferred is not None else chat[0]


def doubts(options: Options, entries: Sequence[ModelEntry]) -> list[str]:
    """Return what is doubtful about the settings and these models, a line each, for the log.

    An unknown default gives way (SPEC AG-1); an answer longer than half of its window is clamped
    (TRIM-1). Both work, and neither is what somebody wanted.
    """
    lines: list[str] = []
    default = options.default_llm
    if default and all(entry.context_id != default or not entry.can("chat") for entry in entries):
        lines.append(f"AALIS_DEFAULT_LLM={default} is not offered; the first chat model serves")
    for entry in entries:
        budgets = plan_budgets(
            entry.context_length,
            entry.max_output_tokens,
            threshold_ratio=options.trim_threshold_ratio,
            memory_budget=options.memory_token_budget,
        )
        if budgets.clamped:
            lines.append(
                f"{entry.context_id} wants answers of {entry.max_output_tokens} tokens in a window "
                f"of {entry.context_length}; {budgets.max_tokens} are reserved"
            )
    return lines


def unknown(wanted: str, entries: Sequence[ModelEntry], texts: Catalogue) -> str:
    """Return the text about a model that does not exist, with a few that do."""
    names = [entry.context_id for entry in entries]
    examples = ", ".join(names[:EXAMPLES])
    return texts.text("unknownModel", wanted=wanted, total=len(names), examples=examples)


def _named(context_id: str, entries: Sequence[ModelEntry]) -> ModelEntry | None:
    return next((entry for entry in entries if entry.context_id == context_id), None)


def _nothing(failed: Sequence[str], texts: Catalogue) -> str:
    if failed:
        return texts.text("noModelFailed", providers=", ".join(failed))
    return texts.text("noModel")
