"""This is about a session's settings, record and persona, from the mesh."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from aalis_agent.ports import Refused, SessionView, Sourced, Unavailable
from aalis_contracts import subjects
from aalis_contracts.errors import Fault
from aalis_contracts.rpc import PersonaGet, PersonaList, PersonaNames, PersonaPrompt
from aalis_contracts.sessions import SessionConfig
from aalis_sdk.logs import Log
from aalis_sdk.mesh import Absent, Remote, TooLarge

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from aalis_contracts.messages import IncomingMessage
    from aalis_contracts.rpc import CommandContext
    from aalis_contracts.sessions import SessionInfo
    from aalis_sdk.mesh import Mesh
    from aalis_sdk.registry import Registry
    from aalis_sdk.sessions import Sessions, Setting

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


class KvRecords:
    """The records port on KV `sessions`."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def view(self, session_id: str, platform: str) -> SessionView:
        """Return the record and what each layer says."""
        with _refusing():
            record = await self._sessions.get(session_id)
            effective = await self._sessions.effective(session_id, platform)
        values = {
            name: [Sourced(source, value) for source, value in _layers(setting)]
            for name, setting in effective.settings.items()
        }
        return SessionView(record, values)

    async def change(
        self, context: CommandContext, change: Callable[[SessionInfo], SessionInfo]
    ) -> SessionInfo:
        """Write a change; the record's platform and user are those of who speaks."""
        with _refusing():
            await self._sessions.ensure(
                context.session_id, platform=context.platform, user_id=context.user_id
            )
            return await self._sessions.update(context.session_id, change)


def _layers(setting: Setting) -> list[tuple[str, object]]:
    return [(setting.source, setting.value), *setting.shadowed]


@contextlib.contextmanager
def _refusing() -> Generator[None]:
    """Tell a record that nobody can read from one that cannot be had now."""
    try:
        yield
    except Fault as error:
        if error.retryable:
            raise
        raise Refused("session record", error.message) from None


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

    async def names(self) -> list[str] | None:
        """Return the personas there are; a service that is not there is asked in vain, quickly."""
        subject = subjects.request(subjects.PERSONA_LIST)
        try:
            return (await self._mesh.request(subject, PersonaList(), PersonaNames)).names
        except (Absent, Remote, Fault, TooLarge) as error:
            if self._registry.capable(PERSONA):
                log.warning("personas cannot be listed", reason=str(error))
            return None
