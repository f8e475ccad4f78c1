"""This is about concluding: making the last response the reply, or sending it back (SPEC §2.12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aalis_agent.reply import cleaned, joined_reasoning, model_info, segments_of
from aalis_contracts.hooks import REPLY_BEFORE, ReplyBeforeData
from aalis_contracts.journal import ReplyRetried, TurnReplying
from aalis_contracts.text import well_formed

if TYPE_CHECKING:
    from aalis_agent.lane import Lane
    from aalis_agent.parts import Parts
    from aalis_agent.planning import Bench


async def conclude(parts: Parts, lane: Lane, bench: Bench) -> TurnReplying | ReplyRetried:
    """Run `agent:reply:before` on the last response, and decide (SPEC AG-50 to AG-55)."""
    turn = lane.turn
    last = turn.rounds[-1]
    text, leaked = cleaned(last.response.content or "")
    if leaked:
        parts.log.warning("leaked special tokens removed", count=leaked, turn=turn.answer_id)
    data = ReplyBeforeData(
        content=text,
        attempt=last.reply_attempt,
        session_id=turn.session_id,
        turn_id=turn.answer_id,
        platform=turn.answered.message.platform,
        user_id=turn.answered.message.user_id,
        persona=bench.config.persona,
        disable_output_format=bench.config.disable_output_format,
        client_side_json_rendering=bench.config.client_side_json_rendering,
    )
    if parts.interceptors.anyone(REPLY_BEFORE):
        data = (await parts.interceptors.run(REPLY_BEFORE, data)).data
    content = well_formed(data.content)
    if data.retry_requested:
        if last.reply_attempt < data.max_retries:
            feedback = data.retry_feedback or ""
            bench.add_retry(text, feedback, parts.texts)
            return ReplyRetried(attempt=last.reply_attempt + 1, feedback=feedback)
        parts.log.warning("reply dropped: it never had the required format", turn=turn.answer_id)
        content = ""
    archive = data.archive_content if data.archive_content is not None else text
    stuck = bool(archive.strip()) and archive == bench.last_answer
    if stuck:
        parts.log.warning("reply dropped: it repeats the last answer", turn=turn.answer_id)
    silent = stuck or not content.strip()
    if turn.limit_reached:
        parts.log.warning("tool limit reached; pending calls are dropped", turn=turn.answer_id)
    return TurnReplying(
        outcome="silent" if silent else "replied",
        content="" if silent else content,
        archive_content=None if silent or archive == content else archive,
        visible_content=data.visible_content,
        reasoning_content=joined_reasoning(turn),
        last_reasoning=last.response.reasoning_content,
        segments=segments_of(turn) or None,
        model_info=model_info(turn, bench.entry.provider_id, bench.entry.id, parts.now()),
        tool_limit_reached=True if turn.limit_reached else None,
        shortened=True if bench.shortened else None,
        at=parts.now(),
    )
