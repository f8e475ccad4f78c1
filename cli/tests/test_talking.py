"""Talking to a stack that is up: ask, chat, doctor, topology, dead letters."""

import codecs
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from aalis_cli.place import Place, State
from aalis_cli.testing import PATIENCE, Machine, wait_until
from aalis_contracts import subjects
from aalis_contracts.subjects import Subject
from aalis_sdk.mesh import Mesh
from aalis_sdk.settings import MeshSettings, load

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


def state(stack: Machine) -> State:
    found = Place(stack.data).running()
    assert found is not None
    return found


def test_the_whole_answer_is_one_object(stack: Machine) -> None:
    asked = stack.run("ask", "how full is your context?", "--json", "--session", "a b.c")

    answer: dict[str, Any] = json.loads(asked.printed)
    assert asked.process.returncode == 0, asked.said
    assert answer["outcome"] == "replied"
    assert answer["sessionId"] == "a b.c"
    assert len(bytes.fromhex(answer["traceId"])) == 16
    assert [call["name"] for call in answer["toolCalls"]] == ["prompt_budget_info"]
    told = json.loads(answer["toolCalls"][0]["result"])
    asked_for = answer["usages"][0]
    assert (told["used"], told["contextWindow"]) == (asked_for["used"], asked_for["contextWindow"])
    assert all(usage["turnId"] == answer["turnId"] for usage in answer["usages"])
    assert answer["usage"] == answer["usages"][-1]
    assert f"{told['used']} / {told['contextWindow']}" in answer["reply"]
    assert answer["modelInfo"]["model"] == "demo"


def test_an_answer_uses_what_runs_and_starts_nothing(stack: Machine) -> None:
    before = stack.processes()

    assert stack.run("ask", "!say hello").printed == "hello\n"
    assert stack.left() == list(before.values())


def test_a_failed_turn_is_one_line_and_an_exit_code(stack: Machine) -> None:
    asked = stack.run("ask", "!fail 401")

    assert (asked.process.returncode, asked.printed) == (1, "")
    assert asked.said.startswith("aalis: ")
    assert asked.said.count("\n") == 1

    whole = stack.run("ask", "!fail 401", "--json")
    answer = json.loads(whole.printed)
    assert whole.process.returncode == 1
    assert answer["outcome"] == "error"


def test_a_question_can_come_from_a_pipe(stack: Machine) -> None:
    assert stack.run("ask", "-", stdin="!say from a pipe\n").printed == "from a pipe\n"


def test_a_command_is_answered_without_a_turn(stack: Machine) -> None:
    asked = stack.run("ask", "/help", "--json")

    answer = json.loads(asked.printed)
    assert "/help" in answer["reply"]
    assert answer["turnId"] is None


def test_what_is_set_by_command_counts_in_the_next_question(stack: Machine) -> None:
    here = ("--session", "set-by-command")
    changed = stack.run("ask", "/session.set -m scripted/tiny -t on", *here)
    assert "scripted/tiny" in changed.printed
    assert changed.process.returncode == 0, changed.said

    answer = json.loads(stack.run("ask", "!say hello", "--json", *here).printed)
    assert answer["modelInfo"]["model"] == "tiny"
    elsewhere = json.loads(stack.run("ask", "!say hello", "--json").printed)
    assert elsewhere["modelInfo"]["model"] == "demo"


def test_a_command_that_asks_first_is_confirmed_by_the_next_question(stack: Machine) -> None:
    here = ("--session", "asks-first")
    asked = stack.run("ask", "/clear", *here)
    assert (asked.process.returncode, asked.said) == (0, "")
    assert "YS" in asked.printed

    cleared = stack.run("ask", "Y", *here)
    assert (cleared.process.returncode, cleared.said) == (0, "")
    assert "YS" not in cleared.printed
    assert cleared.printed.strip()


def test_a_piped_chat_answers_line_by_line_and_ends_with_its_input(stack: Machine) -> None:
    lines = "!say one\n\n  !say two  \n!fail 400\n!say three\n/quit\n!say never"
    talked = stack.run("chat", stdin=lines)

    assert talked.printed == "one\ntwo\nthree\n"
    assert talked.said.count("\n") == 1
    assert talked.process.returncode == 1
    assert stack.run("chat", stdin="!say last line without an end").process.returncode == 0


