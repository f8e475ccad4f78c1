"""This is about asking the interceptors of one hook, in order (SPEC HOOK-9).

Each sees the data by value as the one before left it, and answers `next` with a patch, or `stop`.
One that hangs, crashes or answers nonsense costs at most its timeout, is named in one warning,
and changes nothing. Nothing registered means no network call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from aalis_contracts.contract import Contract, InvalidBody
from aalis_contracts.errors import Fault
from aalis_contracts.hooks import HOOKS, HookReply, HookRequest, json_object
from aalis_contracts.subjects import hook as hook_subject
from aalis_contracts.subjects import hook_key
from aalis_contracts.text import cut, one_line
from aalis_sdk.logs import Log
from aalis_sdk.mesh import Absent, Mesh, Remote, TooLarge

if TYPE_CHECKING:
    from aalis_contracts.registry import HookEntry
    from aalis_contracts.text import JsonObject
    from aalis_sdk.registry import Registry

log = Log(__name__)

Data = TypeVar("Data", bound=Contract)


class HookFailed(Exception):
    """An interceptor registered with `onFailure: fail` failed; the message names it."""


@dataclass(frozen=True)
class Chain(Generic[Data]):
    """How a chain ended: the data as it was left, and who stopped it, if anyone did."""

    data: Data
    stopped_by: str | None = None

    @property
    def reached_end(self) -> bool:
        """Whether no interceptor stopped the chain."""
        return self.stopped_by is None


class Hooks:
    """Runs the chains of hooks over the mesh."""

    def __init__(self, mesh: Mesh, registry: Registry) -> None:
        self._mesh = mesh
        self._registry = registry

    def anyone(self, hook: str) -> bool:
        """Say whether anybody intercepts or observes `hook` right now."""
        return bool(self._registry.hooks(hook) or self._registry.hooks(hook, "observe"))

    async def run(self, hook: str, data: Data) -> Chain[Data]:
        """Ask the live interceptors of `hook` in (`order`, name) order.

        Raises `HookFailed` when one registered with `onFailure: fail` does not answer well.
        """
        stopped_by: str | None = None
        limit = self._mesh.client.max_payload // 2
        for entry in self._registry.hooks(hook):
            if self._registry.get(hook_key(hook, entry.plugin)) is None:
                continue
            reply = await self._ask(hook, entry, data)
            if reply is None:
                continue
            data = _patched(entry, data, reply.patch or {}, limit)
            if reply.action == "stop":
                stopped_by = entry.plugin
                break
        await self._tell_observers(hook, data)
        return Chain(data, stopped_by)

    async def _ask(self, hook: str, entry: HookEntry, data: Contract) -> HookReply | None:
        request = HookRequest(hook=hook, data=json_object(data))
        subject = hook_subject(hook, entry.plugin)
        try:
            return await self._mesh.request(subject, request, HookReply, entry.timeout_ms / 1000)
        except (Absent, Remote, Fault, TooLarge) as error:
            _skip("interceptor skipped", entry, str(error))
            return None

    async def _tell_observers(self, hook: str, data: Contract) -> None:
        observers = self._registry.hooks(hook, "observe")
        if not observers:
            return
        request = HookRequest(hook=hook, data=json_object(data))
        for entry in observers:
            try:
                await self._mesh.publish(hook_subject(hook, entry.plugin), request)
            except TooLarge as error:
                log.warning("observer not told", hook=hook, plugin=entry.plugin, reason=str(error))


def _patched(entry: HookEntry, data: Data, patch: JsonObject, limit: int) -> Data:
    """Apply a patch of top-level fields; what may not be patched, or does not fit, is left out.

    No patch may make the data grow beyond `limit` bytes: the next interceptor could not be asked,
    and what comes of the data could not be stored.
    """
    allowed = HOOKS[entry.hook][1]
    refused = sorted(set(patch) - allowed)
    if refused:
        shown = [cut(name, 64, "…") for name in refused[:8]]
        log.warning("patch refused", hook=entry.hook, plugin=entry.plugin, fields=shown)
    kept = {key: value for key, value in patch.items() if key in allowed}
    if not kept:
        return data
    before = json_object(data)
    try:
        patched = type(data).from_object({**before, **kept})
    except InvalidBody as error:
        _skip("patch unreadable", entry, str(error))
        return data
    size = len(patched.to_json())
    if size > limit and size > len(data.to_json()):
        _skip("patch too large", entry, f"{size} bytes exceed the limit of {limit} bytes")
        return data
    return patched


def _skip(event: str, entry: HookEntry, reason: str) -> None:
    """Name who answered badly, in one warning; raise if the hook must not go on without it."""
    reason = one_line(reason, 300)
    log.warning(event, hook=entry.hook, plugin=entry.plugin, reason=reason)
    if entry.on_failure == "fail":
        raise HookFailed(f"{entry.hook} failed in plugin {entry.plugin}: {reason}") from None
