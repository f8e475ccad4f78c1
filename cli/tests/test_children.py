"""How a service process is described to a person."""

import pytest

from aalis_cli.children import only_of, readable, replicas_of


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('{"level":"info","event":"ready","version":"1"}', "ready (version=1)"),
        ('{"time":"t","service":"agent","instance":"a","event":"leaving"}', "leaving"),
        (
            '{"event":"failed","exception":"Traceback\\n  at\\nValueError: no"}',
            "failed: ValueError: no",
        ),
        ("aalis-agent: AALIS_TZ='x': unknown", "aalis-agent: AALIS_TZ='x': unknown"),
        ("  [1, 2]  ", "[1, 2]"),
        ("{broken", "{broken"),
        ("{}", "{}"),
    ],
)
def test_a_log_line_is_told_in_words(line: str, text: str) -> None:
    assert readable(line) == text


def test_replicas_are_read_by_service() -> None:
    assert replicas_of("agent=2,gateway=3") == {"agent": 2, "gateway": 3}
    assert replicas_of("") == {}


@pytest.mark.parametrize("text", ["agent", "agent=0", "agent=x", "agent=-1", "nobody=2", "agent=²"])
def test_a_replica_count_that_makes_no_sense_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="use NAME=N"):
        replicas_of(text)


def test_chosen_services_come_in_the_order_of_starting() -> None:
    assert only_of("gateway,memory") == ("memory", "gateway")


@pytest.mark.parametrize("text", ["", "nats", "agent,nobody"])
def test_an_unknown_service_is_refused_by_name(text: str) -> None:
    with pytest.raises(
        ValueError, match="use some of memory, prompt-budget, persona, agent, gateway"
    ):
        only_of(text)
