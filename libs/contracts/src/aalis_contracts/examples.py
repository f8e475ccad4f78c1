"""This is about one realistic value of each contract, for whoever writes a plugin or an adapter.

They belong to one story: in a group, 小林 asks how full the context is; the model calls
`prompt_budget_info` and answers. The tests read and write every one of them, and the AsyncAPI
document shows them.
"""

from __future__ import annotations

from typing import Final, cast

from aalis_contracts.contract import AnyContract, Contract
from aalis_contracts.dead import DeadLetter
from aalis_contracts.errors import ErrorBody, ErrorReply
from aalis_contracts.events import (
    AgentAbort,
    HistoryChanged,
    InboundArchived,
    MessagesDeleted,
    PhaseDone,
    SessionCompress,
    SessionCompressing,
    SessionDeleted,
    TodoUpdated,
    TokenRequest,
    TokenUsage,
    ToolExecute,
    TurnAfter,
    UsageBreakdown,
)
from aalis_contracts.hooks import (
    LLM_BEFORE,
    ClearReport,
    HookReply,
    HookRequest,
    InboundData,
    InputBeforeData,
    LlmAfterData,
    LlmBeforeData,
    MemoryClearData,
    OutboundData,
    PromptBlocks,
    PromptBuild,
    ReplyBeforeData,
    ToolAfterData,
    ToolBeforeData,
    json_object,
)
from aalis_contracts.journal import (
    InputPrepared,
    JournalEntry,
    ModelResponded,
    ModelStarted,
    ReplyRetried,
    RowsSaved,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnPlanned,
    TurnReplying,
    TurnResumed,
    TurnStarted,
)
from aalis_contracts.messages import (
    USER_LANE,
    Actor,
    ContentSegment,
    FunctionCall,
    IncomingMessage,
    Message,
    MessageAttachment,
    ModelInfo,
    ModelRef,
    OutgoingMessage,
    ReplyTo,
    StreamFrame,
    ToolCall,
    ToolCallProgress,
)
from aalis_contracts.models import ChatChunk, ChatRequest, ChatResponse, ModelEntry, Usage
from aalis_contracts.registry import (
    CommandArg,
    CommandEntry,
    CommandOption,
    GroupInfo,
    HookEntry,
    PromptEntry,
    ServiceEntry,
    ToolEntry,
)
from aalis_contracts.rpc import (
    AbortedLanes,
    Archived,
    ArchiveFind,
    ArchiveIncoming,
    ArchiveNotice,
    ArchiveOutgoing,
    ClearResults,
    CommandContext,
    CommandResult,
    CommandRun,
    ConfirmAnswer,
    ConfirmAsk,
    Count,
    DispatchReply,
    HistoryFull,
    HistoryGet,
    HistoryTrim,
    MemoryClear,
    MessageSave,
    MessagesDelete,
    MessagesRange,
    MessagesRecent,
    MessageUpdate,
    MetadataChange,
    MetadataCommit,
    MetadataItem,
    MetadataItems,
    MetadataKey,
    MetadataList,
    MetadataPut,
    Models,
    ModelsList,
    NoticeArchived,
    PersonaGet,
    PersonaList,
    PersonaNames,
    PersonaPrompt,
    RowKey,
    Rows,
    SessionAbort,
    SessionMessage,
    SessionRows,
)
from aalis_contracts.sessions import SessionConfig, SessionDefaults, SessionInfo
from aalis_contracts.subjects import turn_id
from aalis_contracts.tools import (
    FunctionDefinition,
    InboundOrigin,
    ToolCallContext,
    ToolCallRequest,
    ToolCancel,
    ToolDefinition,
    ToolResult,
)

