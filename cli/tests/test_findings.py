"""What the doctor makes of what it saw."""

import pytest

from aalis_cli.findings import (
    ConsumerFacts,
    Finding,
    ServerFacts,
    ServiceFacts,
    StorageFacts,
    about_consumers,
    about_dead,
    about_offers,
    about_packages,
    about_redis,
    about_server,
    about_services,
    about_storage,
    about_topology,
    pins,
    size_of,
)

MIB = 1024 * 1024


def levels(found: list[Finding]) -> list[str]:
    return [one.level for one in found]


def test_whatever_is_not_well_comes_with_what_to_do() -> None:
    bad = [
        *about_server(ServerFacts("nats://x", "2.9.10", MIB, jetstream=False))[:-1],
        about_storage(StorageFacts("file", 9, 10)),
        *about_topology(["stream INBOUND"]),
        *about_consumers([ConsumerFacts("INBOUND", "gateway-3", 5, 0, 2, 0)]),
        *about_services([]),
        about_dead(3),
        about_redis(None, None),
        about_redis("redis://x", "is deaf"),
        *about_packages({"nats-py": "2"}, {"nats-py": None}),
    ]

    assert all(one.level != "ok" and one.todo for one in bad)


@pytest.mark.parametrize(
    ("version", "level"),
    [("2.15.1", "ok"), ("2.11.0", "ok"), ("2.10.26", "wrong"), ("2.9.10-beta.1", "wrong")],
)
def test_a_server_must_be_new_enough(version: str, level: str) -> None:
    found = about_server(ServerFacts("nats://x", version, 8 * MIB, jetstream=True))

    assert levels(found)[0] == level


def test_a_small_message_limit_is_a_warning() -> None:
    found = about_server(ServerFacts("nats://x", "2.15.1", MIB, jetstream=True))

    assert levels(found) == ["warn", "ok"]
    assert "max_payload is 1048576" in found[0].what


@pytest.mark.parametrize(
    ("used", "limit", "level"), [(7, 10, "ok"), (8, 10, "warn"), (9, 0, "ok"), (9, -1, "ok")]
)
def test_storage_that_is_nearly_full_is_a_warning(used: int, limit: int, level: str) -> None:
    assert about_storage(StorageFacts("memory", used, limit)).level == level


@pytest.mark.parametrize(
    ("pending", "in_work", "waiting", "expected"),
    [
        (0, 0, 0, ["ok"]),
        (0, 1, 0, ["ok"]),
        (9, 1, 0, ["warn"]),
        (9, 0, 1, ["warn"]),
        (9, 0, 0, ["wrong"]),
    ],
)
def test_what_waits_is_wrong_only_if_nobody_takes_it(
    pending: int, in_work: int, waiting: int, expected: list[str]
) -> None:
    facts = ConsumerFacts("AGENT_INBOX", "agent", pending, in_work, 0, waiting)

    found = about_consumers([facts])

    assert levels(found) == expected
    if expected == ["wrong"]:
        assert found[0].todo == "start the agent"


def test_the_reader_of_a_consumer_is_told_by_its_name() -> None:
    todo = [
        about_consumers([ConsumerFacts("X", name, 1, 0, 0, 0)])[0].todo
        for name in ("gateway-7", "prompt-budget", "adapter-cli")
    ]

    assert todo == ["start the gateway", "start the prompt-budget", "start the reader"]


def test_answers_need_an_agent_and_a_gateway_and_can_do_without_the_rest() -> None:
    assert levels(about_services([])) == ["warn", "warn", "warn", "wrong", "wrong"]


def test_replicas_of_two_versions_are_named() -> None:
    running = [
        ServiceFacts(name, f"{name}-{version}", version)
        for name in ("memory", "prompt-budget", "persona", "agent", "gateway", "weather")
        for version in ("1", "2")
    ]

    found = about_services(running)

    assert levels(found) == [*["ok"] * 6, "warn"]
    assert found[-1].what == "versions differ: 1, 2"
    assert found[-2].what == "also there: weather"


def test_offers_are_listed_by_kind() -> None:
    found = about_offers({"tools": ["a", "b"], "commands": []})

    assert [one.what for one in found] == ["tools: a, b", "commands: none"]


def test_a_cache_that_answers_is_well() -> None:
    assert about_redis("redis://x", None).level == "ok"
    assert about_dead(0).level == "ok"
    assert levels(about_topology([])) == ["ok"]


def test_a_lock_is_read_without_what_applies_elsewhere() -> None:
    lock = (
        "# comment\n"
        "nats-py==2.16.0 \\\n    --hash=sha256:00\n"
        "colorama==0.4.6 ; sys_platform == 'win32' \\\n    --hash=sha256:00\n"
        "rich==15.0.0\n"
    )

    assert pins(lock) == {"nats-py": "2.16.0", "rich": "15.0.0"}


def test_another_version_than_the_pinned_is_a_warning_and_none_is_wrong() -> None:
    found = about_packages({"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2"})

    assert levels(found) == ["warn", "wrong"]
    assert levels(about_packages({"a": "1"}, {"a": "1"})) == ["ok"]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (2048, "2 KiB"),
        (5 * MIB, "5 MiB"),
        (3 * 1024 * MIB, "3.0 GiB"),
    ],
)
def test_bytes_are_written_as_people_do(number: int, text: str) -> None:
    assert size_of(number) == text
