"""This is about reasoning on the wire: byte-equal to who signed it, or not at all (SPEC SHAPE-7).

`providerData` of an assistant message: `provider` and `model` that wrote it, `blocks` (the signed
and redacted blocks, as received), `prefix` (digest of everything before it on the wire).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import cast

from aalis_contracts.messages import Message
from aalis_contracts.text import JsonObject, compact_json
from aalis_llm.profiles import Profile


class PrefixDigest:
    """The digest of messages in the order in which they go on the wire."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, message: Message) -> None:
        """Add what of `message` reaches the wire."""
        calls = [[c.id, c.function.name, c.function.arguments] for c in message.tool_calls or []]
        parts = [
            message.role,
            message.content,
            calls,
            message.tool_call_id,
            message.images,
            signed_blocks(message),
        ]
        self._hash.update(compact_json(parts).encode("utf-8", "replace"))

    def value(self) -> str:
        """Return the digest of what was added so far."""
        return self._hash.hexdigest()


def keep_reasoning(
    messages: Sequence[Message], profile: Profile, provider_id: str, model: str
) -> list[Message]:
    """Keep the reasoning that this provider wants and may see; drop the rest (SPEC SHAPE-7)."""
    kept: list[Message] = []
    digest = PrefixDigest()
    signs = profile.reasoning == "signed" and any(signed_blocks(m) for m in messages)
    for message in messages:
        ours = _is_of(message.provider_data, provider_id, model)
        if profile.reasoning == "signed":
            whole = ours and _is_unchanged(message, digest)
            shown = message if whole else _without(message, keep_data=False)
            if signs:  # hashing costs as much as all the rest: only where it is compared
                digest.add(shown)
        elif profile.reasoning == "required":
            shown = _with_reasoning(message, keep_data=ours)
        else:
            shown = _without(message, keep_data=ours)
        kept.append(shown)
    return kept


def prefix_digest(messages: Iterable[Message]) -> str:
    """Return the digest of a shaped list, to be recorded with what a model signs after it."""
    digest = PrefixDigest()
    for message in messages:
        digest.add(message)
    return digest.value()


def signed_blocks(message: Message) -> list[JsonObject]:
    """Return the signed and redacted reasoning blocks that a message carries, as received."""
    blocks = (message.provider_data or {}).get("blocks")
    if not isinstance(blocks, list):
        return []
    return [cast("JsonObject", block) for block in blocks if isinstance(block, dict)]


def reasoning_text(blocks: Iterable[JsonObject]) -> str:
    """Return the readable text of reasoning blocks, as `reasoningContent` holds it."""
    return "".join(str(block.get("thinking") or "") for block in blocks)


def _is_of(data: JsonObject | None, provider_id: str, model: str) -> bool:
    return data is not None and data.get("provider") == provider_id and data.get("model") == model


def _is_unchanged(message: Message, before: PrefixDigest) -> bool:
    """Say whether text and prefix are those for which the blocks were signed."""
    blocks = signed_blocks(message)
    if not blocks or (message.provider_data or {}).get("prefix") != before.value():
        return False
    return reasoning_text(blocks) == (message.reasoning_content or "")


def _without(message: Message, *, keep_data: bool) -> Message:
    data = message.provider_data if keep_data else None
    if message.reasoning_content is None and message.provider_data is data:
        return message
    return message.model_copy(update={"reasoning_content": None, "provider_data": data})


def _with_reasoning(message: Message, *, keep_data: bool) -> Message:
    data = message.provider_data if keep_data else None
    reasoning = message.reasoning_content if message.role == "assistant" else None
    if message.tool_calls:
        reasoning = reasoning or ""
    if reasoning == message.reasoning_content and message.provider_data is data:
        return message
    return message.model_copy(update={"reasoning_content": reasoning, "provider_data": data})