_PLATFORM: Final = "onebot"
_SESSION: Final = "onebot:10001:group:20002"
_SEQ: Final = 42
_TURN: Final = turn_id(_SESSION, USER_LANE, _SEQ)
_KEY: Final = f"{_TURN}.0.0"
_NOW: Final = 1_760_000_000_000
_TOOL: Final = "prompt_budget_info"
_BUDGET: Final = '{"sessionId":"onebot:10001:group:20002","tag":"INFO","used":18220}'
_QUESTION: Final = "上下文还剩多少？"
_ANSWER: Final = "还很宽裕：已用 18220 / 32000（56.9%）。"
_REASONING: Final = "先查预算，再回答。"

# What is said ------------------------------------------------------------------------------------

_actor = Actor(platform=_PLATFORM, user_id="30003")
_llm = ModelRef(provider="openai:main", model="gpt-4o")
_attachment = MessageAttachment(
    kind="image",
    data="https://example.org/chart.png",
    mime_type="image/png",
    name="chart.png",
    source_id="AB12",
    byte_size=20_480,
    description="一张用量曲线图",
    ref="img-7",
)
_reply_to = ReplyTo(message_id="9000", content="我有点忙", user_id="10001", nickname="Aalis")
_incoming = IncomingMessage(
    content=_QUESTION,
    session_id=_SESSION,
    platform=_PLATFORM,
    user_id="30003",
    nickname="小林",
    message_id="9001",
    attachments=[_attachment, MessageAttachment(kind="audio", duration_sec=3.5)],
    attachment_descriptions=["一张用量曲线图", None],
    session_type="group",
    group_id="20002",
    group_name="测试群",
    sender_role="admin",
    sender_title="群友",
    self_role="member",
    reply_to=_reply_to,
    trigger_type="immediate",
    actor=_actor,
    llm=_llm,
    timestamp=_NOW,
    metadata={"rawType": "group_message", "anonymous": None},
)
_function_call = FunctionCall(name=_TOOL, arguments="{}")
_tool_call = ToolCall(id="call_0_0", function=_function_call)
_text_segment = ContentSegment(type="text", content=_ANSWER)
_call_segment = ContentSegment(
    type="tool_call",
    name=_TOOL,
    args={},
    call_id="call_0_0",
    result=_BUDGET,
    start_time=_NOW + 900,
    end_time=_NOW + 904,
)
_segments = [
    ContentSegment(type="reasoning_text", content=_REASONING),
    _call_segment,
    _text_segment,
]
_user_row = Message(
    role="user",
    content=f"[小林(30003)]: {_QUESTION}",
    name="30003",
    timestamp=_NOW,
    metadata={"userId": "30003", "nickname": "小林", "platform": _PLATFORM, "messageId": "9001"},
    input_seq=_SEQ,
    index=0,
)
_call_row = Message(
    role="assistant",
    tool_calls=[_tool_call],
    reasoning_content=_REASONING,
    provider_data={
        "provider": "anthropic:main",
        "model": "claude-sonnet",
        "blocks": [{"type": "thinking", "thinking": _REASONING, "signature": "c2lnbmF0dXJl"}],
        "prefixDigest": "9f86d081884c7d65",
    },
    timestamp=_NOW + 900,
    input_seq=_SEQ,
    index=1,
)
_result_row = Message(
    role="tool",
    content=_BUDGET,
    tool_call_id="call_0_0",
    timestamp=_NOW + 904,
    input_seq=_SEQ,
    index=2,
)
_model_info = ModelInfo(
    provider="openai:main",
    model="gpt-4o",
    prompt_tokens=18_400,
    completion_tokens=62,
    total_tokens=18_462,
    elapsed_ms=2_350,
)
_outgoing = OutgoingMessage(
    id=f"{_TURN}.reply",
    content=_ANSWER,
    session_id=_SESSION,
    platform=_PLATFORM,
    turn_id=_TURN,
    reasoning_content=_REASONING,
    segments=_segments,
    attachments=[_attachment],
    source="agent",
    model_info=_model_info,
)
_progress = ToolCallProgress(index=0, name=_TOOL, chars_accumulated=2)
_frame = StreamFrame(
    session_id=_SESSION,
    platform=_PLATFORM,
    turn_id=_TURN,
    seq=7,
    iteration=1,
    attempt=1,
    content_delta="还很宽裕：",
)

