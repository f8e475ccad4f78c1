"""This is about `aalis topology`: streams, buckets and consumers, made or looked at."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from aalis_cli.failure import Failed
from aalis_cli.interrupts import Interrupts, run
from aalis_cli.stack import connected, provisioned

if TYPE_CHECKING:
    from aalis_cli.place import Place


def server_url(place: Place, named: str | None) -> str:
    """Return the NATS address that is meant: the named one, the running stack's, the setting's."""
    from aalis_sdk.settings import MeshSettings, SettingsError, load

    state = place.running()
    if named is None and state is not None:
        return state.nats_url
    try:
        return named or load(MeshSettings).nats_url
    except SettingsError as error:
        raise Failed(str(error)) from None


def apply(place: Place, nats: str | None, replicas: int, wait: float) -> int:
    """Make everything that is missing, change what differs; doing it twice changes nothing."""

    async def story(_: Interrupts) -> int:
        mesh = await connected(server_url(place, nats), wait)
        try:
            made = await provisioned(mesh, replicas)
        finally:
            await mesh.close()
        for line in made:
            sys.stdout.write(f"made {line}\n")
        sys.stdout.write("topology is complete\n")
        return 0

    return run(story)


def verify(place: Place, nats: str | None) -> int:
    """Say what is missing; 1 if anything is."""

    async def story(_: Interrupts) -> int:
        mesh = await connected(server_url(place, nats))
        try:
            from aalis_sdk import topology  # slow to import

            missing = await topology.verify(mesh.js)
        finally:
            await mesh.close()
        for line in missing:
            sys.stdout.write(f"missing: {line}\n")
        if missing:
            raise Failed(f"{len(missing)} missing; make them: ./aalis topology apply")
        sys.stdout.write("topology is complete\n")
        return 0

    return run(story)
