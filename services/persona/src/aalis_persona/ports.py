"""This is about what persona needs of the world: cards, and a place for states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from aalis_contracts.text import JsonObject
from aalis_persona.cards import Card


class Cards(Protocol):
    """The cards there are, by file name without suffix."""

    async def current(self) -> Mapping[str, Card]:
        """Return them as they are now."""
        ...


class States(Protocol):
    """The state in which each session's last answer left its persona; absent, none is known."""

    async def keep(self, session_id: str, persona: str, state: JsonObject) -> None:
        """Keep the state of a session in place of an earlier one."""
        ...

    async def find(self, session_id: str, persona: str) -> JsonObject | None:
        """Return the session's state, if it is one of this persona."""
        ...

    async def forget(self, session_id: str | None) -> bool:
        """Forget a session's state, or all; say whether it is gone."""
        ...


class NoStates:
    """What stands there when states are not kept."""

    async def keep(self, session_id: str, persona: str, state: JsonObject) -> None:
        """Keep nothing."""

    async def find(self, session_id: str, persona: str) -> JsonObject | None:  # noqa: ARG002 - the port's shape
        """Know nothing."""
        return None

    async def forget(self, session_id: str | None) -> bool:  # noqa: ARG002 - the port's shape
        """Have nothing to forget."""
        return True
