"""This is about requests between services and their answers (SPEC §1.4)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from aalis_contracts.contract import Contract
from aalis_contracts.hooks import ClearReport
from aalis_contracts.messages import Actor, IncomingMessage, Message, MessageAttachment, SessionId
from aalis_contracts.models import ModelEntry
from aalis_contracts.text import CarriedObject, CarriedValue, JsonObject


class RowKey(Contract):
    """Where a stored message stands: (`inputSeq`, `index`) within its session (SPEC MEM-1)."""

    input_seq: int
    index: int


class HistoryGet(Contract):
    """`memory.history.get`: the newest `limit` rows not archived away, ascending (MEM-4)."""

    session_id: SessionId
    limit: int
    before: RowKey | None = None


class HistoryFull(Contract):
    """`memory.history.full`: like get, archived rows included."""

    session_id: SessionId
    limit: int = 200
    before: RowKey | None = None


class Rows(Contract):
    """Stored messages, ascending by key."""

    messages: list[Message]


class HistoryTrim(Contract):
    """`memory.history.trim`: mark all but the newest `keepRecent` rows as archived."""

    session_id: SessionId
    keep_recent: Annotated[int, Field(ge=0)]


class Count(Contract):
    """How many rows were touched."""

    count: int


class MessageSave(Contract):
    """`memory.message.save`: save rows in order; a key saved again changes nothing (MEM-1, 2).

    A message without `inputSeq` needs its place in `idempotencyKeys` at the same position.
    """

    session_id: SessionId
    messages: list[Message]
    idempotency_keys: list[str | None] | None = None


class MessageUpdate(Contract):
    """`memory.message.update`: replace `old` by `new` literally in the newest rows (MEM-6)."""

    session_id: SessionId
    old: Annotated[str, Field(min_length=1)]
    new: str
    recent_limit: Annotated[int, Field(gt=0)] = 100


class MessagesRange(Contract):
    """`memory.messages.range`: rows between two keys, both included, at most 500 (MEM-5)."""

    session_id: SessionId
    start: RowKey = Field(validation_alias="from", serialization_alias="from")
    end: RowKey = Field(validation_alias="to", serialization_alias="to")
    roles: list[str] | None = None
    exclude_kinds: list[str] | None = None


class MessagesRecent(Contract):
    """`memory.messages.recent`: newest rows across sessions (MEM-5)."""

    limit: Annotated[int, Field(ge=0, le=1000)] = 100
    since: int | None = None
    platform: str | None = None
    exclude_sessions: list[str] | None = None
    roles: list[str] | None = None
    kinds: list[str] | None = None
    exclude_kinds: list[str] | None = None


class SessionMessage(Contract):
    """A stored message together with its session."""

    session_id: SessionId
    message: Message


class SessionRows(Contract):
    """Stored messages of several sessions, ascending by time of insertion."""

    messages: list[SessionMessage]


class MessagesDelete(Contract):
    """`memory.messages.delete`: delete rows by key (MEM-6)."""

    session_id: SessionId
    keys: list[RowKey]


class MetadataKey(Contract):
    """`memory.metadata.get` and `.delete`."""

    namespace: Annotated[str, Field(min_length=1)]
    key: Annotated[str, Field(min_length=1)]


class MetadataPut(Contract):
    """`memory.metadata.put`; an absent `value` is the value null."""

    namespace: Annotated[str, Field(min_length=1)]
    key: Annotated[str, Field(min_length=1)]
    value: CarriedValue = None


class MetadataList(Contract):
    """`memory.metadata.list`."""

    namespace: Annotated[str, Field(min_length=1)]


class MetadataItem(Contract):
    """One stored value; absent is null."""

    namespace: str
    key: str
    value: CarriedValue = None
    updated_at: int


class MetadataItems(Contract):
    """Stored values; empty when there are none (a missing key is no error)."""

    items: list[MetadataItem]


class MetadataChange(Contract):
    """One change of a batch: put `value`, or delete the key."""

    op: Literal["put", "delete"]
    namespace: Annotated[str, Field(min_length=1)]
    key: Annotated[str, Field(min_length=1)]
    value: CarriedValue = None


class MetadataCommit(Contract):
    """`memory.metadata.commit`: all changes or none (MEM-7)."""

    changes: list[MetadataChange]


class MemoryClear(Contract):
    """`memory.clear`: clear a session, or everything (MEM-10); `types` absent means all."""

    scope: Literal["session", "all"] = "session"
    session_id: str | None = None
    types: list[str] | None = None


class ClearResults(Contract):
    """What each participant of a clear did."""

    results: list[ClearReport]


class ArchiveIncoming(Contract):
    """`memory.archive.incoming`: save what a person said (ARC-1 to ARC-3).

    `inputSeq` present: row (session, inputSeq, 0). Absent (a shadow archive): the row gets a
    key behind the newest input and is idempotent by `idempotencyKey` (MEM-2).
    """

    incoming: IncomingMessage
    input_seq: int | None = None
    idempotency_key: str | None = None
    timestamp: int | None = None


class Archived(Contract):
    """The stored row; `created` is false when it was there before."""

    message: Message
    created: bool


class ArchiveNotice(Contract):
    """`memory.archive.notice`: keep a platform notice (ARC-4)."""

    session_id: SessionId
    notice_type: Annotated[str, Field(min_length=1)]
    content: str
    idempotency_key: str | None = None
    platform: str | None = None
    user_id: str | None = None
    group_id: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    data: CarriedObject | None = None


class NoticeArchived(Contract):
    """The stored notice, or nothing when its text was blank."""

    message: Message | None = None


class ArchiveFind(Contract):
    """`memory.archive.find`: the newest row of a platform message id (ARC-4)."""

    session_id: SessionId
    message_id: str
    scan_limit: Annotated[int, Field(ge=1, le=500)] = 100


class ArchiveOutgoing(Contract):
    """Keep marker rows for attachments that were sent (ARC-6)."""

    session_id: SessionId
    idempotency_key: str
    attachments: list[MessageAttachment]


class DispatchReply(Contract):
    """`gateway.outbound.dispatch` → was it sent, and if not, why."""

    sent: bool
    reason: str | None = None


class SessionAbort(Contract):
    """`agent.session.abort`: end the running turns of a session (AG-13)."""

    session_id: SessionId
    lane: str | None = None
    include_children: bool | None = None


class AbortedLanes(Contract):
    """Which lanes had a running turn that is now aborted."""

    lanes: list[str]


class ModelsList(Contract):
    """`agent.models.list`: which models may be chosen."""


class Models(Contract):
    """The models, sorted as `/model` lists them."""

    entries: list[ModelEntry]


class PersonaGet(Contract):
    """`persona.prompt.get` (PER-1): the persona's texts for one turn."""

    session_id: SessionId
    persona: str | None = None
    disable_output_format: bool | None = None
    client_side_json_rendering: bool | None = None
    system_prompt_extra: str | None = None
    incoming: IncomingMessage | None = None


