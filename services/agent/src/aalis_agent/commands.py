"""This is about the agent's slash commands: what is offered, and having it done (SPEC §2.15).

The gateway has read the line and asked whether its person may (CMD-6); what comes here is a
command with its values. `pages`, `overview` and `changes` decide what is answered and written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aalis_agent.changes import FIELDS, THINK, Known, report, unset, wanted
from aalis_agent.overview import Offered, in_effect, overview
from aalis_agent.pages import MODELS, PERSONAS, Search, page_of
from aalis_agent.ports import Refused
from aalis_agent.resolution import nothing
from aalis_contracts.registry import CommandArg, CommandEntry, CommandOption, Risk
from aalis_sdk.plugin import Plugin

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aalis_agent.aborts import Aborts
    from aalis_agent.changes import Change
    from aalis_agent.ports import Models, Personas, SessionRecords
    from aalis_contracts.catalogue import Catalogue
    from aalis_contracts.rpc import CommandRun
    from aalis_contracts.sessions import SessionInfo

PLUGIN = "agent"
SET = "session.set"
RESET = "session.reset"


@dataclass(frozen=True)
class AgentCommands:
    """The handlers, and what they work with."""

    aborts: Aborts
    models: Models
    personas: Personas
    records: SessionRecords
    default_llm: str | None
    texts: Catalogue

    def plugin(self) -> Plugin:
        """Return the plugin that offers them."""
        plugin = Plugin(PLUGIN)
        handlers: dict[str, Callable[[CommandRun], Awaitable[str]]] = {
            "model": self._model,
            "persona": self._persona,
            "session": self._session,
            SET: self._set,
            RESET: self._reset,
            "stop": self._stop,
        }
        for entry in entries(self.texts).values():
            plugin.command(
                entry.path,
                entry.description,
                args=entry.args,
                options=entry.options,
                risk=entry.risk,
            )(handlers[entry.path])
        return plugin

    async def _model(self, run: CommandRun) -> str:
        """List the models that can chat (SPEC CMD-20)."""
        names = self._offered().names
        if not names:
            return nothing(self.models.failed(), self.texts)
        return page_of(MODELS, names, _search(run), self.texts)

    async def _persona(self, run: CommandRun) -> str:
        """List the personas (SPEC CMD-21)."""
        names = await self.personas.names()
        if not names:
            return self.texts.text("personasAbsent" if names is None else "noPersonas")
        return page_of(PERSONAS, names, _search(run), self.texts)

    async def _session(self, run: CommandRun) -> str:
        """Show what counts in this session, and how to change it (SPEC CMD-22)."""
        context, texts = run.context, self.texts
        try:
            view = await self.records.view(context.session_id, context.platform)
        except Refused:
            return texts.text("sessionUnreadable")
        lines = overview(context.session_id, view, self._offered(), texts)
        lines.append(texts.text("howToChange", usage=self._usage(SET, run)))
        lines.append(texts.text("howToReset", usage=self._usage(RESET, run)))
        return "\n".join(lines)

    async def _set(self, run: CommandRun) -> str:
        """Change this session's settings; nothing is written unless all of it can be (CMD-23)."""
        if not run.options:
            return self.texts.text("usage", usage=self._usage(SET, run))
        listed = await self.personas.names() if "persona" in run.options else None
        known = Known(self.models.entries(), self.models.failed(), listed)
        change = wanted(run.options, known, self.texts)
        if isinstance(change, list):
            return "\n".join([self.texts.text("sessionRefused"), *change])
        try:
            text = await self._write(run, change)
        except Refused:
            return self.texts.text("sessionUnreadable")
        if change.config.persona is not None and listed is None:
            text += "\n" + self.texts.text("personaUnchecked", name=change.config.persona)
        return text

    async def _write(self, run: CommandRun, change: Change) -> str:
        """Write a change; say what it has changed in the record that it met."""
        met: list[SessionInfo] = []

        def apply(record: SessionInfo) -> SessionInfo:
            met.append(record)
            return change.applied(record)

        after = await self.records.change(run.context, apply)
        return report(met[-1], after, change, self.texts)

    async def _reset(self, run: CommandRun) -> str:
        """Take back this session's settings; say what counts then (SPEC CMD-25)."""
        context, texts = run.context, self.texts
        try:
            view = await self.records.view(context.session_id, context.platform)
            if view.record is not None:
                await self.records.change(context, unset(run.options).applied)
                view = await self.records.view(context.session_id, context.platform)
        except Refused:
            return texts.text("sessionUnreadable")
        return "\n".join([texts.text("sessionReset"), *in_effect(view, self._offered(), texts)])

    async def _stop(self, run: CommandRun) -> str:
        """Abort the session's lanes (SPEC CMD-26)."""
        lanes = await self.aborts.abort(run.context.session_id)
        if not lanes:
            return self.texts.text("nothingToStop")
        return self.texts.text("stopped", count=len(lanes))

    def _offered(self) -> Offered:
        return Offered(self.models.entries(), self.default_llm)

    def _usage(self, path: str, run: CommandRun) -> str:
        return entries(self.texts)[path].usage(run.context.prefix)


def _search(run: CommandRun) -> Search:
    keyword, page = run.args.get("keyword"), run.options.get("page")
    return Search(
        keyword=keyword if isinstance(keyword, str) else "",
        page=page if isinstance(page, int | float) else 1,
        prefix=run.context.prefix,
    )


def entries(texts: Catalogue) -> dict[str, CommandEntry]:
    """Return how the commands are typed, by path."""
    keyword = CommandArg(name="keyword", type="text")
    page = CommandOption(
        name="page", short="p", type="number", description=texts.text("optionPage")
    )
    setting = [
        CommandOption(
            name=name,
            short=name[0],
            type="string",
            choices=list(THINK) if name == "think" else None,
            description=texts.text(f"option{name.title()}"),
        )
        for name in (*FIELDS, "name")
    ]
    unsetting = [
        CommandOption(
            name=name, short=name[0], description=texts.text(f"optionReset{name.title()}")
        )
        for name in FIELDS
    ]
    offered: list[tuple[str, str, Risk, list[CommandArg], list[CommandOption]]] = [
        ("model", "modelHelp", "safe", [keyword], [page]),
        ("persona", "personaHelp", "safe", [keyword], [page]),
        ("session", "sessionHelp", "sensitive", [], []),
        (SET, "sessionSetHelp", "sensitive", [], setting),
        (RESET, "sessionResetHelp", "sensitive", [], unsetting),
        ("stop", "stopHelp", "safe", [], []),
    ]
    return {
        path: CommandEntry(
            path=path,
            plugin=PLUGIN,
            args=args,
            options=options,
            description=texts.text(about),
            risk=risk,
        )
        for path, about, risk, args, options in offered
    }
