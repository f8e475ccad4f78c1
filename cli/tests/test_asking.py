"""`aalis ask` where nothing runs: a reply, and nothing left behind, whatever happens meanwhile."""

import os
import signal

import pytest

from aalis_cli.testing import Machine, wait_until

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


def test_a_question_where_nothing_runs_prints_the_reply_and_leaves_nothing(
    machine: Machine,
) -> None:
    asked = machine.run("ask", "!say 你好")

    assert (asked.process.returncode, asked.printed, asked.said) == (0, "你好\n", "")
    assert machine.left() == []
    assert not machine.data.exists()


def up_to_the_model(machine: Machine) -> bool:
    return any(
        '"ready"' in log.read_text() for log in machine.temporary.glob("aalis-*/logs/agent-1.log")
    )


def with_a_server(machine: Machine) -> bool:
    return any(machine.temporary.glob("aalis-*/nats/*.ports"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", [with_a_server, up_to_the_model])
def test_whoever_is_told_to_stop_leaves_nothing(
    machine: Machine, moment: object, number: signal.Signals
) -> None:
    asked = machine.start("ask", "!hang")
    wait_until(lambda: callable(moment) and moment(machine))
    asked.send(number)

    assert asked.end() == 128 + number, asked.said
    assert (asked.printed, asked.said) == ("", "")
    assert machine.left() == []


def test_a_second_signal_does_not_wait_for_anything(machine: Machine) -> None:
    asked = machine.start("ask", "!hang")
    wait_until(lambda: up_to_the_model(machine))
    frozen = machine.pid_of("aalis_memory")
    os.kill(frozen, signal.SIGSTOP)
    asked.send(signal.SIGINT)
    asked.send(signal.SIGINT)

    assert asked.end() == 128 + signal.SIGINT, asked.said
    assert machine.left() == []


@pytest.mark.parametrize("moment", [with_a_server, up_to_the_model])
def test_what_a_killed_question_started_is_ended_in_its_place(
    machine: Machine, moment: object
) -> None:
    asked = machine.start("ask", "!hang")
    wait_until(lambda: callable(moment) and moment(machine))
    asked.send(signal.SIGKILL)
    asked.end()

    wait_until(lambda: machine.left() == [])


def test_a_service_that_cannot_start_is_named_in_one_line(machine: Machine) -> None:
    asked = machine.run("ask", "hello", AALIS_HISTORY_LIMIT="-1")

    assert (asked.process.returncode, asked.printed) == (1, "")
    assert asked.said.count("\n") == 1
    assert asked.said.startswith("aalis: agent-1 exited with code 1: ")
    assert "AALIS_HISTORY_LIMIT" in asked.said
    assert machine.left() == []


def test_a_reply_that_takes_too_long_is_not_waited_for(machine: Machine) -> None:
    asked = machine.run("ask", "!hang", "--timeout", "0.5")

    assert (asked.process.returncode, asked.printed) == (1, "")
    assert asked.said == "aalis: no answer in 0.5 s; ./aalis doctor looks for the reason\n"
    assert machine.left() == []


def test_a_server_that_is_not_there_is_said_at_once(machine: Machine) -> None:
    asked = machine.run("ask", "hello", "--nats", "nats://127.0.0.1:1")

    assert (asked.process.returncode, asked.printed) == (1, "")
    assert asked.said.startswith("aalis: no NATS server answers at nats://127.0.0.1:1 (")
    assert asked.said.count("\n") == 1
