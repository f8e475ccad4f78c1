"""This is about the data directory: where a stack keeps its data, its logs, and who runs it.

`up` holds a lock for as long as anything of it lives, its clean-up included, so whether a stack
runs is a question to the kernel and never to a file that somebody forgot to remove.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Self


def default_directory() -> Path:
    """Return `.aalis` of the checkout this file belongs to, or else of the current directory."""
    checkout = Path(__file__).resolve().parents[3]
    return (checkout if (checkout / "aalis").is_file() else Path.cwd()) / ".aalis"


@dataclass(frozen=True)
class State:
    """What a running `up` says about itself, for `ask` and everybody else who looks for it."""

    pid: int
    nats_url: str
    redis_url: str | None
    server_id: str | None
    """The NATS server's own id; None when the server is not ours."""

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Return what the file says, or None if it is not there or says something else."""
        try:
            found: object = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(found, dict):
                return None
            known = cast("dict[str, Any]", found)
            return cls(
                pid=int(known["pid"]),
                nats_url=str(known["nats_url"]),
                redis_url=known["redis_url"],
                server_id=known["server_id"],
            )
        except (OSError, ValueError, TypeError, KeyError):
            return None


class Place:
    """A data directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.logs = directory / "logs"
        self._state = directory / "up.json"
        self._lock = directory / "up.lock"

    def make(self) -> None:
        """Make the directory and the one for logs."""
        self.logs.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def hold(self) -> Generator[IO[bytes] | None]:
        """Hold the lock; None if somebody else does.

        A child that inherits the yielded file holds the lock with us, and after us.
        """
        with self._lock.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
            else:
                yield file

    @property
    def held(self) -> bool:
        """Whether a stack runs here, or is just starting or ending."""
        try:
            with self._lock.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def running(self) -> State | None:
        """Return what the stack that runs here says about itself, once it has come up."""
        state = State.read(self._state)
        return state if state is not None and self.held and is_alive(state.pid) else None

    def announce(self, state: State) -> None:
        """Say what runs here; readers see the old file or the new one, never half of it."""
        draft = self._state.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(asdict(state), indent=2) + "\n", encoding="utf-8")
        draft.replace(self._state)

    def withdraw(self) -> None:
        """Say that nothing runs here."""
        self._state.unlink(missing_ok=True)


def is_alive(pid: int) -> bool:
    """Say whether a process has this id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
