"""This is about who offers what: the entries of KV `registry` (SPEC §1.5)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Final, Literal

from pydantic import Field, FiniteFloat, StringConstraints

from aalis_contracts.contract import Contract
from aalis_contracts.tools import ToolDefinition

PluginName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
ContributionId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
Anchor = Literal["identity", "knowledge", "context", "turn-context", "turn-hint"]
Risk = Literal["safe", "sensitive", "dangerous"]
Visibility = Literal["public", "restricted"]
Confirm = Literal["session", "always"]
ALL_GROUPS: Final = "*"


class HookEntry(Contract):
    """REG-1: an interceptor or observer of a hook."""

    hook: str
    plugin: PluginName
    order: int = 0
    timeout_ms: Annotated[int, Field(gt=0)] = 5000
    on_failure: Literal["skip", "fail"] = "skip"
    mode: Literal["intercept", "observe"] = "intercept"


class PromptEntry(Contract):
    """REG-2: a prompt contribution; its global key is `<plugin>/<id>`."""

    plugin: PluginName
    id: ContributionId
    anchor: str

    @property
    def key(self) -> str:
        """The injector under which its text appears."""
        return f"{self.plugin}/{self.id}"


class GroupInfo(Contract):
    """How a tool group is shown to a person."""

    label: str
    description: str | None = None


class ToolEntry(Contract):
    """REG-3: a tool and how it may be called."""

    definition: ToolDefinition
    plugin: PluginName
    groups: list[str] = Field(default_factory=list)
    group_info: GroupInfo | None = None
    visibility: Visibility = "public"
    risk: Risk | None = None
    confirm: Confirm | None = None
    timeout_ms: Annotated[int, Field(gt=0)] = 60_000
    retry: Literal["safe", "never"] = "never"
    accepts_images: bool = False

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.definition.function.name

    def open_to(self, groups: Collection[str]) -> bool:
        """Say whether a caller with these groups may use it; `*` is every group (AG-23)."""
        return not self.groups or ALL_GROUPS in groups or any(g in groups for g in self.groups)


class CommandArg(Contract):
    """A positional argument of a command (SPEC CMD-4)."""

    name: str
    type: Literal["string", "number", "boolean", "text"] = "string"
    required: bool = False

    def usage(self) -> str:
        """Return how it is typed: `<name:type>`, in brackets when it may be left out."""
        name = self.name if self.type == "string" else f"{self.name}:{self.type}"
        return f"<{name}>" if self.required else f"[{name}]"


class CommandOption(Contract):
    """An option of a command (SPEC CMD-4); `type` absent means a flag."""

    name: str
    short: Annotated[str, StringConstraints(pattern=r"^[A-Za-z]$")] | None = None
    type: Literal["string", "number", "boolean", "string[]"] | None = None
    value_required: bool = True
    required: bool = False
    choices: list[str] | None = None
    default: str | int | FiniteFloat | bool | None = None
    description: str | None = None

    def usage(self) -> str:
        """Return how it is typed, with its choices or its type in the place of the value."""
        shown = f"-{self.short}" if self.short else f"--{self.name}"
        if self.type is None:
            return shown
        value = self.name if self.type == "string" else f"{self.name}:{self.type}"
        if self.choices and self.type == "string":
            value = "|".join(self.choices)
        return f"{shown} <{value}>" if self.value_required else f"{shown} [{value}]"


class CommandEntry(Contract):
    """REG-4: a slash command; `path` is its dot path."""

    path: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]*(\.[a-z][a-z0-9-]*)*$")]
    plugin: PluginName
    args: list[CommandArg] = Field(default_factory=list)
    options: list[CommandOption] = Field(default_factory=list)
    description: str = ""
    risk: Risk | None = None
    visibility: Visibility = "public"
    confirm: Confirm | None = None
    aliases: list[str] = Field(default_factory=list)
    timeout_ms: Annotated[int, Field(gt=0)] = 30_000

    def usage(self, prefix: str) -> str:
        """Return how it is typed, as in `/clear.all [-t <types:string[]>]`."""
        options = [o.usage() if o.required else f"[{o.usage()}]" for o in self.options]
        return " ".join([f"{prefix}{self.path}", *options, *(arg.usage() for arg in self.args)])


class ServiceEntry(Contract):
    """REG-5: a running service and what it can do."""

    service: str
    instance: str
    version: str
    since: int
    capabilities: list[str] = Field(default_factory=list)
