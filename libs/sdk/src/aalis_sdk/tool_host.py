"""This is about a tool's calls: each happens once, whoever dies (SPEC TOOL-5 to TOOL-8).

Per key, KV `tool_results` holds `started`, then `finished` with the result. A repeated key gets
the stored result, or joins the call that is still running, here or on another host. A call whose
host died runs again only if the tool is registered `retry: safe`; otherwise the model is told that
the outcome is unknown. A host proves that it lives by writing its record again; the one who waits
looks at revisions only, never at another machine's clock.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Literal

from aalis_contracts.contract import Contract
from aalis_contracts.errors import Fault, InvalidRequest
from aalis_contracts.subjects import kv_key
from aalis_contracts.tools import ToolCallContext, ToolResult, error_result
from aalis_sdk import tracing
from aalis_sdk.arguments import schema_problems
from aalis_sdk.buckets import Bucket, Record
from aalis_sdk.failpoints import failpoint
from aalis_sdk.logs import Log
from aalis_sdk.results import as_result, failure_text, fit
from aalis_sdk.serving import end, finish
from aalis_sdk.topology import TOOL_RESULTS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aalis_contracts.catalogue import Catalogue
    from aalis_contracts.registry import ToolEntry
    from aalis_contracts.text import JsonObject
    from aalis_contracts.tools import ToolCallRequest, ToolCancel
    from aalis_sdk.mesh import Mesh

log = Log(__name__)

BEAT_SECONDS: Final = 1.0
DEAD_AFTER_SECONDS: Final = 4.0
_POLL_SECONDS: Final = 0.1
_LONGEST_KEY: Final = 256
MOST_ASKERS: Final = 8
"""How many may wait for one call at once."""


class CallRecord(Contract):
    """What KV `tool_results` holds under a call's key."""

    state: Literal["started", "finished"]
    host: str
    beat: int = 0
    result: ToolResult | None = None


@dataclass(frozen=True)
class Tool:
    """A tool that this process offers."""

    entry: ToolEntry
    handler: Callable[[JsonObject, ToolCallContext], Awaitable[object]]


