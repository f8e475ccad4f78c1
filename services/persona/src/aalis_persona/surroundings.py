"""This is about surroundings: when and where a turn takes place, and in what state (SPEC PER-4).

All of it may differ from turn to turn, so it never stands in the system prompt. Names come from
strangers: each is one line, and not a long one.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from aalis_contracts.catalogue import Catalogue
from aalis_contracts.messages import IncomingMessage, MemberRole, sender_label
from aalis_contracts.text import JsonObject, compact_json, one_line

_LONGEST: Final = 120
_ROLES: Final[dict[MemberRole, str]] = {
    "owner": "roleOwner",
    "admin": "roleAdmin",
    "member": "roleMember",
}


def volatile_prompt(
    now: datetime | None,
    incoming: IncomingMessage | None,
    state: JsonObject | None,
    texts: Catalogue,
) -> str | None:
    """Return the lines about time, place and state that are known; None when none is."""
    lines = [
        _time(now, texts) if now is not None else None,
        *(_place(incoming, texts) if incoming is not None else ()),
        texts.text("personaState", state=compact_json(state)) if state else None,
    ]
    return "\n".join(line for line in lines if line) or None


def _time(now: datetime, texts: Catalogue) -> str:
    return texts.text(
        "personaTime",
        date=f"{now:%Y-%m-%d}",
        weekday=texts.text("personaWeekdays").split()[now.weekday()],
        time=f"{now:%H:%M}",
        zone=str(now.tzinfo),
    )


def _place(incoming: IncomingMessage, texts: Catalogue) -> list[str | None]:
    own = incoming.metadata or {}
    account = _label(own.get("selfNickname"), own.get("selfId"))
    sender = _label(incoming.nickname, incoming.user_id)
    own_standing = _standing(incoming.self_role, incoming.self_title, texts)
    standing = _standing(incoming.sender_role, incoming.sender_title, texts)
    group = _label(incoming.group_name, incoming.group_id)
    return [
        texts.text("personaPlatform", platform=_short(incoming.platform)),
        texts.text("personaOwnAccount", account=account) if account else None,
        texts.text("personaGroup", group=group) if group else None,
        texts.text("personaOwnStanding", standing=own_standing) if own_standing else None,
        texts.text("personaSender", sender=sender) if sender else None,
        texts.text("personaSenderStanding", standing=standing) if standing else None,
    ]


def _standing(role: MemberRole | None, title: str | None, texts: Catalogue) -> str:
    known = [texts.text(_ROLES[role]) if role is not None else "", _short(title)]
    return " / ".join(filter(None, known))


def _label(name: object, identity: object) -> str:
    return sender_label(_short(name), _short(identity)) or ""


def _short(text: object) -> str:
    return one_line(text, _LONGEST) if isinstance(text, str) else ""
