"""This is about the arena: a running fleet, the model it asks, and somebody who says things."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aalis_cli.chaos import evidence as seen
from aalis_cli.chaos.critic import FEEDBACK
from aalis_cli.chaos.errands import PLATFORM, Errand, script, word_of
from aalis_cli.chaos.evidence import Asked, Effect, Evidence, Span
from aalis_cli.chaos.fleet import Fleet
from aalis_cli.chaos.recorder import DELIVERIES
from aalis_cli.chaos.workshop import EFFECTS
from aalis_cli.failure import Failed
from aalis_cli.journals import journal_of
from aalis_cli.stack import connected, provisioned
from aalis_contracts import subjects
from aalis_contracts.errors import Fault
from aalis_contracts.events import TurnAfter
from aalis_contracts.messages import IncomingMessage, StreamFrame
from aalis_contracts.rpc import AbortedLanes, SessionAbort
from aalis_llm.script_scene import read_scene
from aalis_llm.scripted_http import ScriptedServer
from aalis_llm.scripted_openai import read_request
from aalis_llm.testing import broken_rules
from aalis_sdk.adapter import Adapter
from aalis_sdk.mesh import Absent
from aalis_sdk.registry import Registry

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable

    from aalis_cli.place import Place
    from aalis_sdk.mesh import Mesh

PATIENCE: Final = 60.0
"""Seconds after which an errand that is not done counts as lost."""
_POLL: Final = 0.05
_PAID_SECONDS: Final = 15.0
_ABORT_TRIES: Final = 10
_ABORT_SECONDS: Final = 2.0


@dataclass
class Arena:
    """What a chaos run works on."""

    place: Place
    fleet: Fleet
    model: ScriptedServer
    mesh: Mesh
    registry: Registry
    ended: dict[str, TurnAfter] = field(default_factory=dict[str, TurnAfter])
    """The end of each errand that has been heard of, by its word."""
    hosts_hit: list[Span] = field(default_factory=list[Span])
    failures: list[str] = field(default_factory=list[str])
    """What went wrong with processes rather than with messages."""
    overtaken: set[str] = field(default_factory=set[str])
    aborted: dict[str, float] = field(default_factory=dict[str, float])
    """When the abort of an errand that ran was asked for."""
    heard: list[StreamFrame] = field(default_factory=list[StreamFrame])
    """The frames of all streams."""
    last_frames: dict[str, float] = field(default_factory=dict[str, float])
    """When the last frame of a turn was heard, by its id."""
    _waiting: dict[str, asyncio.Future[None]] = field(
        default_factory=dict[str, "asyncio.Future[None]"]
    )
    _deeds: set[asyncio.Task[object]] = field(default_factory=set[asyncio.Task[object]])
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def listen(self) -> None:
        """Hear of the ends of turns."""
        self._adapter = Adapter(self.mesh, PLATFORM)
        await self.mesh.listen(subjects.TURN_AFTER, TurnAfter, self._heard)
        await self.mesh.listen(subjects.STREAM, StreamFrame, self._seen)

    async def say(self, errand: Errand) -> None:
        """Say it, as an adapter does; returns when it is stored."""
        await self._adapter.receive(message_of(errand))

    async def tell(self, message: IncomingMessage) -> None:
        """Say something that is no errand."""
        await self._adapter.receive(message)

    async def say_again(self, errand: Errand) -> None:
        """Say it a second time, in a way that the stream cannot recognise."""
        subject = subjects.inbound(PLATFORM, errand.session_id)
        await self.mesh.store(subject, message_of(errand), f"again:{errand.word}")

    async def abort(self, errand: Errand) -> None:
        """Abort what runs in its session, asking again while nobody answers."""
        request = SessionAbort(session_id=errand.session_id)
        self.aborted[errand.word] = time.time()
        subject = subjects.request(subjects.SESSION_ABORT)
        for _ in range(_ABORT_TRIES):
            with contextlib.suppress(Absent, Fault):
                answer = await self.mesh.request(subject, request, AbortedLanes, _ABORT_SECONDS)
                if not answer.lanes:
                    del self.aborted[errand.word]
                return

    def later(self, deed: Coroutine[None, None, object]) -> None:
        """Let something go on by itself; it is over before the arena closes."""
        self._deeds.add(asyncio.create_task(deed))

    async def aftermath(self) -> None:
        """Wait for everything that was left to go on by itself."""
        while self._deeds:
            deeds, self._deeds = self._deeds, set()
            for outcome in await asyncio.gather(*deeds, return_exceptions=True):
                if isinstance(outcome, Failed):
                    self.failures.append(str(outcome))
                elif isinstance(outcome, BaseException):
                    raise outcome

    async def until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> bool:
        """Wait until `condition` holds; False if it does not in time."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL):
                    await self._news.wait()
            self._news.clear()
        return True

    async def ends(self, word: str, seconds: float = PATIENCE) -> bool:
        """Wait for the end of an errand; False if it does not come in time."""
        if word in self.ended:
            return True
        waiting = self._waiting[word] = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait({waiting}, timeout=seconds)
        return bool(done)

    async def quiet(self, seconds: float = PATIENCE) -> bool:
        """Wait until every message is handled and acknowledged; False if it is not in time."""
        deadline = time.monotonic() + seconds
        while await self._busy():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_POLL)
        return True

    async def evidence(self, errands: Iterable[Errand]) -> Evidence:
        """Collect all that can be seen of these errands and their sessions."""
        found = Evidence(list(errands), overtaken=self.overtaken, hosts_hit=self.hosts_hit)
        names = list(dict.fromkeys(errand.session_id for errand in found.errands))
        await self._paid(names)
        for session_id in names:
            found.sessions[session_id] = await seen.of_session(self.mesh, session_id)
        words = {errand.word for errand in found.errands}
        effects = seen.lines_of(self.place.directory / "effects.jsonl")
        found.effects = [
            Effect(line["tool"], line["word"], line["key"])
            for line in effects
            if line["word"] in words
        ]
        delivered = seen.lines_of(self.place.directory / "deliveries.jsonl")
        found.delivered = [line["id"] for line in delivered]
        found.asked = [asked for asked in self._asked() if asked.word in words]
        found.dead = await seen.dead_letters(self.mesh)
        return found

    async def _paid(self, session_ids: list[str]) -> None:
        """Wait a while for what these sessions owe to memory: it is paid behind their backs."""
        deadline = time.monotonic() + _PAID_SECONDS
        for session_id in session_ids:
            while await seen.owes(self.mesh, session_id):
                if time.monotonic() > deadline:
                    return
                await asyncio.sleep(_POLL)

    async def owners(self, session_id: str) -> set[str]:
        """Return who has written into the journal of a session."""
        return {one.writer for one in await journal_of(self.mesh, session_id, "user")}

    async def archived(self, session_id: str, word: str) -> int:
        """Return how many rows are archived of a message that the agent does not hear."""
        await self.quiet()
        session = await seen.of_session(self.mesh, session_id)
        return sum((row.metadata or {}).get("messageId") == word for row in session.rows)

    async def buried(self, session_id: str) -> int:
        """Return how many dead letters there are of a session, and take them away."""
        await self.quiet()
        return await seen.bury_for_good(self.mesh, session_id)

    def _asked(self) -> Iterable[Asked]:
        for recorded in self.model.requests:
            if recorded.path.endswith("/models"):
                continue
            request = read_request(recorded.body, recorded.headers)
            scene = read_scene("demo", request)
            retries = sum(FEEDBACK in (one.content or "") for one in request.messages)
            wrong = tuple(broken_rules(request.messages, "strict"))
            yield Asked(word_of(scene.text) or "", scene.iteration + retries, wrong)

    async def _heard(self, end: TurnAfter) -> None:
        if end.message.message_id:
            self.ended[end.message.message_id] = end
            waiting = self._waiting.pop(end.message.message_id, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
        self._news.set()

    async def _seen(self, frame: StreamFrame) -> None:
        self.heard.append(frame)
        self._news.set()
        if frame.done:
            self.last_frames.setdefault(frame.turn_id, time.time())

    async def _busy(self) -> bool:
        from aalis_sdk import topology

        names = [(one.stream, one.config.durable_name or "") for one in topology.consumers()]
        names.append((topology.OUTBOUND, f"adapter-{PLATFORM}"))
        found = await asyncio.gather(*(self.mesh.js.consumer_info(*name) for name in names))
        if any(info.num_pending or info.num_ack_pending for info in found):
            return True
        owed = subjects.dead(subjects.ARCHIVE_INCOMING).name
        return await self.mesh.last(topology.DEAD, owed) is not None


def message_of(errand: Errand) -> IncomingMessage:
    """Return an errand as an adapter publishes it."""
    return IncomingMessage(
        content=errand.text,
        session_id=errand.session_id,
        platform=PLATFORM,
        user_id="u1",
        session_type="private",
        message_id=errand.word,
    )


@contextlib.asynccontextmanager
async def arena_in(place: Place, *, watch_model: bool = True) -> AsyncGenerator[Arena]:
    """Run everything that a chaos run needs in `place`.

    With `watch_model` the model answers over HTTP, and each question is seen; otherwise each
    agent plays the same script by itself, which leaves more of the machine to the rest.
    """
    async with ScriptedServer(script()) as model:
        told = _watched(model.url) if watch_model else _by_itself(place)
        fleet = Fleet(place, {**told, **_environment(place)})
        try:
            await fleet.start_servers()
            mesh = await connected(fleet.nats_url)
            try:
                await provisioned(mesh)
                registry = Registry(mesh)
                await registry.start()
                await fleet.start_services(registry)
                arena = Arena(place, fleet, model, mesh, registry)
                await arena.listen()
                yield arena
            finally:
                await mesh.close()
        finally:
            await fleet.stop()


def _watched(model_url: str) -> dict[str, str]:
    return {
        "AALIS_PROVIDERS": "openai",
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": model_url,
        "AALIS_OPENAI_PROFILE": "strict",
        "AALIS_DEFAULT_LLM": "openai/demo",
    }


def _by_itself(place: Place) -> dict[str, str]:
    file = place.directory / "script.json"
    played = script().model_dump(mode="json", by_alias=True, exclude_defaults=True)
    file.write_text(json.dumps(played), encoding="utf-8")
    return {"AALIS_PROVIDERS": "scripted", "AALIS_SCRIPT": str(file)}


def _environment(place: Place) -> dict[str, str]:
    return {
        "AALIS_LOCALE": "en",
        EFFECTS: str(place.directory / "effects.jsonl"),
        DELIVERIES: str(place.directory / "deliveries.jsonl"),
    }
