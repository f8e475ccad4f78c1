"""This is about findings: what is well, what is not, and what to do about it.

Pure: facts that `doctor` gathered go in, findings come out, each with the next step of a person.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from aalis_cli.children import SERVICES

Level = Literal["ok", "warn", "wrong"]
_ENOUGH_PAYLOAD: Final = 8 * 1024 * 1024
_OLDEST_NATS: Final = (2, 11)
"""Entries that expire by themselves, and reading many last messages at once."""
_NEEDED: Final = ("agent", "gateway")
_FULL: Final = 0.8


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    area: str
    what: str
    todo: str | None = None


@dataclass(frozen=True)
class ServerFacts:
    """What a NATS server said about itself."""

    url: str
    version: str
    max_payload: int
    jetstream: bool


@dataclass(frozen=True)
class StorageFacts:
    """Bytes that JetStream uses, and may use (0 or less = no limit)."""

    kind: str
    used: int
    limit: int


@dataclass(frozen=True)
class ConsumerFacts:
    """How one durable consumer is doing."""

    stream: str
    name: str
    pending: int
    ack_pending: int
    redelivered: int
    waiting: int


@dataclass(frozen=True)
class ServiceFacts:
    """One running replica, as it announced itself."""

    service: str
    instance: str
    version: str


def about_server(facts: ServerFacts) -> list[Finding]:
    """Judge version, JetStream and the limit of one message."""
    found: list[Finding] = []
    parts = tuple(int(part) for part in re.findall(r"\d+", facts.version)[:2])
    if parts < _OLDEST_NATS:
        wanted = ".".join(map(str, _OLDEST_NATS))
        found.append(
            Finding("wrong", "nats", f"server {facts.version} is too old", f"use {wanted} or newer")
        )
    if not facts.jetstream:
        found.append(Finding("wrong", "nats", "JetStream is off", "start nats-server with -js"))
    if facts.max_payload < _ENOUGH_PAYLOAD:
        size = f"max_payload is {facts.max_payload} bytes: larger messages are refused"
        found.append(Finding("warn", "nats", size, f"set max_payload: {_ENOUGH_PAYLOAD}"))
    found.append(Finding("ok", "nats", f"{facts.url} answers, version {facts.version}"))
    return found


def about_storage(facts: StorageFacts) -> Finding:
    """Judge how much of its room JetStream has used."""
    if facts.limit <= 0:
        return Finding("ok", "jetstream", f"{facts.kind}: {size_of(facts.used)} used, no limit")
    what = f"{facts.kind}: {size_of(facts.used)} of {size_of(facts.limit)} used"
    if facts.used < _FULL * facts.limit:
        return Finding("ok", "jetstream", what)
    return Finding("warn", "jetstream", what, f"raise max_{facts.kind}_store or delete old data")


def about_topology(missing: Sequence[str]) -> list[Finding]:
    """Judge which streams and consumers there are."""
    if not missing:
        return [Finding("ok", "topology", "every stream, bucket and consumer is there")]
    todo = "./aalis topology apply"
    return [Finding("wrong", "topology", f"{name} is missing", todo) for name in missing]


def about_consumers(consumers: Sequence[ConsumerFacts]) -> list[Finding]:
    """Judge what waits to be taken, and whether anybody takes it."""
    found: list[Finding] = []
    for one in consumers:
        name = f"{one.stream}/{one.name}"
        if one.pending and not one.waiting and not one.ack_pending:
            what = f"{name}: {one.pending} wait and nobody takes them"
            found.append(Finding("wrong", "consumers", what, f"start the {_owner(one.name)}"))
        elif one.pending:
            what = f"{name}: {one.pending} wait, {one.ack_pending} in work"
            todo = f"normal under load; if it stays, add a replica of the {_owner(one.name)}"
            found.append(Finding("warn", "consumers", what, todo))
        if one.redelivered:
            what = f"{name}: {one.redelivered} in work were delivered more than once"
            todo = f"look for their reason in the log of the {_owner(one.name)}"
            found.append(Finding("warn", "consumers", what, todo))
    if not found:
        working = sum(one.ack_pending for one in consumers)
        found.append(Finding("ok", "consumers", f"nothing waits, {working} in work"))
    return found


def _owner(consumer: str) -> str:
    return next((name for name in SERVICES if consumer.startswith(name)), "reader")


def about_services(running: Sequence[ServiceFacts]) -> list[Finding]:
    """Judge who is there, and whether all are of one version."""
    found: list[Finding] = []
    for name in SERVICES:
        replicas = [one for one in running if one.service == name]
        if replicas:
            names = ", ".join(f"{one.instance} ({one.version})" for one in replicas)
            found.append(Finding("ok", "services", f"{name}: {names}"))
        elif name in _NEEDED:
            found.append(
                Finding("wrong", "services", f"no {name} runs: no answers", f"start the {name}")
            )
        else:
            todo = f"start {name}; answers are given without it meanwhile"
            found.append(Finding("warn", "services", f"no {name} runs", todo))
    others = sorted({one.service for one in running} - set(SERVICES))
    if others:
        found.append(Finding("ok", "services", f"also there: {', '.join(others)}"))
    versions = sorted({one.version for one in running})
    if len(versions) > 1:
        what = f"versions differ: {', '.join(versions)}"
        found.append(Finding("warn", "services", what, "finish the roll-out"))
    return found


def about_offers(offers: Mapping[str, Sequence[str]]) -> list[Finding]:
    """List who offers what: tools, commands, interceptors, prompt contributions."""
    return [
        Finding("ok", "registry", f"{kind}: {', '.join(names) if names else 'none'}")
        for kind, names in offers.items()
    ]


def about_dead(number: int) -> Finding:
    """Judge what could not be handled."""
    if not number:
        return Finding("ok", "dead", "no dead letters")
    return Finding("warn", "dead", f"{number} messages could not be handled", "./aalis dead list")


def about_redis(url: str | None, problem: str | None) -> Finding:
    """Judge the cache; without it everything works, only slower."""
    if url is None:
        return Finding("warn", "redis", "no cache is known", "set AALIS_REDIS_URL, or do without")
    if problem is not None:
        return Finding("wrong", "redis", f"{url}: {problem}", "start it, or unset AALIS_REDIS_URL")
    return Finding("ok", "redis", f"{url} answers")


def about_packages(pinned: Mapping[str, str], installed: Mapping[str, str | None]) -> list[Finding]:
    """Judge what is installed against what is pinned."""
    found: list[Finding] = []
    for name, version in pinned.items():
        have = installed.get(name)
        if have != version:
            what = f"{name} {have or 'is not installed'}, pinned is {version}"
            todo = "rm -r .venv, then ./aalis makes it anew"
            found.append(Finding("warn" if have else "wrong", "packages", what, todo))
    if not found:
        found.append(Finding("ok", "packages", f"{len(pinned)} packages as they are pinned"))
    return found


def pins(lock: str) -> dict[str, str]:
    """Read `name==version` from a lock file; a line that applies elsewhere is left out."""
    return dict(re.findall(r"^([a-z0-9.-]+)==([^\s;]+)(?: \\)?$", lock, re.MULTILINE))


def size_of(number: int) -> str:
    """Write bytes as people do."""
    amount = float(number)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:  # noqa: PLR2004 - the step between the units
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"
