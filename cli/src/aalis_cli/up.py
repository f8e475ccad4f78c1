"""This is about `aalis up`: the whole platform on this machine, until Ctrl-C.

Everything is started at once and waited for together; what dies is named and started again; on
Ctrl-C the services finish what they have in hand, the one that takes messages in first.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from typing import TYPE_CHECKING, Final

from aalis_cli.failure import Failed
from aalis_cli.interrupts import Interrupts, run
from aalis_cli.place import Place, State
from aalis_cli.stack import Plan, Stack, connected, provisioned

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from typing import IO

_CLEANUP_SECONDS: Final = 30.0
_GRACE: Final = 25.0
"""Seconds for each service after SIGTERM: its own 20 s (AALIS_GRACE_SECONDS) and a reserve."""


def up(place: Place, plan: Plan) -> int:
    """Run a stack in `place` until a signal comes; return 0 then."""
    place.make()

    async def story(interrupts: Interrupts) -> int:
        async with _only_one(place) as lock:
            try:
                await _live(place, plan, lock, interrupts)
            except asyncio.CancelledError:
                return 0
        return 0

    return run(story)


@contextlib.asynccontextmanager
async def _only_one(place: Place) -> AsyncGenerator[IO[bytes]]:
    """Take the directory: refused beside a live one, waited for while a killed one is tidied up."""
    deadline = time.monotonic() + _CLEANUP_SECONDS
    told = False
    while True:
        with place.hold() as lock:
            if lock is not None:
                yield lock
                return
        state = place.running()
        if state is not None:
            raise Failed(already_up(state))
        if time.monotonic() > deadline:
            raise Failed(f"another start in {place.directory} does not come to an end; look at it")
        if not told and time.monotonic() > deadline - _CLEANUP_SECONDS + 0.5:
            _say("another one is starting or ending here; waiting for it")
            told = True
        await asyncio.sleep(0.05)


def already_up(state: State) -> str:
    """Return the one line for a second `up`."""
    return (
        f"already up (pid {state.pid}, NATS at {state.nats_url}); "
        f"talk to it: ./aalis ask TEXT, stop it: kill {state.pid}"
    )


async def _live(place: Place, plan: Plan, lock: IO[bytes], interrupts: Interrupts) -> None:
    began = time.monotonic()
    _put_old_logs_aside(place)
    stack = Stack(place, plan, say=_say, lock=lock)
    interrupts.again = stack.hurry
    try:
        await stack.start_servers()
        stack.start_services()
        await _come_up(stack)
        place.announce(stack.state)
        _say(_welcome(stack, place, time.monotonic() - began))
        await stack.watch()
    finally:
        place.withdraw()
        if stack.children:
            _say("stopping; once more stops at once")
        await stack.stop(_GRACE)


async def _come_up(stack: Stack) -> None:
    from aalis_sdk.registry import Registry  # slow to import; services start first

    mesh = await connected(stack.nats_url)
    try:
        await provisioned(mesh)
        registry = Registry(mesh)
        await registry.start()
        await stack.await_ready(registry)
    finally:
        await mesh.close()


def _put_old_logs_aside(place: Place) -> None:
    """Keep the logs of the last run beside those of this one."""
    for log in place.logs.glob("*.log"):
        log.replace(log.with_suffix(".log.1"))


def _welcome(stack: Stack, place: Place, seconds: float) -> str:
    names = ", ".join(child.instance for child in stack.children)
    return (
        f"up in {seconds:.1f} s\n"
        f"  NATS      {stack.nats_url}\n"
        f"  Redis     {stack.redis_url or 'none'}\n"
        f"  services  {names}\n"
        f"  logs      {place.logs}\n"
        'Try, in another terminal: ./aalis ask "how full is your context?"   or: ./aalis chat\n'
        "Ctrl-C stops everything; what was said is kept."
    )


def _say(line: str) -> None:
    with contextlib.suppress(OSError):
        sys.stdout.write(f"aalis: {line}\n")
        sys.stdout.flush()
