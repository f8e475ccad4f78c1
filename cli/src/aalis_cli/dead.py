"""This is about `aalis dead`: what could not be handled, why, and trying it again."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from aalis_cli.failure import Failed
from aalis_cli.interrupts import Interrupts, run
from aalis_cli.provision import server_url
from aalis_cli.stack import connected

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aalis_cli.place import Place
    from aalis_contracts.dead import DeadLetter
    from aalis_sdk.mesh import Entry, Mesh

_PAGE: Final = 500
_CUT_HEADER: Final = "aalis-dead-cut"
_KEPT_HEADERS: Final = ("traceparent", "content-type")


def dead(place: Place, nats: str | None, action: str, numbers: list[int]) -> int:
    """List the dead letters, show some of them, or send some again where they came in."""
    if action != "list" and not numbers:
        raise Failed(f"say which: ./aalis dead {action} NUMBER; ./aalis dead list knows them", 2)
    todo: dict[str, Callable[[Mesh], Awaitable[None]]] = {
        "list": _list,
        "show": lambda mesh: _each(mesh, numbers, _show),
        "retry": lambda mesh: _each(mesh, numbers, _retry),
    }

    async def story(_: Interrupts) -> int:
        mesh = await connected(server_url(place, nats))
        try:
            await todo[action](mesh)
        finally:
            await mesh.close()
        return 0

    return run(story)


async def _list(mesh: Mesh) -> None:
    from aalis_sdk import topology

    position, count = 0, 0
    while page := await mesh.range(topology.DEAD, "dead.>", position + 1, _PAGE):
        for entry in page:
            letter = letter_of(entry)
            moment = datetime.fromtimestamp(entry.time_ms / 1000, UTC)
            sys.stdout.write(
                f"{entry.seq}  {moment:%Y-%m-%d %H:%M:%S}Z  {letter.subject}  {letter.reason}\n"
            )
            position, count = entry.seq, count + 1
    if not count:
        sys.stdout.write("no dead letters\n")


async def _each(
    mesh: Mesh, numbers: list[int], action: Callable[[Mesh, Entry], Awaitable[None]]
) -> None:
    from aalis_sdk import topology

    for number in numbers:
        entry = await mesh.direct_get(topology.DEAD, {"seq": number})
        if entry is None:
            raise Failed(f"no dead letter {number}; ./aalis dead list knows them")
        await action(mesh, entry)


async def _show(_: Mesh, entry: Entry) -> None:
    shown = {"number": entry.seq, **letter_of(entry).to_object()}
    sys.stdout.write(json.dumps(shown, ensure_ascii=False, indent=2) + "\n")


async def _retry(mesh: Mesh, entry: Entry) -> None:
    """Publish the message where it came in, then drop the letter; a repeat publishes nothing."""
    from aalis_contracts import subjects
    from aalis_contracts.errors import Fault
    from aalis_sdk import topology

    letter = letter_of(entry)
    if _CUT_HEADER in entry.headers:
        why = f"its body of {entry.headers[_CUT_HEADER]} bytes was cut"
        raise Failed(f"{entry.seq} cannot be sent again: {why}; its sender must send it")
    try:
        target = subjects.ingest(letter.subject)
    except ValueError as error:
        raise Failed(f"{entry.seq} cannot be sent again: {error}") from None
    headers = {name: entry.headers[name] for name in _KEPT_HEADERS if name in entry.headers}
    try:
        # An id of its own: the stream still remembers the first one, and would drop this as a copy.
        await mesh.store(target, entry.data, f"retry:{entry.seq}", headers=headers)
    except Fault as error:
        raise Failed(f"{entry.seq} was not sent again: {error.message}") from None
    await mesh.js.delete_msg(topology.DEAD, entry.seq)
    sys.stdout.write(f"{entry.seq} sent again to {target.name}\n")


def letter_of(entry: Entry) -> DeadLetter:
    """Read a dead letter from its headers and its body as it came."""
    from aalis_contracts import dead as words
    from aalis_contracts.dead import DeadLetter

    head = entry.headers
    sequence = head.get(words.SEQUENCE_HEADER, "")
    return DeadLetter(
        subject=head.get(words.SUBJECT_HEADER) or entry.subject.removeprefix("dead."),
        reason=head.get(words.REASON_HEADER, "no reason was given"),
        stream=head.get(words.STREAM_HEADER),
        sequence=int(sequence) if sequence.isdigit() else None,
        consumer=head.get(words.CONSUMER_HEADER),
        turn_id=head.get(words.TURN_HEADER),
        body=entry.data.decode("utf-8", "replace"),
    )
