"""This is about subjects: the only place that spells them (DESIGN §3, SPEC §1.3 and §1.4).

A subject is the original event name with `:` turned into `.`, then routing tokens. A token is
an id with every character outside `[A-Za-z0-9_-]` percent-encoded, so any id is legal and can be
read back. Each function returns a `Subject`: the text to publish on, and the template under which
spans and metrics know it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal, NamedTuple
from urllib.parse import quote, unquote

from aalis_contracts.text import well_formed

Kind = Literal["stream", "event", "request"]

_MAX_DEAD_SOURCE: Final = 3000

PARTITIONS: Final = 16
"""Partitions of the INBOUND stream; the server hashes the session token into one."""


class Subject(NamedTuple):
    """A subject and the template it was made from."""

    name: str
    template: str


class Route(NamedTuple):
    """One row of the table of subjects; `{}` in the template stands for a token."""

    template: str
    kind: Kind
    body: str
    answer: str | None = None

    @property
    def pattern(self) -> str:
        """The subject with a wildcard for every token; a trailing `{…>}` takes the rest."""
        return re.sub(r"\{[^}]*>\}", ">", re.sub(r"\{[^}>]*\}", "*", self.template))


def token(identifier: str) -> str:
    """Encode an id as one subject token; the empty id has no token and raises ValueError."""
    if not identifier:
        message = "an empty id cannot be part of a subject"
        raise ValueError(message)
    quoted = quote(well_formed(identifier), safe="")
    return quoted.replace(".", "%2E").replace("~", "%7E")


def untoken(encoded: str) -> str:
    """Decode what `token` made."""
    return unquote(encoded, errors="replace")


def kv_key(identifier: str) -> str:
    """Encode an id as a key of a bucket, where `%` is not legal: `=` stands in its place."""
    return token(identifier).replace("%", "=")


def from_kv_key(key: str) -> str:
    """Decode what `kv_key` made."""
    return untoken(key.replace("=", "%"))


def _dotted(path: str, encode: Callable[[str], str]) -> str:
    """Encode each word of a dot path; a legal path comes back unchanged."""
    return ".".join(encode(word) for word in path.split("."))


def lane_key(session_id: str, lane: str) -> str:
    """Return the pair of encoded tokens that names a lane; `.` occurs in neither (CON-10)."""
    return f"{token(session_id)}.{token(lane)}"


def turn_id(session_id: str, lane: str, input_seq: int) -> str:
    """Return `<lane>:<inputSeq>`, the id of the turn that answers this input."""
    return f"{lane_key(session_id, lane)}:{input_seq}"


INBOUND: Final = "inbound.message.{platform}.{session}"
PARTITIONED: Final = "inbound.{partition}.message.{platform}.{session}"
INBOX: Final = "agent.inbox.{session}.{lane}"
JOURNAL: Final = "agent.journal.{session}.{lane}"
ABORT: Final = "agent.abort.{session}.{lane}"
ARCHIVED: Final = "inbound.archived.{session}"
OUTBOUND: Final = "outbound.message.{platform}.{session}"
STREAM: Final = "outbound.stream.{platform}.{session}"
TOOL_EXECUTE: Final = "tool.execute.{session}"
TOOL_CANCEL: Final = "tool.cancel.{name}"
TOKEN_USAGE: Final = "token.usage.{session}"
TOKEN_REQUEST: Final = "token.request.{session}"
TURN_AFTER: Final = "agent.turn.after.{session}"
SESSION_EVENT: Final = "session.{verb}.{session}"
DEAD: Final = "dead.{source>}"
TOOL_CALL: Final = "tool.call.{name}"
COMMAND_RUN: Final = "command.run.{path>}"
PROMPT: Final = "agent.prompt.{plugin}.{id}"
HISTORY_CHANGED: Final = "history.changed.{session}"
MESSAGES_DELETED: Final = "memory.messages-deleted.{session}"
TODO_UPDATED: Final = "todo.updated.{session}"
PHASE_DONE: Final = "gateway.phase.done.{session}"

OUTBOUND_DISPATCH: Final = "gateway.outbound.dispatch"
CONFIRM_ASK: Final = "gateway.confirm.ask"
SESSION_ABORT: Final = "agent.session.abort"
MODELS_LIST: Final = "agent.models.list"
PERSONA_GET: Final = "persona.prompt.get"
PERSONA_LIST: Final = "persona.list"
HISTORY_GET: Final = "memory.history.get"
HISTORY_FULL: Final = "memory.history.full"
HISTORY_TRIM: Final = "memory.history.trim"
MESSAGE_SAVE: Final = "memory.message.save"
MESSAGE_UPDATE: Final = "memory.message.update"
MESSAGES_RANGE: Final = "memory.messages.range"
MESSAGES_RECENT: Final = "memory.messages.recent"
MESSAGES_DELETE: Final = "memory.messages.delete"
METADATA_GET: Final = "memory.metadata.get"
METADATA_PUT: Final = "memory.metadata.put"
METADATA_LIST: Final = "memory.metadata.list"
METADATA_DELETE: Final = "memory.metadata.delete"
METADATA_COMMIT: Final = "memory.metadata.commit"
MEMORY_CLEAR: Final = "memory.clear"
ARCHIVE_INCOMING: Final = "memory.archive.incoming"
ARCHIVE_NOTICE: Final = "memory.archive.notice"
ARCHIVE_FIND: Final = "memory.archive.find"
ARCHIVE_OUTGOING: Final = "memory.archive.outgoing"

ROUTES: Final[tuple[Route, ...]] = (
    Route(INBOUND, "stream", "IncomingMessage"),
    Route(PARTITIONED, "stream", "IncomingMessage"),
    Route(INBOX, "stream", "IncomingMessage"),
    Route(JOURNAL, "stream", "JournalEntry"),
    Route(ARCHIVED, "stream", "InboundArchived"),
    Route(OUTBOUND, "stream", "OutgoingMessage"),
    Route(STREAM, "stream", "StreamFrame"),
    Route(TOOL_EXECUTE, "stream", "ToolExecute"),
    Route(TOKEN_USAGE, "stream", "TokenUsage"),
    Route(TURN_AFTER, "stream", "TurnAfter"),
    Route("session.created.{session}", "stream", "SessionInfo"),
    Route("session.updated.{session}", "stream", "SessionInfo"),
    Route("session.completed.{session}", "stream", "SessionInfo"),
    Route("session.deleted.{session}", "stream", "SessionDeleted"),
    Route("session.compress.{session}", "stream", "SessionCompress"),
    Route("session.compressing.{session}", "stream", "SessionCompressing"),
    Route(DEAD, "stream", "DeadLetter"),
    Route(TOKEN_REQUEST, "event", "TokenRequest"),
    Route(HISTORY_CHANGED, "event", "HistoryChanged"),
    Route(MESSAGES_DELETED, "event", "MessagesDeleted"),
    Route(TODO_UPDATED, "event", "TodoUpdated"),
    Route(PHASE_DONE, "event", "PhaseDone"),
    Route(ABORT, "event", "AgentAbort"),
    Route(TOOL_CANCEL, "event", "ToolCancel"),
    Route(OUTBOUND_DISPATCH, "request", "OutgoingMessage", "DispatchReply"),
    Route(CONFIRM_ASK, "request", "ConfirmAsk", "ConfirmAnswer"),
    Route(SESSION_ABORT, "request", "SessionAbort", "AbortedLanes"),
    Route(MODELS_LIST, "request", "ModelsList", "Models"),
    Route(PERSONA_GET, "request", "PersonaGet", "PersonaPrompt"),
    Route(PERSONA_LIST, "request", "PersonaList", "PersonaNames"),
    Route(HISTORY_GET, "request", "HistoryGet", "Rows"),
    Route(HISTORY_FULL, "request", "HistoryFull", "Rows"),
    Route(HISTORY_TRIM, "request", "HistoryTrim", "Count"),
    Route(MESSAGE_SAVE, "request", "MessageSave", "Rows"),
    Route(MESSAGE_UPDATE, "request", "MessageUpdate", "Count"),
    Route(MESSAGES_RANGE, "request", "MessagesRange", "Rows"),
    Route(MESSAGES_RECENT, "request", "MessagesRecent", "SessionRows"),
    Route(MESSAGES_DELETE, "request", "MessagesDelete", "Count"),
    Route(METADATA_GET, "request", "MetadataKey", "MetadataItems"),
    Route(METADATA_PUT, "request", "MetadataPut", "Count"),
    Route(METADATA_LIST, "request", "MetadataList", "MetadataItems"),
    Route(METADATA_DELETE, "request", "MetadataKey", "Count"),
    Route(METADATA_COMMIT, "request", "MetadataCommit", "Count"),
    Route(MEMORY_CLEAR, "request", "MemoryClear", "ClearResults"),
    Route(ARCHIVE_INCOMING, "request", "ArchiveIncoming", "Archived"),
    Route(ARCHIVE_NOTICE, "request", "ArchiveNotice", "NoticeArchived"),
    Route(ARCHIVE_FIND, "request", "ArchiveFind", "Rows"),
    Route(ARCHIVE_OUTGOING, "request", "ArchiveOutgoing", "Rows"),
    Route(TOOL_CALL, "request", "ToolCallRequest", "ToolResult"),
    Route(COMMAND_RUN, "request", "CommandRun", "CommandResult"),
    Route(PROMPT, "request", "PromptBuild", "PromptBlocks"),
    *(
        Route(hook + ".{plugin}", "request", "HookRequest", "HookReply")
        for hook in (
            "inbound.confirm",
            "inbound.command",
            "inbound.flow",
            "inbound.trigger",
            "inbound.dispatch",
            "outbound.dispatch",
            "agent.input.before",
            "agent.llm.before",
            "agent.llm.after",
            "agent.tool.before",
            "agent.tool.after",
            "agent.reply.before",
            "memory.clear",
        )
    ),
)
"""Every subject of the mesh: template, kind, body, and the answer of a request."""


def overlap(left: str, right: str) -> bool:
    """Say whether two subject patterns can match the same subject."""
    a, b = left.split("."), right.split(".")
    for x, y in zip(a, b, strict=False):
        if ">" in {x, y}:
            return True
        if x != y and "*" not in {x, y}:
            return False
    return len(a) == len(b)


def inbound(platform: str, session_id: str) -> Subject:
    """EVT-1: where an adapter publishes what people say."""
    return Subject(f"inbound.message.{token(platform)}.{token(session_id)}", INBOUND)


def inbound_partition(partition: int) -> str:
    """Return the filter of one partition's consumer."""
    return f"inbound.{partition}.message.>"


