"""This is about reading lines from a person or a pipe without stopping everything else.

The reader is a daemon thread: it may be waiting for a line when we are told to stop, and nothing
can be joined that waits for a person. A pipe is read by its descriptor, because a thread that
ends inside Python's own buffered reader takes the interpreter with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator


async def lines_of(reader: Callable[[], str | None]) -> AsyncGenerator[str]:
    """Yield what `reader` returns, until it returns None; a line is read when it is asked for."""
    loop = asyncio.get_running_loop()
    while True:
        waiting: asyncio.Future[str | None] = loop.create_future()
        threading.Thread(target=_read, args=(reader, loop, waiting), daemon=True).start()
        line = await waiting
        if line is None:
            return
        yield line


def _read(
    reader: Callable[[], str | None],
    loop: asyncio.AbstractEventLoop,
    waiting: asyncio.Future[str | None],
) -> None:
    try:
        line = reader()
    except (EOFError, OSError):
        line = None

    def tell() -> None:
        if not waiting.done():
            waiting.set_result(line)

    with contextlib.suppress(RuntimeError):  # nobody waits any more
        loop.call_soon_threadsafe(tell)


def piped() -> Callable[[], str | None]:
    """Return a reader of standard input that is no terminal."""
    rest = b""
    ended = False

    def read() -> str | None:
        nonlocal rest, ended
        while b"\n" not in rest and not ended:
            block = os.read(sys.stdin.fileno(), 65536)
            ended = not block
            rest += block
        if not rest:
            return None
        line, _, rest = rest.partition(b"\n")
        return line.decode("utf-8", "replace").removesuffix("\r")

    return read


@contextlib.contextmanager
def typed(prompt: str) -> Generator[Callable[[], str | None]]:
    """Yield a reader of what is typed, with history and editing; give the terminal back after."""
    import importlib
    import termios

    importlib.import_module("readline")  # its presence makes input() editable

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        yield lambda: input(prompt)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
