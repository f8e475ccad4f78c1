"""This is about parts: everything a turn works with, put together once by `app`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import tzinfo

    from aalis_agent.endings import Endings
    from aalis_agent.options import Options
    from aalis_agent.ports import (
        Contributors,
        Interceptors,
        Journal,
        Memory,
        Models,
        Outbound,
        Personas,
        Settings,
        Tools,
    )
    from aalis_agent.tokens import Calibration, Counter
    from aalis_agent.usage import UsageLog
    from aalis_contracts.catalogue import Catalogue
    from aalis_sdk.logs import Log


@dataclass(frozen=True, slots=True)
class Parts:
    """The ports, the texts, the counters and the settings of one agent process."""

    journal: Journal
    memory: Memory
    interceptors: Interceptors
    contributors: Contributors
    models: Models
    tools: Tools
    personas: Personas
    settings: Settings
    outbound: Outbound
    endings: Endings
    texts: Catalogue
    counter_for: Callable[[str], Awaitable[Counter]]
    usage_log: UsageLog
    calibrations: dict[str, Calibration]
    options: Options
    zone: tzinfo
    now: Callable[[], int]
    log: Log
