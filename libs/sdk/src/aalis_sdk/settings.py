"""This is about settings: environment variables, with units and defaults, refused in one line."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated, Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from aalis_contracts.catalogue import LOCALES

PREFIX = "AALIS_"


class SettingsError(Exception):
    """A setting that cannot be used; the message is one line: variable, value, what is allowed."""


class MeshSettings(BaseSettings):
    """What every Aalis process can be told (SPEC AG-9)."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True)

    nats_url: str = "nats://127.0.0.1:4222"
    """Addresses of the NATS servers, comma separated."""
    nats_creds: Path | None = None
    """Path of a NATS credentials file."""
    nats_nkey_seed: Path | None = None
    """Path of a file with an NKEY seed."""
    redis_url: str | None = None
    """Address of the Redis-compatible cache; none = work without it."""
    instance: str = Field(default_factory=socket.gethostname)
    """Name of this replica, unique among the replicas of a service."""
    locale: str = "zh"
    """Language of person-facing texts: zh or en."""
    tz: str = "UTC"
    """IANA time zone of the labels a model reads."""
    health_host: str = "127.0.0.1"
    """Address on which /healthz, /readyz and /metrics are served."""
    health_port: Annotated[int, Field(ge=-1, le=65535)] = -1
    """Their port; 0 = a free one, -1 = not served."""
    grace_seconds: Annotated[float, Field(gt=0)] = 20.0
    """How long running work may go on after SIGTERM, in seconds."""
    failpoints: Path | None = None
    """Directory in which points of failure are armed, for chaos runs; none = there are none."""
    log_level: str = "INFO"
    """DEBUG, INFO, WARNING or ERROR."""
    otlp_endpoint: str | None = Field(default=None, validation_alias="OTEL_EXPORTER_OTLP_ENDPOINT")
    """Where traces go (OTLP over HTTP); none = traces are not exported."""

    @field_validator("locale")
    @classmethod
    def _known_locale(cls, value: str) -> str:
        if value not in LOCALES:
            message = f"use one of {', '.join(LOCALES)}"
            raise ValueError(message)
        return value

    @field_validator("tz")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        _zone(value)
        return value

    @property
    def zone(self) -> ZoneInfo:
        """The time zone that `tz` names."""
        return _zone(self.tz)

    @field_validator("log_level")
    @classmethod
    def _known_level(cls, value: str) -> str:
        if value.upper() not in {"DEBUG", "INFO", "WARNING", "ERROR"}:
            message = "use DEBUG, INFO, WARNING or ERROR"
            raise ValueError(message)
        return value.upper()


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        message = "not an IANA time zone, such as UTC or Asia/Shanghai"
        raise ValueError(message) from None


AnySettings = TypeVar("AnySettings", bound=BaseSettings)


def load(cls: type[AnySettings], **overrides: Any) -> AnySettings:  # noqa: ANN401 - any field
    """Read `cls` from the environment; raise `SettingsError` naming the first bad variable."""
    try:
        return cls(**overrides)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        variable = name if name.isupper() else f"{PREFIX}{name.upper()}"
        reason = first["msg"].removeprefix("Value error, ")
        message = f"{variable}={first['input']!r}: {reason}"
        raise SettingsError(message) from None
