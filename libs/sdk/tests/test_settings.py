"""Settings are refused in one line that names variable, value and what is allowed (AG-9)."""

from datetime import UTC, datetime

import pytest

from aalis_sdk.settings import MeshSettings, SettingsError, load


def test_a_time_zone_is_known_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AALIS_TZ", "Asia/Shanghai")

    zone = load(MeshSettings).zone

    assert datetime(2026, 1, 1, tzinfo=UTC).astimezone(zone).hour == 8


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../etc/passwd", "Asia", "a\0b"])
def test_what_is_no_time_zone_is_refused_by_name(name: str) -> None:
    with pytest.raises(SettingsError, match=r"not an IANA time zone") as refused:
        load(MeshSettings, tz=name)

    assert "\n" not in str(refused.value)
