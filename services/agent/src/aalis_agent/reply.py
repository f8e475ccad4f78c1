"""This is about replies: what the person is told, and which rows are kept of a turn.

Rows are derived from the facts alone, so whoever saves them, the owner, its successor or whoever
pays a debt, saves the same ones under the same keys (SPEC MEM-1).
"""

from __future__ import annotations

from aalis_agent.steps import Round, Turn
from aalis_contracts.catalogue import Catalogue
from aalis_contracts.messages import (
    ContentSegment,
    IncomingMessage,
    Message,
    ModelInfo,
    Outcome,
    OutgoingMessage,
    StreamFrame,
)
from aalis_contracts.text import JsonObject
from aalis_contracts.tools import error_result
from aalis_llm.leaked import without_markers
from aalis_llm.tables import repair_tables

SETTLED_BLOCK = 999
"""The block of frame numbers for whoever ends a turn in its owner's place (SPEC STR-2)."""
_BLOCK = 1_000_000


def rows(turn: Turn) -> list[Message]:
    """Return the rows of a turn beside its inputs: whole groups, then the reply (AG-48, AG-56)."""
    kept = [row for one in turn.groups if not one.pending for row in _group(turn, one)]
    if turn.replying is not None and turn.replying.outcome == "replied":
        kept.append(_reply_row(turn))
    return _numbered(turn, kept)


def rows_of_aborted(turn: Turn, texts: Catalogue) -> list[Message]:
    """Return what stays of an aborted turn (SPEC AG-15).

    A group of which at least one call has finished is kept, the others as cancelled: effects that
    happened must be known. A group with none finished, and partial text, are not.
    """
    cancelled = error_result(texts.text("cancelled")).content
    kept = [row for one in turn.groups if one.finished for row in _group(turn, one, cancelled)]
    return _numbered(turn, kept)


def _numbered(turn: Turn, kept: list[Message]) -> list[Message]:
    if not kept:
        return []
    seq = turn.answered.input_seq
    return [
        row.model_copy(update={"input_seq": seq, "index": index})
        for index, row in enumerate(kept, start=1)
    ]


def group_messages(one: Round) -> list[Message]:
    """Return a group as the working list holds it: the calls, then results in call order."""
    assistant = Message(
        role="assistant",
        content=one.response.content,
        tool_calls=one.calls,
        reasoning_content=one.response.reasoning_content,
        provider_data=one.response.provider_data,
        timestamp=one.at,
    )
    results = [
        Message(
            role="tool",
            content=done.content,
            tool_call_id=call.id,
            name=call.function.name or None,
            images=done.images,
            timestamp=done.at,
        )
        for index, call in enumerate(one.calls)
        if (done := one.finished.get(index)) is not None
    ]
    return [assistant, *results]


def _group(turn: Turn, one: Round, missing: str | None = None) -> list[Message]:
    assistant, *results = group_messages(one)
    metadata = assistant_metadata(turn.answered.message)
    stored: list[Message] = [assistant.model_copy(update={"metadata": metadata})]
    by_index = dict(zip(sorted(one.finished), results, strict=False))
    for index, call in enumerate(one.calls):
        result = by_index.get(index)
        if result is None:
            result = Message(
                role="tool",
                content=missing,
                tool_call_id=call.id,
                name=call.function.name or None,
                timestamp=one.at,
            )
        stored.append(result.model_copy(update={"images": None}))
    return stored


def _reply_row(turn: Turn) -> Message:
    replying = turn.replying
    if replying is None:
        message = f"turn {turn.turn_id} has promised no reply"
        raise ValueError(message)
    metadata = assistant_metadata(turn.answered.message)
    if replying.model_info is not None:
        metadata["modelInfo"] = replying.model_info.model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
    if replying.shortened:
        metadata["shortened"] = True
    kept = replying.content if replying.archive_content is None else replying.archive_content
    visible = replying.visible_content
    if visible is None and replying.content != kept:
        visible = replying.content
    if visible is not None and visible != kept:
        metadata["visibleContent"] = visible
    last = turn.rounds[-1] if turn.rounds else None
    return Message(
        role="assistant",
        content=kept,
        reasoning_content=replying.last_reasoning,
        segments=replying.segments,
        provider_data=last.response.provider_data if last is not None else None,
        timestamp=replying.at,
        metadata=metadata,
    )


def assistant_metadata(incoming: IncomingMessage) -> JsonObject:
    """Return what an assistant row says about where it was said (SPEC AG-57)."""
    own = incoming.metadata or {}
    fields: JsonObject = {
        "platform": incoming.platform,
        "senderType": "assistant",
        "userId": own.get("selfId"),
        "nickname": own.get("selfNickname"),
        "groupId": incoming.group_id,
        "groupName": incoming.group_name,
        "sessionType": incoming.session_type,
    }
    return {key: value for key, value in fields.items() if value is not None}


