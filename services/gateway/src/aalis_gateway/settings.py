"""This is about settings: what the gateway can be told, each an environment variable AALIS_…."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from aalis_sdk.settings import MeshSettings


class GatewaySettings(MeshSettings):
    """The gateway's own settings beside those of every process."""

    command_prefix: str = "/"
    """What opens a command; empty = bare words, if the first one is a command."""
    flow_limit: Annotated[int, Field(ge=0)] = 20
    """Messages a minute of one group that the agent may hear; 0 = all."""
    away_seconds: Annotated[float, Field(gt=0)] = 30.0
    """Seconds without a living agent after which a waiting person is told."""
    confirm_seconds: Annotated[float, Field(gt=0)] = 60.0
    """Seconds a person has to answer a question."""
