"""A store on each database: SQLite in a file of the test's own, PostgreSQL really running."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from aalis_memory.adapters.database import Database
from aalis_memory.adapters.store_sql import SqlStore
from aalis_sdk.testing.postgres import PostgresServer, postgres

DATABASES = ["sqlite", "postgresql"]


@dataclass
class Clock:
    """A clock that stands still until it is told otherwise."""

    now: int = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now


@dataclass
class Backend:
    """One database, which any number of stores may open, as replicas do."""

    url: str
    clock: Clock = field(default_factory=Clock)
    opened: list[Database] = field(default_factory=list[Database])

    async def open(self) -> SqlStore:
        database = Database(self.url)
        self.opened.append(database)
        await database.open()
        return SqlStore(database, self.clock)

    async def close(self) -> None:
        for database in self.opened:
            await database.close()


@pytest.fixture(scope="session")
def postgres_server(
    container_engine: None,
) -> Generator[PostgresServer]:
    with postgres() as server:
        yield server


@pytest.fixture(scope="session")
def new_postgres_database(postgres_server: PostgresServer) -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: postgres_server.database(f"aalis_{next(numbers)}")


@pytest.fixture(params=DATABASES)
def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Give a function that returns the URL of an empty database."""
    if request.param == "postgresql":
        return request.getfixturevalue("new_postgres_database")
    numbers = itertools.count(1)
    return lambda: f"sqlite:///{tmp_path / f'memory-{next(numbers)}.db'}"


@pytest.fixture(scope="session")
def shared_postgres_url(new_postgres_database: Callable[[], str]) -> str:
    return new_postgres_database()


@pytest_asyncio.fixture(params=DATABASES)
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Backend]:
    """Give a database with nothing in it."""
    if request.param == "postgresql":
        made = Backend(request.getfixturevalue("shared_postgres_url"))
    else:
        made = Backend(f"sqlite:///{tmp_path / 'memory.db'}")
    try:
        store = await made.open()
        await store.clear_messages(None)
        await store.clear_metadata(None)
        yield made
    finally:
        await made.close()


@pytest.fixture
def store(backend: Backend) -> SqlStore:
    """Give a store on that database."""
    return SqlStore(backend.opened[0], backend.clock)


@pytest.fixture
def open_another(backend: Backend) -> Callable[[], Awaitable[SqlStore]]:
    """Give a function that opens the same database again, as another replica does."""
    return backend.open


@pytest.fixture
def clock(backend: Backend) -> Clock:
    return backend.clock
