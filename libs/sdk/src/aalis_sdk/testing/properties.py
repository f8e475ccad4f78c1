"""This is about properties: how many examples a property is tried on.

A run draws the same few examples every time, so that it costs little and a failure is the change's
and not the day's. `pytest --hypothesis-profile thorough` draws twenty times as many, new ones each
time: for whoever changes what the properties are about. A pytest plugin: the root's conftest names
it.
"""

from __future__ import annotations

from typing import Final

from hypothesis import HealthCheck, Phase, settings

THOROUGH: Final = "thorough"
_SHARE_OF: Final = 100

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile(
    THOROUGH,
    max_examples=20 * _SHARE_OF,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=set(Phase) - {Phase.explain},
)
settings.load_profile("repeatable")


def examples(number: int) -> settings:
    """Return settings for `number` examples, more under a profile that asks for more."""
    return settings(max_examples=number * settings().max_examples // _SHARE_OF)