def inbox(session_id: str, lane: str) -> Subject:
    """EVT-2: a lane's mailbox."""
    return Subject(f"agent.inbox.{lane_key(session_id, lane)}", INBOX)


def inboxes_of(session_id: str) -> str:
    """Return the pattern of all lanes' mailboxes of one session."""
    return f"agent.inbox.{token(session_id)}.*"


def journal(session_id: str, lane: str) -> Subject:
    """Return where a lane's state is kept."""
    return Subject(f"agent.journal.{lane_key(session_id, lane)}", JOURNAL)


def journals_of(session_id: str) -> str:
    """Return the pattern of all lanes' journals of one session."""
    return f"agent.journal.{token(session_id)}.*"


def lane_of(subject: str) -> tuple[str, str]:
    """Read (session, lane) back from a mailbox, journal or abort subject."""
    session, lane = subject.rsplit(".", 2)[-2:]
    return untoken(session), untoken(lane)


def abort(session_id: str, lane: str) -> Subject:
    """EVT-14: the signal to a lane's old owner."""
    return Subject(f"agent.abort.{lane_key(session_id, lane)}", ABORT)


def archived(session_id: str) -> Subject:
    """EVT-3."""
    return Subject(f"inbound.archived.{token(session_id)}", ARCHIVED)


