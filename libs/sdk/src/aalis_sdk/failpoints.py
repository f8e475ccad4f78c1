"""This is about failpoints: named places at which a process dies or freezes, exactly there.

They exist so that "kill it at any moment" can be tried at every moment that differs. All of them
are off unless the setting `failpoints` names a directory. There a file named after a point arms
it: the first process that passes takes the file's first word away and does it, `kill` (SIGKILL),
`stop` (SIGSTOP) or `pass` (nothing yet). What was taken away is gone, so whoever replaces the
process does not die of it again. `./aalis chaos` arms them.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

FACTS: Final = (
    "turn.started",
    "turn.resumed",
    "input.prepared",
    "turn.planned",
    "model.started",
    "model.responded",
    "tool.started",
    "tool.finished",
    "rows.saved",
    "reply.retried",
    "turn.replying",
    "turn.ended",
)
"""The facts of a journal, each appended somewhere."""

FAILPOINTS: Final[dict[str, str]] = {
    "delivery.arrived": "a message of a stream is here, and nothing is done with it yet",
    "delivery.handled": "everything that a message asks for is done; it is not acknowledged",
    "delivery.acknowledged": "a message is acknowledged, as far as this process knows",
    "delivery.burying": "a message cannot be handled, and is not in DEAD yet",
    "delivery.buried": "a message is in DEAD, and not acknowledged",
    "agent.input.hooked": "the interceptors have seen an input; it is not archived",
    "agent.input.archived": "an input is archived; the journal does not say so",
    **{f"agent.append.{fact}": f"{fact} is about to be appended" for fact in FACTS},
    **{f"agent.appended.{fact}": f"{fact} is in the journal" for fact in FACTS},
    "agent.model.streaming": "the first piece of an answer has come",
    "agent.model.answered": "a whole answer has come; the journal does not hold it",
    "agent.tool.answered": "a call's result has come; the journal does not hold it",
    "agent.rows.saving": "rows are about to be saved",
    "agent.rows.saved": "memory has rows; the journal does not say so",
    "agent.settled": "the turn that was pre-empted is told of; the journal does not say so",
    "agent.abort.recorded": "an abort is in the journal; nobody is told",
    "agent.abort.signalled": "the owner of an aborted turn is told; its end is not announced",
    "agent.debt.paid": "memory has the rows that were owed; the journal does not say so",
    "agent.handing.back": "a turn is about to be handed back, because the process leaves",
    "agent.done.telling": "the last frame is about to be published",
    "agent.done.told": "the last frame is stored",
    "agent.reply.sending": "a message for the person is about to be sent",
    "agent.reply.sent": "a message for the person is sent",
    "agent.after.telling": "the end of a turn is about to be announced",
    "agent.after.told": "the end of a turn is announced",
    "gateway.passed.confirm": "the phase confirm is over",
    "gateway.passed.command": "the phase command is over",
    "gateway.passed.flow": "the phase flow is over",
    "gateway.passed.trigger": "the phase trigger is over",
    "gateway.passed.dispatch": "the phase dispatch is over",
    "gateway.kept": "a message that the agent does not hear is archived",
    "gateway.dispatching": "an input is about to be put into its mailbox",
    "gateway.dispatched": "an input is in its mailbox",
    "gateway.command.recorded": "a command is recorded as started; nothing has happened",
    "gateway.command.ran": "a command has happened; its answer is not recorded",
    "gateway.command.finished": "a command's answer is recorded; nobody has got it",
    "gateway.sending": "a message for a person is about to be stored",
    "gateway.sent": "a message for a person is stored",
    "memory.saving": "rows are about to be committed",
    "memory.saved": "rows are committed; nobody knows",
    "memory.archiving": "what a person said is about to be committed",
    "memory.archived": "what a person said is committed; nobody knows",
    "memory.archived.told": "what a person said is announced as archived; who asked does not know",
    "memory.reading": "somebody asks for a history",
    "budget.heard": "a usage is in this process's own map only",
    "budget.kept": "a usage is in the cache, too",
    "adapter.delivering": "an adapter has a message, and has not delivered it",
    "adapter.delivered": "a message is delivered; it is not acknowledged",
    "tool.asked": "a host has got a call, and nothing is recorded",
    "tool.recorded": "a call is recorded as started; nothing has happened",
    "tool.ran": "a call's effect has happened; its result is not recorded",
    "tool.finished": "a call's result is recorded; nobody has got it",
}
"""Every point, and what has happened when it is passed."""


class _Armed:
    """Where points are armed in this process; None = nowhere."""

    directory: Path | None = None


def enable(directory: Path | None) -> None:
    """Look for armed points in `directory` from now on; None = nowhere."""
    _Armed.directory = directory


def failpoint(name: str) -> None:
    """Pass the point `name`; whoever has armed it ends this process, or freezes it, here."""
    if _Armed.directory is not None:
        _obey(_take(_Armed.directory / name))


def _take(armed: Path) -> str:
    """Take the next word from the file of an armed point; of several processes one gets it."""
    taken = armed.with_suffix(f"{armed.suffix}-{os.getpid()}")
    try:
        armed.rename(taken)
    except FileNotFoundError:
        return "pass"
    word, _, rest = taken.read_text(encoding="utf-8").strip().partition(" ")
    if rest:
        taken.write_text(rest, encoding="utf-8")
        taken.rename(armed)
    else:
        taken.unlink()
    return word


def _obey(word: str) -> None:
    if word == "pass":
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(os.getpid(), signal.SIGSTOP if word == "stop" else signal.SIGKILL)
