"""This is about leaving nothing behind, even when this process is killed outright.

A guardian is a `sh` that reads a pipe from us. It knows which processes we started; when the pipe
closes without a goodbye, we are gone, and it ends them: the services first, then the servers, by
force after a while. It also holds the data directory's lock until that is done.
"""

from __future__ import annotations

import contextlib
import subprocess
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_SCRIPT: Final = r"""
trap '' HUP INT TERM
services= servers= directory=
without() { # list, pid
    for one in $1; do [ "$one" = "$2" ] || printf ' %s' "$one"; done
}
end() { # list, seconds
    [ -n "$1" ] || return 0
    kill -TERM $1 2>/dev/null
    patience=$(($2 * 10))
    while [ "$patience" -gt 0 ] && kill -0 $1 2>/dev/null; do
        sleep 0.1
        patience=$((patience - 1))
    done
    kill -KILL $1 2>/dev/null
}
while read -r word value; do
    case $word in
    service) services="$services $value" ;;
    server) servers="$servers $value" ;;
    ended) services=$(without "$services" "$value") servers=$(without "$servers" "$value") ;;
    remove) directory=$value ;;
    goodbye) exit 0 ;;
    esac
done
for one in $services; do kill -TERM "$one" 2>/dev/null; done
for one in $services; do end "$one" 20; done
for one in $servers; do end "$one" 5; done
[ -z "$directory" ] || rm -rf -- "$directory"
"""


class Guardian:
    """Ends what we started if we cannot do it ourselves."""

    def __init__(self, lock: IO[bytes] | None = None, remove: Path | None = None) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=() if lock is None else (lock.fileno(),),
        )
        if remove is not None:
            self._tell(f"remove {remove}")

    def fileno(self) -> int:
        """Return the descriptor on which a new process makes itself known: `service PID`.

        Or `server PID`: servers are ended after everything else.
        """
        return self._shell.stdin.fileno() if self._shell.stdin is not None else -1

    def forget(self, pid: int) -> None:
        """`pid` has ended, and its number may soon be somebody else's."""
        self._tell(f"ended {pid}")

    def dismiss(self) -> None:
        """Everything is ended; no guardian is needed any more."""
        self._tell("goodbye")
        with contextlib.suppress(OSError):
            if self._shell.stdin is not None:
                self._shell.stdin.close()
        self._shell.wait()

    def _tell(self, line: str) -> None:
        # A guardian that somebody killed is no reason to stop working.
        with contextlib.suppress(OSError):
            if self._shell.stdin is not None:
                self._shell.stdin.write(f"{line}\n".encode())
                self._shell.stdin.flush()