class ToolHost:
    """Runs the calls of one process's tools."""

    def __init__(self, mesh: Mesh, catalogue: Catalogue) -> None:
        self._mesh = mesh
        self._catalogue = catalogue
        self._records = Bucket(mesh, TOOL_RESULTS)
        self._host = uuid.uuid4().hex
        self._running: dict[str, asyncio.Task[ToolResult]] = {}
        self._askers: dict[str, list[asyncio.Future[None]]] = {}

    async def call(self, tool: Tool, request: ToolCallRequest) -> ToolResult:
        """Answer one call: with the stored result, the running call's, or a new one's."""
        if not tool.entry.open_to(request.context.enabled_groups):
            return error_result(self._catalogue.text("toolNotFound", name=request.name))
        problems = schema_problems(tool.entry.definition.function.parameters, request.args)
        if problems:
            return error_result(self._catalogue.text("schemaProblems", problems=problems))
        key = request.context.key
        if not key:
            message = "context.key is empty; every call needs its own key"
            raise InvalidRequest(message)
        failpoint("tool.asked")
        task = self._running.get(key)
        if task is None:
            task = asyncio.create_task(self._once(tool, request))
            self._running[key] = task
            task.add_done_callback(lambda _: self._ended(key))
        await self._wait(key, task)
        return (
            error_result(self._catalogue.text("cancelled")) if task.cancelled() else task.result()
        )

    async def _wait(self, key: str, task: asyncio.Task[ToolResult]) -> None:
        """Wait for a call; whoever asked may give up, the call goes on and its result is kept.

        A caller asks again every few seconds, and who asked before is gone by then. Were each kept
        waiting, one long call would take all slots of its tool: the oldest makes room.
        """
        asker = asyncio.get_running_loop().create_future()
        askers = self._askers.setdefault(key, [])
        askers.append(asker)
        if len(askers) > MOST_ASKERS:
            askers.pop(0).set_result(None)
        try:
            await asyncio.wait({task, asker}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if asker in askers:
                askers.remove(asker)
        if not task.done():
            message = "the call goes on; it was asked for again too often to answer everybody"
            raise Fault(message, "conflict")

    def _ended(self, key: str) -> None:
        del self._running[key]
        self._askers.pop(key, None)

    async def cancel(self, cancel: ToolCancel) -> None:
        """Stop a call that nobody waits for any more, if it runs here."""
        task = self._running.get(cancel.key)
        if task is not None:
            log.info("tool call cancelled", key=cancel.key, reason=cancel.reason)
            task.cancel()

    async def drain(self, grace: float) -> None:
        """Let running calls finish for `grace` seconds, then stop them."""
        await finish(self._running.values(), grace)

    async def _once(self, tool: Tool, request: ToolCallRequest) -> ToolResult:
        key = record_key(request.context.key)
        started = CallRecord(state="started", host=self._host)
        revision = await self._records.create(key, started, f"{self._host}.{key}.0")
        if revision is None:
            revision, earlier = await self._await_other(key)
            if earlier is not None:
                return earlier
            if tool.entry.retry == "never":
                unknown = error_result(self._catalogue.text("outcomeUnknown"))
                return await self._finish(key, revision, unknown)
            taken = await self._records.update(
                key, started, revision, f"{self._host}.{key}.{revision}"
            )
            if taken is None:
                return await self._once(tool, request)
            revision = taken
        return await self._run(tool, request, key, revision)

    async def _await_other(self, key: str) -> tuple[int, ToolResult | None]:
        """Wait for the host that has this call; return its result, or None when it is dead."""
        loop = asyncio.get_running_loop()
        revision, changed = 0, loop.time()
        while True:
            record = await self._records.get(key)
            if record is None:
                return 0, None
            call = CallRecord.from_json(record.value)
            if call.state == "finished":
                return record.revision, call.result
            if record.revision != revision:
                revision, changed = record.revision, loop.time()
            elif loop.time() - changed > DEAD_AFTER_SECONDS:
                return revision, None
            await asyncio.sleep(_POLL_SECONDS)

    async def _run(
        self, tool: Tool, request: ToolCallRequest, key: str, revision: int
    ) -> ToolResult:
        failpoint("tool.recorded")
        beat = _Beat(self._records, key, self._host, revision)
        beating = asyncio.create_task(beat.keep())
        try:
            result = await self._guarded(tool, request)
        except asyncio.CancelledError:
            result = error_result(self._catalogue.text("cancelled"))
        finally:
            await end(beating)
        failpoint("tool.ran")
        limit = self._mesh.client.max_payload // 2
        return await self._finish(key, beat.revision, fit(result, limit, self._catalogue))

    async def _guarded(self, tool: Tool, request: ToolCallRequest) -> ToolResult:
        name, context = request.name, request.context
        with tracing.span(
            f"execute_tool {name}",
            attributes={
                tracing.OPERATION: "execute_tool",
                tracing.TOOL_NAME: name,
                tracing.TOOL_CALL_ID: context.call_id,
                tracing.CONVERSATION_ID: context.session_id,
                tracing.TURN_ID: context.turn_id,
            },
        ) as span:
            try:
                value = await tool.handler(request.args, context)
                return as_result(value, self._catalogue)
            except Exception as error:
                span.set_attribute("error.type", type(error).__name__)
                log.warning("tool failed", tool=name, key=context.key, exc_info=True)
                return error_result(failure_text(error))

    async def _finish(self, key: str, revision: int, result: ToolResult) -> ToolResult:
        """Keep the result; if another host has finished the call meanwhile, its result counts."""
        finished = CallRecord(state="finished", host=self._host, result=result)
        kept = await self._records.update(
            key, finished, revision, f"{self._host}.{key}.{revision}.end"
        )
        failpoint("tool.finished")
        if kept is not None:
            return result
        record: Record | None = await self._records.get(key)
        if record is not None:
            other = CallRecord.from_json(record.value)
            if other.state == "finished" and other.result is not None:
                return other.result
        log.warning("a tool call was taken over by another host", key=key)
        return result


def record_key(key: str) -> str:
    """Return the bucket key of a call: the encoded key, or its digest when that is long.

    A session id of a few hundred characters is legal, and encoding it makes it many times longer
    than a subject may be.
    """
    encoded = kv_key(key)
    if len(encoded) <= _LONGEST_KEY:
        return encoded
    return "sha256-" + sha256(key.encode()).hexdigest()


@dataclass
class _Beat:
    """Writes the `started` record again and again, so that others see that this host lives."""

    records: Bucket
    key: str
    host: str
    revision: int
    count: int = 0

    async def keep(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            self.count += 1
            alive = CallRecord(state="started", host=self.host, beat=self.count)
            # Shielded: a write that has been sent must not be forgotten half-way, or the
            # revision it made would be taken for somebody else's.
            write = asyncio.ensure_future(
                self.records.update(
                    self.key, alive, self.revision, f"{self.host}.{self.key}.b{self.count}"
                )
            )
            try:
                revision = await asyncio.shield(write)
            except asyncio.CancelledError:
                revision = await write
                self.revision = revision or self.revision
                raise
            if revision is None:
                return
            self.revision = revision
