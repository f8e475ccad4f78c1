"""This is about personas: who the assistant is in a session, asked before a turn and at its end.

What a turn was planned with travels in each request, so nothing of a turn is kept here, and any
replica may answer any of them. A session that chose no persona gets none: no text, no judgement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aalis_contracts.errors import InvalidRequest
from aalis_contracts.hooks import ClearReport, MemoryClearData, ReplyBeforeData
from aalis_contracts.rpc import PersonaGet, PersonaList, PersonaNames, PersonaPrompt
from aalis_persona import replies
from aalis_persona.formats import format_of
from aalis_persona.prompt import system_prompt
from aalis_persona.surroundings import volatile_prompt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from aalis_contracts.catalogue import Catalogue
    from aalis_contracts.text import JsonObject
    from aalis_persona.ports import Cards, States

_SOURCE: Final = "persona"
_CLEARED_WITH: Final = frozenset({"context", "persona"})


class Personas:
    """Answers for the cards there are; `clock` is None where a model is not told the time."""

    def __init__(
        self,
        cards: Cards,
        states: States,
        clock: Callable[[], datetime] | None,
        texts: Catalogue,
    ) -> None:
        self._cards = cards
        self._states = states
        self._clock = clock
        self._texts = texts

    async def names(self, _: PersonaList) -> PersonaNames:
        """Return what may be chosen, sorted."""
        return PersonaNames(names=sorted(await self._cards.current()))

    async def describe(self, request: PersonaGet) -> PersonaPrompt:
        """Return the texts of the persona that a session chose (SPEC PER-1, PER-3, PER-4)."""
        extra = (request.system_prompt_extra or "").strip()
        if not request.persona:
            return PersonaPrompt(system_prompt=extra, name="")
        card = (await self._cards.current()).get(request.persona)
        if card is None:
            message = f"persona {request.persona!r} is unknown; ask persona.list for what there is"
            raise InvalidRequest(message, "notFound")
        name = card.name.strip() or request.persona
        demanded = None if request.disable_output_format else format_of(card)
        state = None
        if demanded is not None:
            state = await self._states.find(request.session_id, request.persona)
        return PersonaPrompt(
            system_prompt=system_prompt(name, card, extra, demanded, self._texts),
            volatile_prompt=volatile_prompt(
                self._clock() if self._clock is not None else None,
                request.incoming,
                state,
                self._texts,
            ),
            name=name,
            nick_names=[nick for each in card.nick_name if (nick := each.strip())],
        )

    async def judge(self, data: ReplyBeforeData) -> JsonObject | None:
        """Hold a reply against the card that its turn was planned with (SPEC PER-6, PER-7)."""
        if not data.persona:
            return None
        card = (await self._cards.current()).get(data.persona)
        if card is None:
            return None
        verdict = replies.judge(data, card, self._texts)
        if verdict.state:
            await self._states.keep(data.session_id, data.persona, verdict.state)
        return verdict.patch or None

    async def forget(self, data: MemoryClearData) -> Mapping[str, object] | None:
        """Clear what is kept of a session, or of all, and report it (SPEC PER-4, MEM-10)."""
        if data.types is not None and _CLEARED_WITH.isdisjoint(data.types):
            return None
        session = data.session_id if data.scope == "session" else None
        report = ClearReport(source=_SOURCE, success=await self._states.forget(session))
        return {"results": [*data.results, report]}
