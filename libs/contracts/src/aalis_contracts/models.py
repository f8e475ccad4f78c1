"""This is about models: what they can do, what they are asked, what they answer (CON-36 to 39)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, FiniteFloat

from aalis_contracts.contract import Contract
from aalis_contracts.messages import Message, ToolCall, ToolCallProgress
from aalis_contracts.text import CarriedObject
from aalis_contracts.tools import ToolDefinition

Capability = Literal[
    "chat",
    "tool_calling",
    "streaming",
    "vision",
    "thinking",
    "audio",
    "audio_transcription",
    "video",
]
ProfileName = Literal["openai", "deepseek", "anthropic", "strict"]
FinishReason = Literal["stop", "tool_calls", "length", "content_filter"]
Purpose = Literal["chat", "summary", "title"]


class ModelEntry(Contract):
    """A model that may be chosen (SPEC CON-36)."""

    provider_id: Annotated[str, Field(min_length=1)]
    id: Annotated[str, Field(min_length=1)]
    context_length: Annotated[int, Field(gt=0)]
    max_output_tokens: Annotated[int, Field(gt=0)] | None = None
    capabilities: list[Capability]
    profile: ProfileName = "openai"

    @property
    def context_id(self) -> str:
        """The name by which `/model` lists it: `<providerId>/<id>`."""
        return f"{self.provider_id}/{self.id}"

    def can(self, capability: Capability) -> bool:
        """Say whether the entry claims `capability`."""
        return capability in self.capabilities


class Usage(Contract):
    """Tokens as the provider reported them; `cached_prompt_tokens` absent = unknown."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cached_prompt_tokens: int | None = None


class ChatRequest(Contract):
    """One question to a model (SPEC CON-37); the entry is bound, so no model name."""

    messages: list[Message]
    tools: list[ToolDefinition] | None = None
    temperature: FiniteFloat | None = None
    max_tokens: int | None = None
    think: bool | None = None
    attempt: int | None = None
    purpose: Purpose | None = None


class ChatResponse(Contract):
    """A whole answer (SPEC CON-38)."""

    content: str | None = None
    tool_calls: list[ToolCall] | None = None
    reasoning_content: str | None = None
    provider_data: CarriedObject | None = None
    finish_reason: FinishReason = "stop"
    usage: Usage | None = None


class ChatChunk(Contract):
    """A piece of an answer (SPEC CON-39).

    `tool_calls`, `finish_reason`, `usage` and `provider_data` mean something only on the chunk
    with `done`.
    """

    content_delta: str | None = None
    reasoning_delta: str | None = None
    tool_call_progress: ToolCallProgress | None = None
    tool_calls: list[ToolCall] | None = None
    provider_data: CarriedObject | None = None
    done: bool | None = None
    finish_reason: FinishReason | None = None
    usage: Usage | None = None
