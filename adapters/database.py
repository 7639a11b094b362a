"""The store: one URL, and behind it SQLite on one writer thread, or PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import sqlalchemy as sa

from adapters.ledger import Ledger
from adapters.postgres import PostgresTransactions
from adapters.sqlite import SqliteTransactions
from core.ports import BadSetting

T = TypeVar("T")

SETTING = "PLACET_DATABASE_URL"


class Database:
    """`core.ports.Store` over a database that `adapters.migrate` has brought up to date.

    Raises Unavailable when the database cannot be reached, is locked, or does not answer in time; Repeated when one
    platform event would decide a second approval; Fault for a statement that the database refused.
    """

    def __init__(self, transactions: PostgresTransactions | SqliteTransactions) -> None:
        self._transactions = transactions

    @classmethod
    def open(cls, url: str, *, patience_s: float = 5.0) -> Database:
        """`sqlite:///<path>` or `postgresql://[user[:password]@]host[:port]/database`; nothing is connected yet.

        `patience_s` bounds each wait: for a turn, for the connection, for a lock, for a statement. Raises BadSetting
        for any other URL.
        """
        read = url_of(url)
        return cls((SqliteTransactions if is_sqlite(read) else PostgresTransactions)(read, patience_s))

    async def write(self, work: Callable[[Ledger], T]) -> T:
        """Run `work` in one read-write transaction and commit it; an exception rolls it back.

        `work` runs once at most: only a transaction that could not begin is begun again.
        """
        return await self._transactions.write(work)

    async def read(self, work: Callable[[Ledger], T]) -> T:
        """Run `work`, which only reads, over one consistent snapshot."""
        return await self._transactions.read(work)

    async def close(self) -> None:
        """Let go of every connection; what is under way ends first."""
        await self._transactions.close()


def is_sqlite(url: sa.URL) -> bool:
    return url.get_backend_name() == "sqlite"


def url_of(text: str) -> sa.URL:
    """The URL with the driver that Placet uses. Raises BadSetting, without the URL: it may hold a password."""
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        raise BadSetting(SETTING, "not a database URL; write sqlite:///<path> or postgresql://host/database") from None
    backend = url.get_backend_name()
    if backend == "sqlite":
        if url.database in (None, "", ":memory:"):
            raise BadSetting(SETTING, "SQLite needs a file, such as sqlite:////var/lib/placet/placet.db")
        return url.set(drivername="sqlite+pysqlite")
    if backend in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+asyncpg")
    raise BadSetting(
        SETTING, "only SQLite and PostgreSQL are served; write sqlite:///<path> or postgresql://host/database"
    )
