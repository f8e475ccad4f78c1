"""This is about what a script of the scripted provider may say (SPEC LLM-40 to LLM-44).

`script_file` reads and checks one; `script_rules` applies it.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from aalis_contracts.models import Capability, FinishReason, ProfileName, Purpose
from aalis_contracts.text import JsonObject


class _Part(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        frozen=True,
        extra="forbid",
    )


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
    return pattern


Pattern = Annotated[str, AfterValidator(_compiles)]
Count = Annotated[int, Field(ge=0)]
Milliseconds = Annotated[int, Field(ge=0, le=600_000)]


class ScriptModel(_Part):
    """A model that the scripted provider lists."""

    id: Annotated[str, Field(min_length=1)]
    context_length: Annotated[int, Field(gt=0)]
    max_output_tokens: Annotated[int, Field(gt=0)] | None = None
    capabilities: list[Capability] = ["chat", "tool_calling", "streaming", "thinking", "vision"]
    profile: ProfileName = "openai"


class When(_Part):
    """What must hold for a rule to answer; all given keys must (SPEC LLM-41)."""

    text: Pattern | None = None
    iteration: Count | None = None
    attempt: Annotated[int, Field(ge=1)] | None = None
    result: Pattern | None = None
    tool: str | None = None
    error: bool | None = None
    offers: str | None = None
    model: str | None = None
    think: bool | None = None
    purpose: Purpose | None = None


class CallSpec(_Part):
    """A tool call of a reply; `args` may be a raw, also malformed, string."""

    tool: str
    args: JsonObject | str = Field(default_factory=dict)
    id: str | None = None


class StreamSpec(_Part):
    """How an answer is written: characters a chunk, and the waits."""

    chunk: Annotated[int, Field(ge=1)] = 16
    delay_ms: Milliseconds = 0
    first_ms: Milliseconds = 0


class UsageSpec(_Part):
    """Token counts to report instead of the counted ones."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    cached_prompt_tokens: Count | None = None


class FailSpec(_Part):
    """An HTTP error before the first delta (SPEC LLM-43)."""

    status: Annotated[int, Field(ge=400, le=599)]
    message: str = "scripted failure"
    code: str | None = None
    retry_after: Annotated[float, Field(ge=0)] | None = None


class CutSpec(_Part):
    """Ends the stream after some chunks: by a lost connection, or without its terminator."""

    after: Count
    how: Literal["drop", "noDone"] = "drop"


class Rule(_Part):
    """When it holds, what is answered. Without `reply`, `think` and `call` the text is empty."""

    when: When = When()
    first: Annotated[int, Field(ge=1)] | None = None
    repeat: bool = False
    reply: str | None = None
    think: str | None = None
    call: list[CallSpec] = []
    stream: StreamSpec = StreamSpec()
    usage: UsageSpec | None = None
    finish: FinishReason | None = None
    fail: FailSpec | None = None
    overflow: bool = False
    cut: CutSpec | None = None
    hang: bool = False

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        answers = self.reply is not None or self.think is not None or bool(self.call)
        endings = [self.fail is not None, self.overflow, self.hang, answers]
        if sum(endings) > 1:
            raise ValueError(
                "a rule either answers (reply, think, call), fails, overflows or hangs"
            )
        if self.cut and not answers:
            raise ValueError("cut needs something to cut: give reply, think or call")
        return self

    @model_validator(mode="after")
    def _has_the_groups_it_uses(self) -> Self:
        used = [int(number) for number in _MATCH_GROUP.findall(self.model_dump_json())]
        groups = re.compile(self.when.text).groups if self.when.text is not None else 0
        if used and max(used) > groups:
            raise ValueError(f"{{match.{max(used)}}} is used, but `text` has {groups} groups")
        return self


_MATCH_GROUP: Final = re.compile(r"\{match\.(\d{1,3})\}")


def _demo_models() -> list[ScriptModel]:
    return [
        ScriptModel(id="demo", context_length=32_000, max_output_tokens=4096),
        ScriptModel(id="tiny", context_length=4000, max_output_tokens=512),
    ]


class Script(_Part):
    """A whole script: the models it lists beside `demo` and `tiny`, and its rules in order."""

    models: list[ScriptModel] = []
    rules: list[Rule] = []

    def all_models(self) -> list[ScriptModel]:
        """Return the models, sorted by id; one of the script replaces a built-in one."""
        by_id = {model.id: model for model in [*_demo_models(), *self.models]}
        return [by_id[name] for name in sorted(by_id)]
