"""This is about serving: one subscription whose messages are handled side by side, each answered.

FastStream declares the subscription and hands messages over one after the other; each is handled
in a task of its own. FastStream's own workers would drop what arrives while a subscriber stops,
and cost three times as much a message.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from aalis_contracts.contract import Contract, InvalidBody
from aalis_contracts.errors import ErrorBody, ErrorReply, Fault, InvalidRequest
from aalis_sdk.failures import UNREACHABLE, Absent, Remote, TooLarge
from aalis_sdk.logs import Log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable

    from faststream.nats.message import NatsMessage
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

    from aalis_sdk.failures import Body

log = Log(__name__)

HEADROOM: Final = 4096
"""Bytes of the server's `max_payload` that are left for headers."""
_CANCEL_AGAIN_SECONDS: Final = 5.0


class Offer:
    """A subscription that is served, and can be taken back."""

    def __init__(
        self,
        client: Client,
        handle: Callable[[Msg], Coroutine[Any, Any, None]],
        concurrency: int,
        grace: float,
    ) -> None:
        self._client = client
        self._handle = handle
        self._slots = asyncio.Semaphore(concurrency)
        self._grace = grace
        self._running: set[asyncio.Task[None]] = set()
        self._subscriber: Any = None
        self._withdrawing: asyncio.Task[None] | None = None
        self._quiet = asyncio.Event()

    async def start(self, subscriber: Any) -> None:  # noqa: ANN401 - FastStream's type is internal
        """Begin to serve what a FastStream subscriber hears."""
        self._subscriber = subscriber
        subscriber(self._accept)
        await subscriber.start()

    async def withdraw(self) -> None:
        """Take no more messages; what has arrived is finished and answered, within the grace."""
        if self._withdrawing is None:
            self._withdrawing = asyncio.create_task(self._withdraw())
        await asyncio.shield(self._withdrawing)

    async def quiet(self) -> None:
        """Wait until a withdrawn offer takes no more messages; what runs may go on running."""
        await self._quiet.wait()

    async def _accept(self, message: NatsMessage) -> None:
        # Waiting here holds the next message back: the client keeps it, and nothing is lost.
        await self._slots.acquire()
        task = asyncio.create_task(self._handle(message.raw_message))
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._slots.release()

    async def _withdraw(self) -> None:
        deadline = asyncio.get_running_loop().time() + self._grace
        subscription, self._subscriber.subscription = self._subscriber.subscription, None
        if subscription is not None:
            await hush(self._client, subscription, self._grace)
        self._quiet.set()
        await finish(self._running, deadline - asyncio.get_running_loop().time())
        await self._subscriber.stop()


async def hush(client: Client, subscription: Subscription, seconds: float) -> None:
    """Take a subscription back; what has arrived is still handed over, within `seconds`."""
    taking_back = subscription.drain() if client.is_connected else subscription.unsubscribe()
    await patiently(taking_back, seconds)


async def patiently(action: Coroutine[Any, Any, None], seconds: float) -> asyncio.Task[None]:
    """Wait for `seconds`, then let it go on alone; a server that is gone is no failure.

    Nothing of the client that waits for a pong may be cancelled: when the pong comes after all,
    it finds a cancelled future, and the client's reader dies of that.
    """
    task = asyncio.create_task(action)
    task.add_done_callback(_ended)
    await asyncio.wait({task}, timeout=seconds)
    return task


def _ended(task: asyncio.Task[None]) -> None:
    if task.cancelled() or (error := task.exception()) is None:
        return
    if not isinstance(error, UNREACHABLE):
        log.error("the client failed", reason=repr(error))


async def finish(tasks: Iterable[asyncio.Task[Any]], seconds: float) -> None:
    """Let tasks end by themselves for `seconds`, then cancel the rest and wait for that."""
    running = set(tasks)
    if running:
        _, running = await asyncio.wait(running, timeout=max(0.0, seconds))
    await end(*running)


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until they have ended; how they end is not looked at.

    Again and again: in Python 3.11 `asyncio.wait_for`, and so every wait of the client for an
    answer, loses a cancel that arrives together with the answer.
    """
    running = {task for task in tasks if not task.done()}
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=_CANCEL_AGAIN_SECONDS)
    await asyncio.gather(*tasks, return_exceptions=True)


async def answer(
    template: str,
    message: Msg,
    body: type[Body],
    handler: Callable[[Body], Awaitable[Contract]],
    limit: int,
) -> None:
    """Handle one request and answer it, whatever happens (SPEC ERR-1)."""
    try:
        data = (await handler(body.from_json(message.data))).to_json()
    except asyncio.CancelledError:
        leaving = ErrorBody(code="absent", message="the responder is leaving", retryable=True)
        await _reply(template, message, ErrorReply(error=leaving).to_json())
        raise
    except Exception as error:
        failure = _foreseen(error)
        if failure is None:
            log.exception("request failed", subject=template)
            failure = ErrorBody(code="internal", message=type(error).__name__, retryable=True)
        data = ErrorReply(error=failure).to_json()
    if len(data) > limit:
        log.warning("answer too large", subject=template, bytes=len(data))
        why = f"the answer of {len(data)} bytes exceeds the limit of {limit} bytes"
        data = ErrorReply(error=ErrorBody(code="overflow", message=why)).to_json()
    await _reply(template, message, data)


async def _reply(template: str, message: Msg, data: bytes) -> None:
    try:
        if message.reply:
            await message.respond(data)
    except UNREACHABLE as error:
        log.debug("answer not sent", subject=template, reason=repr(error))


def _foreseen(error: Exception) -> ErrorBody | None:  # noqa: PLR0911 - one line an error
    """Return whose fault an error is and whether asking again may help; None for a bug."""
    match error:
        case InvalidBody():
            return ErrorBody(code="invalid", message=str(error))
        case InvalidRequest():
            return ErrorBody(code=error.code, message=error.message)
        case Fault():
            return ErrorBody(code=error.code, message=error.message, retryable=error.retryable)
        case Absent():
            return ErrorBody(code="absent", message=str(error), retryable=True)
        case Remote():
            return error.error
        case TooLarge():
            return ErrorBody(code="overflow", message=str(error))
        case _:
            return None