class Terminal:
    """A chat at a terminal."""

    def __init__(self, stack: Machine) -> None:
        ours, theirs = pty.openpty()
        self.end = ours
        self.seen = ""
        self.passed = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "aalis_cli", "chat", "--data", str(stack.data)],
            env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.end)

    def type(self, text: str) -> None:
        os.write(self.end, text.encode())

    def await_text(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            if select.select([self.end], [], [], 0.2)[0]:
                self.seen += self._decoder.decode(os.read(self.end, 65536))
        self.passed, _, self.seen = self.seen.partition(text)


def test_at_a_terminal_the_turn_is_seen_while_it_happens(stack: Machine) -> None:
    terminal = Terminal(stack)
    try:
        terminal.await_text("/quit ends")
        terminal.await_text("› ")
        terminal.type("how full is your context?\n")
        terminal.await_text("→ prompt_budget_info {}")
        terminal.await_text("← prompt_budget_info {")
        terminal.await_text("tokens used")
        terminal.await_text("/ 32,000 tokens OK")
        terminal.await_text("› ")
        terminal.type("/quit\n")
        assert terminal.process.wait(PATIENCE) == 0
    finally:
        terminal.close()


def test_ctrl_c_stops_an_answer_and_at_the_prompt_the_chat(stack: Machine) -> None:
    terminal = Terminal(stack)
    try:
        terminal.await_text("session ")
        terminal.await_text(" · ")
        session = terminal.passed
        terminal.await_text("› ")
        terminal.type("!hang\n")
        # The agent says how full the context is before it asks the model.
        wait_until(lambda: session in (stack.data / "logs" / "agent-1.log").read_text())
        terminal.process.send_signal(signal.SIGINT)
        terminal.await_text("aborted")
        terminal.await_text("› ")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.process.wait(PATIENCE) == 0
    finally:
        terminal.close()


def test_a_second_up_says_who_runs_and_how_to_use_it(stack: Machine) -> None:
    second = stack.run("up", "--port", "0")

    pid, url = state(stack).pid, state(stack).nats_url
    assert (second.process.returncode, second.printed) == (1, "")
    assert second.said == (
        f"aalis: already up (pid {pid}, NATS at {url}); "
        f"talk to it: ./aalis ask TEXT, stop it: kill {pid}\n"
    )


def test_a_server_that_is_not_the_one_described_is_not_talked_to(
    stack: Machine, machine: Machine
) -> None:
    place = Place(machine.data)
    place.make()
    with place.hold():
        place.announce(State(os.getpid(), state(stack).nats_url, None, "somebody else"))
        asked = machine.run("ask", "hello")

    assert asked.process.returncode == 1
    assert f"is not the stack of pid {os.getpid()}" in asked.said


def test_a_healthy_stack_has_nothing_wrong(stack: Machine) -> None:
    looked = stack.run("doctor")
    whole = json.loads(stack.run("doctor", "--json").printed)

    assert looked.process.returncode == 0, looked.printed
    assert "WRONG" not in looked.printed
    assert "prompt_budget_info" in looked.printed
    assert whole["ok"]
    assert {"python", "nats", "topology", "consumers", "services", "registry", "redis"} <= {
        finding["area"] for finding in whole["findings"]
    }


def test_without_a_stack_the_doctor_says_how_to_get_one(machine: Machine) -> None:
    looked = machine.run("doctor", AALIS_NATS_URL="nats://127.0.0.1:1")

    assert looked.process.returncode == 1
    assert "WRONG nats" in looked.printed
    assert "→ ./aalis up" in looked.printed


def test_a_topology_is_complete_once_it_was_applied(stack: Machine) -> None:
    assert stack.run("topology", "verify").printed == "topology is complete\n"
    assert stack.run("topology", "apply").printed == "topology is complete\n"


def test_a_missing_stream_is_named_and_made(fresh_server_url: str, machine: Machine) -> None:
    verified = machine.run("topology", "verify", "--nats", fresh_server_url)
    assert verified.process.returncode == 1
    assert "missing: stream INBOUND\n" in verified.printed
    assert "./aalis topology apply" in verified.said

    applied = machine.run("topology", "apply", "--nats", fresh_server_url)
    assert "made stream INBOUND\n" in applied.printed
    again = machine.run("topology", "apply", "--nats", fresh_server_url)
    assert again.printed == "topology is complete\n"


async def test_a_dead_letter_is_listed_shown_and_sent_again(stack: Machine) -> None:
    assert "no dead letters" in stack.run("dead", "list").printed
    await publish(state(stack).nats_url, "inbound.message.cli.lost", b"not JSON")

    wait_until(lambda: ".message.cli.lost" in stack.run("dead", "list").printed)
    number, *_ = stack.run("dead", "list").printed.split()
    shown = json.loads(stack.run("dead", "show", number).printed)
    assert shown["body"] == "not JSON"
    assert "not JSON" in shown["reason"]

    retried = stack.run("dead", "retry", number)
    assert retried.printed == f"{number} sent again to inbound.message.cli.lost\n"
    # It is as dead as before, under another number.
    wait_until(lambda: ".message.cli.lost" in stack.run("dead", "list").printed)
    assert stack.run("dead", "show", number).process.returncode == 1


def test_a_turn_is_shown_with_what_happened_in_it_and_whose_it_was(stack: Machine) -> None:
    said = "!call prompt_budget_info {}"
    asked = json.loads(stack.run("ask", said, "--session", "a.b", "--json").printed)

    shown = stack.run("turn", "show", asked["turnId"]).printed
    objects = stack.run("turn", "show", asked["turnId"], "--json").printed.splitlines()

    assert shown.startswith(f"turn {asked['turnId']}\n  session a.b, lane user, began ")
    assert "  -- owned by agent-1." in shown
    assert "tool.started  prompt_budget_info {}" in shown
    assert shown.splitlines()[-1].endswith("turn.ended  replied")
    assert [json.loads(line)["turnId"] for line in objects] == [asked["turnId"]] * len(objects)
    assert "no journal holds" in stack.run("turn", "show", "nobody.user:1").said
    assert stack.run("turn", "show", "7").process.returncode == 2


async def publish(url: str, subject: str, body: bytes) -> None:
    mesh = Mesh(load(MeshSettings, nats_url=url, instance="test"), "test")
    await mesh.connect()
    await mesh.store(Subject(subject, subjects.INBOUND), body)
    await mesh.close()
