"""This is about authority: who may run what (SPEC CMD-12, CMD-13), for commands and tools alike.

`decide` is the one pure function that says it. What it knows stands in KV `profiles`, key
`defaults`, field `authority`: `levels` (identity → number), `owners` and `denied` (names of
commands and tools). An identity is written `<platform>:<userId>`, both percent-encoded as in a
subject; `webui:console` and `cli:console` are always owners. `AuthorityBook` keeps a live copy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import nats.errors
from pydantic import Field, StrictInt

from aalis_contracts.contract import Contract, InvalidBody
from aalis_contracts.errors import Fault
from aalis_contracts.messages import Actor
from aalis_contracts.registry import Confirm, Risk, Visibility
from aalis_contracts.subjects import token
from aalis_sdk.buckets import Bucket
from aalis_sdk.logs import Log
from aalis_sdk.mesh import Absent
from aalis_sdk.sessions import DEFAULTS_KEY
from aalis_sdk.topology import PROFILES

if TYPE_CHECKING:
    from aalis_sdk.mesh import Mesh

log = Log(__name__)

CONSOLES: Final = frozenset({"webui:console", "cli:console"})
"""Identities of whoever sits at the machine: always owners."""
_RISK_LEVELS: Final[dict[Risk, int]] = {"safe": 0, "sensitive": 1, "dangerous": 2}
_VISIBILITY_LEVELS: Final[dict[Visibility, int]] = {"public": 0, "restricted": 2}

Verdict = Literal["allowed", "denied", "switched-off", "unreadable"]


class AuthorityData(Contract):
    """What an operator writes about who may do what."""

    levels: dict[str, StrictInt] = Field(default_factory=dict)
    owners: list[str] = Field(default_factory=list)
    denied: list[str] = Field(default_factory=list)


class _Defaults(Contract):
    authority: AuthorityData | None = None


@dataclass(frozen=True)
class Decision:
    """May it be done; `level` is the one that was needed."""

    verdict: Verdict
    level: int

    @property
    def allowed(self) -> bool:
        """Whether it may be done (a confirmation may still be needed)."""
        return self.verdict == "allowed"


@dataclass(frozen=True)
class Demand:
    """What running something demands: a level, and perhaps a confirmation."""

    level: int
    confirm: Confirm | None = None


def identity(platform: str, user_id: str | None, actor: Actor | None = None) -> str | None:
    """Return who acts: `actor` if there is one, else platform and user; None for nobody known."""
    if actor is not None:
        platform, user_id = actor.platform, actor.user_id
    return f"{token(platform)}:{token(user_id)}" if platform and user_id else None


def demand(risk: Risk | None, visibility: Visibility, confirm: Confirm | None = None) -> Demand:
    """Return what one declaration demands; a declared risk decides the level alone."""
    level = _RISK_LEVELS[risk] if risk is not None else _VISIBILITY_LEVELS[visibility]
    return Demand(level, confirm)


def strictest(demands: Iterable[Demand]) -> Demand:
    """Return what all declarations along a path demand together (SPEC CMD-9)."""
    level, confirm = 0, None
    for each in demands:
        level = max(level, each.level)
        confirm = "always" if "always" in {each.confirm, confirm} else each.confirm or confirm
    return Demand(level, confirm)


def decide(
    who: str | None, level: int, names: Iterable[str], data: AuthorityData | None
) -> Decision:
    """Say whether `who` may do what demands `level`; pure.

    `names` are those by which it may be denied: a tool's name, a command's path and its parents.
    `data` None = the authority data cannot be read: what demands a level is refused then.
    """
    if data is None:
        return Decision("allowed" if level <= 0 else "unreadable", level)
    if not set(names).isdisjoint(data.denied):
        return Decision("switched-off", level)
    if who is not None and (who in CONSOLES or who in data.owners):
        return Decision("allowed", level)
    own = data.levels.get(who, 0) if who is not None else 0
    return Decision("allowed" if own >= max(level, 0) else "denied", level)


class AuthorityBook:
    """A live copy of the authority data."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self._bucket = Bucket(mesh, PROFILES)
        self._reload: asyncio.Task[None] | None = None
        self.data: AuthorityData | None = None
        """The newest data; None while it cannot be read."""

    async def start(self) -> None:
        """Hear every change from now on, then read what is there."""
        await self._bucket.hear(DEFAULTS_KEY, self._heard)
        self._mesh.reconnected.append(self._read_again)
        await self._read_now()

    async def _heard(self, _key: str, value: bytes | None) -> None:
        self.data = _read(value)

    def _read_again(self) -> None:
        self._reload = asyncio.create_task(self._read_now())

    async def _read_now(self) -> None:
        try:
            record = await self._bucket.get(DEFAULTS_KEY)
        except (Fault, Absent, nats.errors.Error) as error:
            log.warning("authority data cannot be read", reason=str(error))
            self.data = None
            return
        self.data = _read(record.value if record is not None else None)


def _read(value: bytes | None) -> AuthorityData | None:
    if value is None:
        return AuthorityData()
    try:
        return _Defaults.from_json(value).authority or AuthorityData()
    except InvalidBody as error:
        log.warning(
            "authority data cannot be read; what demands a level is refused", reason=str(error)
        )
        return None
