"""Sessions: their record and their settings (SPEC CON-31, CON-32)."""

from __future__ import annotations

import pytest

from aalis_contracts.contract import InvalidBody
from aalis_contracts.sessions import SessionConfig, SessionDefaults


def test_defaults_for_children_are_a_config_without_itself() -> None:
    own = SessionConfig.model_fields.keys() - SessionDefaults.model_fields.keys()
    assert own == {"session_defaults"}
    nested = SessionConfig.from_json(b'{"sessionDefaults":{"sessionDefaults":{"think":true}}}')
    assert nested.session_defaults == SessionDefaults()


@pytest.mark.parametrize("limit", [b"5", b"0", b"-1", b"2.5"])
def test_a_limit_of_iterations_is_kept_as_it_was_given(limit: bytes) -> None:
    body = b'{"maxToolIterations":' + limit + b"}"
    assert SessionConfig.from_json(body).to_json() == body


@pytest.mark.parametrize("think", [b"true", b"false"])
def test_a_false_setting_is_a_setting(think: bytes) -> None:
    body = b'{"think":' + think + b"}"
    assert SessionConfig.from_json(body).to_json() == body


def test_groups_that_are_no_list_are_refused() -> None:
    with pytest.raises(InvalidBody, match="enabledToolGroups"):
        SessionConfig.from_json(b'{"enabledToolGroups":"web"}')


def test_a_patch_sets_what_it_gives_and_unsets_what_it_nulls() -> None:
    config = SessionConfig.from_json(b'{"persona":"catgirl","think":true,"maxToolIterations":3}')
    patch = SessionConfig.from_json(b'{"persona":"plain","think":null,"systemPromptExtra":null}')
    assert config.patched(patch).to_json() == b'{"persona":"plain","maxToolIterations":3}'
    assert config.patched(SessionConfig()) == config


def test_a_patch_carries_its_nulls_over_the_wire() -> None:
    patch = SessionConfig(llm=None, think=False)
    assert patch.to_patch_json() == b'{"llm":null,"think":false}'
    read = SessionConfig.from_json(patch.to_patch_json())
    assert read.model_fields_set == {"llm", "think"}
