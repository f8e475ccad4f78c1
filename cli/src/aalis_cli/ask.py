"""This is about `aalis ask`: one message in, one reply out, and nothing left behind."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from aalis_cli.failure import Failed
from aalis_cli.interrupts import Interrupts, run
from aalis_cli.reach import reached

if TYPE_CHECKING:
    from aalis_cli.hearing import Answer
    from aalis_cli.place import Place


@dataclass(frozen=True)
class Question:
    """What is asked, and where."""

    text: str
    session_id: str | None = None
    platform: str = "cli"
    as_json: bool = False
    timeout: float = 120.0
    """Seconds until a reply is no longer waited for."""
    nats: str | None = None


def ask(place: Place, question: Question) -> int:
    """Ask, print the reply (or the whole answer as one JSON object), return the exit code."""

    async def story(interrupts: Interrupts) -> int:
        async with reached(place, question.nats, interrupts) as mesh:
            # Imported here: while they load, the services of a temporary stack come up.
            from aalis_cli.conversation import Conversation, new_session
            from aalis_sdk import tracing

            tracing.configure("aalis-cli", f"cli-{os.getpid()}", mesh.settings.otlp_endpoint)
            session = question.session_id or new_session()
            conversation = Conversation(mesh, question.platform, session)
            await conversation.open()
            try:
                with tracing.span("ask", attributes={tracing.CONVERSATION_ID: session}):
                    trace_id = tracing.trace_id()
                    answer = await conversation.ask(question.text, question.timeout)
            finally:
                await conversation.close()
                tracing.shutdown()
            return _print(question, answer, trace_id, session)

    return run(story)


def _print(question: Question, answer: Answer, trace_id: str | None, session: str) -> int:
    if question.as_json:
        line = json.dumps(as_object(answer, trace_id, session), ensure_ascii=False)
        sys.stdout.write(line + "\n")
    elif answer.outcome == "replied" and answer.reply is not None:
        sys.stdout.write(answer.reply.content + "\n")
    sys.stdout.flush()
    why = problem(answer)
    if why is None:
        return 0
    if question.as_json and answer.outcome != "replied":
        return 1
    raise Failed(why)


def problem(answer: Answer) -> str | None:
    """Say in one line why there is no reply, or None if that is as it should be."""
    if answer.outcome == "error":
        text = answer.reply.content if answer.reply is not None else answer.error or "no reason"
        return " ".join(text.split())
    if answer.outcome == "aborted":
        return "the turn was aborted: a newer message of the session came, or somebody stopped it"
    if answer.outcome == "replied" and answer.reply is None:
        return "the reply was not delivered: something in the outbound chain withheld it"
    return None


def as_object(answer: Answer, trace_id: str | None, session_id: str) -> dict[str, object]:
    """Return what `--json` prints; what is not known is null."""
    reply = answer.reply
    usages = [usage.to_object() for usage in answer.usages]
    info = reply.model_info if reply is not None else None
    return {
        "reply": reply.content if reply is not None else None,
        "turnId": answer.turn_id,
        "traceId": trace_id,
        "sessionId": session_id,
        "outcome": answer.outcome,
        "toolCalls": [asdict(call) for call in answer.tool_calls],
        "usage": usages[-1] if usages else None,
        "usages": usages,
        "modelInfo": info.to_object() if info is not None else None,
    }
