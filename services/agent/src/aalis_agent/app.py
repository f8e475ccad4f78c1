"""This is about the agent as a process: every part, put together once; `main` runs it."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING

from aalis_agent.aborts import Aborts
from aalis_agent.adapters.contributors_rpc import MeshContributors
from aalis_agent.adapters.interceptors_rpc import MeshInterceptors
from aalis_agent.adapters.journal_jetstream import JetStreamJournal
from aalis_agent.adapters.memory_rpc import MeshMemory
from aalis_agent.adapters.models_llm import LlmModels
from aalis_agent.adapters.outbound_nats import MeshOutbound
from aalis_agent.adapters.sessions_kv import KvRecords, KvSettings, MeshPersonas
from aalis_agent.adapters.tools_rpc import MeshTools
from aalis_agent.adapters.vocabulary_tiktoken import Counters
from aalis_agent.commands import AgentCommands
from aalis_agent.debts import Debts
from aalis_agent.endings import Endings
from aalis_agent.intake import Intake
from aalis_agent.options import Options
from aalis_agent.parts import Parts
from aalis_agent.resolution import doubts
from aalis_agent.settings import AgentSettings
from aalis_agent.snapshot import snapshot
from aalis_agent.usage import UsageLog
from aalis_contracts import subjects
from aalis_contracts.catalogue import Catalogue
from aalis_contracts.errors import Fault
from aalis_contracts.events import AgentAbort, TokenRequest
from aalis_contracts.rpc import AbortedLanes, Models, ModelsList, SessionAbort
from aalis_llm.config import settings_from
from aalis_llm.env import InvalidSetting
from aalis_llm.providers import Providers, build_providers
from aalis_sdk.delivery import Policy, Puller
from aalis_sdk.logs import Log
from aalis_sdk.mesh import Absent
from aalis_sdk.service import StartFailed, run
from aalis_sdk.serving import end
from aalis_sdk.sessions import Sessions
from aalis_sdk.topology import AGENT_CONSUMER, AGENT_INBOX

if TYPE_CHECKING:
    from aalis_agent.tokens import Counter
    from aalis_sdk.mesh import Mesh, Offer
    from aalis_sdk.registry import Registry

log = Log(__name__)
_DEBT_SECONDS = 2.0
_MODELS_SECONDS = 30.0


class Agent:
    """The agent service: the mailbox consumer, and what it answers beside it."""

    def __init__(
        self, settings: AgentSettings, providers: Providers, mesh: Mesh, registry: Registry
    ) -> None:
        self.capabilities = ["agent"]
        self._settings = settings
        self._mesh = mesh
        self._registry = registry
        self._texts = Catalogue(settings.locale)
        self._models = LlmModels(providers, self._texts)
        self._sessions = Sessions(mesh, _now)
        self._counters = _CachedCounters(Counters(settings.token_counter))
        self._parts = self._assemble()
        parts = self._parts
        self._debts = Debts(parts.journal, parts.memory, self._texts, log)
        self._aborts = Aborts(parts.journal, parts.outbound, parts.endings, self._debts, _now)
        self._intake = Intake(parts, self._debts, settings.instance, settings.max_deliver)
        self._commands = AgentCommands(
            aborts=self._aborts,
            models=self._models,
            personas=parts.personas,
            records=KvRecords(self._sessions),
            default_llm=settings.default_llm,
            texts=self._texts,
        ).plugin()
        self._puller = Puller(
            mesh,
            AGENT_INBOX,
            AGENT_CONSUMER,
            subjects.INBOX,
            self._intake.handle,
            slots=settings.concurrency,
            # A turn that fails is given up by the intake, which tells the person; this is for
            # what fails before there is a turn to be given up.
            policy=Policy(max_failures=3 * settings.max_deliver),
        )
        self._offers: list[Offer] = []
        self._chores: list[asyncio.Task[None]] = []

    def _assemble(self) -> Parts:
        mesh, registry, settings = self._mesh, self._registry, self._settings
        journal, memory = JetStreamJournal(mesh), MeshMemory(mesh)
        outbound, tools = MeshOutbound(mesh), MeshTools(mesh, registry)
        return Parts(
            journal=journal,
            memory=memory,
            interceptors=MeshInterceptors(mesh, registry),
            contributors=MeshContributors(mesh, registry),
            models=self._models,
            tools=tools,
            personas=MeshPersonas(mesh, registry),
            settings=KvSettings(self._sessions),
            outbound=outbound,
            endings=Endings(
                journal=journal,
                memory=memory,
                outbound=outbound,
                tools=tools,
                texts=self._texts,
                now=_now,
                log=log,
            ),
            texts=self._texts,
            counter_for=self._counters.counter_for,
            usage_log=UsageLog(),
            calibrations={},
            options=_options(settings),
            zone=settings.zone,
            now=_now,
            log=log,
        )

    async def start(self) -> None:
        """Load the models, answer requests, then take deliveries."""
        await self._models.load()
        entries = self._models.entries()
        for line in doubts(self._parts.options, entries):
            log.warning(line)
        for entry in entries:
            await self._counters.counter_for(entry.id)
        mesh = self._mesh
        self._offers = [
            await mesh.respond(subjects.SESSION_ABORT, SessionAbort, self._abort),
            await mesh.respond(subjects.MODELS_LIST, ModelsList, self._list_models),
            await mesh.listen(subjects.ABORT, AgentAbort, self._intake.aborted),
            await mesh.listen(subjects.TOKEN_REQUEST, TokenRequest, self._snapshot, queue="agent"),
        ]
        await self._commands.attach(mesh, self._registry)
        await self._puller.start()
        self._chores = [
            asyncio.create_task(self._pay_debts()),
            asyncio.create_task(self._find_missing_models()),
        ]

    async def stop(self) -> None:
        """Stop taking; hand running turns back at a step boundary, within the grace period."""
        self._intake.leave()
        await end(*self._chores)
        await self._puller.drain(self._settings.grace_seconds * 0.8)
        await self._commands.detach()
        for offer in self._offers:
            await offer.withdraw()
        await self._models.close()

    def problems(self) -> list[str]:
        """Say why the agent is not ready."""
        return []

    async def _abort(self, request: SessionAbort) -> AbortedLanes:
        lanes = await self._aborts.abort(request.session_id, request.lane)
        if request.include_children:
            for child in await self._descendants(request.session_id):
                await self._aborts.abort(child)
        return AbortedLanes(lanes=lanes)

    async def _descendants(self, session_id: str) -> list[str]:
        """Return the children of a session and theirs, each once, whatever the records say."""
        found, ahead = [session_id], [session_id]
        while ahead:
            record = await self._sessions.get(ahead.pop())
            fresh = [one for one in (record.children if record else ()) if one not in found]
            found += fresh
            ahead += fresh
        return found[1:]

    async def _list_models(self, _: ModelsList) -> Models:
        return Models(entries=self._models.entries())

    async def _snapshot(self, request: TokenRequest) -> None:
        try:
            usage = await snapshot(self._parts, request)
        except (Fault, Absent) as error:
            log.debug("no snapshot", session=request.session_id, reason=str(error))
            return
        if usage is not None:
            await self._parts.outbound.usage(usage)

    async def _find_missing_models(self) -> None:
        """Ask again while a provider has not said what it offers (SPEC AG-10, LLM-3)."""
        while self._models.failed():
            await asyncio.sleep(_MODELS_SECONDS)
            await self._models.load()

    async def _pay_debts(self) -> None:
        while True:
            await asyncio.sleep(_DEBT_SECONDS)
            try:
                await self._debts.pay_all()
            except Fault as error:
                log.debug("owed rows are not paid yet", reason=error.message)
            except Exception:
                log.error("paying owed rows failed", exc_info=True)  # noqa: G201 - our own log


class _CachedCounters:
    """Reads each model's vocabulary once, off the event loop."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._known: dict[str, Counter] = {}

    async def counter_for(self, model_id: str) -> Counter:
        known = self._known.get(model_id)
        if known is None:
            known = await asyncio.to_thread(self._counters.counter_for, model_id)
            self._known[model_id] = known
        return known


def _options(settings: AgentSettings) -> Options:
    return Options(
        default_llm=settings.default_llm,
        system_prompt=settings.system_prompt,
        memory_token_budget=settings.memory_token_budget,
        history_limit=settings.history_limit,
        max_tool_iterations=settings.max_tool_iterations,
        prompt_build_timeout=settings.prompt_build_timeout_ms / 1000,
        tool_result_max_ratio=settings.tool_result_max_ratio,
        trim_threshold_ratio=settings.trim_threshold_ratio,
    )


def _now() -> int:
    return time.time_ns() // 1_000_000


async def _build(settings: AgentSettings, mesh: Mesh, registry: Registry) -> Agent:
    try:
        providers = build_providers(settings_from(os.environ))
    except InvalidSetting as error:
        raise StartFailed(str(error)) from None
    return Agent(settings, providers, mesh, registry)


def main() -> None:
    """Run the agent until SIGTERM."""
    run("agent", AgentSettings, _build)
