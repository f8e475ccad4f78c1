"""This is about the settings of provider instances (SPEC LLM-20): names, defaults, ranges.

`config` reads them from the environment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import urlsplit

from aalis_contracts.models import Capability, ProfileName

OpenAIProfile = Literal["openai", "deepseek", "strict"]
OPENAI_URL: Final = "https://api.openai.com/v1"
ANTHROPIC_URL: Final = "https://api.anthropic.com/v1"
_OFFICIAL: Final = frozenset({"api.openai.com", "api.anthropic.com"})


@dataclass(frozen=True)
class CustomModel:
    """A model that is listed whether or not the provider names it."""

    id: str
    context_length: int | None = None
    max_output_tokens: int | None = None


@dataclass(frozen=True)
class Patience:
    """How long a call may take, in seconds; 0 = unlimited (SPEC LLM-9)."""

    whole: float = 120.0
    headers_warning: float = 15.0
    frame_warning: float = 30.0
    listing: float = 10.0


@dataclass(frozen=True)
class ProviderSettings:
    """What every provider instance has."""

    provider_id: str
    api_key: str = field(default="", repr=False)
    base_url: str = ""
    custom_models: tuple[CustomModel, ...] = ()
    model_capabilities: dict[str, tuple[Capability, ...]] = field(
        default_factory=dict[str, tuple[Capability, ...]]
    )
    provider_capabilities: tuple[Capability, ...] = ("chat", "tool_calling", "streaming")
    patience: Patience = Patience()
    temperature: float = 0.7
    max_tokens: int = 4096
    context_length: int = 128_000
    discover_models: bool = True

    @property
    def is_official(self) -> bool:
        """Whether the host, and not some server that speaks alike, is asked."""
        return urlsplit(self.base_url).hostname in _OFFICIAL

    @property
    def problem(self) -> str | None:
        """Why this instance cannot serve, None if it may: the official hosts need a key."""
        if self.is_official and not self.api_key:
            return "the official host needs a key"
        return None


@dataclass(frozen=True)
class OpenAISettings(ProviderSettings):
    """An OpenAI-compatible server."""

    base_url: str = OPENAI_URL
    thinking_param: bool = False
    profile: OpenAIProfile = "openai"

    @property
    def problem(self) -> str | None:
        """No key is fine anywhere but at the official host and for deepseek (SPEC LLM-21, 23)."""
        if self.profile == "deepseek" and not self.api_key:
            return "the profile deepseek needs a key"
        return super().problem


@dataclass(frozen=True)
class AnthropicSettings(ProviderSettings):
    """The Anthropic Messages API, or a server that speaks it."""

    base_url: str = ANTHROPIC_URL
    provider_capabilities: tuple[Capability, ...] = (
        "chat",
        "tool_calling",
        "streaming",
        "vision",
        "thinking",
    )
    context_length: int = 200_000
    profile: ProfileName = "anthropic"


def clean_base_url(url: str) -> str:
    """Return the prefix to which paths are appended: without trailing slashes (SPEC LLM-20)."""
    return url.strip().rstrip("/")
