"""`aalis up`: what dies comes back, what was said is kept, and the end leaves nothing."""

import os
import signal

import pytest

from aalis_cli.place import Place
from aalis_cli.testing import Command, Machine, wait_until

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]


def up(machine: Machine, *arguments: str) -> Command:
    command = machine.start("up", "--port", "0", *arguments)
    wait_until(lambda: "Ctrl-C stops" in command.printed or command.process.poll() is not None)
    assert command.process.poll() is None, command.said
    return command


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stack_that_is_told_to_stop_stops_whole(machine: Machine, number: signal.Signals) -> None:
    command = up(machine, "--replicas", "agent=2", "--only", "agent,gateway")
    names = sorted(log.stem for log in (machine.data / "logs").glob("*.log"))
    assert names == ["agent-1", "agent-2", "gateway-1"]

    command.send(number)

    assert command.end() == 0
    assert command.said == ""
    assert machine.left() == []
    assert Place(machine.data).running() is None


def test_what_was_said_is_kept_when_everything_was_killed(machine: Machine) -> None:
    first = up(machine)
    machine.run("ask", "!say remember me", "--session", "s")
    first.send(signal.SIGKILL)
    first.end()

    # At once: it waits until what the killed one left behind has been ended.
    second = up(machine)
    asked = machine.run("ask", "!call session_get_history {}", "--session", "s", "--json")
    command = machine.run("chat", "--session", "s", stdin="!say again\n")

    assert asked.process.returncode == 0, asked.said
    assert command.printed == "again\n"
    assert "remember me" in history(machine, "s")
    second.send(signal.SIGTERM)
    assert second.end() == 0
    assert machine.left() == []


def history(machine: Machine, session: str) -> str:
    import sqlite3

    with sqlite3.connect(machine.data / "memory.db") as database:
        rows = database.execute("SELECT * FROM messages").fetchall()
    return "\n".join(str(row) for row in rows if session in row)


def test_a_service_that_is_killed_is_named_and_comes_back(machine: Machine) -> None:
    command = up(machine)
    killed = machine.pid_of("aalis_agent")
    os.kill(killed, signal.SIGKILL)

    wait_until(lambda: "agent-1 was started again" in command.printed)
    line = next(one for one in command.printed.splitlines() if "was killed" in one)
    assert line.startswith("aalis: agent-1 was killed by signal 9; again in 0.5 s. Its last line: ")
    assert machine.run("ask", "!say back").printed == "back\n"
    assert machine.pid_of("aalis_agent") != killed


def test_servers_that_are_killed_come_back_where_they_were(machine: Machine) -> None:
    command = up(machine)
    before = Place(machine.data).running()
    for server in ("nats-server", "valkey-server"):
        os.kill(machine.pid_of(server), signal.SIGKILL)

    wait_until(lambda: "Valkey died" in command.printed and "NATS died" in command.printed)
    wait_until(lambda: Place(machine.data).running() != before)
    assert machine.run("ask", "!say back").printed == "back\n"
    after = Place(machine.data).running()
    assert before is not None
    assert after is not None
    assert (after.nats_url, after.redis_url) == (before.nats_url, before.redis_url)


def test_servers_that_are_there_already_are_used(
    fresh_server_url: str, valkey_url: str, machine: Machine
) -> None:
    command = up(machine, "--nats", fresh_server_url, "--redis", valkey_url)

    assert not any("-server" in line for line in machine.processes().values())
    assert machine.run("ask", "!say hello").printed == "hello\n"
    command.send(signal.SIGTERM)
    assert command.end() == 0


def test_a_service_that_cannot_start_stops_the_start(machine: Machine) -> None:
    command = machine.run("up", "--port", "0", AALIS_HISTORY_LIMIT="-1")

    assert command.process.returncode == 1
    assert "AALIS_HISTORY_LIMIT" in command.said
    assert command.said.count("\n") == 1
    assert machine.left() == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--replicas", "agent=0"], "use NAME=N"),
        (["--only", "nobody"], "use some of"),
        (["--nats", "nats://127.0.0.1:1"], "no NATS server answers"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_started(
    machine: Machine, arguments: list[str], why: str
) -> None:
    command = machine.run("up", *arguments)

    assert command.process.returncode != 0
    assert why in command.said
    assert machine.left() == []
