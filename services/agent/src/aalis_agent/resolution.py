"""This is about resolution: which model answers, and what to say when none can (SPEC AG-66)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aalis_agent.budgets import plan_budgets
from aalis_agent.options import Options
from aalis_contracts.catalogue import Catalogue
from aalis_contracts.messages import ModelRef
from aalis_contracts.models import ModelEntry
from aalis_contracts.text import one_line

EXAMPLES = 5
WANTED_LIMIT = 200
"""Characters of a name that does not exist that are said back."""


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
    for reference in wanted:
        if reference is not None and reference.provider and reference.model:
            return named(f"{reference.provider}/{reference.model}", entries, failed, texts)
    chat = _chat(entries)
    if not chat:
        return Unresolved(nothing(failed, texts))
    preferred = _find(default, chat) if default else None
    return preferred if preferred is not None else chat[0]


def named(
    context_id: str, entries: Sequence[ModelEntry], failed: Sequence[str], texts: Catalogue
) -> ModelEntry | Unresolved:
    """Find a model by its whole contextId, or say that there is none, and which there are."""
    chat = _chat(entries)
    if not chat:
        return Unresolved(nothing(failed, texts))
    found = _find(context_id, chat)
    return found if found is not None else Unresolved(unknown(context_id, chat, texts))


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
    shown = one_line(wanted, WANTED_LIMIT)
    return texts.text("unknownModel", wanted=shown, total=len(names), examples=examples)


def nothing(failed: Sequence[str], texts: Catalogue) -> str:
    """Return the text about having no model at all, naming the providers that have none."""
    if failed:
        return texts.text("noModelFailed", providers=", ".join(failed))
    return texts.text("noModel")


def _chat(entries: Sequence[ModelEntry]) -> list[ModelEntry]:
    return [entry for entry in entries if entry.can("chat")]


def _find(context_id: str, entries: Sequence[ModelEntry]) -> ModelEntry | None:
    return next((entry for entry in entries if entry.context_id == context_id), None)
