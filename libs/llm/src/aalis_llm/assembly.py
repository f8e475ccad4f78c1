"""This is about tool calls in a stream: fragments in, whole calls out (SPEC LLM-6).

Pure. Providers disagree on which fragments carry an index, an id or a name, and some send a call
whole again and again; every way that was seen in the wild gives the calls that were meant.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import cast

from aalis_contracts.messages import FunctionCall, ToolCall, ToolCallProgress
from aalis_contracts.text import JsonObject, compact_json, well_formed, well_formed_json

_KNOWN = frozenset({"index", "id", "type", "function"})
_KNOWN_OF_FUNCTION = frozenset({"name", "arguments"})
_INDEX_DIGITS = 6


@dataclass
class _Slot:
    """A call that is being written."""

    index: int | None
    order: int
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    length: int = 0
    extra: JsonObject = field(default_factory=dict)
    function_extra: JsonObject = field(default_factory=dict)

    def arguments(self) -> str:
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""

    def may_be_whole(self) -> bool:
        # Cheap, and mostly no: joining the pieces at every fragment would be quadratic.
        return bool(self.pieces) and self.pieces[-1].rstrip().endswith("}")

    def write(self, text: str, *, afresh: bool = False) -> None:
        if afresh:
            self.pieces, self.length = [], 0
        if text:
            self.pieces.append(text)
            self.length += len(text)


class CallAssembly:
    """Collects the fragments of one response."""

    def __init__(self) -> None:
        self._slots: list[_Slot] = []
        self._by_id: dict[str, _Slot] = {}
        self._by_index: dict[int, _Slot] = {}

    def add(self, fragment: JsonObject) -> ToolCallProgress:
        """Take one fragment in the OpenAI form; return how far its call has come."""
        index, call_id = _index(fragment.get("index")), _text(fragment.get("id"))
        raw = fragment.get("function")
        function: JsonObject = raw if isinstance(raw, dict) else {}
        name, arguments = _text(function.get("name")), _arguments(function.get("arguments"))
        slot = self._slot(index, call_id, name, arguments)
        slot.id = slot.id or call_id
        slot.name = name or slot.name
        slot.write(arguments, afresh=bool(name) and _is_whole_again(slot, arguments))
        slot.extra.update({k: v for k, v in fragment.items() if k not in _KNOWN})
        slot.function_extra.update(
            {k: v for k, v in function.items() if k not in _KNOWN_OF_FUNCTION}
        )
        return ToolCallProgress(
            index=slot.order, name=slot.name or None, chars_accumulated=slot.length
        )

    def calls(self) -> list[ToolCall]:
        """Return the calls, by index, then by appearance; ids are unique and non-empty."""
        real = [slot for slot in self._slots if slot.name.strip() or slot.length]
        real.sort(key=lambda slot: (slot.order if slot.index is None else slot.index, slot.order))
        taken: set[str] = set()
        return [_call(slot, position, taken) for position, slot in enumerate(real)]

    def _slot(self, index: int | None, call_id: str, name: str, arguments: str) -> _Slot:
        slot: _Slot | None
        if call_id:
            slot = self._by_id.get(call_id)
            if slot is None and index is not None:
                # A first fragment may have come without its id.
                early = self._by_index.get(index)
                slot = early if early is not None and not early.id else None
        elif index is not None:
            slot = self._by_index.get(index)
        else:
            slot = self._slots[-1] if self._slots else None
        if slot is None or _is_another(slot, index, name, arguments):
            slot = _Slot(index, len(self._slots))
            self._slots.append(slot)
        if call_id:
            self._by_id[call_id] = slot
        if index is not None:
            self._by_index[index] = slot
        return slot


def _is_another(slot: _Slot, index: int | None, name: str, arguments: str) -> bool:
    """Whether a fragment that points at `slot` begins another call all the same.

    Two calls of one message may share an id, and calls may come without id and index: a new name
    where a whole call stands already is a new call.
    """
    if not name or not slot.name or not slot.may_be_whole():
        return False
    if not _is_object(slot.arguments()):
        return False
    if name != slot.name:
        return True
    moved = index is not None and slot.index is not None and index != slot.index
    nameless = not slot.id and index is None
    return (moved or nameless) and _is_object(arguments) and arguments != slot.arguments()


def _is_whole_again(slot: _Slot, arguments: str) -> bool:
    """Whether a fragment repeats in full what the slot holds, or has grown out of it."""
    if not slot.length or not _is_object(arguments):
        return False
    return arguments.startswith(slot.arguments()) or _is_object(slot.arguments())


def _call(slot: _Slot, position: int, taken: set[str]) -> ToolCall:
    base = slot.id or f"call_{position}"
    call_id, number = base, 1
    while call_id in taken:
        number += 1
        call_id = f"{base}-{number}"
    taken.add(call_id)
    function = FunctionCall.model_validate(
        {
            **well_formed_json(slot.function_extra),
            "name": well_formed(slot.name),
            "arguments": well_formed(slot.arguments()),
        }
    )
    extra = well_formed_json(slot.extra)
    return ToolCall.model_validate({**extra, "id": well_formed(call_id), "function": function})


def _index(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return (
        int(value)
        if isinstance(value, str) and value.isdecimal() and len(value) <= _INDEX_DIGITS
        else None
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value) if isinstance(value, int) else ""


def _arguments(value: object) -> str:
    """Return a fragment of arguments; some servers send the object itself."""
    if isinstance(value, str):
        return value
    return compact_json(cast("object", value)) if isinstance(value, dict | list) else ""


def _is_object(text: str) -> bool:
    if not text.startswith("{") or not text.rstrip().endswith("}"):
        return False
    try:
        return isinstance(cast("object", json.loads(text)), dict)
    except (ValueError, RecursionError):
        return False
