"""Settings: what counts where nobody says anything, and what is refused."""

import pytest
from pydantic import ValidationError

from aalis_agent.settings import AgentSettings
from aalis_sdk.settings import SettingsError, load


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("default_llm", None),
        ("system_prompt", ""),
        ("memory_token_budget", 4096),
        ("history_limit", 50),
        ("max_tool_iterations", 30),
        ("prompt_build_timeout_ms", 10_000),
        ("tool_result_max_ratio", 0.15),
        ("trim_threshold_ratio", 1.0),
    ],
)
def test_a_setting_nobody_made_has_its_default(name: str, default: object) -> None:
    assert AgentSettings.model_fields[name].get_default() == default


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("history_limit", -1),
        ("max_tool_iterations", 0),
        ("memory_token_budget", -1),
        ("prompt_build_timeout_ms", -1),
        ("tool_result_max_ratio", 0),
        ("trim_threshold_ratio", 1.01),
    ],
)
def test_a_value_that_makes_no_sense_stops_the_start_and_is_named(name: str, value: float) -> None:
    with pytest.raises((SettingsError, ValidationError), match=f"(?i){name}"):
        load(AgentSettings, **{name: value})
