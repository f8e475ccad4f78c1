"""This is about cancellations that a library forgets: after its call they are heard all the same.

nats-py drops one that arrives while it flushes, and `asyncio.wait_for` of Python 3.11 one that
arrives together with the result. A task that was told to end would go on, and never be told again.
"""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from nats.aio.client import Client

_Result = TypeVar("_Result")
_Given = ParamSpec("_Given")
_CALLS: Final = ("publish", "request", "subscribe")


def heard(
    call: Callable[_Given, Coroutine[Any, Any, _Result]],
) -> Callable[_Given, Coroutine[Any, Any, _Result]]:
    """Return `call`, which raises CancelledError if its task was cancelled while it ran."""

    @functools.wraps(call)
    async def calling(*args: _Given.args, **named: _Given.kwargs) -> _Result:
        task = asyncio.current_task()
        before = task.cancelling() if task is not None else 0
        result = await call(*args, **named)
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError
        return result

    return calling


def hear_cancellations(client: Client) -> None:
    """Have every call of `client` that waits hear its cancellation."""
    for name in _CALLS:
        setattr(client, name, heard(getattr(client, name)))
    # Assigned by name: the method's type says which class of coroutine it returns.
    setattr(client, "flush", _undisturbed(client.flush))  # noqa: B010


def _undisturbed(
    call: Callable[_Given, Coroutine[Any, Any, _Result]],
) -> Callable[_Given, Coroutine[Any, Any, _Result]]:
    """Return `call`, which goes on by itself when whoever waits for it is cancelled."""

    @functools.wraps(call)
    async def calling(*args: _Given.args, **named: _Given.kwargs) -> _Result:
        # The pong of an abandoned flush finds a cancelled future, and nats-py drops the connection.
        task = asyncio.ensure_future(call(*args, **named))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    return calling
