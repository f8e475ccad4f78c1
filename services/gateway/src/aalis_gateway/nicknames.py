"""This is about nicknames: what a session's persona is called, asked seldom (SPEC GW-7, PER-1).

Only a group message that shows in no other way that the bot is meant needs them. The answer is kept
for half a minute and for at most 500 sessions; a persona service that does not answer is left alone
as long, so a partition never waits for it message by message.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from aalis_contracts import subjects
from aalis_contracts.errors import Fault
from aalis_contracts.rpc import PersonaGet, PersonaPrompt
from aalis_gateway import trigger
from aalis_gateway.passage import Ended, Passage, kept
from aalis_sdk.logs import Log
from aalis_sdk.mesh import Absent, Remote, TooLarge

if TYPE_CHECKING:
    from aalis_contracts.messages import IncomingMessage
    from aalis_sdk.mesh import Mesh
    from aalis_sdk.registry import Registry
    from aalis_sdk.sessions import Sessions

log = Log(__name__)
_PERSONA: Final = "persona"
_KEPT_SECONDS: Final = 30.0
_SESSIONS: Final = 500
_TIMEOUT: Final = 1.0


class Trigger:
    """Lets what is meant for the bot go on, and says how it was addressed."""

    def __init__(self, mesh: Mesh, registry: Registry, sessions: Sessions) -> None:
        self._mesh = mesh
        self._registry = registry
        self._sessions = sessions
        self._names: OrderedDict[str, tuple[float, list[str]]] = OrderedDict()
        self._silent_until = 0.0

    async def __call__(self, passage: Passage) -> Ended | None:
        """Mark the message `direct` or `immediate`, or keep it from the agent."""
        message = passage.message
        if trigger.passes_unasked(message):
            return None
        if message.notice_type:
            return kept("a notice")
        if not (trigger.is_addressed(message) or await self._is_called(message)):
            return kept("not addressed to the bot")
        kind = "immediate" if trigger.is_group(message) else "direct"
        passage.message = message.model_copy(update={"trigger_type": kind})
        return None

    async def _is_called(self, message: IncomingMessage) -> bool:
        return trigger.calls_by_name(message.content, await self._nicknames(message))

    async def _nicknames(self, message: IncomingMessage) -> list[str]:
        now = asyncio.get_running_loop().time()
        known = self._names.get(message.session_id)
        if known is not None and known[0] > now:
            return known[1]
        if now < self._silent_until or not self._is_offered():
            return []
        try:
            names = await self._ask(message)
        except Remote as error:
            # It is there and says no, to this session: an unknown persona is called by no name.
            log.warning("no nicknames", session=message.session_id, reason=str(error))
            names = []
        except (Absent, Fault, TooLarge) as error:
            log.warning("persona is absent; nicknames trigger nothing", reason=str(error))
            self._silent_until = now + _KEPT_SECONDS
            return []
        self._names[message.session_id] = (now + _KEPT_SECONDS, names)
        self._names.move_to_end(message.session_id)
        while len(self._names) > _SESSIONS:
            self._names.popitem(last=False)
        return names

    def _is_offered(self) -> bool:
        return self._registry.capable(_PERSONA) or bool(self._registry.services(_PERSONA))

    async def _ask(self, message: IncomingMessage) -> list[str]:
        effective = await self._sessions.effective(message.session_id, message.platform)
        request = PersonaGet(session_id=message.session_id, persona=effective.config.persona)
        subject = subjects.request(subjects.PERSONA_GET)
        answer = await self._mesh.request(subject, request, PersonaPrompt, _TIMEOUT)
        return answer.nick_names
