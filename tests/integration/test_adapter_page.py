"""The adapter of `docs/adapters.md`, as it stands there, works against the running platform."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from aalis_sdk.testing.servers import NatsServer
    from aalis_sdk.testing.stack import Stack

pytestmark = pytest.mark.timeout(180)

PAGE = Path(__file__).parents[2] / "docs" / "adapters.md"


def _adapter() -> str:
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found.group(1)


async def _run(script: Path, *arguments: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        str(script),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 40)
    return process.returncode, out.decode(), err.decode()


def test_the_page_needs_nothing_of_ours() -> None:
    imported = re.findall(r"^(?:import|from) (.+)$", _adapter(), re.MULTILINE)
    assert imported == ["asyncio, json, sys", "nats"]


async def test_the_adapter_of_the_page_sends_and_receives(
    stack: Stack, nats_server: NatsServer, tmp_path: Path
) -> None:
    script = tmp_path / "adapter.py"
    script.write_text(_adapter(), encoding="utf-8")
    two = await asyncio.gather(
        _run(script, nats_server.url, "demo", "demo:room-1", "!say for demo"),
        _run(script, nats_server.url, "other", "other:room-1", "!say for other"),
    )
    assert [code for code, _, _ in two] == [0, 0], two
    assert [out.strip() for _, out, _ in two] == ["for demo", "for other"]
