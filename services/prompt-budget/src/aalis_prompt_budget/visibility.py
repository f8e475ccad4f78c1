"""This is about who may see whose budget (SPEC PB-9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from aalis_contracts.tools import ToolCallContext
    from aalis_prompt_budget.snapshots import Usage


@dataclass(frozen=True)
class Allowed:
    """The operator's list: identities (platform, user) and asking sessions that may see all."""

    identities: frozenset[tuple[str, str]]
    sessions: frozenset[str]


def read_allowed(text: str) -> Allowed:
    """Read `platform:userId` and session ids, comma separated; raise ValueError naming a bad one.

    An entry with one `:` is an identity, one without is a session id, so a session id that looks
    like an identity never counts as that person.
    """
    identities: set[tuple[str, str]] = set()
    sessions: set[str] = set()
    for entry in filter(None, (part.strip() for part in text.split(","))):
        parts = [unquote(part) for part in entry.split(":")]
        match parts:
            case [session]:
                sessions.add(session)
            case [platform, user] if platform and user:
                identities.add((platform, user))
            case _:
                message = f"{entry!r} is neither platform:userId nor a session id"
                raise ValueError(message)
    return Allowed(frozenset(identities), frozenset(sessions))


def may_see(context: ToolCallContext, session_id: str, usage: Usage, allowed: Allowed) -> bool:
    """Say whether the caller may see the usage of `session_id`.

    Their own session; one of the same platform and user (nobody is not the same as nobody); or
    any, when the caller is on the operator's list, by acting identity or by session.
    """
    if session_id == context.session_id or context.session_id in allowed.sessions:
        return True
    if context.actor is not None:
        acting = (context.actor.platform, context.actor.user_id)
    else:
        acting = (context.platform, context.user_id or "")
    if acting in allowed.identities:
        return True
    caller = (context.platform, context.user_id)
    return bool(context.user_id) and caller == (usage.platform, usage.user_id)