def outbound(platform: str, session_id: str) -> Subject:
    """EVT-4: what an adapter delivers."""
    return Subject(f"outbound.message.{token(platform)}.{token(session_id)}", OUTBOUND)


def outbound_of(platform: str) -> str:
    """Return the filter of a platform's adapter."""
    return f"outbound.message.{token(platform)}.*"


def stream(platform: str, session_id: str) -> Subject:
    """EVT-5: text while it is written."""
    return Subject(f"outbound.stream.{token(platform)}.{token(session_id)}", STREAM)


def tool_execute(session_id: str) -> Subject:
    """EVT-6."""
    return Subject(f"tool.execute.{token(session_id)}", TOOL_EXECUTE)


def tool_cancel(name: str) -> Subject:
    """Return where the hosts of a tool hear that a call is no longer awaited."""
    return Subject(f"tool.cancel.{token(name)}", TOOL_CANCEL)


def token_usage(session_id: str) -> Subject:
    """EVT-7."""
    return Subject(f"token.usage.{token(session_id)}", TOKEN_USAGE)


def token_request(session_id: str) -> Subject:
    """EVT-8."""
    return Subject(f"token.request.{token(session_id)}", TOKEN_REQUEST)


def turn_after(session_id: str) -> Subject:
    """EVT-9."""
    return Subject(f"agent.turn.after.{token(session_id)}", TURN_AFTER)