# Tools and models --------------------------------------------------------------------------------

_function = FunctionDefinition(
    name=_TOOL,
    description="What the last model call of a session consumed.",
    parameters={
        "type": "object",
        "properties": {"sessionId": {"type": "string"}},
        "additionalProperties": False,
    },
)
_definition = ToolDefinition(function=_function)
_origin = InboundOrigin(source=USER_LANE)
_tool_context = ToolCallContext(
    session_id=_SESSION,
    platform=_PLATFORM,
    user_id="30003",
    actor=_actor,
    turn_id=_TURN,
    call_id="call_0_0",
    key=_KEY,
    enabled_groups=["web"],
    accepts_images=True,
    inbound=_origin,
)
_usage = Usage(
    prompt_tokens=18_400, completion_tokens=62, total_tokens=18_462, cached_prompt_tokens=17_920
)
_model_entry = ModelEntry(
    provider_id="openai:main",
    id="gpt-4o",
    context_length=32_000,
    max_output_tokens=4_096,
    capabilities=["chat", "tool_calling", "streaming", "vision"],
)
_response = ChatResponse(
    tool_calls=[_tool_call],
    reasoning_content=_REASONING,
    finish_reason="tool_calls",
    usage=_usage,
)

# Sessions and events -----------------------------------------------------------------------------

_defaults = SessionDefaults(llm=_llm, enabled_tool_groups=["web"], think=False)
_config = SessionConfig(
    llm=_llm,
    enabled_tool_groups=["*"],
    persona="catgirl",
    think=True,
    system_prompt_extra="回答尽量简短。",
    max_tool_iterations=10,
    session_defaults=_defaults,
)
_session = SessionInfo(
    id=_SESSION,
    name="测试群",
    title="上下文用量",
    children=[f"{_SESSION}::1a2b3c4d"],
    status="active",
    config=_config,
    platform=_PLATFORM,
    user_id="30003",
    created_at=_NOW,
    updated_at=_NOW + 3_000,
    created_by="user",
    metadata={"pinned": True},
)
_breakdown = UsageBreakdown(
    system=3_100,
    persona=1_900,
    memory_summary=700,
    memory_vector=0,
    skills=0,
    platform=200,
    subtask=0,
    system_other=300,
    injectors={"persona-volatile": 180, "weather": 120},
    history=13_900,
    tool_results=620,
    tool_defs=600,
    reserved_for_reply=4_096,
)
_row_key = RowKey(input_seq=_SEQ, index=0)
_clear_report = ClearReport(source="memory", success=True, message="128 messages")

# The journal -------------------------------------------------------------------------------------

_started = TurnStarted(
    turn_id=_TURN, from_seq=_SEQ, to_seq=_SEQ, inputs=[_SEQ], owner="agent-7f9c", at=_NOW + 10
)
_prepared = InputPrepared(
    input_seq=_SEQ, message=_incoming, metadata={}, archived=_user_row, arrived_at=_NOW
)

# Registry and requests ---------------------------------------------------------------------------

_group_info = GroupInfo(label="网页", description="读取和搜索网页")
_command_arg = CommandArg(name="keyword", type="string")
_command_option = CommandOption(
    name="page", short="p", type="number", default=1, description="which page"
)
_command_context = CommandContext(
    session_id=_SESSION,
    platform=_PLATFORM,
    user_id="30003",
    nickname="小林",
    actor=_actor,
    session_type="group",
    group_id="20002",
    key=f"{_PLATFORM}.9001.command",
    locale="zh",
    prefix="/",
)
_change = MetadataChange(op="put", namespace="summary", key=_SESSION, value={"summary": "……"})
_item = MetadataItem(
    namespace="todo-list", key=_SESSION, value=[{"title": "写周报"}], updated_at=_NOW
)
_error = ErrorBody(
    code="invalid", message="HistoryGet: sessionId: Field required", details={"field": "sessionId"}
)

