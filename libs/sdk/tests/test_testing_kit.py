"""This is about the testing kit: what it starts is real, and gone afterwards."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from aalis_contracts.subjects import tool_key
from aalis_sdk import topology
from aalis_sdk.buckets import Bucket
from aalis_sdk.mesh import Mesh
from aalis_sdk.testing.meshes import Meshes, settings
from aalis_sdk.testing.otlp import OtlpReceiver
from aalis_sdk.testing.processes import Spawner
from aalis_sdk.testing.servers import NatsServer, ValkeyServer

PLUGIN = """
from aalis_sdk.plugin import Plugin

plugin = Plugin("echo")

@plugin.tool("echo", "Say it back", {"text": {"type": "string"}}, retry="safe")
async def echo(args, context):
    return args["text"]

plugin.run()
"""

FAILING = """
import os
from pathlib import Path

import pytest

async def test_fails(nats_server, valkey_server, spawn_service, tmp_path):
    script = tmp_path / "echo.py"
    script.write_text({plugin!r})
    service = await spawn_service(script)
    service.pause()
    with open(os.environ["PIDS"], "w") as file:
        for process in spawn_service.processes:
            print(process.pid, file=file)
        for server in (nats_server, valkey_server):
            print(server._running.process.pid, file=file)
    raise AssertionError("as meant")
"""


async def test_a_nats_server_has_its_topology(mesh: Meshes) -> None:
    assert await topology.verify((await mesh()).js) == []


async def test_a_server_keeps_its_address_and_data_through_kill_and_restart(
    nats_server: NatsServer, mesh: Meshes
) -> None:
    connected = await mesh()
    await Bucket(connected, topology.SESSIONS).put("kept", b"1")
    before = nats_server.url
    nats_server.kill()
    nats_server.start()
    assert nats_server.url == before
    record = await Bucket(await mesh(), topology.SESSIONS).get("kept")
    assert record is not None
    assert record.value == b"1"


async def test_a_wiped_server_is_empty_but_complete(
    fresh_nats: NatsServer,
) -> None:
    fresh_nats.wipe()
    connected = Mesh(settings(fresh_nats.url), "test")
    await connected.connect()
    missing = await topology.verify(connected.js)
    await connected.close()
    assert missing == []


async def test_a_server_that_a_test_leaves_dead_is_up_for_the_next_one_part_1(
    nats_server: NatsServer, valkey_server: ValkeyServer
) -> None:
    nats_server.kill()
    valkey_server.kill()


async def test_a_server_that_a_test_leaves_dead_is_up_for_the_next_one_part_2(
    nats_server: NatsServer, valkey_server: ValkeyServer
) -> None:
    assert nats_server.up
    assert valkey_server.up


async def test_a_script_is_spawned_and_seen_in_the_registry(
    spawn_service: Spawner, mesh: Meshes, tmp_path: Path
) -> None:
    script = tmp_path / "echo.py"
    script.write_text(PLUGIN)
    service = await spawn_service(script, {"AALIS_HEALTH_PORT": "0"})
    assert service.health_url.startswith("http://127.0.0.1:")
    assert await Bucket(await mesh(), topology.REGISTRY).get(tool_key("echo")) is not None
    assert await service.terminate() == 0
    assert await Bucket(await mesh(), topology.REGISTRY).get(tool_key("echo")) is None


async def test_a_process_that_cannot_start_is_shown_with_its_last_words(
    spawn_service: Spawner, tmp_path: Path
) -> None:
    script = tmp_path / "broken.py"
    script.write_text("raise SystemExit('no way')")
    with pytest.raises(AssertionError, match="no way"):
        await spawn_service(script)


async def test_spans_of_another_exporter_arrive_as_objects(otlp: OtlpReceiver) -> None:
    provider = TracerProvider(resource=Resource.create({"service.name": "far"}))
    exporter = OTLPSpanExporter(endpoint=f"{otlp.endpoint}/v1/traces")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    with tracer.start_as_current_span("outer"), tracer.start_as_current_span("inner") as inner:
        inner.set_attribute("tokens", 7)
        inner.set_attribute("names", ["a", "b"])
    provider.shutdown()
    spans = await otlp.wait_for(lambda spans: len(spans) == 2)
    outer, received = spans
    assert (received.service, received.name, received.kind) == ("far", "inner", "internal")
    assert received.parent_id == outer.span_id
    assert received.attributes == {"tokens": 7, "names": ["a", "b"]}
    assert otlp.trace(outer.trace_id) == spans


async def test_spans_that_never_come_are_missed_by_name(otlp: OtlpReceiver) -> None:
    with pytest.raises(AssertionError, match="came: nothing"):
        await otlp.wait_for(bool, timeout=0.1)


def test_a_failing_test_shows_its_logs_and_leaves_no_process(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    test = tmp_path / "test_failing.py"
    test.write_text(FAILING.format(plugin=PLUGIN))
    run = subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "pytest",
            "-p",
            "aalis_sdk.testing.fixtures",
            "-p",
            "no:cacheprovider",
            "-o",
            "asyncio_mode=auto",
            str(test),
        ],
        cwd=tmp_path,
        env={**os.environ, "PIDS": str(pids), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1, run.stdout + run.stderr
    assert "as meant" in run.stdout
    assert "log of echo/echo-" in run.stdout
    numbers = [int(line) for line in pids.read_text().split()]
    assert len(numbers) == 3
    assert not [pid for pid in numbers if Path(f"/proc/{pid}").exists()]
