"""Which providers serve, as the environment says it (LLM-1 to LLM-4, LLM-20, AG-9)."""

from pathlib import Path

import pytest

from aalis_llm.config import VARIABLES, ScriptedSettings, settings_from
from aalis_llm.env import InvalidSetting
from aalis_llm.providers import build_providers
from aalis_llm.script_file import parse_script
from aalis_llm.scripted_http import ScriptedServer
from aalis_llm.settings import AnthropicSettings, CustomModel, OpenAISettings


def names(environment: dict[str, str]) -> list[str]:
    return [instance.provider_id for instance in settings_from(environment).instances]


def openai(environment: dict[str, str]) -> OpenAISettings:
    instance = settings_from({"OPENAI_API_KEY": "k", **environment}).instances[0]
    assert isinstance(instance, OpenAISettings)
    return instance


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ["scripted"]),
        ({"OPENAI_API_KEY": "  "}, ["scripted"]),
        ({"OPENAI_API_KEY": "k"}, ["openai"]),
        ({"OPENAI_BASE_URL": "http://localhost:11434/v1"}, ["openai"]),
        ({"ANTHROPIC_API_KEY": "k"}, ["anthropic"]),
        ({"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}, ["openai", "anthropic"]),
        ({"OPENAI_API_KEY": "k", "AALIS_PROVIDERS": "scripted, openai"}, ["scripted", "openai"]),
        ({"AALIS_PROVIDERS": "openai:local,openai:work"}, ["openai:local", "openai:work"]),
    ],
)
def test_keys_or_the_list_choose_the_instances(
    environment: dict[str, str], expected: list[str]
) -> None:
    assert names(environment) == expected


def test_every_setting_of_an_instance_is_read() -> None:
    found = openai(
        {
            "OPENAI_BASE_URL": "http://localhost:1/v1//",
            "AALIS_OPENAI_CUSTOM_MODELS": "a, b/c:d=1000\ne=2000/100,",
            "AALIS_OPENAI_MODEL_CAPABILITIES": "ft:gpt:1: chat, vision\nm: chat;",
            "AALIS_OPENAI_PROVIDER_CAPABILITIES": "chat, thinking",
            "AALIS_OPENAI_TIMEOUT": "0",
            "AALIS_OPENAI_TEMPERATURE": "0.2",
            "AALIS_OPENAI_MAX_TOKENS": "99",
            "AALIS_OPENAI_CONTEXT_LENGTH": "999",
            "AALIS_OPENAI_DISCOVER_MODELS": "off",
            "AALIS_OPENAI_THINKING_PARAM": "ON",
            "AALIS_OPENAI_PROFILE": "strict",
        }
    )

    assert found.base_url == "http://localhost:1/v1"
    assert found.custom_models == (
        CustomModel("a"),
        CustomModel("b/c:d", 1000),
        CustomModel("e", 2000, 100),
    )
    assert found.model_capabilities == {"ft:gpt:1": ("chat", "vision"), "m": ("chat",)}
    assert found.provider_capabilities == ("chat", "thinking")
    assert found.patience.whole == 0
    assert (found.temperature, found.max_tokens, found.context_length) == (0.2, 99, 999)
    assert (found.discover_models, found.thinking_param, found.profile) == (False, True, "strict")


def test_defaults_are_those_of_the_profile() -> None:
    plain, deepseek = openai({}), openai({"AALIS_OPENAI_PROFILE": "deepseek"})

    assert (plain.temperature, plain.max_tokens, plain.context_length) == (0.7, 4096, 128_000)
    assert (deepseek.max_tokens, deepseek.context_length) == (8192, 131_072)
    assert (
        openai({"AALIS_OPENAI_PROFILE": "deepseek", "AALIS_OPENAI_MAX_TOKENS": "5"}).max_tokens == 5
    )


def test_a_named_instance_has_its_own_variables() -> None:
    environment = {
        "OPENAI_API_KEY": "common",
        "AALIS_PROVIDERS": "openai:my-box,anthropic:team",
        "AALIS_OPENAI_MY_BOX_BASE_URL": "http://box/v1",
        "AALIS_ANTHROPIC_TEAM_API_KEY": "own",
    }
    box, team = settings_from(environment).instances

    assert isinstance(box, OpenAISettings)
    assert isinstance(team, AnthropicSettings)
    assert (box.api_key, box.base_url) == ("", "http://box/v1")
    assert team.api_key == "own"


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("https://api.anthropic.com", "https://api.anthropic.com/v1"),
        ("https://api.anthropic.com/v1/", "https://api.anthropic.com/v1"),
        ("http://proxy/claude", "http://proxy/claude"),
    ],
)
def test_the_official_address_may_leave_its_version_out(given: str, used: str) -> None:
    instance = settings_from({"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": given}).instances[0]

    assert isinstance(instance, AnthropicSettings)
    assert instance.base_url == used


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("AALIS_PROVIDERS", "openai,openai", "each once"),
        ("AALIS_PROVIDERS", "llama", "names like"),
        ("AALIS_PROVIDERS", "openai:a/b", "names like"),
        ("AALIS_PROVIDERS", " , ", "names like"),
        ("OPENAI_BASE_URL", "localhost:11434", "http:// or https://"),
        ("OPENAI_BASE_URL", "http://[", "http:// or https://"),
        ("AALIS_OPENAI_TIMEOUT", "-1", "from 0 to 86400"),
        ("AALIS_OPENAI_TEMPERATURE", "hot", "from 0 to 2"),
        ("AALIS_OPENAI_TEMPERATURE", "nan", "from 0 to 2"),
        ("AALIS_OPENAI_MAX_TOKENS", "0", "an integer from 1"),
        ("AALIS_OPENAI_MAX_TOKENS", "4k", "an integer from 1"),
        ("AALIS_OPENAI_MAX_TOKENS", "9" * 11, "an integer from 1"),
        ("AALIS_OPENAI_DISCOVER_MODELS", "maybe", "on or off"),
        ("AALIS_OPENAI_PROFILE", "gemini", "openai, deepseek, strict"),
        ("AALIS_OPENAI_PROVIDER_CAPABILITIES", "chat, fly", "chat, tool_calling"),
        ("AALIS_OPENAI_MODEL_CAPABILITIES", "m chat", "lines"),
        ("AALIS_OPENAI_MODEL_CAPABILITIES", ": chat", "lines"),
        ("AALIS_OPENAI_MODEL_CAPABILITIES", "m: fly", "made of"),
        ("AALIS_OPENAI_CUSTOM_MODELS", "m=big", "id=window"),
        ("AALIS_OPENAI_CUSTOM_MODELS", "m=0", "id=window"),
    ],
)
def test_a_bad_value_is_one_line_with_variable_value_and_range(
    name: str, value: str, wanted: str
) -> None:
    with pytest.raises(InvalidSetting) as caught:
        settings_from({"OPENAI_API_KEY": "k", name: value})

    told = str(caught.value)
    assert told.startswith(f"{name}={value.strip()[:10]}")
    assert wanted in told
    assert "\n" not in told


