"""This is about what a durable turn costs: one tool call in another process, an instant model.

Real servers, one process a service, every message an adapter would see: from the publish of the
inbound message to the reply in the hands of a durable consumer. Beside it, in the same run, the
floor (a bare JetStream publish and its ack) and, where it is installed, LangGraph with its SQLite
checkpointer: the same two model calls and one tool, in one process, without a broker.

    python benchmarks/turn.py [--seconds 5] [--in-flight 1,8,32,128] [--known 0,10000] [--sync 2m]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import itertools
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aalis_contracts import subjects
from aalis_contracts.messages import IncomingMessage, OutgoingMessage
from aalis_sdk import embedded, topology, tracing
from aalis_sdk.adapter import Adapter
from aalis_sdk.mesh import Mesh
from aalis_sdk.plugin import Plugin
from aalis_sdk.settings import MeshSettings, load
from aalis_sdk.testing.processes import ServiceProcess, Spawner

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from aalis_sdk.embedded import Server

PLATFORM: Final = "bench"
SERVICES: Final = ("memory", "prompt_budget", "persona", "agent", "gateway")
SCRIPT: Final = """\
rules:
  - {when: {iteration: 0}, call: [{tool: bench_tool, args: {}}], repeat: true}
  - {when: {iteration: 1}, reply: "done {text}", repeat: true}
"""
FLOOR_SUBJECT: Final = "session.updated.floor"
HEAD: Final = (
    f"{'in flight':>9}{'p50 ms':>9}{'p95 ms':>9}{'turns/s':>9}{'x floor':>9}  CPU ms a turn"
)
LATE: Final = 60.0
"""Seconds after which a turn counts as lost."""


@dataclass
class Load:
    """Turns of `in_flight` sessions, each answered before the next one is said."""

    in_flight: int
    times: list[float] = field(default_factory=list[float])
    seconds: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict[str, float])
    """CPU milliseconds a turn, by process."""

    @property
    def rate(self) -> float:
        """Turns a second."""
        return len(self.times) / self.seconds

    def line(self, floor: float) -> str:
        """One row of the table; times as ratios to the floor, too."""
        late = statistics.quantiles(self.times, n=20)[18]
        middle = statistics.median(self.times)
        cpu = " ".join(f"{name}={spent:.1f}" for name, spent in self.cpu.items())
        return (
            f"{self.in_flight:>9}{middle:>9.1f}{late:>9.1f}{self.rate:>9.0f}"
            f"{middle / floor:>9.0f}  {cpu}"
        )


class Platform:
    """A platform adapter that says things and waits for what comes back."""

    def __init__(self, mesh: Mesh) -> None:
        self._adapter = Adapter(mesh, PLATFORM)
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._numbers = itertools.count(1)

    async def open(self) -> None:
        """Take replies, as a durable consumer."""
        await self._adapter.deliver(self._take)

    async def close(self) -> None:
        """Take no more."""
        await self._adapter.close()

    async def turn(self, session_id: str) -> float:
        """Say something in a session; return the milliseconds until its reply is here."""
        answered = self._waiting[session_id] = asyncio.get_running_loop().create_future()
        number = next(self._numbers)
        began = time.perf_counter()
        await self._adapter.receive(
            IncomingMessage(
                content=f"message {number}",
                session_id=session_id,
                platform=PLATFORM,
                user_id="u1",
                session_type="private",
                message_id=f"m{number}",
            )
        )
        async with asyncio.timeout(LATE):
            await answered
        return (time.perf_counter() - began) * 1000

    async def _take(self, message: OutgoingMessage) -> None:
        answered = self._waiting.get(message.session_id)
        if answered is not None and not answered.done():
            answered.set_result(None)


@contextlib.asynccontextmanager
async def platform_of(directory: Path, sync: str) -> AsyncGenerator[Running]:
    """Run servers, services and the tool, each a process of its own."""
    nats = embedded.start_nats(directory / "nats", sync=sync)
    valkey = embedded.start_valkey(directory / "valkey")
    mesh = Mesh(load(MeshSettings, nats_url=nats.url), "bench")
    spawn = Spawner(nats, directory)
    try:
        await mesh.connect()
        await topology.apply(mesh.js)
        script = directory / "script.yaml"
        script.write_text(SCRIPT, encoding="utf-8")
        env = {
            "AALIS_REDIS_URL": valkey.url,
            "AALIS_DATABASE_URL": f"sqlite:///{directory}/memory.db",
            "AALIS_SCRIPT": str(script),
            "AALIS_DATA_DIR": str(directory),
            "AALIS_BENCH_TOOL": "1",
        }
        modules: list[str | Path] = [f"aalis_{service}" for service in SERVICES]
        started = await asyncio.gather(
            *(spawn(module, env) for module in modules), spawn(Path(__file__), env, name="bench")
        )
        yield Running(mesh, nats, directory, started)
    finally:
        await mesh.close()
        await spawn.close()
        valkey.stop()
        nats.stop()


@dataclass(frozen=True)
class Running:
    """What runs during a measurement."""

    mesh: Mesh
    nats: Server
    directory: Path
    services: list[ServiceProcess]

    def cpu(self) -> dict[str, float]:
        """CPU seconds that each process has used so far; `adapter` is this one."""
        spent = {service.name: cpu_of(service.pid) for service in self.services}
        nats = cpu_of(self.nats.process.pid)
        return {**spent, "nats": nats, "adapter": cpu_of(os.getpid())}


def cpu_of(pid: int) -> float:
    """CPU seconds of a process (Linux; elsewhere 0)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(running: Running, in_flight: int, seconds: float, prefix: str) -> Load:
    """Keep `in_flight` turns going for a while."""
    found = Load(in_flight)
    platform = Platform(running.mesh)
    await platform.open()
    await asyncio.gather(*(platform.turn(f"{prefix}-{n}") for n in range(in_flight)))
    before, began = running.cpu(), time.perf_counter()

    async def talk(session_id: str) -> None:
        while time.perf_counter() < began + seconds:
            found.times.append(await platform.turn(session_id))

    await asyncio.gather(*(talk(f"{prefix}-{n}") for n in range(in_flight)))
    found.seconds = time.perf_counter() - began
    after = running.cpu()
    found.cpu = {
        name: (spent - before[name]) * 1000 / len(found.times) for name, spent in after.items()
    }
    await platform.close()
    return found


