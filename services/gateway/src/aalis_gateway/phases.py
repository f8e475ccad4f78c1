"""This is about the way of one message: confirm, command, flow, trigger, dispatch (SPEC GW-3).

Each phase asks its interceptors, then does what it does by default. The first that stops or
handles the message ends its way. What flow or trigger keep from the agent is archived all the same.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from aalis_contracts import hooks as names
from aalis_contracts import subjects
from aalis_contracts.dead import CONTRACT_HEADER
from aalis_contracts.errors import Fault
from aalis_contracts.events import PhaseDone
from aalis_contracts.hooks import InboundData
from aalis_contracts.messages import IncomingMessage
from aalis_gateway.passage import Ended, Passage, handled, kept
from aalis_sdk import tracing
from aalis_sdk.delivery import Reject, Retry
from aalis_sdk.failpoints import failpoint
from aalis_sdk.logs import Log
from aalis_sdk.mesh import TooLarge

if TYPE_CHECKING:
    from aalis_sdk.hooks import Hooks
    from aalis_sdk.mesh import Mesh

log = Log(__name__)

Default = Callable[[Passage], Awaitable[Ended | None]]
"""What a phase does by itself: None lets the message go on."""

PHASES: Final = (
    names.INBOUND_CONFIRM,
    names.INBOUND_COMMAND,
    names.INBOUND_FLOW,
    names.INBOUND_TRIGGER,
    names.INBOUND_DISPATCH,
)
_POINTS: Final = {phase: f"gateway.passed.{phase.partition(':')[2]}" for phase in PHASES}
_KEEPING: Final = frozenset({names.INBOUND_FLOW, names.INBOUND_TRIGGER})


class PhaseFailed(Exception):
    """A phase failed by a bug, ours or a plugin's; the message says which and how."""


class Phases:
    """Takes messages through the five phases."""

    def __init__(
        self,
        mesh: Mesh,
        hooks: Hooks,
        defaults: dict[str, Default],
        keep: Callable[[Passage], Awaitable[None]],
    ) -> None:
        self._mesh = mesh
        self._hooks = hooks
        self._defaults = defaults
        self._keep = keep

    async def take(self, passage: Passage) -> None:
        """Take one message as far as it gets; what it caused is durable when this returns."""
        telling = _Telling(self._mesh, passage)
        for phase in PHASES:
            began = time.perf_counter()
            ended = await self._pass(phase, passage)
            failpoint(_POINTS[phase])
            await telling.done(phase, ended, began)
            if ended is None:
                continue
            log.debug("message ended", phase=phase, key=passage.key, how=ended.how, why=ended.why)
            if ended.how == "kept":
                await self._keep(passage)
                failpoint("gateway.kept")
            return

    async def _pass(self, phase: str, passage: Passage) -> Ended | None:
        try:
            stopped = await self._ask_interceptors(phase, passage)
            return stopped or await self._defaults[phase](passage)
        except (Fault, Retry, Reject):
            raise
        except TooLarge as error:
            raise Reject(f"{phase}: {error}") from None
        except Exception as error:
            # The stack is logged once, by whoever counts the tries.
            log.warning(
                "a phase failed",
                phase=phase,
                session=passage.message.session_id,
                messageId=passage.message.message_id,
                seq=passage.seq,
                reason=repr(error),
            )
            raise PhaseFailed(f"{phase}: {type(error).__name__}: {error}") from error

    async def _ask_interceptors(self, phase: str, passage: Passage) -> Ended | None:
        if not self._hooks.anyone(phase):
            return None
        data = InboundData(message=passage.message, metadata=passage.metadata)
        chain = await self._hooks.run(phase, data)
        passage.message = _where_it_was(passage, chain.data)
        passage.metadata = chain.data.metadata
        if chain.stopped_by is None:
            return None
        why = f"stopped by {chain.stopped_by}"
        return kept(why) if phase in _KEEPING else handled(why)


class _Telling:
    """Says that phases are over: five times a message, so what they share is made once."""

    def __init__(self, mesh: Mesh, passage: Passage) -> None:
        self._mesh = mesh
        self._session_id = passage.message.session_id
        self._platform = passage.message.platform
        self._subject = subjects.phase_done(self._session_id).name
        self._headers = {CONTRACT_HEADER: "PhaseDone.v1", "content-type": "application/json"}
        tracing.inject(self._headers)

    async def done(self, phase: str, ended: Ended | None, began: float) -> None:
        """Write one event to the connection's buffer; nobody waits for it to arrive (EVT-13)."""
        event = PhaseDone(
            session_id=self._session_id,
            phase=phase,
            reached_end=ended is None,
            duration_ms=round((time.perf_counter() - began) * 1000, 3),
            platform=self._platform,
        )
        try:
            client = self._mesh.client
            await client.publish(self._subject, event.to_json(), headers=self._headers)
        except Exception as error:  # noqa: BLE001 - telling never affects the flow
            log.debug("phase not told", phase=phase, reason=repr(error))


def _where_it_was(passage: Passage, data: InboundData) -> IncomingMessage:
    """Return the patched message, at home where it came from: a patch moves no message.

    Order is kept for one session only, and an interceptor that moves messages to other sessions
    would also move them past those sessions' own messages.
    """
    before = passage.message
    if (data.message.session_id, data.message.platform) == (before.session_id, before.platform):
        return data.message
    log.warning("patch refused", field="message.sessionId", session=before.session_id)
    home = {"session_id": before.session_id, "platform": before.platform}
    return data.message.model_copy(update=home)
