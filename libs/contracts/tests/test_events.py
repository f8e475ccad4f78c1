"""Events: facts and signals that services announce (SPEC §1.3)."""

from __future__ import annotations

import pytest

from aalis_contracts.contract import Contract, InvalidBody
from aalis_contracts.events import UsageBreakdown
from aalis_contracts.examples import EXAMPLES
from aalis_contracts.subjects import ROUTES

NAMES = sorted({route.body for route in ROUTES if route.kind != "request"} - {"DeadLetter"})
KEYED = [name for name in NAMES if "session_id" in type(EXAMPLES[name]).model_fields]


@pytest.mark.parametrize("name", KEYED)
@pytest.mark.parametrize("session", ["", None, 5, ["s"]])
def test_an_event_without_a_session_is_refused(name: str, session: object) -> None:
    cls: type[Contract] = type(EXAMPLES[name])
    with pytest.raises(InvalidBody, match="sessionId"):
        cls.from_object({**EXAMPLES[name].to_object(), "sessionId": session})


def test_every_event_is_of_a_session_save_its_record_and_a_cancel() -> None:
    assert sorted(set(NAMES) - set(KEYED)) == ["SessionInfo", "ToolCancel"]


def test_a_breakdown_has_twelve_numbers() -> None:
    numbers = [name for name, field in UsageBreakdown.model_fields.items() if field.is_required()]
    assert len(numbers) == 12
    assert UsageBreakdown.model_fields.keys() - numbers == {"injectors"}
