"""This is about building persona: it alone knows every part."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from aalis_contracts.catalogue import Catalogue
from aalis_contracts.hooks import MEMORY_CLEAR, REPLY_BEFORE
from aalis_contracts.rpc import PersonaGet, PersonaList
from aalis_contracts.subjects import PERSONA_GET, PERSONA_LIST
from aalis_persona.adapters.cards_directory import CardDirectory
from aalis_persona.adapters.states_memory import MemoryStates
from aalis_persona.personas import Personas
from aalis_persona.ports import NoStates
from aalis_persona.settings import PersonaSettings
from aalis_sdk.mesh import Mesh
from aalis_sdk.plugin import Plugin
from aalis_sdk.registry import Registry
from aalis_sdk.service import PluginService, Service, run

NAME: Final = "persona"
AFTER_OTHERS: Final = 1000
"""Where in `agent:reply:before` an answer is judged: as the other interceptors have left it."""


def main() -> None:
    """Run persona until SIGTERM."""
    run(NAME, PersonaSettings, build)


async def build(settings: PersonaSettings, mesh: Mesh, registry: Registry) -> Service:
    """Put the parts together; what is wrong with a card is said now, not when it is chosen."""
    cards = CardDirectory(settings.persona_cards)
    await cards.current()
    personas = Personas(
        cards,
        MemoryStates(mesh) if settings.persona_state else NoStates(),
        (lambda: datetime.now(settings.zone)) if settings.persona_time else None,
        Catalogue(settings.locale),
    )
    plugin = Plugin(NAME)
    plugin.respond(PERSONA_GET, PersonaGet)(personas.describe)
    plugin.respond(PERSONA_LIST, PersonaList)(personas.names)
    plugin.intercept(REPLY_BEFORE, order=AFTER_OTHERS)(personas.judge)
    if settings.persona_state:
        plugin.intercept(MEMORY_CLEAR)(personas.forget)
    return PluginService(plugin, mesh, registry, NAME)
