"""This is about being told to stop: the first time politely, the second time at once."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Who is told of the signals this process gets."""

    def __init__(self) -> None:
        self.received: int | None = None
        self.instead: Callable[[], None] | None = None
        """What Ctrl-C does for now, in place of ending the story."""
        self.again: Callable[[], None] = lambda: None
        """Called when another signal comes while the first one is being obeyed."""


def run(story: Callable[[Interrupts], Coroutine[None, None, int]]) -> int:
    """Run `story`; a signal cancels it, and its clean-up still runs to the end.

    Returns its exit code, or 128 + the signal's number as shells do.
    """
    interrupts = Interrupts()

    async def watched() -> int:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(story(interrupts))

        def obey(number: int) -> None:
            if number == signal.SIGINT and interrupts.instead is not None:
                interrupts.instead()
            elif interrupts.received is None:
                interrupts.received = number
                task.cancel()
            else:
                interrupts.again()

        for number in _SIGNALS:
            loop.add_signal_handler(number, obey, number)
        with contextlib.suppress(asyncio.CancelledError):
            return await task
        return 128 + (interrupts.received or 0)

    return asyncio.run(watched())
