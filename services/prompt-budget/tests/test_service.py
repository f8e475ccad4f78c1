"""This is about prompt-budget as a process: whatever dies, the answer is the newest."""

import asyncio
import json
import secrets
from typing import Any

import pytest
from redis.asyncio import Redis

from aalis_contracts import subjects
from aalis_contracts.registry import ToolEntry
from aalis_contracts.tools import ToolCallContext, ToolCallRequest, ToolResult
from aalis_sdk.mesh import Mesh
from aalis_sdk.registry import Registry
from aalis_sdk.testing.meshes import Meshes
from aalis_sdk.testing.processes import Spawner
from aalis_sdk.testing.servers import NatsServer, ValkeyServer

MODULE = "aalis_prompt_budget"
TOOL = "prompt_budget_info"


async def use(mesh: Mesh, session: str, used: int, **more: object) -> None:
    event = {
        "sessionId": session,
        "platform": "webui",
        "userId": "u",
        "contextWindow": 1000,
        "maxTokens": 100,
        "tokenBudget": 900,
        "used": used,
        "usageRatio": used / 1000,
        "breakdown": {"system": used, "history": 0},
        **more,
    }
    await mesh.publish(subjects.token_usage(session), json.dumps(event).encode())


async def ask(
    mesh: Mesh, caller: str, session: str | None = None, **more: object
) -> dict[str, Any]:
    context: dict[str, object] = {
        "sessionId": caller,
        "platform": "webui",
        "userId": "u",
        "turnId": "t",
        "callId": "c",
        "key": secrets.token_hex(8),
        "enabledGroups": [],
        **more,
    }
    request = ToolCallRequest(
        name=TOOL,
        args={} if session is None else {"sessionId": session},
        context=ToolCallContext.from_object(context),
    )
    reply = await mesh.request(subjects.tool_call(TOOL), request, ToolResult, 5.0)
    return json.loads(reply.content)


async def test_the_newest_usage_is_answered(
    spawn_service: Spawner, mesh: Meshes, valkey_server: ValkeyServer, session_id: str
) -> None:
    await spawn_service(MODULE, {"AALIS_REDIS_URL": valkey_server.url})
    connected = await mesh()
    assert (await ask(connected, session_id))["noData"] is True
    for used in (100, 400, 900):
        await use(connected, session_id, used)
        told = await ask(connected, session_id)
        assert (told["used"], told["sessionId"]) == (used, session_id)
    assert told["tag"] == "CRITICAL"
    assert told["ageMs"] < 5000


async def test_the_tool_is_announced_as_specified(spawn_service: Spawner, mesh: Meshes) -> None:
    await spawn_service(MODULE)
    registry = Registry(await mesh())
    await registry.start()
    entry = registry.get(subjects.tool_key(TOOL))
    assert isinstance(entry, ToolEntry)
    assert (entry.plugin, entry.groups, entry.risk, entry.retry) == (
        "prompt-budget",
        [],
        "safe",
        "safe",
    )
    parameters = entry.definition.function.parameters
    assert parameters["required"] == []
    assert parameters["additionalProperties"] is False


async def test_odd_events_do_no_harm(spawn_service: Spawner, mesh: Meshes, session_id: str) -> None:
    service = await spawn_service(MODULE)
    connected = await mesh()
    subject = subjects.token_usage(session_id)
    for body in (b"", b"\xff", b"[]", b'{"sessionId":7}', b'{"sessionId":""}', b'{"used":1}'):
        await connected.publish(subject, body)
    assert (await ask(connected, session_id))["noData"] is True
    await use(connected, session_id, 5, breakdown={"new": 3})
    assert (await ask(connected, session_id))["top3"] == [{"name": "new", "tokens": 3}]
    assert service.events("a message failed and will be tried again") == []


async def test_answers_stay_the_same_while_valkey_dies_and_returns(
    spawn_service: Spawner, mesh: Meshes, valkey_server: ValkeyServer, session_id: str
) -> None:
    service = await spawn_service(MODULE, {"AALIS_REDIS_URL": valkey_server.url})
    connected = await mesh()
    await use(connected, session_id, 100)
    assert (await ask(connected, session_id))["used"] == 100
    valkey_server.kill()
    for used in (200, 300):
        await use(connected, session_id, used)
        assert (await ask(connected, session_id))["used"] == used
    assert (await ask(connected, f"{session_id}-unknown"))["noData"] is True
    valkey_server.start()
    await asyncio.sleep(1.1)
    await use(connected, session_id, 400)
    assert (await ask(connected, session_id))["used"] == 400
    await service.wait_for_log("Redis is back")
    warnings = [event for event in service.events() if event["level"] == "warning"]
    assert len(warnings) == 1, warnings
    peek = Redis.from_url(valkey_server.url)
    assert len(await peek.keys("*")) == 1
    await peek.aclose()