def test_a_bad_script_stops_the_start_with_file_line_and_reason(tmp_path: Path) -> None:
    script = tmp_path / "s.yaml"
    script.write_text("rules:\n- {}\n- oops: 1\n", encoding="utf-8")
    with pytest.raises(InvalidSetting, match=r"AALIS_SCRIPT=.*s\.yaml:3: .*not permitted"):
        settings_from({"AALIS_SCRIPT": str(script)})


def test_a_script_of_ones_own_is_played(tmp_path: Path) -> None:
    script = tmp_path / "s.yaml"
    script.write_text("rules:\n- reply: mine\n", encoding="utf-8")
    instance = settings_from({"AALIS_SCRIPT": str(script)}).instances[0]

    assert isinstance(instance, ScriptedSettings)
    assert instance.script.rules[0].reply == "mine"


def test_keys_are_not_in_any_representation() -> None:
    assert "geheim" not in repr(settings_from({"OPENAI_API_KEY": "geheim"}))
    assert "geheim" not in str(InvalidSetting("X_API_KEY", "geheim", "other"))


def test_every_variable_has_a_row_in_the_table() -> None:
    assert len({row.name for row in VARIABLES}) == len(VARIABLES)
    assert all(row.meaning for row in VARIABLES)


@pytest.mark.parametrize(
    ("environment", "problem"),
    [
        ({"AALIS_PROVIDERS": "openai"}, {"openai": "the official host needs a key"}),
        ({"AALIS_PROVIDERS": "anthropic"}, {"anthropic": "the official host needs a key"}),
        (
            {"OPENAI_BASE_URL": "http://x/v1", "AALIS_OPENAI_PROFILE": "deepseek"},
            {"openai": "the profile deepseek needs a key"},
        ),
        ({"AALIS_PROVIDERS": "anthropic,scripted"}, {"anthropic": "the official host needs a key"}),
        ({"OPENAI_BASE_URL": "http://api.openai.com.example/v1"}, {}),
        ({}, {}),
    ],
)
async def test_an_instance_that_cannot_serve_is_a_named_problem(
    environment: dict[str, str], problem: dict[str, str]
) -> None:
    providers = build_providers(settings_from(environment))

    assert providers.problems == problem
    await providers.close()


async def test_models_are_listed_by_instance_then_id_and_resolved_exactly() -> None:
    async with ScriptedServer(parse_script("models: [{id: a/b, contextLength: 9}]")) as server:
        environment = {
            "AALIS_PROVIDERS": "scripted,openai:x,anthropic:y,openai",
            "AALIS_OPENAI_X_BASE_URL": server.url,
            "AALIS_ANTHROPIC_Y_BASE_URL": server.url,
        }
        providers = build_providers(settings_from(environment))
        report = await providers.refresh()
        listed = [entry.context_id for entry in await providers.entries()]
        model = await providers.resolve("openai:x/a/b")
        assert [each.provider_id for each in providers.instances] == [
            "scripted",
            "openai:x",
            "anthropic:y",
        ]
        missing = [await providers.resolve(name) for name in ("openai:x", "a/b", "", "openai/demo")]
        await providers.close()

    assert listed == [
        "scripted/demo",
        "scripted/tiny",
        "openai:x/a/b",
        "openai:x/demo",
        "openai:x/tiny",
        "anthropic:y/a/b",
        "anthropic:y/demo",
        "anthropic:y/tiny",
    ]
    assert "openai:x/a/b" in report.added
    assert report.total == 8
    assert report.problem == "openai: the official host needs a key"
    assert model is not None
    assert model.entry.id == "a/b"
    assert model.provider.provider_id == "openai:x"
    assert missing == [None] * 4


async def test_a_provider_that_is_down_at_start_is_a_problem_and_not_the_end() -> None:
    async with ScriptedServer() as server:
        url = server.url
    providers = build_providers(
        settings_from({"OPENAI_BASE_URL": url, "AALIS_PROVIDERS": "openai,scripted"})
    )
    report = await providers.refresh()
    listed = await providers.entries()
    await providers.close()

    assert "connection" in providers.problems["openai"]
    assert report.problem is not None
    assert "127.0.0.1" not in report.problem
    assert [entry.provider_id for entry in listed] == ["scripted", "scripted"]
