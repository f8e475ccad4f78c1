"""This is about a session's settings and persona, from the mesh."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aalis_agent.ports import Unavailable
from aalis_contracts import subjects
from aalis_contracts.errors import Fault
from aalis_contracts.rpc import PersonaGet, PersonaPrompt
from aalis_contracts.sessions import SessionConfig
from aalis_sdk.logs import Log
from aalis_sdk.mesh import Absent, Remote, TooLarge

if TYPE_CHECKING:
    from aalis_contracts.messages import IncomingMessage
    from aalis_sdk.mesh import Mesh
    from aalis_sdk.registry import Registry
    from aalis_sdk.sessions import Sessions

log = Log(__name__)
PERSONA = "persona"


class KvSettings:
    """The settings port on KV `sessions` and `profiles`."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def effective(self, session_id: str, platform: str) -> SessionConfig:
        """Return the effective settings; an unreadable record counts as none, with a warning."""
        try:
            return (await self._sessions.effective(session_id, platform)).config
        except Fault as error:
            if error.retryable:
                raise
            log.warning("session settings ignored", reason=error.message)
            return SessionConfig()


class MeshPersonas:
    """The personas port over requests; no request when no persona service is registered."""

    def __init__(self, mesh: Mesh, registry: Registry) -> None:
        self._mesh = mesh
        self._registry = registry

    async def prompt(
        self, config: SessionConfig, incoming: IncomingMessage
    ) -> PersonaPrompt | None:
        """Return the persona's texts for this turn."""
        if not self._registry.capable(PERSONA):
            return None
        request = PersonaGet(
            session_id=incoming.session_id,
            persona=config.persona,
            disable_output_format=config.disable_output_format,
            client_side_json_rendering=config.client_side_json_rendering,
            system_prompt_extra=config.system_prompt_extra,
            incoming=incoming,
        )
        subject = subjects.request(subjects.PERSONA_GET)
        try:
            return await self._mesh.request(subject, request, PersonaPrompt)
        except (Absent, Remote, Fault, TooLarge) as error:
            raise Unavailable(PERSONA, str(error)) from None