async def test_a_flushed_cache_loses_nothing(
    spawn_service: Spawner, mesh: Meshes, valkey_server: ValkeyServer, session_id: str
) -> None:
    await spawn_service(MODULE, {"AALIS_REDIS_URL": valkey_server.url})
    connected = await mesh()
    await use(connected, session_id, 100)
    before = await ask(connected, session_id)
    peek = Redis.from_url(valkey_server.url)
    await peek.flushall()
    after = await ask(connected, session_id)
    assert after | {"ageMs": 0} == before | {"ageMs": 0}
    assert len(await peek.keys("*")) == 1
    await peek.aclose()


async def test_a_restarted_service_knows_what_happened_meanwhile(
    spawn_service: Spawner, mesh: Meshes, valkey_server: ValkeyServer, session_id: str
) -> None:
    env = {"AALIS_REDIS_URL": valkey_server.url}
    first = await spawn_service(MODULE, env)
    connected = await mesh()
    await use(connected, session_id, 100)
    assert (await ask(connected, session_id))["used"] == 100
    first.kill()
    await use(connected, session_id, 200)
    valkey_server.restart()
    await spawn_service(MODULE, env)
    assert (await ask(connected, session_id))["used"] == 200


@pytest.mark.parametrize("cached", [True, False])
async def test_of_two_replicas_whichever_answers_tells_the_newest(
    spawn_service: Spawner,
    mesh: Meshes,
    valkey_server: ValkeyServer,
    session_id: str,
    *,
    cached: bool,
) -> None:
    env = {"AALIS_REDIS_URL": valkey_server.url} if cached else {}
    await asyncio.gather(spawn_service(MODULE, env), spawn_service(MODULE, env))
    connected = await mesh()
    for used in range(1, 60):
        await use(connected, session_id, used)
        assert (await ask(connected, session_id))["used"] == used


async def test_usage_is_answered_after_nats_restarted(
    spawn_service: Spawner, mesh: Meshes, nats_server: NatsServer, session_id: str
) -> None:
    await spawn_service(MODULE)
    connected = await mesh()
    await use(connected, session_id, 100)
    before = await ask(connected, session_id)
    nats_server.restart()
    after = await until_answered(connected, session_id)
    assert after | {"ageMs": 0} == before | {"ageMs": 0}
    await use(connected, session_id, 300)
    assert (await ask(connected, session_id))["used"] == 300


async def until_answered(mesh: Mesh, session: str) -> dict[str, Any]:
    for _ in range(50):
        try:
            return await ask(mesh, session)
        except Exception:  # noqa: BLE001, S110 - the service may still be reconnecting
            pass
        await asyncio.sleep(0.1)
    raise AssertionError("no answer within 5 s after the restart")


async def test_a_foreign_session_is_answered_as_if_unknown(
    spawn_service: Spawner, mesh: Meshes, session_id: str
) -> None:
    await spawn_service(MODULE, {"AALIS_BUDGET_ALLOW": "webui:boss,ops", "AALIS_LOCALE": "en"})
    connected = await mesh()
    await use(connected, session_id, 100)
    unknown = await ask(connected, "mine", "never-heard-of", userId="stranger")
    foreign = await ask(connected, "mine", session_id, userId="stranger")
    assert foreign == unknown | {"sessionId": session_id}
    assert (await ask(connected, "mine", session_id))["used"] == 100
    assert (await ask(connected, "mine", session_id, userId="boss"))["used"] == 100
    assert (await ask(connected, "ops", session_id, userId="stranger"))["used"] == 100
    assert (await ask(connected, session_id, "", userId="stranger"))["used"] == 100


async def test_a_bad_setting_stops_the_start_with_one_line(spawn_service: Spawner) -> None:
    service = await spawn_service(MODULE, {"AALIS_BUDGET_ALLOW": "a:b:c"}, ready=False)
    assert await service.wait() == 1
    assert len(service.log.strip().splitlines()) == 1
    assert "AALIS_BUDGET_ALLOW" in service.log
