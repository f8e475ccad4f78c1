"""This is about the database itself: opening it, bringing its schema up to date, losing it.

SQLite by default, PostgreSQL by URL. Several processes may open the same database at the same
moment: one migrates, the others wait. What cannot be opened or migrated is left as it is, and
`Unusable` says why in one line. A database that goes away later costs the requests of that time a
retryable `Fault`; nothing has to be restarted when it is back.

Work is written once, without waiting: on PostgreSQL it runs on the event loop, where SQLAlchemy
turns each statement into something that is awaited; on SQLite it runs in a thread, one change of
threads for the whole of it.

Durability. SQLite runs in WAL mode with `synchronous=NORMAL`: what was confirmed survives the death
of any process, and a power failure can take the last transactions, never the file;
`AALIS_DATABASE_SYNC=full` closes that gap for one disk flush a save. PostgreSQL flushes before it
confirms.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import ArgumentError, DBAPIError, InvalidatePoolError, SQLAlchemyError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool
from sqlalchemy.util import greenlet_spawn

from aalis_contracts.errors import Fault, InvalidRequest
from aalis_contracts.text import one_line
from aalis_sdk.logs import Log

log = Log(__name__)

Sync = Literal["normal", "full"]
Result = TypeVar("Result")
Work = Callable[[sa.Connection], Result]
Connected = Callable[[], contextlib.AbstractContextManager[sa.Connection]]

DRIVERS: Final = {
    "sqlite": "sqlite+pysqlite",
    "sqlite+pysqlite": "sqlite+pysqlite",
    "postgres": "postgresql+asyncpg",
    "postgresql": "postgresql+asyncpg",
    "postgresql+asyncpg": "postgresql+asyncpg",
}
HEAD: Final = "0001"
"""The revision of the schema that this code knows."""

_POOL: Final = 10
_WAIT_SECONDS: Final = 4.0
"""For a connection, a lock or a statement: less than the 5 s that a request waits (RPC-1)."""
_MIGRATION_LOCK: Final = 0x61616C6973  # "aalis"


class Unusable(Exception):
    """The database cannot be used as it is; the message is one line."""


class Database:
    """One database and this process's connections to it."""

    def __init__(self, url: str, *, sync: Sync = "normal") -> None:
        self.url = _readable(url)
        self._sync: Sync = sync
        self._file = _file_of(self.url)
        self._engine: sa.Engine | None = None
        self._threads: ThreadPoolExecutor | None = None
        # SQLite has one writer at a time; ours queue here instead of polling for its lock.
        self._writing = asyncio.Lock() if self._file is not None else None

    @property
    def is_postgresql(self) -> bool:
        """Whether this is PostgreSQL; otherwise it is SQLite."""
        return self._file is None

    @property
    def shown(self) -> str:
        """The address without a password, for messages."""
        return self.url.render_as_string(hide_password=True)

    async def open(self) -> None:
        """Make the schema current; raise `Unusable` when that cannot be."""
        if self._file is not None:
            self._threads = ThreadPoolExecutor(_POOL, "database")
        try:
            if self._file is not None:
                _prepare_file(self._file)
            await self._do(self._migrate)
        except (SQLAlchemyError, OSError, TimeoutError) as error:
            await self.close()
            raise Unusable(f"the database {self.shown} cannot be used: {_reason(error)}") from error
        self._engine = self._connectable()

    async def close(self) -> None:
        """Let go of all connections, once what runs on them has ended."""
        if self._engine is not None:
            await self._do(self._engine.dispose)
        if self._threads is not None:
            self._threads.shutdown(wait=True)

    async def problem(self) -> str | None:
        """Say why the database cannot be used right now; None = it can."""

        def revision(connection: sa.Connection) -> str | None:
            found = connection.execute(sa.text("SELECT version_num FROM alembic_version"))
            return found.scalar()

        try:
            stands_at = await self.run(revision)
        except Fault as error:
            return error.message
        return None if stands_at == HEAD else f"the database has schema {stands_at}"

    async def run(self, work: Work[Result], *, writes: bool = False) -> Result:
        """Run `work` with every statement on its own; it may run twice if a connection was dead.

        One statement is all or nothing by itself, and costs one round trip.
        """
        async with self._turn(writes=writes):
            return await self._twice(work, self._autocommit)

    async def transaction(self, work: Work[Result]) -> Result:
        """Run `work` as one transaction; it may run twice, and takes effect at most once."""
        async with self._turn(writes=True):
            return await self._twice(work, self._begun)

    # connections -------------------------------------------------------------------------

    async def _do(self, what: Callable[[], Result]) -> Result:
        """Do something that talks to the database without blocking the event loop."""
        if self._threads is None:
            return await greenlet_spawn(what)
        return await asyncio.get_running_loop().run_in_executor(self._threads, what)

    async def _twice(self, work: Work[Result], connected: Connected) -> Result:
        def attempts() -> Result:
            try:
                with connected() as connection:
                    return work(connection)
            except DBAPIError as error:
                if not error.connection_invalidated or isinstance(error, _Unsure):
                    raise
            # The server was restarted since this connection was used; all others are new now.
            with connected() as connection:
                return work(connection)

        try:
            return await self._do(attempts)
        except (SQLAlchemyError, OSError, TimeoutError, OverflowError) as error:
            raise _translated(error) from error

    @contextlib.contextmanager
    def _autocommit(self) -> Generator[sa.Connection]:
        with self._engine_now().connect() as connection:
            yield connection

    @contextlib.contextmanager
    def _begun(self) -> Generator[sa.Connection]:
        with self._engine_now().connect() as connection:
            if self.is_postgresql:
                connection.execution_options(isolation_level="READ COMMITTED")
                transaction = connection.begin()
                try:
                    yield connection
                except BaseException:
                    transaction.rollback()
                    raise
                with _no_second_try():
                    transaction.commit()
                return
            # IMMEDIATE takes the write lock at once: a transaction that reads first and writes
            # later could find that another has written meanwhile, and fail.
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                _rolled_back(connection)
                raise
            with _no_second_try():
                connection.exec_driver_sql("COMMIT")

    @contextlib.asynccontextmanager
    async def _turn(self, *, writes: bool) -> AsyncGenerator[None]:
        if self._writing is None or not writes:
            yield
            return
        async with self._writing:
            yield

    def _engine_now(self) -> sa.Engine:
        if self._engine is None:
            raise RuntimeError("the database is not open yet; call open() first")
        return self._engine

    def _connectable(self, **options: Any) -> sa.Engine:  # noqa: ANN401 - SQLAlchemy's own
        """Make an engine whose connections run each statement on its own."""
        common: dict[str, Any] = {"isolation_level": "AUTOCOMMIT", "skip_autocommit_rollback": True}
        if "poolclass" not in options:
            common |= {"pool_size": _POOL, "max_overflow": 0, "pool_timeout": _WAIT_SECONDS}
        if self._file is None:
            server = {"application_name": "aalis-memory", "timezone": "UTC"}
            common["connect_args"] = {
                "timeout": _WAIT_SECONDS,
                "command_timeout": _WAIT_SECONDS if "poolclass" not in options else None,
                "server_settings": server,
            }
            return create_async_engine(self.url, **common, **options).sync_engine
        # mode=rw: a file that has vanished is not made anew, empty, behind everybody's back.
        address = sa.URL.create(
            self.url.drivername,
            database=self._file.as_uri(),
            query={"mode": "rw", "uri": "true"},
        )
        engine = sa.create_engine(address, pool_reset_on_return=None, **common, **options)
        _watch_file(engine, self._file, self._sync)
        return engine

    # schema ------------------------------------------------------------------------------

    def _migrate(self) -> None:
        engine = self._connectable(poolclass=NullPool)
        try:
            with engine.connect() as connection:
                if self.is_postgresql:
                    connection.execution_options(isolation_level="READ COMMITTED")
                    connection.execute(
                        sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK}
                    )
                    _upgrade(connection)
                    connection.commit()
                    return
                _use_wal(connection)
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                try:
                    _upgrade(connection)
                except BaseException:
                    _rolled_back(connection)
                    raise
                connection.exec_driver_sql("COMMIT")
        finally:
            engine.dispose()


