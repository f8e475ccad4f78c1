"""This is about running a command: once, whatever is delivered twice, and its answer (SPEC CMD-6).

A record in KV `tool_results` says that a command has started and what it answered. A copy of the
message gets the stored answer; a command whose gateway died in the middle is not run again, since
it may have taken effect: its person is told. One that takes long goes on by itself, so that it
does not hold up its partition.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Literal

from aalis_contracts import subjects
from aalis_contracts.contract import Contract, InvalidBody
from aalis_contracts.errors import Fault
from aalis_contracts.messages import OutgoingMessage
from aalis_contracts.rpc import CommandResult, CommandRun
from aalis_contracts.text import one_line
from aalis_gateway import identity
from aalis_sdk.buckets import Bucket
from aalis_sdk.failpoints import failpoint
from aalis_sdk.logs import Log
from aalis_sdk.mesh import Absent, Remote, TooLarge
from aalis_sdk.topology import TOOL_RESULTS

if TYPE_CHECKING:
    from aalis_contracts.catalogue import Catalogue
    from aalis_contracts.registry import CommandEntry
    from aalis_gateway.outbound import Outbound
    from aalis_sdk.mesh import Mesh

log = Log(__name__)

Handler = Callable[[CommandRun], Awaitable[str | None]]

SCHEDULER: Final = "scheduler"
_INLINE_SECONDS: Final = 5.0


class _Record(Contract):
    """What is known of one command."""

    state: Literal["started", "finished"]
    text: str | None = None


class Runner:
    """Runs commands, in this process or where they are offered."""

    def __init__(self, mesh: Mesh, outbound: Outbound, texts: Catalogue) -> None:
        self._mesh = mesh
        self._outbound = outbound
        self._texts = texts
        self._records = Bucket(mesh, TOOL_RESULTS)
        self._own: dict[str, Handler] = {}
        self._long: set[asyncio.Task[None]] = set()

    def serve(self, path: str, handler: Handler) -> None:
        """Run `path` here, without the mesh."""
        self._own[path] = handler

    async def stop(self, grace: float) -> None:
        """Let long commands end for `grace` seconds."""
        if self._long:
            await asyncio.wait(self._long, timeout=grace)

    async def run(self, entry: CommandEntry, call: CommandRun, *, quiet: bool = False) -> None:
        """Run a command once and send its answer; `quiet` = the answer goes to the log only."""
        task = asyncio.create_task(self._run(entry, call, quiet=quiet))
        try:
            done, _ = await asyncio.wait({task}, timeout=_INLINE_SECONDS)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if done:
            task.result()
            return
        log.info("a command takes long; it goes on by itself", command=entry.path)
        self._long.add(task)
        task.add_done_callback(self._ended)

    async def say(self, call: CommandRun, text: str, suffix: str = "answer") -> None:
        """Send something about a command to the session it came from (SPEC CMD-7)."""
        context = call.context
        await self._outbound.send(
            OutgoingMessage(
                id=identity.derived(context.key, suffix),
                content=text,
                session_id=context.session_id,
                platform=context.platform,
                source="command",
            )
        )

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._long.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("a long command failed", reason=repr(error))

    async def _run(self, entry: CommandEntry, call: CommandRun, *, quiet: bool) -> None:
        text = await self._once(entry, call)
        if quiet:
            log.info("scheduled command", command=entry.path, result=one_line(text or "", 500))
        elif text:
            await self.say(call, text)

    async def _once(self, entry: CommandEntry, call: CommandRun) -> str | None:
        key = "command-" + sha256(call.context.key.encode()).hexdigest()
        started = _Record(state="started")
        revision = await self._records.create(key, started, secrets.token_hex(8))
        if revision is None:
            return await self._earlier(entry, key)
        failpoint("gateway.command.recorded")
        text = await self._execute(entry, call)
        failpoint("gateway.command.ran")
        finished = _Record(state="finished", text=text)
        try:
            await self._records.put(key, finished)
        except TooLarge:
            await self._records.put(key, _Record(state="finished"))
        failpoint("gateway.command.finished")
        return text

    async def _earlier(self, entry: CommandEntry, key: str) -> str | None:
        """Return what this command answered when it ran."""
        record = await self._records.get(key)
        try:
            known = _Record.from_json(record.value) if record is not None else None
        except InvalidBody:
            known = None
        if known is not None and known.state == "finished":
            return known.text
        return self._texts.text("commandUnknown", name=entry.path)

    async def _execute(self, entry: CommandEntry, call: CommandRun) -> str | None:
        own = self._own.get(entry.path)
        try:
            if own is not None:
                return await own(call)
            seconds = entry.timeout_ms / 1000
            subject = subjects.command_run(entry.path)
            return (await self._mesh.request(subject, call, CommandResult, seconds)).text
        except Absent as error:
            log.warning("command absent", command=entry.path, reason=error.why)
            key = "commandAbsent" if error.why == "no responder" else "commandUnknown"
        except (Remote, Fault, TooLarge) as error:
            log.warning("command failed", command=entry.path, reason=str(error))
            key = "commandFailed"
        except Exception:
            log.error("command failed", command=entry.path, exc_info=True)  # noqa: G201 - our own Log
            key = "commandFailed"
        return self._texts.text(key, name=entry.path)
