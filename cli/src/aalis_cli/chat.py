"""This is about `aalis chat`: a conversation, seen while it happens.

At a terminal the text appears as it is written, calls as they run, and a bar says how full the
model's window is; Ctrl-C stops an answer, at the prompt it ends the chat. With a pipe there is one
reply for each line, and nothing else on standard output.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aalis_cli.failure import Failed
from aalis_cli.interrupts import Interrupts, run
from aalis_cli.lines import lines_of, piped, typed
from aalis_cli.reach import reached

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from aalis_cli.conversation import Conversation
    from aalis_cli.hearing import Answer
    from aalis_cli.place import Place
    from aalis_contracts.contract import Contract
    from aalis_sdk.mesh import Mesh

_ABORT_AGAIN_SECONDS = 0.25
_QUIT = frozenset({"/quit", "/exit"})


@dataclass(frozen=True)
class Talk:
    """Where is talked, and how long an answer is waited for."""

    session_id: str | None = None
    platform: str = "cli"
    timeout: float = 300.0
    """Seconds."""
    nats: str | None = None


def chat(place: Place, talk: Talk) -> int:
    """Talk until `/quit` or the end of the input; 1 if a piped line was not answered."""

    async def story(interrupts: Interrupts) -> int:
        async with (
            reached(place, talk.nats, interrupts) as mesh,
            _conversation(mesh, talk) as conversation,
        ):
            if sys.stdin.isatty() and sys.stdout.isatty():
                return await _at_a_terminal(conversation, mesh, talk, interrupts)
            return await _piped(conversation, talk)

    return run(story)


@contextlib.asynccontextmanager
async def _conversation(mesh: Mesh, talk: Talk) -> AsyncGenerator[Conversation]:
    from aalis_cli.conversation import Conversation, new_session
    from aalis_sdk import tracing

    tracing.configure("aalis-cli", f"cli-{os.getpid()}", mesh.settings.otlp_endpoint)
    conversation = Conversation(mesh, talk.platform, talk.session_id or new_session())
    await conversation.open()
    try:
        yield conversation
    finally:
        await conversation.close()
        tracing.shutdown()


async def _answer(conversation: Conversation, text: str, patience: float) -> Answer:
    from aalis_sdk import tracing

    with tracing.span("chat", attributes={tracing.CONVERSATION_ID: conversation.session_id}):
        return await conversation.ask(text, patience)


async def _piped(conversation: Conversation, talk: Talk) -> int:
    from aalis_cli.ask import problem

    code = 0
    async for line in lines_of(piped()):
        text = line.strip()
        if text in _QUIT:
            break
        if not text:
            continue
        try:
            answer = await _answer(conversation, text, talk.timeout)
            why = problem(answer)
        except Failed as failure:
            answer, why = None, str(failure)
        if why is not None:
            sys.stderr.write(f"aalis: {why}\n")
            code = 1
        elif answer is not None and answer.reply is not None:
            sys.stdout.write(answer.reply.content + "\n")
            sys.stdout.flush()
    return code


# at a terminal ---------------------------------------------------------------------------


class _View:
    """What is on the screen of one answer."""

    def __init__(self, conversation: Conversation) -> None:
        from rich.console import Console

        from aalis_cli.display import LiveText

        self._console = Console(highlight=False, markup=False)
        self._conversation = conversation
        self._live = LiveText()
        self._budget: str | None = None

    @contextlib.asynccontextmanager
    async def showing(self) -> AsyncGenerator[None]:
        """Show what happens in the session meanwhile."""
        from aalis_sdk.serving import end

        self._conversation.ears.append(self._hear)
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            await end(watching)
            self._conversation.ears.remove(self._hear)
            self._end_line()

    def close(self, answer: Answer) -> None:
        """Show how it ended; the final message is authoritative over what was streamed."""
        from aalis_cli.ask import problem

        why = problem(answer)
        reply = answer.reply.content if answer.reply is not None else ""
        if why is not None:
            self.line(why, "red")
        elif reply.strip() != self._live.last.strip():
            self.line(reply)
        if self._budget is not None:
            self.line(self._budget, "dim")

    def line(self, text: str, style: str = "") -> None:
        """Print a line."""
        self._console.print(text, style=style, soft_wrap=True)

    async def _watch(self) -> None:
        async for found in self._conversation.adapter.frames(self._conversation.session_id):
            self._console.print(self._live.take(found.frame), end="", soft_wrap=True)

    def _hear(self, event: Contract) -> None:
        from aalis_cli.display import budget_line, tool_line
        from aalis_contracts.events import TokenUsage, ToolExecute

        if isinstance(event, ToolExecute):
            self._end_line()
            self.line(tool_line(event), "cyan")
        elif isinstance(event, TokenUsage):
            self._budget = budget_line(event)

    def _end_line(self) -> None:
        if self._live.end_line():
            self.line("")


async def _at_a_terminal(
    conversation: Conversation, mesh: Mesh, talk: Talk, interrupts: Interrupts
) -> int:
    hint = "/quit ends, Ctrl-C stops an answer"
    _View(conversation).line(f"session {conversation.session_id} · {hint}", "dim")
    with typed("› ") as reader, contextlib.suppress(asyncio.CancelledError):
        async for line in lines_of(reader):
            text = line.strip()
            if text in _QUIT:
                break
            if not text:
                continue
            view = _View(conversation)
            aborting = asyncio.Event()
            until_aborted = asyncio.create_task(_abort(conversation, mesh, aborting))
            interrupts.instead = aborting.set
            try:
                async with view.showing():
                    answer = await _answer(conversation, text, talk.timeout)
                view.close(answer)
            except Failed as failure:
                view.line(str(failure), "red")
            finally:
                interrupts.instead = None
                until_aborted.cancel()
    return 0


async def _abort(conversation: Conversation, mesh: Mesh, wanted: asyncio.Event) -> None:
    """When it is `wanted`, have the agent end the running turn; its end is heard like any other.

    A turn that has not begun cannot be ended yet, and an agent that is absent cannot end it now:
    asked again until it has, or until whoever waits for the answer cancels this.
    """
    from aalis_contracts import subjects
    from aalis_contracts.errors import Fault
    from aalis_contracts.rpc import AbortedLanes, SessionAbort
    from aalis_sdk.mesh import Absent, Remote

    await wanted.wait()
    subject = subjects.request(subjects.SESSION_ABORT)
    request = SessionAbort(session_id=conversation.session_id)
    while True:
        with contextlib.suppress(Absent, Fault, Remote):
            if (await mesh.request(subject, request, AbortedLanes)).lanes:
                return
        await asyncio.sleep(_ABORT_AGAIN_SECONDS)
