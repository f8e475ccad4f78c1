"""A real turn under a persona: told who it is, held to a format, and remembered as it answered."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from aalis_contracts import subjects
from aalis_contracts.rpc import HistoryGet, Rows
from aalis_contracts.sessions import SessionConfig
from aalis_llm.script_file import parse_script
from aalis_llm.scripted_http import ScriptedServer
from aalis_sdk.sessions import Sessions
from aalis_sdk.testing.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aalis_contracts.messages import Message
    from aalis_sdk.testing.person import Person
    from aalis_sdk.testing.processes import Spawner

pytestmark = pytest.mark.timeout(180)

CARD = """
name: Miu
description: A cat that minds a bookshop.
outputFormat:
  mood: {type: string, description: how you feel}
  reply: {type: string, reply: true}
"""
# A format retry is asked without tools, so a rule that needs one tells the first try from the next.
SCRIPT = """
rules:
- when: {text: hello, offers: todo_list}
  reply: Hello, I am happy!
- when: {text: hello}
  reply: '{"mood": "happy",  "reply": "Hello!"}'
- when: {text: again}
  reply: 'Sure! ```json {"mood": "calm", "reply": "Still here."'
"""


async def test_an_answer_without_its_format_goes_back_and_only_the_reply_is_sent(
    spawn_service: Spawner,
    environment: dict[str, str],
    person: Callable[..., Awaitable[Person]],
    tmp_path: Path,
) -> None:
    cards = tmp_path / "cards"
    cards.mkdir()
    (cards / "shop-cat.yaml").write_text(CARD, encoding="utf-8")
    async with ScriptedServer(parse_script(SCRIPT)) as server:
        provider = {
            "OPENAI_API_KEY": "sk-test-key-0001",
            "OPENAI_BASE_URL": server.url,
            "AALIS_DEFAULT_LLM": "openai/demo",
        }
        stack = Stack(spawn_service, {**environment, **provider})
        await asyncio.gather(
            stack.start("persona", AALIS_PERSONA_CARDS=str(cards)), stack.start_all()
        )
        somebody = await person()
        await _choose(somebody, "shop-cat")

        first = await somebody.ask("hello", timeout=60)
        second = await somebody.ask("once again", timeout=60)
        tried, retried, later = (_messages(body) for body in server.bodies)

    assert first.content == "Hello!"
    assert second.content == "Still here."
    answers = [row for row in await _history(somebody) if row.role == "assistant"]
    assert [row.content for row in answers] == [
        '{"mood":"happy","reply":"Hello!"}',
        '{"mood":"calm","reply":"Still here."}',
    ]
    assert [(row.metadata or {})["visibleContent"] for row in answers] == ["Hello!", "Still here."]

    refused, feedback = retried[-2:]
    assert (refused["role"], refused["content"]) == ("assistant", "Hello, I am happy!")
    assert feedback["role"] == "system"
    assert "mood (string), reply (string)" in feedback["content"]
    for messages in (tried, retried, later):
        assert messages[0]["content"].startswith("You are Miu.\nA cat that minds a bookshop.")
        assert messages[0] == tried[0]
    assert [message["content"] for message in tried if "Current time: " in message["content"]] == [
        tried[-2]["content"]
    ]
    assert any(message["content"] == answers[0].content for message in later)


async def _choose(somebody: Person, persona: str) -> None:
    sessions = Sessions(somebody.mesh, lambda: time.time_ns() // 1_000_000)
    await sessions.ensure(somebody.session_id, platform=somebody.platform)
    chosen = SessionConfig(persona=persona)
    await sessions.update(
        somebody.session_id, lambda record: record.model_copy(update={"config": chosen})
    )


def _messages(body: dict[str, Any]) -> list[dict[str, str]]:
    return cast("list[dict[str, str]]", body["messages"])


async def _history(somebody: Person) -> list[Message]:
    request = HistoryGet(session_id=somebody.session_id, limit=50)
    rows = await somebody.mesh.request(subjects.request(subjects.HISTORY_GET), request, Rows)
    return rows.messages
