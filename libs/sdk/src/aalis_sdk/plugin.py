"""This is about plugins: a process that offers tools, interceptors, prompt blocks or commands.

    plugin = Plugin("weather")

    @plugin.tool("weather", "Tell the weather of a city", {"city": {"type": "string"}})
    async def weather(args, context):
        return f"Sunny in {args['city']}"

    plugin.run()

`run` does everything else: settings, logs, tracing, health, registry, draining. A service that
offers things beside its own work attaches a plugin to its mesh instead of running it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from pydantic_core import to_jsonable_python

from aalis_contracts import subjects
from aalis_contracts.catalogue import Catalogue
from aalis_contracts.contract import Contract
from aalis_contracts.errors import Fault
from aalis_contracts.events import TurnAfter
from aalis_contracts.hooks import (
    HOOKS,
    INPUT_BEFORE,
    HookReply,
    HookRequest,
    PromptBlocks,
    PromptBuild,
)
from aalis_contracts.registry import (
    CommandArg,
    CommandEntry,
    CommandOption,
    HookEntry,
    PromptEntry,
    ToolEntry,
)
from aalis_contracts.rpc import CommandResult, CommandRun
from aalis_contracts.text import JsonObject
from aalis_contracts.tools import (
    FunctionDefinition,
    ToolCallContext,
    ToolCallRequest,
    ToolCancel,
    ToolDefinition,
    ToolResult,
)
from aalis_sdk.arguments import schema_fault
from aalis_sdk.delivery import Delivery, Puller
from aalis_sdk.offers import Announcement, Announcer
from aalis_sdk.tool_host import MOST_ASKERS, Tool, ToolHost

if TYPE_CHECKING:
    from aalis_contracts.registry import Confirm, Risk, Visibility
    from aalis_sdk.mesh import Mesh, Offer
    from aalis_sdk.registry import Registry

Event = TypeVar("Event", bound=Contract)
Request = TypeVar("Request", bound=Contract)
Patch = Mapping[str, object]
ToolHandler = TypeVar(
    "ToolHandler", bound=Callable[[JsonObject, ToolCallContext], Awaitable[object]]
)
HookHandler = TypeVar("HookHandler", bound=Callable[[Any], Awaitable[Patch | None]])
PromptHandler = TypeVar(
    "PromptHandler", bound=Callable[[PromptBuild], Awaitable[str | list[str] | None]]
)
CommandHandler = TypeVar("CommandHandler", bound=Callable[[CommandRun], Awaitable[str | None]])

_CALLS = 128
"""Calls of one tool that a process runs at once."""
TURN_AFTER = "agent:turn:after"
"""The hook that can only be observed: it is an event (SPEC HOOK-8)."""


class Stop(Exception):
    """Raised by an interceptor to stop its hook; `patch` is applied before (SPEC HOOK-6)."""

    def __init__(self, **patch: object) -> None:
        super().__init__("stopped")
        self.patch = patch


@dataclass(frozen=True)
class Handle:
    """What was offered; withdrawing an old handle does not remove its successor (TOOL-1)."""

    announcement: Announcement
    plugin: Plugin

    async def withdraw(self) -> None:
        """Take this offer back."""
        await self.plugin.withdraw(self.announcement)


class Plugin:
    """The offers of one process; attach it to a mesh, or `run` it as a process of its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._announcements: dict[str, Announcement] = {}
        self._listeners: list[Callable[[Mesh], Awaitable[Offer]]] = []
        self._offers: list[Offer] = []
        self._pullers: list[Callable[[Mesh], Puller]] = []
        self._pulling: list[Puller] = []
        self._starters: list[Callable[[Mesh, Registry], Awaitable[None]]] = []
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self._mesh: Mesh | None = None
        self._announcer: Announcer | None = None
        self._host: ToolHost | None = None

    # declarations ------------------------------------------------------------------------

    def tool(  # noqa: PLR0913 - each argument is a field of REG-3
        self,
        name: str,
        description: str,
        properties: JsonObject | None = None,
        *,
        required: list[str] | None = None,
        schema: JsonObject | None = None,
        groups: list[str] | None = None,
        visibility: Visibility = "public",
        risk: Risk | None = None,
        confirm: Confirm | None = None,
        timeout_ms: int = 60_000,
        retry: Literal["safe", "never"] = "never",
        accepts_images: bool = False,
    ) -> Callable[[ToolHandler], ToolHandler]:
        """Offer a tool. The handler gets (arguments, context) and returns text or any value.

        `properties` are the JSON Schema properties of its arguments; no others are allowed.
        `schema` replaces the whole schema. `retry: safe` says that running a call twice does no
        harm: only such a call runs again when its host died (SPEC TOOL-7). Raises ValueError for
        a schema that is none (TOOL-1).
        """
        parameters: JsonObject = schema or {
            "type": "object",
            "properties": properties or {},
            "required": cast("Any", required or []),
            "additionalProperties": False,
        }
        if fault := schema_fault(parameters):
            message = f"tool {name!r}: {fault}"
            raise ValueError(message)
        function = FunctionDefinition(name=name, description=description, parameters=parameters)
        entry = ToolEntry(
            definition=ToolDefinition(function=function),
            plugin=self.name,
            groups=groups or [],
            visibility=visibility,
            risk=risk,
            confirm=confirm,
            timeout_ms=timeout_ms,
            retry=retry,
            accepts_images=accepts_images,
        )

        def declare(handler: ToolHandler) -> ToolHandler:
            tool = Tool(entry, handler)
            self._declare(
                Announcement(subjects.tool_key(name), entry, lambda: self._serve_tool(tool))
            )
            return handler

        return declare

    def intercept(
        self,
        hook: str,
        *,
        order: int = 0,
        timeout_ms: int = 5000,
        on_failure: Literal["skip", "fail"] = "skip",
    ) -> Callable[[HookHandler], HookHandler]:
        """Offer an interceptor. The handler gets the hook's data and returns a patch or None.

        A patch is a dict of camelCase top-level fields, their values JSON or contracts. Raising
        `Stop` stops the chain. After `timeout_ms` nobody waits any more, and it is cancelled.
        """
        if hook == TURN_AFTER:
            message = f"{hook} cannot be intercepted: it is told when all is done; observe it"
            raise ValueError(message)
        entry = HookEntry(
            hook=hook, plugin=self.name, order=order, timeout_ms=timeout_ms, on_failure=on_failure
        )
        return self._hook_declaration(entry)

    def observe(self, hook: str, *, order: int = 0) -> Callable[[HookHandler], HookHandler]:
        """Be told of a hook without anybody waiting for it; the data is as the chain left it."""
        if hook == TURN_AFTER:
            return cast(
                "Callable[[HookHandler], HookHandler]", self.on(subjects.TURN_AFTER, TurnAfter)
            )
        return self._hook_declaration(
            HookEntry(hook=hook, plugin=self.name, order=order, mode="observe")
        )

    def preprocessor(self, name: str) -> Callable[[HookHandler], HookHandler]:
        """Offer a preprocessor: an `agent:input:before` interceptor of its own name (HOOK-17)."""
        return self._hook_declaration(HookEntry(hook=INPUT_BEFORE, plugin=name))

    def contribute(
        self, contribution: str, anchor: str
    ) -> Callable[[PromptHandler], PromptHandler]:
        """Offer a prompt contribution. The handler gets a `PromptBuild`: text, texts or None."""
        entry = PromptEntry(plugin=self.name, id=contribution, anchor=anchor)

        def declare(handler: PromptHandler) -> PromptHandler:
            async def build(request: PromptBuild) -> PromptBlocks:
                return PromptBlocks(blocks=await handler(request))

            async def serve() -> list[Offer]:
                subject = subjects.prompt(self.name, contribution)
                return [
                    await self.mesh.respond(subject.template, PromptBuild, build, name=subject.name)
                ]

            self._declare(Announcement(subjects.prompt_key(self.name, contribution), entry, serve))
            return handler

        return declare

    def command(  # noqa: PLR0913 - each argument is a field of REG-4
        self,
        path: str,
        description: str,
        *,
        args: list[CommandArg] | None = None,
        options: list[CommandOption] | None = None,
        risk: Risk | None = None,
        visibility: Visibility = "public",
        confirm: Confirm | None = None,
        aliases: list[str] | None = None,
    ) -> Callable[[CommandHandler], CommandHandler]:
        """Offer a slash command. The handler gets a `CommandRun` and returns the answer or None."""
        entry = CommandEntry(
            path=path,
            plugin=self.name,
            args=args or [],
            options=options or [],
            description=description,
            risk=risk,
            visibility=visibility,
            confirm=confirm,
            aliases=aliases or [],
        )

        def declare(handler: CommandHandler) -> CommandHandler:
            async def run(request: CommandRun) -> CommandResult:
                return CommandResult(text=await handler(request))

            async def serve() -> list[Offer]:
                subject = subjects.command_run(path)
                return [
                    await self.mesh.respond(subject.template, CommandRun, run, name=subject.name)
                ]

            self._declare(Announcement(subjects.command_key(path), entry, serve))
            return handler

        return declare

    def on(
        self, template: str, event: type[Event], *, shared: bool = True
    ) -> Callable[[Callable[[Event], Awaitable[None]]], Callable[[Event], Awaitable[None]]]:
        """Hear an event; `shared` = one replica hears each, otherwise every replica does."""

        def declare(
            handler: Callable[[Event], Awaitable[None]],
        ) -> Callable[[Event], Awaitable[None]]:
            queue = self.name if shared else ""
            self._listeners.append(lambda mesh: mesh.listen(template, event, handler, queue=queue))
            return handler

        return declare

    def respond(
        self, template: str, request: type[Request]
    ) -> Callable[
        [Callable[[Request], Awaitable[Contract]]], Callable[[Request], Awaitable[Contract]]
    ]:
        """Answer requests on a subject; one replica answers each (SPEC REG-8)."""

        def declare(
            handler: Callable[[Request], Awaitable[Contract]],
        ) -> Callable[[Request], Awaitable[Contract]]:
            self._listeners.append(lambda mesh: mesh.respond(template, request, handler))
            return handler

        return declare

    def consume(
        self, stream: str, consumer: str, template: str, *, slots: int = 16
    ) -> Callable[[Callable[[Delivery], Awaitable[None]]], Callable[[Delivery], Awaitable[None]]]:
        """Take every message of a durable consumer, one replica each, also those of a downtime.

        The handler gets the stored message with its position and time; `delivery` says what
        returning and raising mean.
        """

        def declare(
            handler: Callable[[Delivery], Awaitable[None]],
        ) -> Callable[[Delivery], Awaitable[None]]:
            self._pullers.append(
                lambda mesh: Puller(mesh, stream, consumer, template, handler, slots)
            )
            return handler

        return declare

    def on_start(
        self, starter: Callable[[Mesh, Registry], Awaitable[None]]
    ) -> Callable[[Mesh, Registry], Awaitable[None]]:
        """Run `starter` once the mesh is there, before anything is offered."""
        self._starters.append(starter)
        return starter

    def on_close(self, closer: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """Run `closer` after everything was withdrawn."""
        self._closers.append(closer)
        return closer

    # life --------------------------------------------------------------------------------

    @property
    def mesh(self) -> Mesh:
        """The mesh this plugin is attached to."""
        if self._mesh is None:
            message = f"plugin {self.name} is not attached to a mesh yet"
            raise RuntimeError(message)
        return self._mesh

    @property
    def keys(self) -> list[str]:
        """The registry keys of what was declared."""
        return list(self._announcements)

    async def attach(self, mesh: Mesh, registry: Registry) -> None:
        """Offer everything that was declared, on this mesh."""
        self._mesh = mesh
        self._host = ToolHost(mesh, Catalogue(mesh.settings.locale))
        for starter in self._starters:
            await starter(mesh, registry)
        for listen in self._listeners:
            self._offers.append(await listen(mesh))
        for make in self._pullers:
            puller = make(mesh)
            await puller.start()
            self._pulling.append(puller)
        self._announcer = Announcer(mesh, registry)
        for announcement in self._announcements.values():
            await self._announcer.add(announcement)

    async def offer(self, key: str) -> Handle:
        """Offer what was declared under `key` after the plugin was attached."""
        announcement = self._announcements[key]
        if self._announcer is not None:
            await self._announcer.add(announcement)
        return Handle(announcement, self)

    async def withdraw(self, announcement: Announcement) -> None:
        """Take one offer back, if it is still this one's."""
        if self._announcements.get(announcement.key) is announcement:
            del self._announcements[announcement.key]
        if self._announcer is not None:
            await self._announcer.withdraw(announcement)

    async def detach(self) -> None:
        """Withdraw everything, let running work finish within the grace period, close."""
        loop = asyncio.get_running_loop()
        grace = self._mesh.settings.grace_seconds if self._mesh is not None else 0.0
        deadline = loop.time() + grace
        announcer, self._announcer = self._announcer, None
        if announcer is not None:
            await announcer.close()
        await asyncio.gather(
            *(offer.withdraw() for offer in self._offers),
            *(puller.drain(grace) for puller in self._pulling),
        )
        host, self._host = self._host, None
        if host is not None:
            await host.drain(max(0.0, deadline - loop.time()))
        closers, self._closers = self._closers, []
        for closer in closers:
            await closer()

    def run(self) -> None:
        """Run this plugin as a process, until SIGTERM."""
        from aalis_sdk.service import run_plugin  # noqa: PLC0415 - the service imports plugins

        run_plugin(self)

    # serving -----------------------------------------------------------------------------

    def _declare(self, announcement: Announcement) -> None:
        self._announcements[announcement.key] = announcement

    def _hook_declaration(self, entry: HookEntry) -> Callable[[HookHandler], HookHandler]:
        if entry.hook not in HOOKS:
            message = f"hook {entry.hook!r} is unknown; use one of {', '.join(HOOKS)}"
            raise ValueError(message)

        def declare(handler: HookHandler) -> HookHandler:
            self._declare(
                Announcement(
                    subjects.hook_key(entry.hook, entry.plugin),
                    entry,
                    lambda: self._serve_hook(entry, handler),
                )
            )
            return handler

        return declare

    async def _serve_hook(
        self, entry: HookEntry, handler: Callable[[Any], Awaitable[Patch | None]]
    ) -> list[Offer]:
        data_type = HOOKS[entry.hook][0]
        seconds = entry.timeout_ms / 1000

        async def answer(request: HookRequest) -> HookReply:
            limit = asyncio.timeout(seconds)
            try:
                async with limit:
                    patch = await handler(data_type.from_object(request.data))
            except Stop as stop:
                return HookReply(action="stop", patch=_json(stop.patch))
            except TimeoutError:
                if not limit.expired():
                    raise
                message = f"no answer within {seconds:g} s"
                raise Fault(message, "timeout") from None
            return HookReply(action="next", patch=_json(patch))

        async def hear(request: HookRequest) -> None:
            await handler(data_type.from_object(request.data))

        subject = subjects.hook(entry.hook, entry.plugin)
        if entry.mode == "observe":
            return [
                await self.mesh.listen(
                    subject.template, HookRequest, hear, name=subject.name, queue=subject.name
                )
            ]
        return [await self.mesh.respond(subject.template, HookRequest, answer, name=subject.name)]

    async def _serve_tool(self, tool: Tool) -> list[Offer]:
        host = self._host
        if host is None:
            message = f"plugin {self.name} is not attached to a mesh yet"
            raise RuntimeError(message)

        async def call(request: ToolCallRequest) -> ToolResult:
            return await host.call(tool, request)

        name = tool.entry.name
        served = subjects.tool_call(name)
        cancelled = subjects.tool_cancel(name)
        return [
            await self.mesh.respond(
                served.template,
                ToolCallRequest,
                call,
                name=served.name,
                concurrency=_CALLS * MOST_ASKERS,
            ),
            await self.mesh.listen(
                cancelled.template, ToolCancel, host.cancel, name=cancelled.name
            ),
        ]


def _json(patch: Patch | None) -> JsonObject | None:
    """Write the contracts in a patch as the JSON they travel as."""
    if not patch:
        return None
    return cast("JsonObject", to_jsonable_python(patch, by_alias=True, exclude_none=True))
