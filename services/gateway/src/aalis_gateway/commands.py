"""This is about commands: a line of a person that is for the platform, not for the agent (§5.3).

Parse, then permission, then confirmation, then the handler, wherever it runs. A command never
reaches the agent nor the history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aalis_contracts import subjects
from aalis_contracts.rpc import CommandContext, CommandRun
from aalis_gateway import builtin, command_line, identity, trigger
from aalis_gateway.command_line import Arguments, Found, Index, Problem
from aalis_gateway.dispatch import is_stored
from aalis_gateway.passage import Ended, Passage, handled
from aalis_gateway.running import SCHEDULER
from aalis_sdk import authority, topology
from aalis_sdk.authority import Decision, Demand

if TYPE_CHECKING:
    from aalis_contracts.catalogue import Catalogue
    from aalis_contracts.messages import IncomingMessage
    from aalis_contracts.registry import CommandEntry
    from aalis_gateway.confirm import Confirm
    from aalis_gateway.running import Runner
    from aalis_sdk.mesh import Mesh
    from aalis_sdk.registry import Registry

_REFUSALS: Final = {
    "denied": "commandDenied",
    "switched-off": "commandRefused",
    "unreadable": "commandUnavailable",
}


class Commands:
    """Reads command lines, and has them run by who may run them."""

    def __init__(  # noqa: PLR0913 - its collaborators, one by one
        self,
        mesh: Mesh,
        registry: Registry,
        *,
        book: authority.AuthorityBook,
        runner: Runner,
        confirm: Confirm,
        texts: Catalogue,
        prefix: str,
    ) -> None:
        self._mesh = mesh
        self._registry = registry
        self._book = book
        self._runner = runner
        self._confirm = confirm
        self._texts = texts
        self._prefix = prefix
        self._own = builtin.entries(texts)
        confirm.resolve_with(self.entry)
        own = builtin.Builtin(mesh, registry, texts, prefix, self.index)
        for path, handler in own.handlers().items():
            runner.serve(path, handler)
        self._offer = own.plugin(self._own)

    async def start(self) -> None:
        """Offer the built-in commands to everybody, and hold their names."""
        await self._offer.attach(self._mesh, self._registry)

    async def stop(self) -> None:
        """Take the offer back; the other replicas go on with theirs."""
        await self._offer.detach()

    def index(self) -> Index:
        """Return all commands that can be typed now; nobody replaces a built-in one."""
        own = {entry.path for entry in self._own}
        offered = [entry for entry in self._registry.commands() if entry.path not in own]
        return command_line.index([*self._own, *offered])

    def entry(self, path: str) -> CommandEntry | None:
        """Return one command, if it is offered now."""
        return self.index().entries.get(path)

    async def __call__(self, passage: Passage) -> Ended | None:
        """Run the command that the message is, if it is one."""
        found, index = self._find(passage.message)
        if found is None or index is None:
            return None
        context = _context(passage, self._texts.locale, self._prefix)
        if await self._is_old(passage, context):
            return handled("a copy of an earlier command")
        call = CommandRun(path=found.path, args={}, options={}, context=context)
        parsed = _parse(found)
        if isinstance(parsed, Problem) or found.entry is None:
            problem = parsed if isinstance(parsed, Problem) else Problem("", {})
            await self._runner.say(call, self._problem(found, problem, index))
            return handled(f"command {found.path}: not understood")
        call = call.model_copy(update={"args": parsed.args, "options": parsed.options})
        await self._guarded(passage.message, found.entry, call, index)
        return handled(f"command {found.path}")

    def _find(self, message: IncomingMessage) -> tuple[Found | None, Index | None]:
        if message.notice_type or (identity.is_internal(message) and message.source != SCHEDULER):
            return None, None
        line = trigger.without_own_mention(message.content)
        if not line.startswith(self._prefix):
            return None, None
        index = self.index()
        return command_line.find(line, self._prefix, index), index

    async def _is_old(self, passage: Passage, context: CommandContext) -> bool:
        """Say whether a copy of this message, older than the dedupe window, was answered."""
        if passage.search_from_ms is None:
            return False
        way_out = subjects.outbound(context.platform, context.session_id).name
        answer = identity.derived(context.key, "answer")
        return await is_stored(
            self._mesh, topology.OUTBOUND, way_out, answer, passage.search_from_ms
        )

    def _problem(self, found: Found, problem: Problem, index: Index) -> str:
        lines = [builtin.explain(found.path, index, self._prefix, self._texts)]
        if problem.key:
            what = self._texts.text(problem.key, **problem.values)
            lines.insert(0, self._texts.text("commandProblem", name=found.path, problem=what))
        return "\n".join(lines)

    async def _guarded(
        self, message: IncomingMessage, entry: CommandEntry, call: CommandRun, index: Index
    ) -> None:
        demand = _demand(message, entry, index)
        decision = self._decide(message, entry, demand)
        trusted = message.source == SCHEDULER
        if not decision.allowed:
            key = _REFUSALS[decision.verdict]
            text = self._texts.text(key, name=entry.path, level=decision.level)
            await self._runner.say(call, text)
        elif demand.confirm is None or trusted:
            await self._runner.run(entry, call, quiet=trusted)
        elif await self._confirm.need_not_ask(call, demand.confirm):
            await self._runner.run(entry, call)
        else:
            await self._confirm.ask_for(entry, call, demand.confirm)

    def _decide(self, message: IncomingMessage, entry: CommandEntry, demand: Demand) -> Decision:
        who = authority.identity(message.platform, message.user_id, message.actor)
        names = command_line.lineage(entry.path)
        return authority.decide(who, demand.level, names, self._book.data)


def _parse(found: Found) -> Arguments | Problem:
    if found.entry is None:
        return Problem("problemNoSubcommand", {})
    return command_line.parse(found.entry, found.rest)


def _demand(message: IncomingMessage, entry: CommandEntry, index: Index) -> Demand:
    """Return what a command demands: the strictest along its path (CMD-9)."""
    declared = [authority.demand(e.risk, e.visibility, e.confirm) for e in index.along(entry.path)]
    demand = authority.strictest(declared)
    if entry.path in builtin.HARMLESS:
        return Demand(0)
    head = entry.path.partition(".")[0]
    if identity.is_group(message):
        return Demand(max(demand.level, builtin.GROUP_LEVELS.get(head, 0)), demand.confirm)
    return demand


def _context(passage: Passage, locale: str, prefix: str) -> CommandContext:
    message = passage.message
    return CommandContext(
        session_id=message.session_id,
        platform=message.platform,
        user_id=message.user_id,
        nickname=message.nickname,
        actor=message.actor,
        session_type=message.session_type,
        group_id=message.group_id,
        key=passage.key,
        locale=locale,
        prefix=prefix,
    )