class _Unsure(DBAPIError):
    """A commit of which nobody knows whether it took effect; never tried again."""


@contextlib.contextmanager
def _no_second_try() -> Generator[None]:
    try:
        yield
    except DBAPIError as error:
        raise _Unsure(
            error.statement, error.params, error.orig or error, connection_invalidated=True
        ) from error


def _rolled_back(connection: sa.Connection) -> None:
    try:
        connection.exec_driver_sql("ROLLBACK")
    except SQLAlchemyError:
        # Whatever is left of the transaction ends with its connection.
        connection.invalidate()


def _readable(url: str) -> sa.URL:
    try:
        parsed = sa.make_url(url)
    except ArgumentError:
        raise Unusable(
            "the database URL cannot be read; use sqlite:///PATH or postgresql://…"
        ) from None
    driver = DRIVERS.get(parsed.drivername)
    if driver is None:
        kinds = "sqlite:///PATH or postgresql://…"
        raise Unusable(f"the database kind {parsed.drivername!r} is unknown; use {kinds}")
    # libpq's spelling, which hosted databases hand out, is `sslmode`; asyncpg's is `ssl`.
    query = {("ssl" if key == "sslmode" else key): value for key, value in parsed.query.items()}
    return parsed.set(drivername=driver, query=query)


def _file_of(url: sa.URL) -> Path | None:
    if not url.drivername.startswith("sqlite"):
        return None
    if not url.database or url.database == ":memory:":
        raise Unusable("a database in memory would forget everything; use sqlite:///PATH")
    return Path(url.database).absolute()


