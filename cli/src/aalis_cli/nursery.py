"""This is about coming up fast: services are forked from one process that has imported for all.

Importing what every service needs costs each Python about a second of CPU, and four services on
two cores would make a person wait for most of it. `python -m aalis_cli.nursery` imports it once,
reads who is wanted, forks, and leaves; the kernel then makes us the parent of what it forked (we
are its subreaper), so a forked service is watched and ended like any other. Linux only: elsewhere
each service is started by itself. A service that died is also started by itself again.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from aalis_cli.failure import Failed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aalis_cli.children import Child

_SHARED: Final = ("aalis_sdk.plugin", "aalis_sdk.service", "jsonschema")
"""What every service imports."""
_SET_NAME: Final = 15
_SET_CHILD_SUBREAPER: Final = 36


class Forked:
    """A process that the nursery forked for us; waited for like a `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return its exit code, minus the signal that killed it, or None while it runs."""
        if self._code is None:
            self._look(os.WNOHANG)
        return self._code

    def wait(self) -> int:
        """Wait until it has ended."""
        while self._code is None:
            self._look(0)
        return self._code

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._send(signal.SIGKILL)

    def _look(self, options: int) -> None:
        try:
            pid, status = os.waitpid(self.pid, options)
        except ChildProcessError:
            self._code = -signal.SIGKILL  # somebody else has waited for it: gone, and not by us
            return
        if pid:
            self._code = os.waitstatus_to_exitcode(status)

    def _send(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class Nursery:
    """The process that forks the services, from our side."""

    def __init__(self, guardian: int) -> None:
        """`guardian` is the descriptor on which each new process is made known at once."""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "aalis_cli.nursery", str(guardian)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(guardian,),
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._wanted: Sequence[Child] = ()

    @classmethod
    def open(cls, guardian: int) -> Nursery | None:
        """Return a nursery, or None where the system cannot make us the parent of its children."""
        return cls(guardian) if sys.platform == "linux" and _become_subreaper() else None

    def want(self, children: Sequence[Child]) -> None:
        """Say who is to be forked, once."""
        self._wanted = children
        for child in children:
            child.started_ms = int(time.time() * 1000)
        orders = [
            {
                "module": child.module,
                "environment": dict(child.own_environment),
                "log": str(child.log),
                "name": f"aalis-{child.service}",
            }
            for child in children
        ]
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.write(json.dumps(orders).encode())
                self._process.stdin.close()

    def deliver(self) -> None:
        """Wait until all are forked, and hand each child its process. Blocks for a second."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        out = self._process.stdout
        pids = [int(line) for line in out.read().split()] if out is not None else []
        self._process.wait()
        # Only now are we their parent.
        for child, pid in zip(self._wanted, pids, strict=False):
            child.process = Forked(pid)
        if len(pids) < len(self._wanted):
            raise Failed("the services could not be started: their common parent failed")


def _become_subreaper() -> bool:
    return ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


# the nursery's own side ------------------------------------------------------------------


def main(guardian: int) -> None:
    """Import what every service needs, fork what is wanted, leave."""
    import gc
    import importlib
    import runpy

    # Nothing that is imported here is garbage; looking for it would take a quarter of the time.
    # A service looks again as soon as it is ready.
    gc.disable()
    for module in _SHARED:
        importlib.import_module(module)
    parent = os.getppid()
    orders: list[dict[str, Any]] = json.loads(sys.stdin.buffer.read() or b"[]")
    gc.freeze()
    for order in orders:
        if os.getppid() != parent:
            return
        pid = os.fork()
        if pid == 0:
            os.close(guardian)
            _become(order)
            runpy.run_module(order["module"], run_name="__main__", alter_sys=True)
            return
        os.write(guardian, f"service {pid}\n".encode())
        os.write(1, f"{pid}\n".encode())


def _become(order: dict[str, Any]) -> None:
    """Make this process what it would be if it had been started by itself."""
    os.setsid()
    log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(log)
    os.environ.update(order["environment"])
    if hasattr(time, "tzset"):
        time.tzset()
    with contextlib.suppress(OSError, ValueError):
        _be_called(order["name"], f"{sys.executable} -P -m {order['module']}")


def _be_called(name: str, command: str) -> None:
    """Let `ps`, `top` and `pgrep` show which service this is."""
    ctypes.CDLL(None).prctl(_SET_NAME, name.encode(), 0, 0, 0)
    with open("/proc/self/stat", "rb") as file:  # noqa: PTH123 - pathlib gains nothing here
        fields = file.read().rpartition(b")")[2].split()
    begin, end = int(fields[45]), int(fields[46])
    text = command.encode()[: end - begin - 1].replace(b" ", b"\0")
    ctypes.memmove(begin, text.ljust(end - begin, b"\0"), end - begin)


if __name__ == "__main__":
    main(int(sys.argv[1]))