def session_event(verb: str, session_id: str) -> Subject:
    """EVT-10 to EVT-12: `created`, `updated`, `completed`, `deleted`, `compress`, …."""
    return Subject(f"session.{verb}.{token(session_id)}", f"session.{verb}.{{session}}")


def history_changed(session_id: str) -> Subject:
    """EVT-13."""
    return Subject(f"history.changed.{token(session_id)}", HISTORY_CHANGED)


def messages_deleted(session_id: str) -> Subject:
    """EVT-13."""
    return Subject(f"memory.messages-deleted.{token(session_id)}", MESSAGES_DELETED)


def todo_updated(session_id: str) -> Subject:
    """EVT-13."""
    return Subject(f"todo.updated.{token(session_id)}", TODO_UPDATED)


def phase_done(session_id: str) -> Subject:
    """EVT-13."""
    return Subject(f"gateway.phase.done.{token(session_id)}", PHASE_DONE)


def dead(source: str) -> Subject:
    """Return where a message from the subject `source` goes when it cannot be handled.

    A subject so long that the server would not take it with the prefix loses its tail; the
    whole one travels in the header `aalis-dead-subject`.
    """
    return Subject(f"dead.{source[:_MAX_DEAD_SOURCE].rstrip('.')}", DEAD)


def ingest(stored: str) -> Subject:
    """Return where a message that a stream keeps under `stored` is published to get there.

    The two differ where the stream transforms its subjects: INBOUND adds the partition. Raises
    ValueError for a subject of no stream.
    """
    name = re.sub(r"^inbound\.\d+\.", "inbound.", stored)
    for route in ROUTES:
        ours = route.kind == "stream" and route.template != PARTITIONED
        if ours and overlap(name, route.pattern):
            return Subject(name, route.template)
    message = f"{stored} belongs to no stream"
    raise ValueError(message)


def tool_call(name: str) -> Subject:
    """Return where a tool is called; names match CON-33, so they are tokens already."""
    return Subject(f"tool.call.{token(name)}", TOOL_CALL)


def command_run(path: str) -> Subject:
    """Return where a command runs; `path` is its dot path."""
    return Subject(f"command.run.{_dotted(path, token)}", COMMAND_RUN)


def hook(name: str, plugin: str) -> Subject:
    """Return where one plugin's interceptor of a hook is asked."""
    dotted = name.replace(":", ".")
    return Subject(f"{dotted}.{token(plugin)}", f"{dotted}.{{plugin}}")


def prompt(plugin: str, contribution: str) -> Subject:
    """Return where a prompt contribution is built."""
    return Subject(f"agent.prompt.{token(plugin)}.{token(contribution)}", PROMPT)


def request(template: str) -> Subject:
    """Return a request subject that has no tokens, such as `memory.history.get`."""
    return Subject(template, template)


def pattern(template: str) -> str:
    """Return the subject to subscribe to for a template: a wildcard for every token."""
    return Route(template, "event", "").pattern


def hook_key(name: str, plugin: str) -> str:
    """REG-1: the registry key of an interceptor."""
    return f"hook.{name.replace(':', '.')}.{kv_key(plugin)}"


def prompt_key(plugin: str, contribution: str) -> str:
    """REG-2: the registry key of a contribution."""
    return f"prompt.{kv_key(plugin)}.{kv_key(contribution)}"


def tool_key(name: str) -> str:
    """REG-3: the registry key of a tool."""
    return f"tool.{kv_key(name)}"


def command_key(path: str) -> str:
    """REG-4: the registry key of a command."""
    return f"command.{_dotted(path, kv_key)}"


def service_key(service: str, instance: str) -> str:
    """REG-5: the registry key of one running instance of a service."""
    return f"service.{kv_key(service)}.{kv_key(instance)}"
