"""This is about memory as a whole: it alone knows every part."""

from __future__ import annotations

import time

from aalis_contracts.catalogue import Catalogue
from aalis_memory.adapters.database import Database, Unusable
from aalis_memory.adapters.events_mesh import MeshClearing, MeshEvents
from aalis_memory.adapters.store_sql import SqlStore
from aalis_memory.requests import Memory
from aalis_memory.service import MemoryService
from aalis_memory.settings import MemorySettings
from aalis_memory.tools import Visibility
from aalis_sdk import service
from aalis_sdk.mesh import Mesh
from aalis_sdk.registry import Registry


async def build(settings: MemorySettings, mesh: Mesh, registry: Registry) -> MemoryService:
    """Open the database and put the service together; raise `StartFailed` if it cannot be used."""
    try:
        database = Database(settings.database, sync=settings.database_sync)
        await database.open()
    except Unusable as error:
        raise service.StartFailed(str(error)) from error
    memory = Memory(
        store=SqlStore(database, now_ms),
        events=MeshEvents(mesh),
        clearing=MeshClearing(mesh, registry),
        catalogue=Catalogue(settings.locale),
        now_ms=now_ms,
    )
    return MemoryService(mesh, registry, memory, Visibility(settings.allowed), database)


def now_ms() -> int:
    """Return the time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def main() -> None:
    """Run the memory service until SIGTERM."""
    service.run("memory", MemorySettings, build)
