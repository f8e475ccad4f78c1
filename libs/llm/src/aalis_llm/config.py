"""This is about which model providers serve here, as the environment says it (SPEC LLM-2, LLM-20).

`AALIS_PROVIDERS` lists instances, `openai`, `anthropic`, `scripted`, or `openai:local` for a second
one of a type; without it, keys decide. The settings of an instance have its name as prefix:
`AALIS_OPENAI_MAX_TOKENS`, `AALIS_OPENAI_LOCAL_BASE_URL`. A bad value stops the start.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias, cast, get_args

from aalis_llm.checked_yaml import UnreadableYaml
from aalis_llm.env import Env, InvalidSetting
from aalis_llm.script import Script
from aalis_llm.script_file import demo_script, load_script
from aalis_llm.settings import (
    ANTHROPIC_URL,
    OPENAI_URL,
    AnthropicSettings,
    OpenAIProfile,
    OpenAISettings,
    Patience,
    ProviderSettings,
    clean_base_url,
)

_INSTANCE: Final = re.compile(r"(openai|anthropic|scripted)(?::([A-Za-z0-9_-]+))?")
_DAY: Final = 86_400.0


@dataclass(frozen=True)
class ScriptedSettings:
    """The scripted provider and what it plays."""

    provider_id: str
    script: Script


InstanceSettings: TypeAlias = OpenAISettings | AnthropicSettings | ScriptedSettings


class LlmSettings(NamedTuple):
    """The provider instances, in the order in which their models are listed (SPEC LLM-1)."""

    instances: tuple[InstanceSettings, ...]


class Variable(NamedTuple):
    """One row of the table of settings; `{P}` in a name stands for an instance's prefix."""

    name: str
    unit: str
    default: str
    meaning: str


VARIABLES: Final = (
    Variable("AALIS_PROVIDERS", "names", "by keys", "openai, anthropic, scripted, openai:NAME …"),
    Variable("AALIS_SCRIPT", "path", "built in", "script of the scripted provider"),
    Variable("OPENAI_API_KEY", "secret", "", "key of the instance openai"),
    Variable("OPENAI_BASE_URL", "url", OPENAI_URL, "prefix before /chat/completions and /models"),
    Variable("ANTHROPIC_API_KEY", "secret", "", "key of the instance anthropic"),
    Variable("ANTHROPIC_BASE_URL", "url", ANTHROPIC_URL, "prefix before /messages and /models"),
    Variable("{P}_API_KEY, {P}_BASE_URL", "", "", "the same for a named instance"),
    Variable("{P}_CUSTOM_MODELS", "list", "", "id, id=window or id=window/output, …"),
    Variable("{P}_MODEL_CAPABILITIES", "lines", "", "model: chat, vision; next: chat"),
    Variable("{P}_PROVIDER_CAPABILITIES", "list", "chat, tool_calling, streaming", "the others"),
    Variable("{P}_TIMEOUT", "s", "120", "whole call; 0 = unlimited"),
    Variable("{P}_TEMPERATURE", "", "0.7", "0 to 2, where the request says none"),
    Variable("{P}_MAX_TOKENS", "tokens", "4096 (deepseek 8192)", "longest answer"),
    Variable("{P}_CONTEXT_LENGTH", "tokens", "128000 (deepseek 131072)", "window of a model"),
    Variable("{P}_DISCOVER_MODELS", "on/off", "on", "ask the provider for its models"),
    Variable("{P}_THINKING_PARAM", "on/off", "off", "send thinking to an openai server"),
    Variable("{P}_PROFILE", "", "openai", "openai, deepseek or strict"),
)


def settings_from(environment: Mapping[str, str]) -> LlmSettings:
    """Read the provider instances; raise `InvalidSetting` with one line for a bad value."""
    env = Env(environment)
    return LlmSettings(tuple(_instance(name, env) for name in _names(env)))


def _names(env: Env) -> list[str]:
    """Return the instances asked for, or those that have a key, or the scripted one (LLM-2)."""
    listed = env.text("AALIS_PROVIDERS")
    if not listed:
        found: list[str] = []
        if env.text("OPENAI_API_KEY") or env.text("OPENAI_BASE_URL"):
            found.append("openai")
        if env.text("ANTHROPIC_API_KEY"):
            found.append("anthropic")
        return found or ["scripted"]
    names = [name.strip() for name in listed.split(",") if name.strip()]
    kinds = "names like openai, anthropic, scripted or openai:local, each once"
    if not names or len(set(names)) < len(names) or not all(map(_INSTANCE.fullmatch, names)):
        raise InvalidSetting("AALIS_PROVIDERS", listed, kinds)
    return names


def _instance(name: str, env: Env) -> InstanceSettings:
    kind, _, label = name.partition(":")
    prefix = f"AALIS_{kind}_{label}" if label else f"AALIS_{kind}"
    named = env.within(prefix.upper().replace("-", "_"))
    # The unnamed instance has the variables that every tool of its provider knows.
    common = env.within(kind.upper()) if not label else named
    if kind == "scripted":
        return ScriptedSettings(name, _script(env))
    if kind == "anthropic":
        return _anthropic(name, named, common)
    return _openai(name, named, common)


def _script(env: Env) -> Script:
    path = env.text("AALIS_SCRIPT")
    if not path:
        return demo_script()
    try:
        return load_script(path)
    except UnreadableYaml as error:
        raise InvalidSetting("AALIS_SCRIPT", path, f"a valid script ({error})") from None


def _openai(name: str, named: Env, common: Env) -> OpenAISettings:
    profiles: tuple[OpenAIProfile, ...] = get_args(OpenAIProfile)
    profile = cast("OpenAIProfile", named.choice("PROFILE", profiles, "openai"))
    most, window = (8192, 131_072) if profile == "deepseek" else (4096, 128_000)
    defaults = OpenAISettings(
        provider_id=name,
        profile=profile,
        max_tokens=most,
        context_length=window,
        thinking_param=named.flag("THINKING_PARAM", default=False),
        api_key=common.text("API_KEY"),
        base_url=clean_base_url(common.url("BASE_URL", OPENAI_URL)),
    )
    return replace(defaults, **_common(named, defaults))


def _anthropic(name: str, named: Env, common: Env) -> AnthropicSettings:
    url = clean_base_url(common.url("BASE_URL", ANTHROPIC_URL))
    if url == ANTHROPIC_URL.removesuffix("/v1"):
        url = ANTHROPIC_URL  # the official tools leave the version out
    defaults = AnthropicSettings(provider_id=name, api_key=common.text("API_KEY"), base_url=url)
    return replace(defaults, **_common(named, defaults))


def _common(env: Env, defaults: ProviderSettings) -> dict[str, object]:
    """Read what instances of every type have."""
    patience = Patience(whole=env.number("TIMEOUT", defaults.patience.whole, 0.0, _DAY))
    return {
        "custom_models": env.custom_models("CUSTOM_MODELS"),
        "model_capabilities": env.capability_lines("MODEL_CAPABILITIES"),
        "provider_capabilities": env.capabilities(
            "PROVIDER_CAPABILITIES", defaults.provider_capabilities
        ),
        "patience": patience,
        "temperature": env.number("TEMPERATURE", defaults.temperature, 0.0, 2.0),
        "max_tokens": env.count("MAX_TOKENS", defaults.max_tokens),
        "context_length": env.count("CONTEXT_LENGTH", defaults.context_length),
        "discover_models": env.flag("DISCOVER_MODELS", default=defaults.discover_models),
    }
