"""This is about sessions as the mesh keeps them: records, settings, whose setting counts (SES).

A record is one key of KV `sessions`, written with the revision it was read at: a lost race is read
again and merged. Whoever writes one tells of it (EVT-10). Settings come from four places;
`effective` says which value counts and what it shadows.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aalis_contracts import subjects
from aalis_contracts.contract import InvalidBody
from aalis_contracts.dead import MESSAGE_ID_HEADER
from aalis_contracts.errors import Fault, InvalidRequest
from aalis_contracts.messages import ModelRef
from aalis_contracts.sessions import SessionConfig, SessionDefaults, SessionInfo
from aalis_sdk.buckets import Bucket
from aalis_sdk.logs import Log
from aalis_sdk.topology import PROFILES, SESSIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from aalis_sdk.mesh import Mesh

log = Log(__name__)
DEFAULTS_KEY: Final = "defaults"
_TRIES: Final = 20
FIELDS: Final = tuple(SessionDefaults.model_fields)
"""The settings that are resolved one by one (CON-31, without `sessionDefaults` itself)."""


@dataclass(frozen=True)
class Setting:
    """One effective value, where it comes from, and the values it shadows (source, value)."""

    value: object
    source: str
    shadowed: tuple[tuple[str, object], ...] = ()


@dataclass(frozen=True)
class Effective:
    """A session's effective settings and where each comes from."""

    config: SessionConfig
    settings: dict[str, Setting]


class Sessions:
    """The records and settings of sessions."""

    def __init__(self, mesh: Mesh, now_ms: Callable[[], int]) -> None:
        self._mesh = mesh
        self._records = Bucket(mesh, SESSIONS)
        self._profiles = Bucket(mesh, PROFILES)
        self._now = now_ms

    async def get(self, session_id: str) -> SessionInfo | None:
        """Return the record; an unreadable one is reported, left untouched, and raises Fault."""
        found = await self._records.get(subjects.kv_key(session_id))
        return None if found is None else _read(session_id, found.value)

    async def ensure(
        self,
        session_id: str,
        *,
        platform: str | None = None,
        user_id: str | None = None,
        name: str | None = None,
    ) -> SessionInfo:
        """Return the record, making an active one when there is none (SES-3).

        A session that nobody has named is called by a short date.
        """
        existing = await self.get(session_id)
        if existing is not None:
            return existing
        now = self._now()
        fresh = SessionInfo(
            id=session_id,
            name=name or _date(now),
            platform=platform,
            user_id=user_id,
            created_at=now,
            updated_at=now,
        )
        made = await self._records.create(subjects.kv_key(session_id), fresh, secrets.token_hex(8))
        if made is None:
            return await self._must_get(session_id)
        await self._announce("created", fresh, made)
        return fresh

    async def update(
        self, session_id: str, change: Callable[[SessionInfo], SessionInfo], verb: str = "updated"
    ) -> SessionInfo:
        """Change the record by compare-and-set; `change` may run again on a newer one (SES-2).

        A change is announced as `session:<verb>`; a record that stays as it is, not at all.
        """
        key = subjects.kv_key(session_id)
        for _ in range(_TRIES):
            found = await self._records.get(key)
            if found is None:
                message = f"session {session_id!r} does not exist"
                raise InvalidRequest(message, "notFound")
            before = _read(session_id, found.value)
            after = change(before)
            if after == before:
                return before
            after = after.model_copy(update={"updated_at": self._now()})
            kept = await self._records.update(key, after, found.revision, secrets.token_hex(8))
            if kept is not None:
                await self._announce(verb, after, kept)
                return after
        message = f"session {session_id!r} is written by too many at once"
        raise Fault(message, "conflict")

    async def effective(self, session_id: str, platform: str | None) -> Effective:
        """Resolve the settings field by field (SES-4, SES-5); an unknown id is no error."""
        # Side by side: each is a round trip, and a turn waits for them all. What still runs when
        # one has failed only reads, and ends by itself.
        record, profile, defaults = await asyncio.gather(
            self.get(session_id), self._profile(platform), self._defaults()
        )
        layers: list[tuple[str, SessionDefaults]] = []
        if record is not None:
            layers.append(("session", record.config))
            if record.parent_id:
                parent = await self.get(record.parent_id)
                if parent is not None and parent.config.session_defaults is not None:
                    layers.append(("parent", parent.config.session_defaults))
        if record is not None and record.platform and record.platform != platform:
            profile = await self._profile(record.platform)
        layers += [("profile", profile), ("default", defaults)]
        return resolve(layers)

    async def _profile(self, platform: str | None) -> SessionConfig:
        return await self._config(subjects.kv_key(platform)) if platform else SessionConfig()

    async def _defaults(self) -> SessionConfig:
        return await self._config(DEFAULTS_KEY)

    async def _config(self, key: str) -> SessionConfig:
        found = await self._profiles.get(key)
        if found is None:
            return SessionConfig()
        try:
            return SessionConfig.from_json(found.value)
        except InvalidBody as error:
            log.warning("profile ignored", key=key, reason=str(error))
            return SessionConfig()

    async def _announce(self, verb: str, record: SessionInfo, revision: int) -> None:
        subject = subjects.session_event(verb, record.id)
        await self._mesh.publish(subject, record, {MESSAGE_ID_HEADER: f"sessions.{revision}"})

    async def _must_get(self, session_id: str) -> SessionInfo:
        record = await self.get(session_id)
        if record is None:
            message = f"session {session_id!r} was deleted while it was made"
            raise Fault(message, "conflict")
        return record


def resolve(layers: list[tuple[str, SessionDefaults]]) -> Effective:
    """Resolve settings from the strongest layer to the weakest; pure (SES-4)."""
    settings: dict[str, Setting] = {}
    for field in FIELDS:
        values = [
            (source, value)
            for source, layer in layers
            if (value := _set_value(getattr(layer, field))) is not None
        ]
        if values:
            (source, value), *shadowed = values
            settings[field] = Setting(value, source, tuple(shadowed))
    config = SessionConfig(**{name: setting.value for name, setting in settings.items()})  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    return Effective(config, settings)


def _set_value(value: object) -> object:
    """Return None for what counts as unset; half a model reference does (AG-66)."""
    if isinstance(value, ModelRef) and not (value.provider and value.model):
        return None
    return value


def _date(now_ms: int) -> str:
    return time.strftime("%m-%d %H:%M", time.gmtime(now_ms / 1000))


def _read(session_id: str, data: bytes) -> SessionInfo:
    try:
        return SessionInfo.from_json(data)
    except InvalidBody as error:
        message = f"the record of session {session_id!r} is unreadable: {error}"
        log.warning("session record is unreadable; left as it is", session=session_id)
        raise Fault(message, retryable=False) from None
