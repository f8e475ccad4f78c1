"""This is about a directory of cards, one YAML file each, also one that a ConfigMap is mounted on.

It is looked at when somebody asks, at most once a second, and a file is read again when it has
changed. One that cannot be read is a warning, once; the version read before it stays in use, so a
slip in an editor takes nobody's persona away.
"""

from __future__ import annotations

import asyncio
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aalis_llm.checked_yaml import UnreadableYaml, read_yaml
from aalis_persona.cards import Card
from aalis_persona.formats import format_problem
from aalis_sdk.logs import Log

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

log = Log(__name__)

PAUSE: Final = 1.0
_SUFFIXES: Final = (".yaml", ".yml")
_LARGEST: Final = 256 * 1024


@dataclass(frozen=True)
class _Known:
    """What is known of a file: what it looked like, and the newest card that it held."""

    mark: object
    card: Card | None


class CardDirectory:
    """The cards of one directory, by file name without suffix; `.yaml` goes before `.yml`.

    `pause` is the time in seconds for which what was seen is good enough.
    """

    def __init__(self, directory: Path, pause: float = PAUSE) -> None:
        self._directory = directory
        self._pause = pause
        self._known: dict[str, _Known] = {}
        self._cards: dict[str, Card] = {}
        self._problem: str | None = None
        self._looking = asyncio.Lock()
        self._fresh_until = 0.0

    async def current(self) -> Mapping[str, Card]:
        """Return the cards as they were seen last, not longer ago than the pause."""
        loop = asyncio.get_running_loop()
        async with self._looking:
            if loop.time() >= self._fresh_until:
                await asyncio.to_thread(self._look)
                self._fresh_until = loop.time() + self._pause
        return self._cards

    def _look(self) -> None:
        try:
            names = sorted(path.name for path in self._directory.iterdir() if _is_card(path.name))
        except OSError as error:
            self._complain(str(error.strerror))
            return
        self._problem = None
        self._known = {name: self._known_of(name) for name in names}
        cards: dict[str, Card] = {}
        for name, known in self._known.items():
            if known.card is not None:
                cards.setdefault(name.rpartition(".")[0], known.card)
        if cards != self._cards:
            log.info("cards", directory=str(self._directory), names=list(cards))
        self._cards = cards

    def _known_of(self, name: str) -> _Known:
        path = self._directory / name
        earlier = self._known.get(name)
        # Before the text: what is written meanwhile looks different the next time.
        mark = _mark(path)
        if earlier is not None and earlier.mark == mark:
            return earlier
        try:
            card = _read(path)
        except (OSError, UnreadableYaml) as error:
            reason = str(error.strerror) if isinstance(error, OSError) else str(error)
            return _Known(mark, _kept(path, earlier, reason))
        for remark in _remarks(card):
            log.warning("card has a flaw", file=str(path), reason=remark)
        return _Known(mark, card)

    def _complain(self, problem: str) -> None:
        if problem != self._problem:
            log.warning(
                "cards cannot be listed; they stay as they were",
                directory=str(self._directory),
                reason=problem,
            )
        self._problem = problem


def _is_card(name: str) -> bool:
    # A ConfigMap is mounted beside hidden directories that hold its versions.
    return name.endswith(_SUFFIXES) and not name.startswith(".")


def _mark(path: Path) -> tuple[int, ...]:
    """Return what changes when a file does, or why it cannot be looked at."""
    try:
        found = path.stat()
    except OSError as error:
        return (error.errno or 0,)
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _read(path: Path) -> Card:
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise UnreadableYaml(f"{path.name}: not a file")
    if found.st_size > _LARGEST:
        raise UnreadableYaml(f"{path.name}: {found.st_size} bytes; at most {_LARGEST} are read")
    return read_yaml(path.read_bytes(), path.name, Card)


def _kept(path: Path, earlier: _Known | None, reason: str) -> Card | None:
    """Say that a card cannot be read; return the version that stays in use, if there is one."""
    card = earlier.card if earlier is not None else None
    if card is None:
        log.warning("card is unreadable and left out", file=str(path), reason=reason)
    else:
        log.warning("card is unreadable and stays as it was", file=str(path), reason=reason)
    return card


def _remarks(card: Card) -> list[str]:
    """Say what of a card is not used, though somebody wrote it."""
    remarks = [f"key {key!r} is unknown and ignored" for key in card.unknown_keys]
    problem = format_problem(card)
    return remarks if problem is None else [*remarks, f"outputFormat is ignored: {problem}"]
