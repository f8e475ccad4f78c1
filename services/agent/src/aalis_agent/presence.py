"""This is about presence: one warning when a collaborator goes, one line on its return (RPC-1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aalis_sdk.logs import Log


class Presence:
    """Remembers whether one collaborator answered last time, so that its absence is said once."""

    def __init__(self, name: str, consequence: str, log: Log) -> None:
        self._name = name
        self._consequence = consequence
        self._log = log
        self._absent = False

    def absent(self, why: str) -> None:
        """Note that it did not answer; only the first time in a row is a warning."""
        if not self._absent:
            self._log.warning(f"{self._name} is absent: {self._consequence}", why=why)
        else:
            self._log.debug(f"{self._name} is still absent", why=why)
        self._absent = True

    def present(self) -> None:
        """Note that it answered."""
        if self._absent:
            self._log.info(f"{self._name} is back")
        self._absent = False