async def floor_of(mesh: Mesh, seconds: float) -> float:
    """Milliseconds of a bare JetStream publish and its ack (median)."""
    times: list[float] = []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        await mesh.js.publish(FLOOR_SUBJECT, b"x" * 200)
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


async def make_known(running: Running, known: int, already: int) -> None:
    """Make sessions known: everything that the streams and the database keep of one, many times."""
    model = "known-0"
    platform = Platform(running.mesh)
    await platform.open()
    await platform.turn(model)
    await platform.close()
    kept: list[tuple[str, bytes, Mapping[str, str]]] = []
    for stream, subject in (
        (topology.AGENT_JOURNAL, subjects.journal(model, "user")),
        (topology.TOKEN_USAGE, subjects.token_usage(model)),
        (topology.AGENT_INBOX, subjects.inbox(model, "user")),
        (topology.OUTBOUND, subjects.outbound(PLATFORM, model)),
    ):
        newest = await running.mesh.last(stream, subject.name)
        if newest is not None:
            kept.append((subject.name, newest.data, newest.headers))
    for number in range(already + 1, known + 1):
        for name, data, _ in kept:
            # Inbox messages would be turns of their own; the journal of a lane covers its mailbox.
            if ".inbox." not in name:
                await running.mesh.client.publish(
                    name.replace(model, f"known-{number}"),
                    data.replace(model.encode(), f"known-{number}".encode()),
                )
        if number % 1000 == 0:
            await running.mesh.client.flush()
    await running.mesh.client.flush()
    copy_rows(running.directory / "memory.db", model, already, known)


def copy_rows(database: Path, model: str, already: int, known: int) -> None:
    """Give each known session the rows of the first one."""
    with contextlib.closing(sqlite3.connect(database, timeout=60)) as link:
        names = [row[1] for row in link.execute("PRAGMA table_info(messages)") if row[1] != "id"]
        chosen = ", ".join("?" if name == "session" else f'"{name}"' for name in names)
        columns = ", ".join(f'"{name}"' for name in names)
        for begin in range(already, known, 5000):
            sessions = [
                (f"known-{n}", model) for n in range(begin + 1, min(begin + 5000, known) + 1)
            ]
            with link:
                link.executemany(
                    f"INSERT OR IGNORE INTO messages ({columns}) "  # noqa: S608 - names of our own table
                    f"SELECT {chosen} FROM messages WHERE session = ?",
                    sessions,
                )


