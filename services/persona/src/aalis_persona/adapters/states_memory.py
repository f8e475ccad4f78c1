"""This is about states in memory's metadata, one a session: gone with it, shared by all replicas.

A turn waits for this, and can do without it: memory gets two seconds, and its absence one warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar, cast

from aalis_contracts import subjects
from aalis_contracts.contract import Contract
from aalis_contracts.errors import Fault
from aalis_contracts.rpc import (
    Count,
    MetadataChange,
    MetadataCommit,
    MetadataItems,
    MetadataKey,
    MetadataList,
    MetadataPut,
)
from aalis_sdk.logs import Log
from aalis_sdk.mesh import Absent, Mesh, Remote, TooLarge

if TYPE_CHECKING:
    from aalis_contracts.text import JsonObject

log = Log(__name__)
Body = TypeVar("Body", bound=Contract)

NAMESPACE: Final = "persona-state"
_PATIENCE: Final = 2.0
_FAILURES: Final = (Absent, Fault, Remote, TooLarge)


class MemoryStates:
    """States under the session's id, each with the persona that it is a state of."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self._absent = False

    async def keep(self, session_id: str, persona: str, state: JsonObject) -> None:
        """Keep the state of a session in place of an earlier one."""
        value: JsonObject = {"persona": persona, "state": state}
        put = MetadataPut(namespace=NAMESPACE, key=session_id, value=value)
        await self._try(subjects.METADATA_PUT, put, Count)

    async def find(self, session_id: str, persona: str) -> JsonObject | None:
        """Return the session's state, if it is one of this persona."""
        key = MetadataKey(namespace=NAMESPACE, key=session_id)
        found = await self._try(subjects.METADATA_GET, key, MetadataItems)
        for item in found.items if found is not None else ():
            match item.value:
                case {"persona": str(whose), "state": dict(state)} if whose == persona:
                    return cast("JsonObject", state)
                case _:
                    pass
        return None

    async def forget(self, session_id: str | None) -> bool:
        """Forget a session's state, or all; say whether it is gone."""
        try:
            await self._commit(await self._keys() if session_id is None else [session_id])
        except _FAILURES as error:
            log.warning("states are not forgotten", session=session_id, reason=str(error))
            return False
        return True

    async def _keys(self) -> list[str]:
        listed = await self._ask(
            subjects.METADATA_LIST, MetadataList(namespace=NAMESPACE), MetadataItems
        )
        return [item.key for item in listed.items]

    async def _commit(self, keys: list[str]) -> None:
        changes = [MetadataChange(op="delete", namespace=NAMESPACE, key=key) for key in keys]
        await self._ask(subjects.METADATA_COMMIT, MetadataCommit(changes=changes), Count)

    async def _try(self, subject: str, request: Contract, answer: type[Body]) -> Body | None:
        """Ask memory if it is there; None when it is not."""
        try:
            found = await self._ask(subject, request, answer)
        except _FAILURES as error:
            if not self._absent:
                log.warning("memory is absent; personas have no state", reason=str(error))
            self._absent = True
            return None
        if self._absent:
            log.info("memory is back")
        self._absent = False
        return found

    async def _ask(self, subject: str, request: Contract, answer: type[Body]) -> Body:
        return await self._mesh.request(subjects.request(subject), request, answer, _PATIENCE)
