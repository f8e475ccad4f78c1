"""This is about the registry: who offers what right now (SPEC REG-1 to REG-8).

Entries live in KV `registry` with a time to live of 30 s and are written again every 10 s. A
reader keeps a live copy without any consumer on the server: it hears the writes themselves, and
forgets an entry that nobody has repeated for its time to live. Anybody can write there, so an entry
that cannot be read, or stands under another's key, is left out with one warning.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import nats.errors

from aalis_contracts.contract import Contract, InvalidBody
from aalis_contracts.errors import Fault
from aalis_contracts.registry import (
    CommandEntry,
    HookEntry,
    PromptEntry,
    ServiceEntry,
    ToolEntry,
)
from aalis_contracts.subjects import command_key, hook_key, prompt_key, service_key, tool_key
from aalis_sdk.arguments import schema_fault
from aalis_sdk.buckets import TTL_HEADER, Bucket, is_deletion
from aalis_sdk.logs import Log
from aalis_sdk.mesh import Absent, Mesh
from aalis_sdk.topology import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Callable

    from nats.aio.msg import Msg

log = Log(__name__)

TTL_SECONDS: Final = 30
REFRESH_SECONDS: Final = 10.0
_PREFIX: Final = f"$KV.{REGISTRY}."
_KINDS: Final[dict[str, type[Contract]]] = {
    "hook": HookEntry,
    "prompt": PromptEntry,
    "tool": ToolEntry,
    "command": CommandEntry,
    "service": ServiceEntry,
}
_MOST_REFUSED: Final = 1000
_WHOLE_SECONDS: Final = re.compile(r"(\d{1,9})s?")
_Kind = TypeVar("_Kind", bound=Contract)


@dataclass(frozen=True)
class _Seen:
    entry: Contract
    until: float


class Registry:
    """A live copy of the registry."""

    def __init__(self, mesh: Mesh) -> None:
        self.changed: list[Callable[[str], None]] = []
        """Told the key of every entry that is written or withdrawn; an expiry is silent."""
        self._mesh = mesh
        self._bucket = Bucket(mesh, REGISTRY)
        self._seen: dict[str, _Seen] = {}
        self._refused: dict[str, str] = {}
        self._chains: dict[tuple[str, str], list[HookEntry]] = {}
        self._chains_until = 0.0
        self._reload: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Hear every change from now on, then read what is there."""
        await self._mesh.client.subscribe(f"{_PREFIX}>", cb=self._heard)
        await self._mesh.settle()
        self._mesh.reconnected.append(self._read_again)
        await self._read_all()

    def hooks(self, hook: str, mode: str = "intercept") -> list[HookEntry]:
        """Return the live entries of a hook, in (`order`, name) order (HOOK-9).

        Asked several times a message, so the answer is kept until an entry changes or expires.
        """
        if _now() >= self._chains_until:
            self._chains.clear()
            expiries = (seen.until for seen in self._seen.values())
            self._chains_until = min(expiries, default=math.inf)
        chain = self._chains.get((hook, mode))
        if chain is None:
            chain = self._chains[hook, mode] = self._chain(hook, mode)
        return chain.copy()

    def _chain(self, hook: str, mode: str) -> list[HookEntry]:
        found = [e for e in self._live(HookEntry) if e.hook == hook and e.mode == mode]
        return sorted(found, key=lambda e: (e.order, e.plugin))

    def prompts(self) -> list[PromptEntry]:
        """Return the prompt contributions, sorted by key."""
        return sorted(self._live(PromptEntry), key=lambda e: e.key)

    def tools(self) -> list[ToolEntry]:
        """Return the tools, sorted by name."""
        return sorted(self._live(ToolEntry), key=lambda e: e.name)

    def commands(self) -> list[CommandEntry]:
        """Return the commands, sorted by path."""
        return sorted(self._live(CommandEntry), key=lambda e: e.path)

    def services(self, service: str | None = None) -> list[ServiceEntry]:
        """Return the running instances, of one service or of all."""
        found = [e for e in self._live(ServiceEntry) if service in {None, e.service}]
        return sorted(found, key=lambda e: (e.service, e.instance))

    def capable(self, capability: str) -> bool:
        """Say whether some running service claims `capability`."""
        return any(capability in e.capabilities for e in self.services())

    def get(self, key: str) -> Contract | None:
        """Return the live entry under a registry key, if any."""
        seen = self._seen.get(key)
        return seen.entry if seen is not None and seen.until > _now() else None

    async def wait_for(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Wait until `condition` holds (it is asked after every change); False after `timeout`."""
        changed = asyncio.Event()

        def tell(_: str) -> None:
            changed.set()

        self.changed.append(tell)
        try:
            async with asyncio.timeout(timeout):
                while not condition():
                    changed.clear()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.5):
                            await changed.wait()
        except TimeoutError:
            return condition()
        finally:
            self.changed.remove(tell)
        return True

    def _live(self, kind: type[_Kind]) -> list[_Kind]:
        now = _now()
        return [
            seen.entry
            for seen in self._seen.values()
            if isinstance(seen.entry, kind) and seen.until > now
        ]

    async def _heard(self, message: Msg) -> None:
        self._take(message.subject, message.data, dict(message.headers or {}), _now())

    def _take(self, subject: str, data: bytes, headers: dict[str, str], at: float) -> None:
        key = subject.removeprefix(_PREFIX)
        if is_deletion(headers):
            self._seen.pop(key, None)
        else:
            entry = self._read(key, data)
            if entry is None:
                return
            self._seen[key] = _Seen(entry, at + _time_to_live(headers))
        self._forget_expired()
        self._chains_until = 0.0
        for tell in list(self.changed):
            tell(key)

    def _read(self, key: str, data: bytes) -> Contract | None:
        kind = _KINDS.get(key.partition(".")[0])
        if kind is None:
            return None
        try:
            entry = kind.from_json(data)
        except InvalidBody as error:
            self._refuse(key, str(error))
            return None
        reason = _unfit(entry, key)
        if reason:
            self._refuse(key, reason)
            return None
        self._refused.pop(key, None)
        return entry

    def _refuse(self, key: str, reason: str) -> None:
        """Say once, not at every refresh, why an entry is left out."""
        if self._refused.get(key) == reason:
            return
        if len(self._refused) >= _MOST_REFUSED:
            self._refused.clear()
        self._refused[key] = reason
        log.warning("registry entry ignored", key=key, reason=reason)

    def _forget_expired(self) -> None:
        now = _now()
        for key in [key for key, seen in self._seen.items() if seen.until <= now]:
            del self._seen[key]

    def _read_again(self) -> None:
        self._reload = asyncio.create_task(self._read_all())

    async def _read_all(self) -> None:
        try:
            for record in await self._bucket.all():
                # The server keeps nothing past its time to live, so what it holds is alive; an
                # entry already heard of directly is newer than this answer.
                if self.get(record.key) is None:
                    self._take(_PREFIX + record.key, record.value, {}, _now())
        except (Fault, Absent, nats.errors.Error) as error:
            log.warning("registry not read; will hear of entries as they refresh", why=str(error))


def _unfit(entry: Contract, key: str) -> str:
    """Say why an entry that can be read is no good; empty = it is."""
    own = _key_of(entry)
    if own != key:
        return f"what it offers belongs under {own}"
    # A model's provider would refuse the whole request for one bad schema in it.
    if isinstance(entry, ToolEntry):
        return schema_fault(entry.definition.function.parameters)
    return ""


def _key_of(entry: Contract) -> str:
    """Return the key under which an entry has to stand: one name, one entry."""
    match entry:
        case HookEntry():
            return hook_key(entry.hook, entry.plugin)
        case PromptEntry():
            return prompt_key(entry.plugin, entry.id)
        case ToolEntry():
            return tool_key(entry.name)
        case CommandEntry():
            return command_key(entry.path)
        case ServiceEntry():
            return service_key(entry.service, entry.instance)
        case _:
            return ""


def _time_to_live(headers: dict[str, str]) -> float:
    """Return the seconds that an entry was written for."""
    stated = _WHOLE_SECONDS.fullmatch(headers.get(TTL_HEADER, ""))
    return float(stated[1]) if stated is not None else TTL_SECONDS


def _now() -> float:
    return asyncio.get_running_loop().time()