def _prepare_file(file: Path) -> None:
    """Make an empty file, readable by its owner only, if there is none; what exists is kept."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _watch_file(engine: sa.Engine, file: Path, sync: Sync) -> None:
    """Set up each connection, and drop it when its file is no longer the one at this path."""

    def connected(raw: Any, record: Any) -> None:  # noqa: ANN401 - the pool's own types
        record.info["file"] = _identity(file)
        cursor = raw.cursor()
        cursor.execute(f"PRAGMA busy_timeout={int(_WAIT_SECONDS * 1000)}")
        cursor.execute(f"PRAGMA synchronous={sync}")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    def taken(_: Any, record: Any, __: Any) -> None:  # noqa: ANN401 - the pool's own types
        if record.info["file"] != _identity(file):
            raise InvalidatePoolError("the database file was moved or replaced")

    event.listen(engine, "connect", connected)
    event.listen(engine, "checkout", taken)


def _use_wal(connection: sa.Connection) -> None:
    """Switch to WAL, once for the file; two starting processes may collide, so try again."""
    for pause in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0):
        try:
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        except DBAPIError as error:
            if "locked" not in str(error.orig):
                raise
            time.sleep(pause)
        else:
            return
    connection.exec_driver_sql("PRAGMA journal_mode=WAL")


def _upgrade(connection: sa.Connection) -> None:
    """Run the migrations that are missing; the tool for it is loaded only if there are any."""
    stands_at = None
    if sa.inspect(connection).has_table("alembic_version"):
        stands_at = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    if stands_at != HEAD:
        from aalis_memory.adapters.migrations import upgrade  # noqa: PLC0415 - see above

        upgrade(connection, stands_at)


def _translated(error: Exception) -> Exception:
    """Say whose fault it is; what the database said goes to the log."""
    if isinstance(error, OverflowError) or _is_data_error(error):
        return InvalidRequest("a number is out of the range of 64 bits")
    log.warning("the database failed", reason=_reason(error))
    return Fault("the database cannot do this now")


def _is_data_error(error: Exception) -> bool:
    return isinstance(error, DBAPIError) and "out of int64 range" in str(error.orig)


def _reason(error: Exception) -> str:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    text = str(cause).removeprefix(f"{type(cause)}: ") or type(cause).__name__
    return one_line(text, 200)
