"""SQLite: one thread writes, one thread reads, each over a connection of its own."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import event

from adapters.faults import sqlite_fault
from adapters.ledger import Ledger
from adapters.statements import Row
from core.ports import Unavailable

T = TypeVar("T")


def sqlite_engine(url: sa.URL, patience_s: float, *, reads_only: bool = False) -> sa.Engine:
    """An engine whose connections begin no transaction by themselves and wait `patience_s` for a lock."""
    engine = sa.create_engine(
        url,
        connect_args={"isolation_level": None, "timeout": patience_s, "check_same_thread": False},
        hide_parameters=True,
        poolclass=sa.pool.QueuePool,
        pool_size=1,
        max_overflow=0,
        pool_reset_on_return=None,
    )

    @event.listens_for(engine, "connect")
    def set_up(connection: sqlite3.Connection, _record: Any) -> None:
        _switch_to_wal(connection, patience_s)
        for pragma in (
            # A decision that was told must survive a power cut, so every commit reaches the disk.
            "synchronous = FULL",
            "foreign_keys = ON",
            f"query_only = {int(reads_only)}",
        ):
            connection.execute(f"PRAGMA {pragma}")

    return engine


def _switch_to_wal(connection: sqlite3.Connection, patience_s: float) -> None:
    """The file remembers the mode; while another process switches a new file, SQLite says BUSY without waiting."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


class SqliteLine:
    """`adapters.statements.Line` over a connection with an open transaction."""

    __slots__ = ("_connection", "dialect")

    def __init__(self, dialect: sa.Dialect, connection: sqlite3.Connection) -> None:
        self.dialect = dialect
        self._connection = connection

    def rows(self, sql: str, parameters: Sequence[Any]) -> Sequence[Row]:
        try:
            found: Sequence[Row] = self._connection.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise sqlite_fault(error) from None
        return found


class _Thread:
    """One thread and one connection, that runs transactions one after the other."""

    def __init__(self, engine: sa.Engine, begin: str, name: str, patience_s: float) -> None:
        self._engine = engine
        self._patience_s = patience_s
        self._begin = begin
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def run(self, work: Callable[[Ledger], T]) -> T:
        deadline = time.monotonic() + self._patience_s
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._transact, work, deadline)

    async def close(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)
        self._engine.dispose()

    def _transact(self, work: Callable[[Ledger], T], deadline: float) -> T:
        if time.monotonic() > deadline:
            raise Unavailable("the database is busy: its writer did not come to this in time")
        try:
            held = self._engine.raw_connection()
        except (sqlite3.Error, sa.exc.SQLAlchemyError) as error:
            cause = error.__cause__ if isinstance(error.__cause__, sqlite3.Error) else error
            name = getattr(cause, "sqlite_errorname", type(cause).__name__)
            raise Unavailable(f"the database file cannot be opened ({name})") from None
        connection: Any = held.driver_connection
        try:
            connection.execute(self._begin)
            answer = work(Ledger(SqliteLine(self._engine.dialect, connection)))
            connection.execute("COMMIT")
            return answer
        except sqlite3.Error as error:
            raise sqlite_fault(error) from None
        finally:
            if connection.in_transaction:
                connection.rollback()
            held.close()


class SqliteTransactions:
    """A file in WAL mode; more processes may share it, and wait for one another a while."""

    def __init__(self, url: sa.URL, patience_s: float) -> None:
        writing, reading = sqlite_engine(url, patience_s), sqlite_engine(url, patience_s, reads_only=True)
        self._writer = _Thread(writing, "BEGIN IMMEDIATE", "placet-writes", patience_s)
        self._reader = _Thread(reading, "BEGIN", "placet-reads", patience_s)

    async def write(self, work: Callable[[Ledger], T]) -> T:
        return await self._writer.run(work)

    async def read(self, work: Callable[[Ledger], T]) -> T:
        return await self._reader.run(work)

    async def close(self) -> None:
        await self._writer.close()
        await self._reader.close()
