"""This is about reaching a stack: the one that is named, the one that runs, or one made for now."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aalis_cli.failure import Failed
from aalis_cli.nats_info import greet
from aalis_cli.place import Place, State
from aalis_cli.stack import Plan, Stack, connected, provisioned

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from aalis_cli.interrupts import Interrupts
    from aalis_sdk.mesh import Mesh

_COMING_UP_SECONDS: Final = 60.0
_GRACE: Final = 5.0


@contextlib.asynccontextmanager
async def reached(place: Place, nats: str | None, interrupts: Interrupts) -> AsyncGenerator[Mesh]:
    """Yield a mesh on the stack at `nats`, on the one running in `place`, or on a temporary one."""
    url = nats
    if url is None and place.held:
        url = (await _running(place)).nats_url
    if url is None:
        async with _temporary(interrupts) as mesh:
            yield mesh
        return
    mesh = await connected(url)
    try:
        yield mesh
    finally:
        await mesh.close()


async def _running(place: Place) -> State:
    """Return what runs in `place`, once it is up; see that it is what answers there."""
    deadline = time.monotonic() + _COMING_UP_SECONDS
    while (state := place.running()) is None:
        if not place.held or time.monotonic() > deadline:
            raise Failed(f"the stack in {place.directory} did not come up; see its logs there")
        await asyncio.sleep(0.05)
    if state.server_id is not None and greet(state.nats_url).server_id != state.server_id:
        why = f"what answers at {state.nats_url} is not the stack of pid {state.pid}"
        raise Failed(f"{why}; stop that one (kill {state.pid}) and start it again")
    return state


@contextlib.asynccontextmanager
async def _temporary(interrupts: Interrupts) -> AsyncGenerator[Mesh]:
    """Yield a mesh on a stack of its own, of which nothing is left afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="aalis-"))
    place = Place(directory)
    place.make()
    stack = Stack(place, Plan(), say=lambda _: None, temporary=True)
    interrupts.again = stack.hurry
    try:
        await stack.start_servers()
        stack.start_services()
        mesh = await connected(stack.nats_url)
        try:
            from aalis_sdk.registry import Registry  # slow; services start first

            await provisioned(mesh)
            registry = Registry(mesh)
            await registry.start()
            await stack.await_ready(registry)
            yield mesh
        finally:
            await mesh.close()
    finally:
        await stack.stop(_GRACE)
