"""Machines to try the command line on."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from aalis_cli.testing import Machine, wait_until
from aalis_sdk import embedded


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path / "machine")
    yield made
    made.sweep()


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Give a machine on which a stack is up; one for all tests of a module."""
    made = Machine(tmp_path_factory.mktemp("stack"))
    up = made.start("up", "--port", "0")
    try:
        wait_until(lambda: "Ctrl-C stops everything" in up.printed or up.process.poll() is not None)
        assert up.process.poll() is None, up.said
        yield made
    finally:
        up.send(signal.SIGTERM)
        up.end()
        made.sweep()


@pytest.fixture
def fresh_server_url(tmp_path: Path) -> Iterator[str]:
    """Give the address of a NATS server on which nothing has been made."""
    server = embedded.start_nats(tmp_path / "nats")
    yield server.url
    server.stop()


@pytest.fixture
def valkey_url(tmp_path: Path) -> Iterator[str]:
    """Give the address of a Valkey server."""
    server = embedded.start_valkey(tmp_path / "valkey")
    yield server.url
    server.stop()
