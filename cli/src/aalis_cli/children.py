"""This is about service processes: how one is started, what it said last, how it is ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, cast

from aalis_sdk.embedded import announcing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SERVICES: Final[dict[str, str]] = {
    "memory": "aalis_memory",
    "prompt-budget": "aalis_prompt_budget",
    "persona": "aalis_persona",
    "agent": "aalis_agent",
    "gateway": "aalis_gateway",
}
"""Each service and its module, in the order in which one leans on the other."""
_TAIL_BYTES: Final = 16384


class Process(Protocol):
    """A process of ours, however it was started."""

    @property
    def pid(self) -> int: ...  # noqa: D102 - as of `subprocess.Popen`
    def poll(self) -> int | None: ...  # noqa: D102 - as of `subprocess.Popen`
    def wait(self) -> int: ...  # noqa: D102 - as of `subprocess.Popen`
    def terminate(self) -> None: ...  # noqa: D102 - as of `subprocess.Popen`
    def kill(self) -> None: ...  # noqa: D102 - as of `subprocess.Popen`


@dataclass
class Child:
    """One replica of a service: a process with a log file of its own."""

    service: str
    number: int
    module: str
    environment: Mapping[str, str]
    """What it is told beside what we were told ourselves."""
    logs: Path
    started_ms: int = 0
    deaths: int = 0
    process: Process | None = field(default=None, repr=False)

    @property
    def instance(self) -> str:
        """The replica's name, also the name of its log."""
        return f"{self.service}-{self.number}"

    @property
    def log(self) -> Path:
        """Where everything goes that the process says."""
        return self.logs / f"{self.instance}.log"

    @property
    def own_environment(self) -> dict[str, str]:
        """What this replica is told beside what we were told ourselves."""
        return {**self.environment, "AALIS_INSTANCE": self.instance}

    def start(self, guardian: int) -> None:
        """Start the process; it makes itself known on the descriptor `guardian`."""
        self.started_ms = int(time.time() * 1000)
        with self.log.open("ab") as output:
            # In a session of its own Ctrl-C of a terminal does not reach it: we end it, in order.
            self.process = subprocess.Popen(
                announcing("service", [sys.executable, "-P", "-m", self.module]),
                env={**os.environ, **self.own_environment},
                stdin=subprocess.DEVNULL,
                stdout=guardian,
                stderr=output,
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self.process is not None and self.process.poll() is None

    @property
    def ending(self) -> str:
        """How the process ended, in words."""
        code = self.process.poll() if self.process is not None else None
        if code is None:
            return "still runs"
        return f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"

    def last_words(self) -> str:
        """Return the last line of its log, as a person wants to read it."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
                lines = file.read().decode("utf-8", "replace").strip().splitlines()
        except OSError:
            return "no log"
        return readable(lines[-1]) if lines else "nothing was logged"

    def ask_to_end(self) -> None:
        """Send SIGTERM."""
        if self.running and self.process is not None:
            self.process.terminate()

    def kill(self) -> None:
        """Send SIGKILL and wait."""
        if self.process is not None:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait()


def readable(line: str) -> str:
    """Turn a JSON log line into `event (field value, …)`; leave any other line as it is."""
    try:
        found: object = json.loads(line)
    except ValueError:
        return line.strip()
    if not isinstance(found, dict):
        return line.strip()
    fields = cast("dict[str, object]", found)
    event = str(fields.get("event", line))
    exception = str(fields.get("exception") or "").strip().splitlines()
    if exception:
        return f"{event}: {exception[-1]}"
    told = {"time", "level", "service", "instance", "event", "traceId"}
    rest = ", ".join(f"{name}={value}" for name, value in fields.items() if name not in told)
    return f"{event} ({rest})" if rest else event


def replicas_of(text: str) -> dict[str, int]:
    """Read `agent=2,gateway=2`; raise ValueError with a line that says what is allowed."""
    wanted: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, _, number = part.partition("=")
        if name not in SERVICES or not number.isascii() or not number.isdigit() or int(number) < 1:
            message = f"{part!r}: use NAME=N with N ≥ 1, NAME one of {', '.join(SERVICES)}"
            raise ValueError(message)
        wanted[name] = int(number)
    return wanted


def only_of(text: str) -> tuple[str, ...]:
    """Read `agent,gateway`, in the order of `SERVICES`; raise ValueError for an unknown name."""
    names = [part for part in text.split(",") if part]
    unknown = [name for name in names if name not in SERVICES]
    if unknown or not names:
        message = f"{text!r}: use some of {', '.join(SERVICES)}"
        raise ValueError(message)
    return tuple(name for name in SERVICES if name in names)
