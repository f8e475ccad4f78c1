"""This is about the commands that the gateway itself offers: help, status, clear (CMD-10, 11)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from aalis_contracts import subjects
from aalis_contracts.registry import CommandArg, CommandEntry, CommandOption
from aalis_contracts.rpc import ClearResults, CommandRun, MemoryClear
from aalis_gateway import command_line
from aalis_gateway.command_line import Index
from aalis_sdk.plugin import Plugin

if TYPE_CHECKING:
    from typing import Literal

    from aalis_contracts.catalogue import Catalogue
    from aalis_gateway.running import Handler
    from aalis_sdk.mesh import Mesh
    from aalis_sdk.registry import Registry

PLUGIN: Final = "gateway"
CLEAR: Final = "clear"
TYPES: Final = ("context", "summary", "vector", "image", "video", "audio", "file", "persona")
_ALIASES: Final = {"history": "context", "messages": "context"}
_CLEAR_TIMEOUT: Final = 30.0
GROUP_LEVELS: Final = {CLEAR: 2}
"""In a group a command and what is below it need at least this level: it is everybody's memory."""
HARMLESS: Final = frozenset({"clear.list"})
"""Commands that only show something: they ask for no confirmation, whatever stands above them."""


def entries(texts: Catalogue) -> list[CommandEntry]:
    """Return how the built-in commands are typed."""
    types = CommandOption(name="types", short="t", type="string[]")
    return [
        CommandEntry(
            path="help",
            plugin=PLUGIN,
            args=[CommandArg(name="name", type="text")],
            description=texts.text("helpDescription"),
            risk="safe",
        ),
        CommandEntry(
            path="status",
            plugin=PLUGIN,
            description=texts.text("statusDescription"),
            risk="safe",
        ),
        CommandEntry(
            path=CLEAR,
            plugin=PLUGIN,
            options=[types],
            description=texts.text("clearDescription"),
            confirm="session",
        ),
        CommandEntry(
            path="clear.list",
            plugin=PLUGIN,
            description=texts.text("clearListDescription"),
            risk="safe",
        ),
        CommandEntry(
            path="clear.all",
            plugin=PLUGIN,
            options=[types],
            description=texts.text("clearAllDescription"),
            risk="dangerous",
            confirm="always",
        ),
    ]


class Builtin:
    """The handlers of the built-in commands."""

    def __init__(
        self,
        mesh: Mesh,
        registry: Registry,
        texts: Catalogue,
        prefix: str,
        index: Callable[[], Index],
    ) -> None:
        self._mesh = mesh
        self._registry = registry
        self._texts = texts
        self._prefix = prefix
        self._index = index

    def plugin(self, entries: Sequence[CommandEntry]) -> Plugin:
        """Return the offer of these commands to the mesh: listed, and their names held."""
        offer = Plugin(PLUGIN)
        handlers = self.handlers()
        for entry in entries:
            offer.command(
                entry.path,
                entry.description,
                args=entry.args,
                options=entry.options,
                risk=entry.risk,
                confirm=entry.confirm,
            )(handlers[entry.path])
        return offer

    def handlers(self) -> dict[str, Handler]:
        """Return them by path."""
        return {
            "help": self._help,
            "status": self._status,
            CLEAR: self._clear,
            "clear.list": self._clear_list,
            "clear.all": self._clear_all,
        }

    async def _help(self, call: CommandRun) -> str:
        index = self._index()
        name = str(call.args.get("name") or "").strip().removeprefix(self._prefix)
        if name:
            found = command_line.find(f"{self._prefix}{name}", self._prefix, index)
            if found is None or found.rest:
                return self._texts.text("helpUnknown", name=name)
            return explain(found.path, index, self._prefix, self._texts)
        lines = [self._texts.text("helpHeader")]
        lines += [_line(path, index, self._prefix, self._texts) for path in index.children("")]
        return "\n".join([*lines, self._texts.text("helpMore")])

    async def _status(self, _call: CommandRun) -> str:
        running = Counter(entry.service for entry in self._registry.services())
        lines = [
            self._texts.text("statusLine", service=service, count=count)
            for service, count in sorted(running.items())
        ]
        return "\n".join(lines) or self._texts.text("statusNone")

    async def _clear_list(self, _call: CommandRun) -> str:
        return self._texts.text("clearTypes", types=", ".join(TYPES))

    async def _clear(self, call: CommandRun) -> str:
        return await self._cleared(call, "session")

    async def _clear_all(self, call: CommandRun) -> str:
        return await self._cleared(call, "all")

    async def _cleared(self, call: CommandRun, scope: Literal["session", "all"]) -> str:
        given = call.options.get("types")
        types = wanted_types(given if isinstance(given, list) else [])
        if isinstance(types, str):
            return self._texts.text("clearUnknownType", name=types, types=", ".join(TYPES))
        session_id = call.context.session_id if scope == "session" else None
        answer = await self._mesh.request(
            subjects.request(subjects.MEMORY_CLEAR),
            MemoryClear(scope=scope, session_id=session_id, types=types),
            ClearResults,
            _CLEAR_TIMEOUT,
        )
        lines = [
            self._texts.text(
                "clearDone",
                source=report.source,
                message=report.message
                or self._texts.text("clearSucceeded" if report.success else "clearFailed"),
            )
            for report in answer.results
        ]
        return "\n".join(lines) or self._texts.text("nothingToClear")


def wanted_types(given: Sequence[object]) -> list[str] | str | None:
    """Return the types to clear, None for all of them, or the first name that is none."""
    found: list[str] = []
    for each in given:
        name = str(each).lower()
        name = _ALIASES.get(name, name)
        if name == "all":
            return None
        if name not in TYPES:
            return str(each)
        if name not in found:
            found.append(name)
    return found or None


def explain(path: str, index: Index, prefix: str, texts: Catalogue) -> str:
    """Return all there is to say about a command: usage, description, options, sub-commands."""
    entry = index.entries.get(path)
    lines = [texts.text("usage", usage=command_line.usage(path, entry, prefix))]
    if entry is not None and entry.description:
        lines.append(entry.description)
    for option in entry.options if entry is not None else []:
        names = [f"-{option.short}"] if option.short else []
        shown = ", ".join([*names, f"--{option.name}"])
        about = [option.description or "", "|".join(option.choices or [])]
        line = texts.text("helpOption", option=shown, description=" ".join(filter(None, about)))
        lines.append(line.rstrip())
    lines += [_line(child, index, prefix, texts) for child in index.children(path)]
    return "\n".join(lines)


def _line(path: str, index: Index, prefix: str, texts: Catalogue) -> str:
    entry = index.entries.get(path)
    below = sum(node.startswith(f"{path}.") for node in index.entries)
    key = "helpChildren" if below else "helpLine"
    usage = command_line.usage(path, entry, prefix)
    about = entry.description if entry is not None else ""
    return texts.text(key, usage=usage, count=below, description=about).rstrip()
