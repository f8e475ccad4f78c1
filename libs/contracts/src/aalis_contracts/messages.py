"""This is about messages: what people say, what is kept, what is sent back (SPEC CON-20 to 27).

`Message` is the form inside the system and in the store; `IncomingMessage` is what an adapter
publishes; `OutgoingMessage` is what it delivers; `StreamFrame` is text while it is written.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, cast

from pydantic import Field, FiniteFloat, StringConstraints, model_validator

from aalis_contracts.contract import Contract, OpenContract
from aalis_contracts.text import CarriedObject, CarriedValue, any_json, well_formed

SessionId = Annotated[str, StringConstraints(min_length=1)]
"""Any non-empty string is a legal session id."""

SessionType = Literal["group", "private", "channel"]
MemberRole = Literal["owner", "admin", "member"]
TriggerType = Literal["direct", "immediate", "interval", "idle", "proactive"]
AttachmentKind = Literal["image", "audio", "video", "file"]
OutgoingSource = Literal["agent", "system", "command"]
Outcome = Literal["replied", "silent", "aborted", "error"]

USER_LANE: Final = "user"
"""The source of a lane whose messages name none."""

CONTROL_KINDS: Final = frozenset({"event-marker"})
"""Kinds that are never shown to a model (SPEC CON-23)."""

DELEGATION_KIND: Final = "cross-session-delegation"


class FunctionCall(OpenContract):
    """The function half of a tool call; `arguments` is a JSON string, possibly empty."""

    name: str
    arguments: str = ""


class ToolCall(OpenContract):
    """A call that a model asked for (SPEC CON-20); extra keys survive (CON-6)."""

    id: str
    type: Literal["function"] = "function"
    function: FunctionCall


class ContentSegment(Contract):
    """One piece of a turn as a page shows it (SPEC CON-22); which fields apply follows `type`."""

    type: Literal["text", "reasoning_text", "tool_call"]
    content: str | None = None
    name: str | None = None
    args: CarriedValue = None
    call_id: str | None = None
    result: str | None = None
    start_time: int | None = None
    end_time: int | None = None


class Message(Contract):
    """A message of a session as history, prompt and store know it (SPEC CON-21)."""

    role: str
    content: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    kind: str | None = None
    timestamp: int | None = None
    reasoning_content: str | None = None
    segments: list[ContentSegment] | None = None
    images: list[str] | None = None
    audios: list[str] | None = None
    metadata: CarriedObject | None = None
    provider_data: CarriedObject | None = None
    input_seq: int | None = None
    index: int | None = None

    @model_validator(mode="before")
    @classmethod
    def _flatten(cls, data: object) -> object:
        return _with_flat_content(_with_own_reasoning(data))

    @property
    def injector(self) -> str | None:
        """Who put this system message there (`metadata.injector`), if anyone says."""
        label = (self.metadata or {}).get("injector")
        return label if isinstance(label, str) and label else None


class MessageAttachment(Contract):
    """Something sent along with a message (SPEC CON-24)."""

    kind: AttachmentKind
    data: str | None = None
    mime_type: str | None = None
    name: str | None = None
    source_id: str | None = None
    byte_size: int | None = None
    duration_sec: FiniteFloat | None = None
    description: str | None = None
    ref: str | None = None
    skip_archive: bool | None = None


class ReplyTo(Contract):
    """The message that an incoming one answers."""

    message_id: str
    content: str | None = None
    user_id: str | None = None
    nickname: str | None = None


class Actor(Contract):
    """An identity used for permission only (SPEC CMD-13)."""

    platform: str
    user_id: str


class ModelRef(Contract):
    """A reference to a model; only provider *and* model together count (SPEC AG-66)."""

    provider: str | None = None
    model: str | None = None


class IncomingMessage(Contract):
    """What a person said, as an adapter publishes it (SPEC CON-25)."""

    content: str
    session_id: SessionId
    platform: Annotated[str, StringConstraints(min_length=1)]
    user_id: str | None = None
    nickname: str | None = None
    message_id: str | None = None
    attachments: list[MessageAttachment] | None = None
    attachment_descriptions: list[str | None] | None = None
    session_type: SessionType | None = None
    source: str | None = None
    group_id: str | None = None
    group_name: str | None = None
    sender_role: MemberRole | None = None
    sender_title: str | None = None
    self_role: MemberRole | None = None
    self_title: str | None = None
    reply_to: ReplyTo | None = None
    notice_type: str | None = None
    trigger_type: TriggerType | None = None
    actor: Actor | None = None
    llm: ModelRef | None = None
    timestamp: int | None = None
    metadata: CarriedObject | None = None

    @model_validator(mode="before")
    @classmethod
    def _flatten(cls, data: object) -> object:
        return _with_flat_content(data, empty="")

    @property
    def lane(self) -> str:
        """The source of the lane this message belongs to."""
        return self.source or USER_LANE


class ModelInfo(Contract):
    """Which model wrote a reply and what it took (SPEC AG-57); unknown values are left out."""

    provider: str | None = None
    model: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    elapsed_ms: int | None = None


class OutgoingMessage(Contract):
    """A message for an adapter to deliver (SPEC CON-26); `id` makes sending it idempotent."""

    id: Annotated[str, StringConstraints(min_length=1)]
    content: str
    session_id: SessionId
    platform: Annotated[str, StringConstraints(min_length=1)]
    turn_id: str | None = None
    reasoning_content: str | None = None
    segments: list[ContentSegment] | None = None
    attachments: list[MessageAttachment] | None = None
    source: OutgoingSource
    model_info: ModelInfo | None = None


class ToolCallProgress(Contract):
    """How much of a tool call has been written so far; for display only."""

    index: int
    name: str | None = None
    chars_accumulated: int = 0


class StreamFrame(Contract):
    """A piece of a turn while it is written (SPEC CON-27, STR-1 to STR-5)."""

    session_id: SessionId
    platform: str
    turn_id: str
    seq: Annotated[int, Field(ge=0)]
    iteration: int | None = None
    attempt: int | None = None
    content_delta: str | None = None
    reasoning_delta: str | None = None
    tool_call_progress: ToolCallProgress | None = None
    done: bool | None = None
    outcome: Outcome | None = None
    tool_limit_reached: bool | None = None
    shortened: bool | None = None


def sender_label(nickname: str | None, user_id: str | None) -> str | None:
    """Return `nick(id)`, else what there is of the two (SPEC CON-41)."""
    if nickname and user_id:
        return f"{nickname}({user_id})"
    return nickname or user_id or None


def flatten_content(content: object) -> tuple[str | None, list[str]]:
    """Turn any `content` met at an edge into text and image references (SPEC CON-7).

    Text parts are joined by newlines, image parts are moved out, anything else becomes compact
    JSON without binary fields; a lone part counts as a list of one. Nothing raises, whatever the
    value is.
    """
    if content is None:
        return None, []
    parts = cast("list[object]", content) if isinstance(content, list) else [content]
    texts: list[str] = []
    images: list[str] = []
    for part in parts:
        text, image = _flatten_part(part)
        if image is not None:
            images.append(image)
        elif text is not None:
            texts.append(text)
    return "\n".join(texts), images


def _flatten_part(part: object) -> tuple[str | None, str | None]:
    """Return (text, image reference) of one content part; at least one of the two is None."""
    if part is None:
        return None, None
    if isinstance(part, str):
        return well_formed(part), None
    if not isinstance(part, dict):
        return any_json(part), None
    fields = cast("dict[str, object]", part)
    kind = fields.get("type")
    text = fields.get("text")
    if isinstance(text, str) and (kind is None or _is_one_of(kind, _TEXT_PARTS)):
        return well_formed(text), None
    if _is_one_of(kind, _IMAGE_PARTS) and (image := _image_reference(fields)) is not None:
        return None, well_formed(image)
    return any_json(_without_binary(fields)), None


def _with_own_reasoning(data: object) -> object:
    """Move thoughts that stand among the parts of an answer to where thoughts belong.

    Otherwise they would be taken for words that were said. Their signatures do not outlive that.
    """
    if not isinstance(data, dict):
        return data
    fields = cast("dict[str, object]", data)
    content = fields.get("content")
    if fields.get("role") != "assistant" or not isinstance(content, list):
        return fields
    parts = cast("list[object]", content)
    thoughts = [thought for part in parts if (thought := _thought(part)) is not None]
    if not thoughts:
        return fields
    said = [part for part in parts if _thought(part) is None]
    has_own = bool(fields.keys() & {"reasoningContent", "reasoning_content"})
    kept = {} if has_own else {"reasoning_content": "".join(thoughts) or None}
    return {**fields, "content": said, **kept}


def _thought(part: object) -> str | None:
    """Return what a part of an answer thinks, empty when that is hidden; None if it is none."""
    if not isinstance(part, dict):
        return None
    fields = cast("dict[str, object]", part)
    if not _is_one_of(fields.get("type"), _THOUGHT_PARTS):
        return None
    text = fields.get("thinking", fields.get("text"))
    return well_formed(text) if isinstance(text, str) else ""


_THOUGHT_PARTS = frozenset({"thinking", "redacted_thinking", "reasoning"})
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
_IMAGE_PARTS = frozenset({"image", "image_url", "input_image"})
_BINARY_FIELDS = frozenset({"data", "bytes", "blob", "source", "image_url", "input_audio", "file"})


def _is_one_of(kind: object, names: frozenset[str]) -> bool:
    return isinstance(kind, str) and kind in names


def _without_binary(fields: dict[str, object]) -> dict[str, object]:
    return {
        key: value
        for key, value in fields.items()
        if key not in _BINARY_FIELDS and not isinstance(value, bytes | bytearray)
    }


def _image_reference(fields: dict[str, object]) -> str | None:
    """Read an image part in the OpenAI, Anthropic, MCP or plain form."""
    url = fields.get("image_url", fields.get("url"))
    if isinstance(url, dict):
        url = cast("dict[str, object]", url).get("url")
    if isinstance(url, str):
        return url
    source = fields.get("source", fields)
    if not isinstance(source, dict):
        return None
    named = cast("dict[str, object]", source)
    if isinstance(named.get("url"), str):
        return cast("str", named["url"])
    if isinstance(named.get("data"), str):
        mime = named.get("media_type", named.get("mimeType"))
        prefix = f"data:{mime if isinstance(mime, str) else 'image/png'};base64,"
        return f"{prefix}{named['data']}"
    return None


def _with_flat_content(data: object, empty: str | None = None) -> object:
    """Flatten `content` of a raw message object, keeping everything else as it is."""
    if not isinstance(data, dict):
        return data
    fields = cast("dict[str, object]", data)
    content = fields.get("content")
    if isinstance(content, str) or "content" not in fields:
        return fields
    text, images = flatten_content(content)
    flat: dict[str, object] = {**fields, "content": empty if text is None else text}
    if images and empty is None:
        earlier = fields.get("images")
        kept = cast("list[object]", earlier) if isinstance(earlier, list) else []
        flat["images"] = [*kept, *images]
    elif images:
        earlier = fields.get("attachments")
        kept = cast("list[object]", earlier) if isinstance(earlier, list) else []
        flat["attachments"] = [*kept, *({"kind": "image", "data": image} for image in images)]
    return flat