def langgraph_times(seconds: float, directory: Path) -> list[float] | None:
    """Milliseconds of the same turn as a LangGraph graph, or None where that is not installed."""
    try:
        graphs = importlib.import_module("langgraph.graph")
        saving = importlib.import_module("langgraph.checkpoint.sqlite")
    except ImportError:
        return None

    def model(state: dict[str, list[object]]) -> dict[str, list[object]]:
        newest = state["messages"][-1]
        if getattr(newest, "type", "") == "tool":
            return {"messages": [{"role": "assistant", "content": "done"}]}
        call: dict[str, object] = {"id": "call_0_0", "name": "bench_tool", "args": {}}
        return {"messages": [{"role": "assistant", "content": "", "tool_calls": [call]}]}

    def tool(_: dict[str, list[object]]) -> dict[str, list[object]]:
        return {"messages": [{"role": "tool", "content": "ok", "tool_call_id": "call_0_0"}]}

    def next_of(state: dict[str, list[object]]) -> str:
        return "tool" if getattr(state["messages"][-1], "tool_calls", None) else graphs.END

    graph = graphs.StateGraph(graphs.MessagesState)
    graph.add_node("model", model)
    graph.add_node("tool", tool)
    graph.add_edge(graphs.START, "model")
    graph.add_conditional_edges("model", next_of)
    graph.add_edge("tool", "model")
    times: list[float] = []
    with saving.SqliteSaver.from_conn_string(str(directory / "langgraph.db")) as saver:
        compiled = graph.compile(checkpointer=saver)
        until = time.perf_counter() + seconds
        while (began := time.perf_counter()) < until:
            # A fresh thread every 50 turns: this history is not trimmed, ours is.
            settings = {"configurable": {"thread_id": f"s{len(times) // 50}"}}
            compiled.invoke({"messages": [{"role": "user", "content": "hello"}]}, settings)
            times.append((time.perf_counter() - began) * 1000)
    return times


async def compare(options: argparse.Namespace) -> None:
    """Print one table for each number of known sessions."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        async with platform_of(directory, options.sync) as running:
            floor = await floor_of(running.mesh, options.seconds / 2)
            print(f"floor: JetStream publish + ack {floor:.3f} ms (sync_interval {options.sync})")
            already = 0
            for known in options.known:
                if known > already:
                    await make_known(running, known, already)
                    already = known
                print(f"\n{known:,} sessions known")
                print(HEAD)
                for in_flight in options.in_flight:
                    prefix = f"s{known}-{in_flight}"
                    load = await measure(running, in_flight, options.seconds, prefix)
                    print(load.line(floor), flush=True)
        theirs = await asyncio.to_thread(langgraph_times, options.seconds, directory)
        if theirs is None:
            print("\nLangGraph: not installed (pip install langgraph langgraph-checkpoint-sqlite)")
        else:
            middle = statistics.median(theirs)
            print(
                f"\nLangGraph, SQLite checkpointer, one process: p50 {middle:.1f} ms, "
                f"{middle / floor:.0f} x floor, {1000 / statistics.mean(theirs):.0f} turns/s"
            )


def numbers(text: str) -> list[int]:
    """Read `1,8,32`."""
    return [int(part) for part in text.split(",")]


def serve_tool() -> None:
    """Be the process that the tool runs in."""
    plugin = Plugin("bench")

    @plugin.tool("bench_tool", "Answer at once")
    async def bench_tool(args: object, context: object) -> str:  # pyright: ignore[reportUnusedFunction]
        del args, context
        return "ok"

    plugin.run()


def main() -> None:
    """Run the comparison, or be the tool of it."""
    if os.environ.get("AALIS_BENCH_TOOL"):
        serve_tool()
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each number in flight")
    parser.add_argument("--in-flight", type=numbers, default=[1, 8, 32, 128])
    parser.add_argument("--known", type=numbers, default=[0], help="sessions known beforehand")
    parser.add_argument(
        "--sync", default="2m", help="JetStream's sync_interval; `always` syncs each write"
    )
    options = parser.parse_args()
    tracing.configure("bench", "bench", None)
    asyncio.run(compare(options))


if __name__ == "__main__":
    sys.exit(main())
