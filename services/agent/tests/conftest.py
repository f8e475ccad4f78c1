"""A world in which the story is told: all ports in memory, replicas that can die, a postman."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any, Final

import pytest_asyncio

from aalis_agent.aborts import Aborts
from aalis_agent.adapters.fakes import (
    FakeClock,
    FakeContributors,
    FakeInterceptors,
    FakeJournal,
    FakeMemory,
    FakeOutbound,
    FakePersonas,
    FakeProvider,
    FakeSettings,
    FakeTools,
)
from aalis_agent.adapters.models_llm import LlmModels
from aalis_agent.debts import Debts
from aalis_agent.endings import Endings
from aalis_agent.intake import Intake
from aalis_agent.options import Options
from aalis_agent.parts import Parts
from aalis_agent.tokens import Counter, HeuristicCounter
from aalis_agent.usage import UsageLog
from aalis_contracts import subjects
from aalis_contracts.catalogue import Catalogue
from aalis_contracts.messages import USER_LANE, IncomingMessage
from aalis_contracts.models import ModelEntry
from aalis_llm.providers import Providers
from aalis_llm.script import Rule, Script
from aalis_sdk.delivery import Delivery, Leave, Reject, Retry
from aalis_sdk.logs import Log

MAX_DELIVER: Final = 3
SESSION: Final = "s"


class Crash(BaseException):
    """The process is dead: nothing that stands behind this line happens."""


class Dead:
    """Ports of a process that may die: after that, each call on them ends in `Crash`.

    A killed process does nothing more, but a task in a test cannot be killed where it stands: so
    the world is taken away from it instead.
    """

    def __init__(self, port: Any, replica: Replica) -> None:
        self._port = port
        self._replica = replica

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if self._replica.dead and callable(found):
            raise Crash
        return found


@dataclass(eq=False)
class Replica:
    """One agent process."""

    world: World
    name: str
    dead: bool = False
    tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    def __post_init__(self) -> None:
        world = self.world
        ports: dict[str, Any] = {
            name: Dead(port, self)
            for name, port in {
                "journal": world.journal,
                "memory": world.memory,
                "interceptors": world.interceptors,
                "contributors": world.contributors,
                "models": world.models,
                "tools": world.tools,
                "personas": world.personas,
                "settings": world.settings,
                "outbound": world.outbound,
            }.items()
        }
        log = Log("aalis_agent.tests")
        some = {name: ports[name] for name in ("journal", "memory", "outbound", "tools")}
        endings = Endings(**some, texts=world.texts, now=world.clock.now, log=log)
        self.parts = Parts(
            **ports,
            endings=endings,
            texts=world.texts,
            counter_for=self._counter_for,
            usage_log=UsageLog(),
            calibrations={},
            options=world.options,
            zone=UTC,
            now=world.clock.now,
            log=log,
        )
        self.debts = Debts(ports["journal"], ports["memory"], world.texts, log)
        self.intake = Intake(self.parts, self.debts, self.name, MAX_DELIVER)
        self.aborts = Aborts(
            ports["journal"], ports["outbound"], endings, self.debts, world.clock.now
        )
        world.outbound.listeners.append(self._hear)

    async def _counter_for(self, _: str) -> Counter:
        return self.world.counter

    async def _hear(self, event: Any) -> None:
        if not self.dead:
            await self.intake.aborted(event)

    def kill(self) -> None:
        """Die on the spot."""
        self.dead = True
        for task in self.tasks:
            if task is not asyncio.current_task():
                task.cancel()


def entry(context_id: str, *capabilities: str) -> ModelEntry:
    """Return a model that can chat, or what else is said of it."""
    provider, _, model = context_id.rpartition("/")
    return ModelEntry.from_object(
        {
            "providerId": provider,
            "id": model,
            "contextLength": 1000,
            "capabilities": list(capabilities or ("chat",)),
            "profile": "openai",
        }
    )


@dataclass
class World:
    """Everything around the agent, and its replicas."""

    script: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    models_of_script: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    options: Options = field(default_factory=Options)
    counter: Counter = field(default_factory=HeuristicCounter)
    verdicts: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    rejected: dict[int, Reject] = field(default_factory=dict[int, Reject])

    def __post_init__(self) -> None:
        self.clock = FakeClock()
        self.journal = FakeJournal()
        self.memory = FakeMemory()
        self.interceptors = FakeInterceptors()
        self.contributors = FakeContributors()
        self.tools = FakeTools()
        self.personas = FakePersonas()
        self.settings = FakeSettings()
        self.outbound = FakeOutbound()
        self.texts = Catalogue("en")
        self.replicas: list[Replica] = []
        self._names = itertools.count(1)
        self._delivered: dict[int, int] = {}
        self._places: dict[int, tuple[str, str]] = {}
        self.provider: FakeProvider
        self.models: LlmModels

    async def open(self, *rules: dict[str, Any], models: Any = ()) -> World:
        """Have the model play these rules (SPEC LLM-40), and start one replica."""
        script = Script(rules=[Rule.model_validate(rule) for rule in rules], models=list(models))
        self.provider = FakeProvider(script)
        self.models = LlmModels(Providers([self.provider]), self.texts)
        await self.models.load()
        self.start()
        return self

    def start(self) -> Replica:
        """Start one more replica."""
        replica = Replica(self, f"agent-{next(self._names)}")
        self.replicas.append(replica)
        return replica

    @property
    def replica(self) -> Replica:
        """The newest replica that lives."""
        return [one for one in self.replicas if not one.dead][-1]

    def say(self, text: str, lane: str = USER_LANE, session: str = SESSION, **more: Any) -> int:
        """Put a message into a mailbox; return its input number."""
        source = None if lane == USER_LANE else lane
        incoming = IncomingMessage(
            content=text,
            session_id=session,
            platform=more.pop("platform", "cli"),
            source=source,
            user_id=more.pop("user_id", "u1"),
            **more,
        )
        return self.post(incoming.to_json(), lane, session)

    def post(self, body: bytes, lane: str = USER_LANE, session: str = SESSION) -> int:
        """Put any body into a mailbox."""
        seq = self.journal.post(session, lane, body, self.clock.now())
        self._places[seq] = (session, lane)
        return seq

    def deliver(self, seq: int, replica: Replica | None = None) -> asyncio.Task[None]:
        """Deliver a message once, to a replica; `verdicts` says what became of it."""
        replica = replica or self.replica
        session, lane = self._places[seq]
        self._delivered[seq] = self._delivered.get(seq, 0) + 1
        delivery = Delivery(
            subject=subjects.inbox(session, lane).name,
            data=self.journal.body(session, lane, seq),
            headers={},
            seq=seq,
            delivered=self._delivered[seq],
            time_ms=self.clock.now(),
        )
        task = asyncio.create_task(self._handle(delivery, replica))
        replica.tasks.append(task)
        return task

    async def _handle(self, delivery: Delivery, replica: Replica) -> None:
        verdict = "ack"
        try:
            await replica.intake.handle(delivery)
        except Retry:
            verdict = "retry"
        except Leave:
            verdict = "leave"
        except Reject as reject:
            verdict = "reject"
            self.rejected[delivery.seq] = reject
        except (Crash, asyncio.CancelledError):
            verdict = "crash"
        except Exception as error:  # noqa: BLE001 - as the delivery loop treats a bug
            verdict = f"bug {type(error).__name__}: {error}"
        if replica.dead:
            verdict = "crash"
        self.verdicts.append((delivery.seq, verdict))

    async def settle(self, *seqs: int) -> None:
        """Deliver these messages until each is done, as the server does, at most ten times."""
        for seq in seqs:
            for _ in range(10):
                await self.deliver(seq)
                if self.verdicts[-1][1] in {"ack", "reject"}:
                    break
            else:
                raise AssertionError(f"input {seq} is never done: {self.verdicts}")

    async def ask(self, text: str, **more: Any) -> str | None:
        """Say something and return what is answered, None for silence."""
        seq = self.say(text, **more)
        await self.settle(seq)
        return self.answer(seq)

    def answer(self, seq: int, suffix: str = "reply") -> str | None:
        """Return what was sent in answer to an input."""
        sent = self.outbound.sent.get(f"{self.turn_id(seq)}.{suffix}")
        return None if sent is None else sent.content

    def turn_id(self, seq: int) -> str:
        """Return the id of the turn that answers an input."""
        return subjects.turn_id(*self._places[seq], seq)

    def outcome(self, seq: int) -> str | None:
        """Return how the turn of an input ended."""
        after = self.outbound.after.get(self.turn_id(seq))
        return None if after is None else after.outcome

    def rows(self, session: str = SESSION) -> list[tuple[str, str]]:
        """Return the stored rows as (role, text)."""
        return [(row.role, row.content or "") for row in self.memory.of(session)]

    async def close(self) -> None:
        """End everything that still runs."""
        for replica in self.replicas:
            replica.kill()
        tasks = [task for replica in self.replicas for task in replica.tasks]
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.tools.close()


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    """Give a world without replicas; `await world.open(rules…)` starts one."""
    made = World()
    try:
        yield made
    finally:
        await made.close()
