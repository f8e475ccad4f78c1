"""This is about the command line in tests: started as a person does, and what it leaves behind.

For the tests of this package and for those of the whole platform; the product does not import it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

PATIENCE = 150.0
"""Seconds for anything that starts a whole stack, on a machine that is busy with other tests."""


class Command:
    """A running `aalis …`."""

    def __init__(self, arguments: list[str], environment: dict[str, str], directory: Path) -> None:
        self._output = directory / f"{uuid.uuid4().hex}.out"
        self._errors = self._output.with_suffix(".err")
        with self._output.open("wb") as out, self._errors.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "aalis_cli", *arguments],
                env=environment,
                cwd=directory,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def printed(self) -> str:
        """Standard output so far."""
        return self._output.read_text(encoding="utf-8")

    @property
    def said(self) -> str:
        """Standard error so far."""
        return self._errors.read_text(encoding="utf-8")

    def send(self, number: int) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def end(self) -> int:
        """Wait for its end; return its exit code."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        return self.process.wait(PATIENCE)


class Machine:
    """A machine of its own: commands that are started here, and everything that they start."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.temporary = directory / "tmp"
        self.temporary.mkdir(parents=True)
        self.data = directory / "data"
        self._mark = f"AALIS_TEST_MARK={uuid.uuid4().hex}"
        self._commands: list[Command] = []

    def start(self, *arguments: str, **environment: str) -> Command:
        """Start a command; `environment` is what it is told beside our own."""
        name, _, value = self._mark.partition("=")
        told = {**os.environ, "TMPDIR": str(self.temporary), name: value, **environment}
        command = Command([*arguments, "--data", str(self.data)], told, self.directory)
        self._commands.append(command)
        return command

    def run(self, *arguments: str, stdin: str = "", **environment: str) -> Command:
        """Run a command to its end."""
        command = self.start(*arguments, **environment)
        if command.process.stdin is not None:
            command.process.stdin.write(stdin.encode())
        command.end()
        return command

    def processes(self) -> dict[int, str]:
        """Return the command line of every process that was started from here and still runs."""
        found: dict[int, str] = {}
        for directory in Path("/proc").iterdir():
            if directory.name.isdigit():
                with contextlib.suppress(OSError):
                    if self._is_from_here(directory):
                        line = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                        found[int(directory.name)] = line.strip()
        return found

    def _is_from_here(self, process: Path) -> bool:
        if self._mark.encode() in (process / "environ").read_bytes():
            return True
        # Valkey writes its title over its environment; where it works is not overwritten.
        return (process / "cwd").readlink().is_relative_to(self.directory)

    def pid_of(self, part: str) -> int:
        """Return the id of the one process whose command line has `part`."""
        (pid,) = [pid for pid, line in self.processes().items() if part in line]
        return pid

    def left(self) -> list[str]:
        """Return what is left behind: processes, and files where temporary ones are made."""
        return [*self.processes().values(), *(str(path) for path in self.temporary.iterdir())]

    def sweep(self) -> None:
        """End whatever a test left, and see it gone."""
        while pids := self.processes():
            for pid in pids:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        for command in self._commands:
            command.end()


def wait_until(holds: Callable[[], object], patience: float = PATIENCE) -> None:
    """Wait until something holds; fail if it does not come."""
    deadline = time.monotonic() + patience
    while not holds():
        if time.monotonic() > deadline:
            message = f"it did not come in {patience:g} s"
            raise TimeoutError(message)
        time.sleep(0.02)
