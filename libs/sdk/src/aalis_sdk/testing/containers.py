"""This is about the same servers from a Docker engine, where one answers (AALIS_TEST_BACKEND).

`testcontainers` is imported only when it is asked for: it is a tool of this repository's tests,
not a dependency of the kit.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from aalis_sdk.embedded import MAX_PAYLOAD

NATS_IMAGE: Final = "nats:2.15-alpine"
VALKEY_IMAGE: Final = "valkey/valkey:9-alpine"
POSTGRES_IMAGE: Final = "postgres:18-alpine"

_CONF: Final = """\
port: 4222
max_payload: {max_payload}
jetstream {{ store_dir: "/data" }}
"""


class Container:
    """A container of ours: the same life as an embedded server."""

    def __init__(self, container: Any, url: str) -> None:  # noqa: ANN401 - no types upstream
        self._container = container
        self.url = url

    @property
    def _engine(self) -> Any:  # noqa: ANN401 - no types upstream
        return self._container.get_wrapped_container()

    def stop(self) -> None:
        """Stop and remove it."""
        self._engine.stop()
        self._container.stop()

    def kill(self) -> None:
        """Kill and remove it."""
        self._container.stop()

    def pause(self) -> None:
        """Freeze it."""
        self._engine.pause()

    def resume(self) -> None:
        """Wake it."""
        self._engine.unpause()


def unavailable() -> str | None:
    """Say why no container can be started; None when a Docker engine answers."""
    try:
        import docker  # noqa: PLC0415 - only with this backend

        client: Any = docker.from_env(timeout=5)
        try:
            client.ping()
        finally:
            client.close()
    except Exception as error:  # noqa: BLE001 - whatever it is, there are no containers
        return f"no Docker engine answers: {type(error).__name__}"
    return None


def start_nats(directory: Path, port: int) -> Container:
    """Start NATS on `port`, its store under `directory`."""
    store = directory / "jetstream"
    store.mkdir(parents=True, exist_ok=True)
    config = directory / "nats.conf"
    config.write_text(_CONF.format(max_payload=json.dumps(MAX_PAYLOAD)), encoding="utf-8")
    container = (
        _container(NATS_IMAGE, port, 4222, "Server is ready")
        .with_volume_mapping(str(config), "/etc/aalis.conf")
        .with_volume_mapping(str(store), "/data", "rw")
        .with_command("-c /etc/aalis.conf")
        .start()
    )
    return Container(container, f"nats://{container.get_container_host_ip()}:{port}")


def start_valkey(port: int) -> Container:
    """Start Valkey on `port`."""
    container = _container(VALKEY_IMAGE, port, 6379, "Ready to accept connections").start()
    return Container(container, f"redis://{container.get_container_host_ip()}:{port}/0")


def _container(image: str, port: int, inside: int, ready: str) -> Any:  # noqa: ANN401
    from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - see above
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy  # noqa: PLC0415

    return (
        DockerContainer(image)
        .with_bind_ports(inside, port)
        .waiting_for(LogMessageWaitStrategy(ready))
    )