def outgoing(turn: Turn) -> OutgoingMessage:
    """Return the reply as it is sent; its id makes sending it twice the same as once."""
    replying, incoming = turn.replying, turn.answered.message
    if replying is None:
        message = f"turn {turn.turn_id} has promised no reply"
        raise ValueError(message)
    return OutgoingMessage(
        id=f"{turn.answer_id}.reply",
        content=replying.content,
        session_id=turn.session_id,
        platform=incoming.platform,
        turn_id=turn.answer_id,
        reasoning_content=replying.reasoning_content,
        segments=replying.segments,
        source="agent",
        model_info=replying.model_info,
    )


def failure_message(turn: Turn, text: str) -> OutgoingMessage:
    """Return the line a person reads when a turn failed (SPEC AG-63, AG-65)."""
    return OutgoingMessage(
        id=f"{turn.answer_id}.failure",
        content=text,
        session_id=turn.session_id,
        platform=turn.answered.message.platform,
        turn_id=turn.answer_id,
        source="system",
    )


def frame_number(block: int, count: int) -> int:
    """Return a frame's number: each owner of a turn has a block above all earlier ones (STR-2)."""
    return block * _BLOCK + count


def done_frame(
    turn: Turn, platform: str, answer_id: str, outcome: Outcome | None, seq: int
) -> StreamFrame:
    """Return the last frame of an input (SPEC STR-5); one that was swallowed has no outcome."""
    replying = turn.replying if answer_id == _answer_id(turn) else None
    return StreamFrame(
        session_id=turn.session_id,
        platform=platform,
        turn_id=answer_id,
        seq=seq,
        done=True,
        outcome=outcome,
        tool_limit_reached=True if replying is not None and replying.tool_limit_reached else None,
        shortened=True if replying is not None and replying.shortened else None,
    )


def _answer_id(turn: Turn) -> str | None:
    return None if turn.plan is None or turn.plan.input_seq is None else turn.answer_id


def segments_of(turn: Turn) -> list[ContentSegment]:
    """Return the whole turn as a page shows it: reasoning, text, calls, in order (AG-54)."""
    found: list[ContentSegment] = []
    for one in turn.rounds:
        if one.response.reasoning_content:
            text = one.response.reasoning_content
            found.append(ContentSegment(type="reasoning_text", content=text))
        if one.response.content:
            found.append(ContentSegment(type="text", content=one.response.content))
        if one in turn.groups:
            found += [_call_segment(one, index) for index in range(len(one.calls))]
    return _merged(found)


def _call_segment(one: Round, index: int) -> ContentSegment:
    call, done, began = one.calls[index], one.finished.get(index), one.started.get(index)
    return ContentSegment(
        type="tool_call",
        name=call.function.name,
        args=began.args if began is not None else call.function.arguments,
        call_id=call.id,
        result=done.content if done is not None else None,
        start_time=began.at if began is not None else None,
        end_time=done.at if done is not None else None,
    )


def _merged(segments: list[ContentSegment]) -> list[ContentSegment]:
    merged: list[ContentSegment] = []
    for segment in segments:
        last = merged[-1] if merged else None
        if last is not None and last.type == segment.type and segment.type != "tool_call":
            text = (last.content or "") + (segment.content or "")
            merged[-1] = last.model_copy(update={"content": text})
        else:
            merged.append(segment)
    return merged


def model_info(turn: Turn, provider: str, model: str, now: int) -> ModelInfo:
    """Return what the turn's calls took (SPEC AG-57); unknown or zero values are left out.

    The time runs from the turn's first call, whoever made it; both clocks are replicas' own.
    """
    usages = [one.response.usage for one in turn.rounds if one.response.usage is not None]
    prompt = usages[-1].prompt_tokens if usages else 0
    completion = sum(usage.completion_tokens for usage in usages)
    return ModelInfo(
        provider=provider,
        model=model,
        prompt_tokens=prompt or None,
        completion_tokens=completion or None,
        total_tokens=(prompt + completion) or None,
        elapsed_ms=max(0, now - (turn.asked_at or now)) or None,
    )


def cleaned(text: str) -> tuple[str, int]:
    """Return model text as a person may read it, and how many leaked markers went (AG-54)."""
    bare, leaked = without_markers(text)
    return repair_tables(bare), leaked


def joined_reasoning(turn: Turn) -> str | None:
    """Return the reasoning of all calls, joined by a rule (SPEC AG-56)."""
    texts = [text for one in turn.rounds if (text := one.response.reasoning_content)]
    return "\n\n---\n\n".join(texts) or None
