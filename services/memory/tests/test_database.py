"""Opening a database, losing it, getting it back (SPEC MEM-9)."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.ext.asyncio import create_async_engine

import aalis_contracts
import aalis_memory
import aalis_sdk
from aalis_contracts.errors import Fault
from aalis_contracts.messages import Message
from aalis_contracts.rpc import MetadataChange
from aalis_memory.adapters.database import HEAD, Database, Unusable
from aalis_memory.adapters.migrations import configuration
from aalis_memory.adapters.store_sql import SqlStore
from aalis_memory.adapters.tables import metadata
from aalis_memory.ports import Draft
from aalis_sdk.testing.postgres import PostgresServer

ROOTS = [Path(package.__path__[0]).parent for package in (aalis_contracts, aalis_sdk, aalis_memory)]


def store_on(database: Database) -> SqlStore:
    return SqlStore(database, lambda: 1)


async def save(store: SqlStore, seq: int = 1) -> None:
    await store.save("s", [Draft(Message(role="user", content="hi", input_seq=seq, index=0))])


def move(source: Path, target: Path) -> None:
    """Move a SQLite database with all its files."""
    target.mkdir(exist_ok=True)
    for file in [*source.glob("memory.db*")]:
        file.rename(target / file.name)


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{quote(str(path))}"


def test_the_code_knows_the_newest_revision() -> None:
    assert ScriptDirectory.from_config(configuration()).get_current_head() == HEAD


async def test_the_migrations_make_the_tables_that_the_code_knows(
    new_database: Callable[[], str],
) -> None:
    database = Database(new_database())
    await database.open()

    def difference(connection: sa.Connection) -> list[Any]:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return compare_metadata(context, metadata)

    assert await database.run(difference) == []
    assert await database.problem() is None
    await database.close()


async def test_what_was_saved_is_there_when_the_database_is_opened_again(
    new_database: Callable[[], str],
) -> None:
    url = new_database()
    for seq in (1, 2, 3):
        database = Database(url)
        await database.open()
        await save(store_on(database), seq)
        assert len(await store_on(database).history("s", 10)) == seq
        await database.close()


async def test_replicas_that_start_at_the_same_moment_migrate_once(
    new_database: Callable[[], str],
) -> None:
    url = new_database()
    program = (
        "import asyncio, sys\n"
        "from aalis_memory.adapters.database import Database\n"
        "database = Database(sys.argv[1])\n"
        "asyncio.run(database.open())\n"
        "print('open')\n"
    )
    replicas = [_python(program, url) for _ in range(2)]
    assert [replica.communicate(timeout=50)[0] for replica in replicas] == [b"open\n"] * 2
    database = Database(url)
    await asyncio.gather(database.open(), Database(url).open(), Database(url).open())
    await save(store_on(database))
    await database.close()


async def test_a_process_killed_inside_a_commit_leaves_nothing_of_it(
    new_database: Callable[[], str],
) -> None:
    url = new_database()
    database = Database(url)
    await database.open()
    store = store_on(database)
    await store.commit([_put("a", "before"), _put("b", "before")])
    program = (
        "import asyncio, os, signal, sys\n"
        "from sqlalchemy import event\n"
        "from aalis_contracts.rpc import MetadataChange\n"
        "from aalis_memory.adapters.database import Database\n"
        "from aalis_memory.adapters.store_sql import SqlStore\n"
        "def change(op, key):\n"
        "    return MetadataChange(op=op, namespace='n', key=key, value='after')\n"
        "async def main():\n"
        "    database = Database(sys.argv[1])\n"
        "    await database.open()\n"
        "    engine = database._engine\n"
        "    def die(connection, cursor, statement, *rest):\n"
        "        if statement.startswith('DELETE'):\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "    event.listen(engine, 'after_cursor_execute', die)\n"
        "    changes = [change('put', 'a'), change('delete', 'b')]\n"
        "    await SqlStore(database, lambda: 1).commit(changes)\n"
        "asyncio.run(main())\n"
    )
    process = _python(program, url)
    process.communicate(timeout=50)
    assert process.returncode == -signal.SIGKILL
    assert {item.key: item.value for item in await store.metadata("n")} == {
        "a": "before",
        "b": "before",
    }
    assert await store.commit([_put("a", "later"), _put("b", "later")]) == 2
    await database.close()


async def test_what_was_confirmed_survives_the_death_of_the_process(
    new_database: Callable[[], str],
) -> None:
    url = new_database()
    program = (
        "import asyncio, os, signal, sys\n"
        "from aalis_contracts.messages import Message\n"
        "from aalis_memory.adapters.database import Database\n"
        "from aalis_memory.adapters.store_sql import SqlStore\n"
        "from aalis_memory.ports import Draft\n"
        "async def main():\n"
        "    database = Database(sys.argv[1])\n"
        "    await database.open()\n"
        "    store = SqlStore(database, lambda: 1)\n"
        "    for seq in range(1000):\n"
        "        row = Message(role='user', content='hi', input_seq=seq, index=0)\n"
        "        await store.save('s', [Draft(row)])\n"
        "        print(seq, flush=True)\n"
        "asyncio.run(main())\n"
    )
    process = _python(program, url)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(20)]
    process.send_signal(signal.SIGKILL)
    lines += process.communicate()[0].splitlines(keepends=True)
    confirmed = sum(line.endswith(b"\n") for line in lines)
    assert confirmed >= 20
    database = Database(url)
    await database.open()
    found = await store_on(database).history("s", 2000)
    assert [row.input_seq for row in found][:confirmed] == list(range(confirmed))
    await database.close()


# opening ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("", "cannot be read"),
        ("nonsense", "cannot be read"),
        ("mysql://localhost/x", "'mysql' is unknown; use sqlite:///PATH or postgresql"),
        ("sqlite://", "in memory would forget everything"),
        ("sqlite:///:memory:", "in memory would forget everything"),
    ],
)
def test_an_address_that_makes_no_sense_is_refused(url: str, complaint: str) -> None:
    with pytest.raises(Unusable, match=complaint):
        Database(url)


@pytest.mark.parametrize(
    ("url", "driver", "query"),
    [
        ("sqlite:////x/y.db", "sqlite+pysqlite", {}),
        ("postgres://u:p@h/d", "postgresql+asyncpg", {}),
        ("postgresql://u:p@h/d?sslmode=require", "postgresql+asyncpg", {"ssl": "require"}),
    ],
)
def test_usual_spellings_of_addresses_are_understood(
    url: str, driver: str, query: dict[str, str]
) -> None:
    database = Database(url)
    assert (database.url.drivername, dict(database.url.query)) == (driver, query)
    assert ":p@" not in database.shown


async def test_the_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deeper" / "mémoire %20?#.db"
    database = Database(sqlite_url(path))
    await database.open()
    await save(store_on(database))
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes[path.name] == 0o600
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    await database.close()


async def test_the_mode_of_an_existing_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    path.touch()
    path.chmod(0o640)
    database = Database(sqlite_url(path))
    await database.open()
    await database.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


async def test_sqlite_waits_for_the_disk_only_when_it_is_told_to(tmp_path: Path) -> None:
    async def pragmas(database: Database) -> list[Any]:
        def work(connection: Any) -> list[Any]:
            names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
            found = [connection.exec_driver_sql(f"PRAGMA {name}") for name in names]
            return [each.scalar() for each in found]

        await database.open()
        try:
            return await database.run(work)
        finally:
            await database.close()

    url = sqlite_url(tmp_path / "memory.db")
    assert await pragmas(Database(url)) == ["wal", 1, 1, 4000]
    assert await pragmas(Database(url, sync="full")) == ["wal", 2, 1, 4000]


def _not_a_database(path: Path) -> bytes:
    path.write_bytes(b"this is a diary, not a database\n" * 200)
    return path.read_bytes()


def _cut_short(path: Path) -> bytes:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE messages (text)")
        connection.executemany("INSERT INTO messages VALUES (?)", [("x" * 5000,)] * 50)
    connection.close()
    path.write_bytes(path.read_bytes()[:6000])
    return path.read_bytes()


def _somebody_elses(path: Path) -> bytes:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE messages (text)")
        connection.execute("INSERT INTO messages VALUES ('precious')")
    connection.close()
    return path.read_bytes()


def _newer(path: Path) -> bytes:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        connection.execute("INSERT INTO alembic_version VALUES ('9999')")
    connection.close()
    return path.read_bytes()


@pytest.mark.parametrize(
    ("prepare", "complaint"),
    [
        (_not_a_database, "not a database"),
        (_cut_short, "malformed"),
        (_somebody_elses, "already exists"),
        (_newer, "schema 9999 is of a newer version"),
    ],
)
async def test_a_file_that_cannot_be_used_is_left_as_it_is(
    tmp_path: Path, prepare: Callable[[Path], bytes], complaint: str
) -> None:
    path = tmp_path / "memory.db"
    prepare(path)
    before = _content(path)
    with pytest.raises(Unusable, match=complaint) as refused:
        await Database(sqlite_url(path)).open()
    assert "\n" not in str(refused.value)
    assert _content(path) == before


def _content(path: Path) -> Any:
    """Return what a file holds: its rows, or its bytes where it is no database."""
    try:
        connection = sqlite3.connect(path)
        try:
            return list(connection.iterdump())
        finally:
            connection.close()
    except sqlite3.DatabaseError:
        return path.read_bytes()


async def test_a_directory_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match="unable to open database file"):
        await Database(sqlite_url(tmp_path)).open()


async def test_a_path_below_a_file_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unusable, match="cannot be used"):
        await Database(sqlite_url(tmp_path / "file" / "memory.db")).open()


async def test_a_foreign_postgresql_schema_is_left_as_it_is(
    new_postgres_database: Callable[[], str],
) -> None:
    url = new_postgres_database()
    theirs = create_async_engine(url.replace("postgresql:", "postgresql+asyncpg:"))

    def tables(connection: sa.Connection) -> set[str]:
        return set(sa.inspect(connection).get_table_names())

    async with theirs.begin() as connection:
        await connection.exec_driver_sql("CREATE TABLE metadata (precious text)")
    with pytest.raises(Unusable, match="already exists"):
        await Database(url).open()
    async with theirs.connect() as connection:
        assert await connection.run_sync(tables) == {"metadata"}
    await theirs.dispose()


async def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    database = Database("postgresql://user:secret@127.0.0.1:1/x")
    with pytest.raises(Unusable, match=r"user:\*\*\*@127\.0\.0\.1:1") as refused:
        await database.open()
    assert "secret" not in str(refused.value)


async def test_a_database_that_was_not_opened_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        await store_on(Database(sqlite_url(tmp_path / "x.db"))).history("s", 1)


# losing it -------------------------------------------------------------------------------


async def test_a_file_that_vanishes_is_missed_and_used_again_when_it_is_back(
    tmp_path: Path,
) -> None:
    path = tmp_path / "memory.db"
    database = Database(sqlite_url(path))
    await database.open()
    store = store_on(database)
    await save(store)
    kept = tmp_path / "kept"
    move(tmp_path, kept)
    assert await database.problem() == "the database cannot do this now"
    for attempt in (lambda: store.history("s", 1), lambda: save(store, 2)):
        with pytest.raises(Fault) as failed:
            await attempt()
        assert (failed.value.code, failed.value.retryable) == ("internal", True)
    assert not path.exists()
    move(kept, tmp_path)
    assert await database.problem() is None
    await save(store, 2)
    assert [row.input_seq for row in await store.history("s", 10)] == [1, 2]
    await database.close()


async def test_an_empty_file_in_its_place_is_not_taken_for_the_database(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    database = Database(sqlite_url(path))
    await database.open()
    await save(store_on(database))
    move(tmp_path, tmp_path / "gone")
    path.touch()
    assert await database.problem() is not None
    with pytest.raises(Fault):
        await save(store_on(database), 2)
    await database.close()


async def test_a_restarted_server_costs_no_request(
    postgres_server: PostgresServer, new_postgres_database: Callable[[], str]
) -> None:
    database = Database(new_postgres_database())
    await database.open()
    store = store_on(database)
    await asyncio.gather(*(save(store, seq) for seq in range(10)))
    postgres_server.kill()
    postgres_server.start()
    await asyncio.gather(*(save(store, seq) for seq in range(10, 20)))
    await store.commit([_put("a", 1), _put("b", 1)])
    assert len(await store.history("s", 100)) == 20
    await database.close()


async def test_a_server_that_is_down_is_a_retryable_fault_until_it_is_back(
    postgres_server: PostgresServer, new_postgres_database: Callable[[], str]
) -> None:
    database = Database(new_postgres_database())
    await database.open()
    store = store_on(database)
    await save(store)
    postgres_server.kill()
    try:
        for _ in range(3):
            with pytest.raises(Fault) as failed:
                await store.commit([_put("a", 1), _put("b", 1)])
            assert (failed.value.code, failed.value.retryable) == ("internal", True)
        assert await database.problem() is not None
    finally:
        postgres_server.start()
    assert await database.problem() is None
    await save(store, 2)
    assert len(await store.history("s", 100)) == 2
    await database.close()


async def test_a_frozen_server_does_not_hold_a_request_for_ever(
    postgres_server: PostgresServer, new_postgres_database: Callable[[], str]
) -> None:
    database = Database(new_postgres_database())
    await database.open()
    store = store_on(database)
    await save(store)
    postgres_server.pause()
    try:
        failed = await asyncio.gather(store.history("s", 1), save(store, 2), return_exceptions=True)
        assert [type(each) for each in failed] == [Fault, Fault]
    finally:
        postgres_server.resume()
    await save(store, 3)
    assert (await store.history("s", 1))[0].input_seq == 3
    await database.close()


async def test_a_writer_that_holds_the_file_for_too_long_is_a_retryable_fault(
    tmp_path: Path,
) -> None:
    path = tmp_path / "memory.db"
    database = Database(sqlite_url(path))
    await database.open()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(Fault):
            await save(store_on(database))
        assert await store_on(database).history("s", 1) == []
    finally:
        other.execute("ROLLBACK")
        other.close()
    await save(store_on(database))
    await database.close()


def _put(key: str, value: Any) -> MetadataChange:
    return MetadataChange(op="put", namespace="n", key=key, value=value)


def _python(program: str, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(root) for root in ROOTS)}
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, env=environment
    )