_ALL: Final[tuple[Contract, ...]] = (
    # messages
    _function_call,
    _tool_call,
    _call_segment,
    _call_row,
    _attachment,
    _reply_to,
    _actor,
    _llm,
    _incoming,
    _model_info,
    _outgoing,
    _progress,
    _frame,
    # tools
    _function,
    _definition,
    _origin,
    _tool_context,
    ToolCallRequest(name=_TOOL, args={}, context=_tool_context),
    ToolCancel(key=_KEY, reason="the turn was pre-empted by a newer message"),
    ToolResult(content=_BUDGET, images=["data:image/png;base64,iVBORw0KGgo="]),
    # models
    _model_entry,
    _usage,
    ChatRequest(
        messages=[_user_row],
        tools=[_definition],
        max_tokens=4_096,
        think=True,
        attempt=1,
        purpose="chat",
    ),
    _response,
    ChatChunk(done=True, tool_calls=[_tool_call], finish_reason="tool_calls", usage=_usage),
    # sessions
    _defaults,
    _config,
    _session,
    # events
    InboundArchived(
        session_id=_SESSION, input_seq=_SEQ, incoming=_incoming, archived_message=_user_row
    ),
    ToolExecute(
        session_id=_SESSION,
        platform=_PLATFORM,
        turn_id=_TURN,
        call_id="call_0_0",
        tool_name=_TOOL,
        args={},
        phase="end",
        result=_BUDGET,
    ),
    _breakdown,
    TokenUsage(
        session_id=_SESSION,
        platform=_PLATFORM,
        context_window=32_000,
        max_tokens=4_096,
        token_budget=27_392,
        used=18_220,
        usage_ratio=0.569375,
        breakdown=_breakdown,
        user_id="30003",
        turn_id=_TURN,
        iteration=1,
        calibrated_used=18_950,
    ),
    TokenRequest(session_id=_SESSION, platform="webui"),
    TurnAfter(
        turn_id=_TURN,
        input_seq=_SEQ,
        session_id=_SESSION,
        lane=USER_LANE,
        message=_incoming,
        reply=_ANSWER,
        outcome="replied",
        metadata={},
    ),
    SessionDeleted(session_id=_SESSION),
    SessionCompress(session_id=_SESSION, reason="auto", usage_ratio=0.73),
    SessionCompressing(session_id=_SESSION, status="done"),
    HistoryChanged(session_id=_SESSION),
    MessagesDeleted(session_id=_SESSION, keys=[(41, 0), (41, 1)]),
    TodoUpdated(session_id=_SESSION, items=[{"title": "写周报", "status": "in-progress"}]),
    PhaseDone(
        session_id=_SESSION,
        phase="inbound:trigger",
        reached_end=True,
        duration_ms=0.4,
        platform=_PLATFORM,
    ),
    AgentAbort(session_id=_SESSION, lane=USER_LANE, turn_id=_TURN, reason="preempted"),
    # registry
    HookEntry(hook=LLM_BEFORE, plugin="tool-search", order=10, timeout_ms=2_000),
    PromptEntry(plugin="weather", id="today", anchor="turn-context"),
    _group_info,
    ToolEntry(
        definition=_definition,
        plugin="prompt-budget",
        groups=["web"],
        group_info=_group_info,
        risk="safe",
        confirm="session",
        timeout_ms=5_000,
        retry="safe",
    ),
    _command_arg,
    _command_option,
    CommandEntry(
        path="model",
        plugin="agent",
        args=[_command_arg],
        options=[_command_option],
        description="List the models that may be chosen.",
        risk="safe",
        aliases=["models"],
    ),
    ServiceEntry(
        service="memory",
        instance="memory-5d8f",
        version="0.1.0",
        since=_NOW,
        capabilities=["memory"],
    ),
    # hooks
    InboundData(message=_incoming, metadata={"flow": "passed"}),
    OutboundData(message=_outgoing, metadata={}),
    InputBeforeData(message=_incoming, metadata={}),
    LlmBeforeData(
        messages=[_user_row],
        tools=[_definition],
        session_id=_SESSION,
        user_id="30003",
        platform=_PLATFORM,
        trigger_type="immediate",
        dry_run=False,
        iteration=0,
    ),
    LlmAfterData(response=_response, messages=[_user_row]),
    ToolBeforeData(name=_TOOL, args={}, tool_call_context=_tool_context),
    ToolAfterData(name=_TOOL, args={}, result=_BUDGET, tool_call_context=_tool_context),
    ReplyBeforeData(
        content=_ANSWER,
        archive_content=_ANSWER,
        attempt=0,
        session_id=_SESSION,
        turn_id=_TURN,
        platform=_PLATFORM,
        user_id="30003",
        persona="catgirl",
    ),
    _clear_report,
    MemoryClearData(
        scope="session", session_id=_SESSION, types=["context"], results=[_clear_report]
    ),
    HookRequest(
        hook="inbound:flow",
        data=json_object(InboundData(message=_incoming, metadata={"flow": "passed"})),
    ),
    HookReply(action="next", patch={"metadata": {"flow": "passed", "language": "zh"}}),
    PromptBuild(
        session_id=_SESSION,
        user_id="30003",
        platform=_PLATFORM,
        trigger_type="immediate",
        messages=[_user_row],
        iteration=0,
    ),
    PromptBlocks(blocks=["上海：晴，21 °C。", "空气质量：良。"]),
    # journal
    _started,
    TurnResumed(turn_id=_TURN, owner="agent-2b6e", delivery=2, at=_NOW + 9_000),
    _prepared,
    TurnPlanned(
        input_seq=_SEQ,
        llm=_llm,
        max_tokens=4_096,
        token_budget=27_392,
        max_iterations=10,
        config=_config,
    ),
    ModelStarted(iteration=0, attempt=1, at=_NOW + 20),
    ModelResponded(iteration=0, attempt=1, response=_response, at=_NOW + 900),
    ToolStarted(iteration=0, index=0, key=_KEY, name=_TOOL, args={}, at=_NOW + 900),
    ToolFinished(iteration=0, index=0, key=_KEY, content=_BUDGET, at=_NOW + 904),
    RowsSaved(input_seq=_SEQ, through_index=2),
    ReplyRetried(attempt=1, feedback="The field `response` is missing."),
    TurnReplying(
        outcome="replied",
        content=_ANSWER,
        archive_content=_ANSWER,
        reasoning_content=_REASONING,
        segments=_segments,
        model_info=_model_info,
        at=_NOW + 2_360,
    ),
    TurnEnded(outcome="replied", at=_NOW + 2_400),
    JournalEntry(
        session_id=_SESSION,
        lane=USER_LANE,
        turn_id=_TURN,
        covered_to=_SEQ,
        carrier=_SEQ,
        ended=False,
        facts=[_started, _prepared],
    ),
    # requests
    _row_key,
    HistoryGet(session_id=_SESSION, limit=50, before=_row_key),
    HistoryFull(session_id=_SESSION, before=_row_key),
    Rows(messages=[_user_row, _call_row, _result_row]),
    HistoryTrim(session_id=_SESSION, keep_recent=20),
    Count(count=108),
    MessageSave(
        session_id=_SESSION,
        messages=[_call_row, Message(role="notice", content="小林 戳了戳你", kind="poke")],
        idempotency_keys=[None, "onebot.poke.77"],
    ),
    MessageUpdate(session_id=_SESSION, old="[图片 | ref:img-7]", new="[图片: 曲线 | ref:img-7]"),
    MessagesRange(
        session_id=_SESSION,
        start=_row_key,
        end=RowKey(input_seq=_SEQ, index=2),
        roles=["user", "assistant"],
        exclude_kinds=["event-marker"],
    ),
    MessagesRecent(limit=20, since=_NOW - 86_400_000, platform=_PLATFORM, exclude_sessions=["s1"]),
    SessionMessage(session_id=_SESSION, message=_user_row),
    SessionRows(messages=[SessionMessage(session_id=_SESSION, message=_user_row)]),
    MessagesDelete(session_id=_SESSION, keys=[_row_key]),
    MetadataKey(namespace="summary", key=_SESSION),
    MetadataPut(namespace="todo-list", key=_SESSION, value=[{"title": "写周报"}]),
    MetadataList(namespace="summary"),
    _item,
    MetadataItems(items=[_item]),
    _change,
    MetadataCommit(
        changes=[_change, MetadataChange(op="delete", namespace="todo-list", key=_SESSION)]
    ),
    MemoryClear(session_id=_SESSION, types=["context"]),
    ClearResults(results=[_clear_report]),
    ArchiveIncoming(incoming=_incoming, input_seq=_SEQ, timestamp=_NOW),
    Archived(message=_user_row, created=True),
    ArchiveNotice(
        session_id=_SESSION,
        notice_type="poke",
        content="小林 戳了戳你",
        idempotency_key="onebot.poke.77",
        platform=_PLATFORM,
        user_id="30003",
        group_id="20002",
        timestamp=_NOW,
        data={"targetId": "10001"},
    ),
    NoticeArchived(message=Message(role="notice", content="小林 戳了戳你", kind="poke")),
    ArchiveFind(session_id=_SESSION, message_id="9001"),
    ArchiveOutgoing(
        session_id=_SESSION, idempotency_key=f"{_TURN}.reply", attachments=[_attachment]
    ),
    DispatchReply(sent=False, reason="stopped by plugin word-filter"),
    SessionAbort(session_id=_SESSION, lane=USER_LANE, include_children=True),
    AbortedLanes(lanes=[USER_LANE]),
    ModelsList(),
    Models(entries=[_model_entry]),
    PersonaGet(
        session_id=_SESSION,
        persona="catgirl",
        disable_output_format=False,
        system_prompt_extra="回答尽量简短。",
        incoming=_incoming,
    ),
    PersonaPrompt(
        system_prompt="你是爱丽丝……",
        volatile_prompt="现在是 2025-10-09 16:53（Asia/Shanghai）。",
        name="爱丽丝",
        nick_names=["小爱"],
    ),
    PersonaList(),
    PersonaNames(names=["catgirl", "strict-reviewer"]),
    _command_context,
    CommandRun(
        path="model", args={"keyword": "gpt"}, options={"page": 1}, context=_command_context
    ),
    CommandResult(text="可用模型（共 2 个，第 1/1 页）"),
    ConfirmAsk(
        session_id=_SESSION,
        platform=_PLATFORM,
        user_id="30003",
        prompt="要清空这个会话吗？",
        mode="session",
        key=f"{_PLATFORM}.9001.confirm",
    ),
    ConfirmAnswer(answer="once"),
    # errors
    _error,
    ErrorReply(error=_error),
    DeadLetter(
        subject=f"inbound.message.{_PLATFORM}.onebot%3A10001%3Agroup%3A20002",
        reason="IncomingMessage: content: Field required",
        stream="INBOUND",
        sequence=_SEQ,
        consumer="gateway-3",
        turn_id=_TURN,
        body='{"sessionId":"onebot:10001:group:20002","platform":"onebot"}',
    ),
)

EXAMPLES: Final[dict[str, Contract]] = {type(value).__name__: value for value in _ALL}
"""One value of each contract, by its name."""


def example(contract: type[AnyContract]) -> AnyContract:
    """Return the example of `contract`."""
    return cast("AnyContract", EXAMPLES[contract.__name__])