class PersonaPrompt(Contract):
    """The persona's texts; the volatile one goes after the history."""

    system_prompt: str
    volatile_prompt: str | None = None
    name: str
    nick_names: list[str] = Field(default_factory=list)


class PersonaList(Contract):
    """`persona.list`."""


class PersonaNames(Contract):
    """The personas that may be chosen."""

    names: list[str]


class CommandContext(Contract):
    """Who runs a command, and where its answer goes.

    `prefix` is what opens a command there, for answers that tell how another one is typed.
    """

    session_id: SessionId
    platform: str
    user_id: str | None = None
    nickname: str | None = None
    actor: Actor | None = None
    session_type: str | None = None
    group_id: str | None = None
    key: str
    locale: str | None = None
    prefix: str = "/"


class CommandRun(Contract):
    """`command.run.<path>`: run a command whose line has been parsed (SPEC §5.3).

    `args` and `options` are keyed by declared name. A repeated `context.key` is the same command
    delivered again: its effect must happen once.
    """

    path: str
    args: JsonObject
    options: JsonObject
    context: CommandContext


class CommandResult(Contract):
    """A command's answer; absent or empty means none."""

    text: str | None = None


class ConfirmAsk(Contract):
    """`gateway.confirm.ask`: have the person confirm something (CMD-15)."""

    session_id: SessionId
    platform: str
    user_id: str | None = None
    prompt: str
    mode: Literal["session", "always"]
    key: str


class ConfirmAnswer(Contract):
    """What the person said; no answer in time is `no`."""

    answer: Literal["once", "session", "no", "timeout", "withdrawn"]
