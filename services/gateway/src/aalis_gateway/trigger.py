"""This is about triggers: is the agent addressed (SPEC GW-7)? Pure.

Outside of groups everything is. In a group: a mention of the bot, a reply to one of its messages,
or one of the persona's nicknames.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from aalis_contracts.messages import IncomingMessage
from aalis_gateway.identity import is_group, is_internal

_MENTION: Final = re.compile(r"<at\b([^<>]*)>(.*?)</at>", re.DOTALL)
_SELF: Final = re.compile(r"(?:^|\s)self(?=[\s=/]|$)")
_WORD: Final = "[A-Za-z0-9_]"


def passes_unasked(message: IncomingMessage) -> bool:
    """Say whether the trigger phase has nothing to decide: the message says what it is.

    Inputs of the platform itself, and messages whose adapter or interceptor has set a trigger.
    """
    return is_internal(message) or message.trigger_type is not None


def is_addressed(message: IncomingMessage) -> bool:
    """Say whether the message itself shows that the bot is meant, whatever the persona is."""
    if message.notice_type:
        return False
    if not is_group(message):
        return True
    return mentions_self(message.content) or replies_to_self(message)


def mentions_self(text: str) -> bool:
    """Say whether the text mentions the bot: `<at self id="X">name</at>` (SPEC CON-42)."""
    return any(_SELF.search(_unquoted(mark[1])) for mark in _MENTION.finditer(text))


def without_own_mention(text: str) -> str:
    """Return the text without the mentions of the bot that it begins with."""
    while (mark := _MENTION.match(text.lstrip())) and _SELF.search(_unquoted(mark[1])):
        text = text.lstrip()[mark.end() :]
    return text.lstrip()


def replies_to_self(message: IncomingMessage) -> bool:
    """Say whether the message answers one of the bot's own."""
    answered = message.reply_to
    if answered is None or not answered.user_id:
        return False
    return answered.user_id in own_accounts(message)


def own_accounts(message: IncomingMessage) -> set[str]:
    """Return the bot's account ids as far as the message tells.

    From `metadata.selfId`, and from a session id of the form `<platform>:<self>:<type>:<target>`.
    """
    found: set[str] = set()
    told = (message.metadata or {}).get("selfId")
    if isinstance(told, str) and told:
        found.add(told)
    parts = message.session_id.split(":")
    if len(parts) >= 4 and parts[0] == message.platform and parts[1]:  # noqa: PLR2004 - the form above
        found.add(parts[1])
    return found


def calls_by_name(text: str, nicknames: Sequence[str]) -> bool:
    """Say whether the text contains one of the nicknames, mentions of others left out.

    Case does not matter. A nickname in Latin letters must stand as a word of its own: `ai` is not
    in `said`.
    """
    spoken = _MENTION.sub(" ", text).casefold()
    return any(_contains(spoken, name.strip().casefold()) for name in nicknames)


def _contains(text: str, name: str) -> bool:
    if not name or name not in text:
        return False
    before = f"(?<!{_WORD})" if re.match(_WORD, name) else ""
    after = f"(?!{_WORD})" if re.search(f"{_WORD}$", name) else ""
    return re.search(before + re.escape(name) + after, text) is not None


def _unquoted(attributes: str) -> str:
    return re.sub(r"\"[^\"]*\"|'[^']*'", "", attributes)
