"""This is about `aalis doctor`: looking at everything, and saying what to do.

It looks as far as it gets: when NATS does not answer, the rest cannot be seen, and says so once.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import platform
import socket
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from aalis_cli import findings
from aalis_cli.failure import Failed
from aalis_cli.findings import Finding
from aalis_cli.interrupts import Interrupts, run
from aalis_cli.nats_info import greet
from aalis_cli.provision import server_url
from aalis_cli.stack import connected

if TYPE_CHECKING:
    from aalis_cli.place import Place
    from aalis_sdk.mesh import Mesh

_MARKS: Final = {"ok": "ok   ", "warn": "warn ", "wrong": "WRONG"}
_LOCK: Final = Path(__file__).resolve().parents[3] / "requirements.lock"


def doctor(place: Place, nats: str | None, *, as_json: bool) -> int:
    """Look at everything; 1 if something is wrong."""
    found = [*_about_this_machine(), *_about_this_place(place)]
    url = server_url(place, nats)
    try:
        greeting = greet(url)
    except Failed as failure:
        todo = "./aalis up, or --nats URL for a server elsewhere"
        found.append(Finding("wrong", "nats", str(failure).partition(";")[0], todo))
    else:
        facts = findings.ServerFacts(
            url, greeting.version, greeting.max_payload, greeting.jetstream
        )
        found += findings.about_server(facts)
        if greeting.jetstream:
            found += _on_the_mesh(url)
    found.append(_about_redis(place))
    _print(found, as_json=as_json)
    return 1 if any(one.level == "wrong" for one in found) else 0


def _print(found: list[Finding], *, as_json: bool) -> None:
    if as_json:
        fine = all(one.level != "wrong" for one in found)
        report = {"ok": fine, "findings": [asdict(one) for one in found]}
        sys.stdout.write(json.dumps(report, ensure_ascii=False, indent=2) + "\n")
        return
    for one in found:
        todo = f" → {one.todo}" if one.todo else ""
        sys.stdout.write(f"{_MARKS[one.level]} {one.area:10} {one.what}{todo}\n")


def _about_this_machine() -> list[Finding]:
    version = platform.python_version()
    found = [Finding("ok", "python", f"{version} on {platform.platform(terse=True)}")]
    try:
        pinned = findings.pins(_LOCK.read_text(encoding="utf-8"))
    except OSError:
        return found
    return [*found, *findings.about_packages(pinned, {name: _installed(name) for name in pinned})]


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _about_this_place(place: Place) -> list[Finding]:
    state = place.running()
    if state is not None:
        return [Finding("ok", "up", f"runs in {place.directory} (pid {state.pid})")]
    return [Finding("ok", "up", f"no stack of ours runs in {place.directory}")]


def _on_the_mesh(url: str) -> list[Finding]:
    result: list[Finding] = []

    async def story(_: Interrupts) -> int:
        try:
            mesh = await connected(url)
        except Failed as failure:
            result.append(Finding("wrong", "nats", str(failure), "check credentials and log"))
            return 1
        try:
            result.extend(await _examine(mesh))
        finally:
            await mesh.close()
        return 0

    run(story)
    return result


async def _examine(mesh: Mesh) -> list[Finding]:
    from aalis_contracts.errors import Fault
    from aalis_sdk import topology

    missing = await topology.verify(mesh.js)
    found = findings.about_topology(missing)
    for kind, used, limit in await _storage(mesh):
        found.append(findings.about_storage(findings.StorageFacts(kind, used, limit)))
    there = [
        consumer
        for consumer in topology.consumers()
        if f"consumer {consumer.stream}/{consumer.config.durable_name}" not in missing
        and f"stream {consumer.stream}" not in missing
    ]
    found += findings.about_consumers(
        await asyncio.gather(
            *(_consumer(mesh, c.stream, c.config.durable_name or "") for c in there)
        )
    )
    if f"stream KV_{topology.REGISTRY}" not in missing:
        try:
            found += await _registered(mesh)
        except Fault as error:
            found.append(Finding("wrong", "registry", error.message, "./aalis topology apply"))
    if f"stream {topology.DEAD}" not in missing:
        state = (await mesh.js.stream_info(topology.DEAD)).state
        found.append(findings.about_dead(state.messages))
    return found


async def _storage(mesh: Mesh) -> list[tuple[str, int, int]]:
    account = await mesh.js.account_info()
    return [
        ("file", account.storage, account.limits.max_storage),
        ("memory", account.memory, account.limits.max_memory),
    ]


async def _consumer(mesh: Mesh, stream: str, name: str) -> findings.ConsumerFacts:
    info = await mesh.js.consumer_info(stream, name)
    return findings.ConsumerFacts(
        stream=stream,
        name=name,
        pending=info.num_pending or 0,
        ack_pending=info.num_ack_pending or 0,
        redelivered=info.num_redelivered or 0,
        waiting=info.num_waiting or 0,
    )


async def _registered(mesh: Mesh) -> list[Finding]:
    from aalis_sdk.registry import Registry

    registry = Registry(mesh)
    await registry.start()
    services = [
        findings.ServiceFacts(one.service, one.instance, one.version) for one in registry.services()
    ]
    offers = {
        "tools": [entry.name for entry in registry.tools()],
        "commands": [f"/{entry.path}" for entry in registry.commands()],
        "prompt contributions": [entry.key for entry in registry.prompts()],
    }
    return [*findings.about_services(services), *findings.about_offers(offers)]


def _about_redis(place: Place) -> Finding:
    from aalis_sdk.settings import MeshSettings, load

    state = place.running()
    url = state.redis_url if state is not None else load(MeshSettings).redis_url
    return findings.about_redis(url and _without_password(url), url and _ping(url))


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _ping(url: str) -> str | None:
    """Return what is wrong with the cache at `url`, or None; spoken by hand, so no client loads."""
    parts = urlsplit(url)
    words: list[bytes] = []
    if parts.password:
        names = [unquote(name) for name in (parts.username, parts.password) if name]
        words.append(_command("AUTH", *names))
    words.append(_command("PING"))
    try:
        address = (parts.hostname or "127.0.0.1", parts.port or 6379)
        with socket.create_connection(address, timeout=3) as link, link.makefile("rb") as lines:
            link.sendall(b"".join(words))
            answers = [lines.readline().decode("utf-8", "replace").strip() for _ in words]
    except (OSError, ValueError) as error:
        return f"does not answer ({error})"
    return None if answers[-1] == "+PONG" else f"answers {answers[-1] or 'nothing'}"


def _command(*words: str) -> bytes:
    parts = [word.encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)
