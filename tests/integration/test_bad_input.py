"""Bad input crashes nothing, wedges nothing, and is kept with a reason a person understands."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from aalis_contracts import subjects
from aalis_contracts.dead import REASON_HEADER
from aalis_sdk.mesh import TooLarge
from aalis_sdk.topology import DEAD

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aalis_sdk.mesh import Mesh
    from aalis_sdk.testing.person import Person
    from aalis_sdk.testing.stack import Stack

pytestmark = pytest.mark.timeout(180)

GOOD = {"content": "hello", "sessionId": "s", "platform": "cli"}


def _without(name: str) -> dict[str, Any]:
    return {key: value for key, value in GOOD.items() if key != name}


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"not json at all", "not JSON"),
        (b'{"content":"x","sessionId":"s"', "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[]", "IncomingMessage"),
        (b"", "not JSON"),
        (json.dumps(_without("sessionId")).encode(), "sessionId"),
        (json.dumps({**GOOD, "sessionId": ""}).encode(), "sessionId"),
        (json.dumps({**GOOD, "sessionId": 5}).encode(), "sessionId"),
        (json.dumps({**GOOD, "sessionId": None}).encode(), "sessionId"),
        (json.dumps({**GOOD, "attachments": "none"}).encode(), "attachments"),
        (json.dumps({**GOOD, "sessionType": "crowd"}).encode(), "sessionType"),
        (("[" * 5000 + "]" * 5000).encode(), "IncomingMessage"),
    ],
)
async def test_what_cannot_be_handled_is_dead_with_a_reason_and_the_next_message_works(
    stack: Stack, person: Callable[..., Awaitable[Person]], body: bytes, word: str
) -> None:
    somebody = await person("s")
    await somebody.mesh.js.publish("inbound.message.cli.s", body)
    reply = await somebody.ask("hello")
    assert reply.content
    reasons = await _dead_reasons(somebody.mesh)
    assert len(reasons) == 1
    assert word in reasons[0]
    assert "\n" not in reasons[0]


async def test_unknown_fields_and_lone_surrogates_are_taken(
    stack: Stack, person: Callable[..., Awaitable[Person]]
) -> None:
    somebody = await person("s")
    body = b'{"content":"!say odd \\ud83d text","sessionId":"s","platform":"cli","later":{"x":[1]}}'
    await somebody.mesh.js.publish("inbound.message.cli.s", body)
    await somebody.until(lambda: bool(somebody.heard))
    assert somebody.heard[0].content == "odd \ufffd text"


@pytest.mark.parametrize(
    "session",
    [
        "a.b.c",
        "with space",
        "*",
        ">",
        "100%",
        "%2E",
        "会话",
        "😀" * 10,
        "长" * 300,
        "x" * 300,
        "a/b\\c\n\t",
        "= & ? #",
    ],
)
async def test_any_session_id_is_legal(
    stack: Stack, person: Callable[..., Awaitable[Person]], session: str
) -> None:
    somebody = await person(session)
    await somebody.ask("hello")
    reply = await somebody.ask("how full is your context?")
    assert "32000" in reply.content
    assert {turn.session_id for turn in somebody.turns} == {session}


async def test_empty_content_with_an_attachment_is_a_message(
    stack: Stack, person: Callable[..., Awaitable[Person]]
) -> None:
    somebody = await person()
    picture = {"kind": "image", "data": "https://example.org/x.png", "description": "a cat"}
    reply = await somebody.ask("", attachments=[picture])
    assert reply.content


async def test_a_body_over_the_limit_is_refused_where_it_is_published(
    stack: Stack, person: Callable[..., Awaitable[Person]]
) -> None:
    somebody = await person()
    with pytest.raises(TooLarge, match="exceeds the limit"):
        await somebody.say("x" * 9_000_000)
    reply = await somebody.ask("hello")
    assert reply.content


async def test_a_large_body_within_the_limit_is_answered(
    stack: Stack, person: Callable[..., Awaitable[Person]]
) -> None:
    somebody = await person()
    reply = await somebody.ask("字" * 1_000_000, timeout=60)
    assert reply.content


async def _dead_reasons(mesh: Mesh) -> list[str]:
    for _ in range(50):
        found = await mesh.lasts(DEAD, [subjects.pattern(subjects.DEAD)])
        if found:
            return [entry.headers[REASON_HEADER] for entry in found]
        await asyncio.sleep(0.1)
    return []
