"""Who runs in a data directory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aalis_cli.place import Place, State, default_directory, is_alive

STATE = State(pid=os.getpid(), nats_url="nats://x:1", redis_url=None, server_id="N")


def test_what_is_announced_is_found_while_the_lock_is_held(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with place.hold() as lock:
        assert lock is not None
        place.announce(STATE)
        assert place.running() == STATE
        place.withdraw()
        assert place.running() is None
        assert place.held


def test_a_state_that_nobody_holds_is_a_leftover(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.announce(STATE)

    assert not place.held
    assert place.running() is None


def test_only_one_can_hold_a_directory(tmp_path: Path) -> None:
    with Place(tmp_path).hold() as first, Place(tmp_path).hold() as second:
        assert first is not None
        assert second is None


def test_the_state_of_a_process_that_is_gone_is_not_believed(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    place = Place(tmp_path)
    with place.hold():
        place.announce(State(gone.pid, "nats://x:1", None, None))
        assert place.running() is None
    assert not is_alive(gone.pid)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pid": "x"}', '{"pid": 1}', "\xff"])
def test_a_state_file_that_says_something_else_is_no_state(tmp_path: Path, text: str) -> None:
    file = tmp_path / "up.json"
    file.write_text(text, encoding="latin-1")

    assert State.read(file) is None
    assert State.read(tmp_path / "none") is None


def test_a_checkout_keeps_its_data_beside_its_launcher() -> None:
    directory = default_directory()

    assert directory.name == ".aalis"
    assert (directory.parent / "aalis").is_file()
