"""This is about what the mesh costs: a request answered through FastStream, and without it.

Each responder is a process of its own on one embedded NATS server; the asker is the bare client
for all of them, so that only the responding side differs. Prints medians and ratios to the floor.

    python benchmarks/mesh.py [--seconds 3] [--in-flight 32]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aalis_contracts.contract import Contract
from aalis_contracts.subjects import Subject
from aalis_sdk import embedded, tracing
from aalis_sdk.mesh import Mesh
from aalis_sdk.settings import MeshSettings, load

if TYPE_CHECKING:
    from nats.aio.msg import Msg

TEMPLATE: Final = "bench.echo.{kind}"
TEXT: Final = "x" * 200
ROUNDS: Final = 3


class Echo(Contract):
    """A small body, read and written by its contract on both sides."""

    session_id: str
    text: str


@dataclass(frozen=True)
class Measured:
    """Milliseconds for one request alone, and requests a second with many in flight."""

    alone: float
    late: float
    rate: float


async def floor(mesh: Mesh) -> None:
    """Answer with the bare client, no contract: what the wire costs."""

    async def answer(message: Msg) -> None:
        await message.respond(message.data)

    await mesh.client.subscribe("bench.echo.floor", queue="q", cb=answer)


async def bare(mesh: Mesh) -> None:
    """Answer with the bare client, the body read and written by its contract."""

    async def answer(message: Msg) -> None:
        await message.respond(Echo.from_json(message.data).to_json())

    await mesh.client.subscribe("bench.echo.bare", queue="q", cb=answer)


async def respond(mesh: Mesh) -> None:
    """Answer as every service does."""

    async def answer(body: Echo) -> Echo:
        return body

    await mesh.respond(TEMPLATE, Echo, answer, name="bench.echo.respond")


RESPONDERS: Final = {"floor": floor, "bare": bare, "respond": respond}


async def serve(kind: str, url: str) -> None:
    """Be the responding process, until killed."""
    mesh = await connected(url)
    await RESPONDERS[kind](mesh)
    await mesh.client.flush()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


async def connected(url: str) -> Mesh:
    """Return a mesh on the server of this run."""
    mesh = Mesh(load(MeshSettings, nats_url=url), "bench")
    await mesh.connect()
    return mesh


async def ask_bare(mesh: Mesh, kind: str) -> None:
    """Ask with the bare client."""
    await mesh.client.request(f"bench.echo.{kind}", BODY, timeout=5)


async def ask_mesh(mesh: Mesh, kind: str) -> None:
    """Ask as every service does."""
    await mesh.request(Subject(f"bench.echo.{kind}", TEMPLATE), ECHO, Echo)


ECHO: Final = Echo(session_id="session-1", text=TEXT)
BODY: Final = ECHO.to_json()


async def measure(mesh: Mesh, ask: Any, kind: str, seconds: float, in_flight: int) -> Measured:  # noqa: ANN401
    """Ask one after the other, then many at once, for `seconds` each."""
    times: list[float] = []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        await ask(mesh, kind)
        times.append((time.perf_counter() - began) * 1000)
    done = 0

    async def keep_asking() -> None:
        nonlocal done
        while time.perf_counter() < until:
            await ask(mesh, kind)
            done += 1

    began = time.perf_counter()
    until = began + seconds
    await asyncio.gather(*(keep_asking() for _ in range(in_flight)))
    rate = done / (time.perf_counter() - began)
    return Measured(statistics.median(times), statistics.quantiles(times, n=100)[98], rate)


async def compare(url: str, seconds: float, in_flight: int) -> None:
    """Measure every responder, in turns, and print them beside each other."""
    mesh = await connected(url)
    cases = [(kind, kind, ask_bare) for kind in RESPONDERS]
    cases.append(("respond + mesh.request", "respond", ask_mesh))
    found: dict[str, list[Measured]] = {name: [] for name, _, _ in cases}
    for _ in range(ROUNDS):
        for name, kind, ask in cases:
            responder = subprocess.Popen(  # noqa: ASYNC220 - it must outlive no loop, and is ended below
                [sys.executable, __file__, "--serve", kind, "--url", url], stdout=subprocess.PIPE
            )
            try:
                await asyncio.to_thread(responder.stdout.readline)  # type: ignore[union-attr]
                found[name].append(await measure(mesh, ask, kind, seconds / ROUNDS, in_flight))
            finally:
                responder.kill()
                responder.communicate()
    await mesh.close()
    best = {name: max(rounds, key=lambda m: m.rate) for name, rounds in found.items()}
    base = best["floor"]
    print(f"{'':24}{'p50 ms':>9}{'p99 ms':>9}{'req/s':>9}{'p50 x':>8}{'rate x':>8}")
    for name, got in best.items():
        print(
            f"{name:24}{got.alone:9.3f}{got.late:9.3f}{got.rate:9.0f}"
            f"{got.alone / base.alone:8.2f}{got.rate / base.rate:8.2f}"
        )


def main() -> None:
    """Run the comparison, or be one responder of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each responder and way")
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--serve", choices=[*RESPONDERS], help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    tracing.configure("bench", "bench", None)
    if options.serve:
        asyncio.run(serve(options.serve, options.url))
        return
    with tempfile.TemporaryDirectory() as directory:
        server = embedded.start_nats(Path(directory), sync="2m")
        try:
            asyncio.run(compare(server.url, options.seconds, options.in_flight))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
