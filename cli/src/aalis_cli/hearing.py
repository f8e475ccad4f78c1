"""This is about hearing: which of a session's events belong to the message we sent.

A session may be busy with other people's messages, and events arrive in any order and more than
once. Our turn is the one whose `agent:turn:after` carries our message id; the answer to a command
has no turn. Pure: events go in, and the answer comes out when it is complete.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from aalis_contracts.contract import Contract
from aalis_contracts.events import PhaseDone, TokenUsage, ToolExecute, TurnAfter
from aalis_contracts.messages import Outcome, OutgoingMessage

_ROUTED: Final = "inbound:dispatch"
"""The gateway's last phase: a message that does not get there has no turn."""


@dataclass(frozen=True)
class ToolCallSeen:
    """A call of the turn; `result` is None if the turn ended without one."""

    name: str
    args: dict[str, object]
    result: str | None


@dataclass(frozen=True)
class Answer:
    """What became of a message."""

    outcome: Outcome
    reply: OutgoingMessage | None = None
    turn_id: str | None = None
    tool_calls: list[ToolCallSeen] = field(default_factory=list[ToolCallSeen])
    usages: list[TokenUsage] = field(default_factory=list[TokenUsage])
    """One for each model call, in order."""
    error: str | None = None


class Hearing:
    """Collects what is heard in one session while one message is answered."""

    def __init__(self, message_id: str) -> None:
        self.message_id = message_id
        self._ended: TurnAfter | None = None
        self._stopped_in: str | None = None
        self._outgoing: dict[str, OutgoingMessage] = {}
        self._calls: dict[str, list[ToolExecute]] = {}
        self._usages: dict[str, list[TokenUsage]] = {}

    def take(self, event: Contract) -> None:
        """Remember an event.

        The same one again changes nothing, save for tool calls: whose ids repeat, so that their
        repetitions must be left out before (`Conversation` does, by message id).
        """
        match event:
            case TurnAfter() if event.message.message_id == self.message_id:
                self._ended = event
            case OutgoingMessage():
                self._outgoing.setdefault(event.id, event)
            case ToolExecute():
                _note(self._calls.setdefault(event.turn_id, []), event)
            case TokenUsage() if event.turn_id is not None:
                usages = self._usages.setdefault(event.turn_id, [])
                if event not in usages:
                    usages.append(event)
                    usages.sort(key=lambda usage: usage.iteration or 0)
            case PhaseDone() if not event.reached_end and event.phase != _ROUTED:
                self._stopped_in = event.phase
            case _:
                pass

    @property
    def turn_id(self) -> str | None:
        """The id of our turn, known when it has ended."""
        return self._ended.turn_id if self._ended is not None else None

    @property
    def notices(self) -> list[OutgoingMessage]:
        """What the system said in between, such as that no agent is there."""
        return [m for m in self._outgoing.values() if m.source == "system" and m.turn_id is None]

    @property
    def complete(self) -> bool:
        """Whether the answer is all there: the end, and what the end promises."""
        if self._command() is not None:
            return True
        if self._ended is None:
            return False
        return self._ended.outcome in {"silent", "aborted"} or self._of_turn() is not None

    @property
    def ending(self) -> bool:
        """Whether only something that may never come is still missing: a withheld reply."""
        return self._ended is not None or self._stopped_in is not None

    def answer(self) -> Answer:
        """Return what became of the message, as far as it was heard."""
        command = self._command()
        if command is not None:
            return Answer("replied", command)
        if self._ended is None:
            return Answer("silent")
        turn = self._ended.turn_id
        return Answer(
            outcome=self._ended.outcome,
            reply=self._of_turn(),
            turn_id=turn,
            tool_calls=self._tool_calls(turn),
            usages=self._usages.get(turn, []),
            error=self._ended.error,
        )

    def _command(self) -> OutgoingMessage | None:
        replies = (m for m in self._outgoing.values() if m.source == "command")
        return next((m for m in replies if m.turn_id is None), None)

    def _of_turn(self) -> OutgoingMessage | None:
        return next((m for m in self._outgoing.values() if m.turn_id == self.turn_id), None)

    def _tool_calls(self, turn_id: str) -> list[ToolCallSeen]:
        return [
            ToolCallSeen(event.tool_name, dict(event.args), event.result)
            for event in self._calls.get(turn_id, [])
        ]


def _note(calls: list[ToolExecute], event: ToolExecute) -> None:
    """Add a start, or put an end in the place of its start; ids may repeat within a turn."""
    opened = [
        index
        for index, call in enumerate(calls)
        if call.phase == "start" and call.call_id == event.call_id
    ]
    if event.phase == "end" and opened:
        calls[opened[0]] = event
    else:
        calls.append(event)
