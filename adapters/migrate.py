"""Brings a database to this version's tables, and refuses to work on one that is behind."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.ext.asyncio import create_async_engine

from adapters.database import is_sqlite, url_of
from adapters.postgres import connect_arguments
from adapters.sqlite import sqlite_engine
from core.ports import Unavailable

T = TypeVar("T")

log = logging.getLogger("placet.adapters")

# Any number will do, as long as it is always this one: whoever migrates holds this lock of the database.
_LOCK = 7_091_224_862
_LOCK_WAIT_S = 300.0


class Behind(Exception):
    """The database lacks migrations, or was migrated by a later version; the message says what to run."""


async def migrate(url: str) -> list[str]:
    """Run what is pending, all of it or nothing; answers the revisions that were run, oldest first.

    Several at once wait for one another. Raises BadSetting, Unavailable or Behind (a later version's database).
    """
    done = await _with_connection(url, _upgrade)
    for revision in done:
        log.info("migrated", extra={"revision": revision})
    return done


async def current(url: str) -> str | None:
    """The revision the database stands at; None when it is empty."""
    return await _with_connection(url, _revision)


async def pending(url: str) -> list[str]:
    """The revisions that `migrate` would run, oldest first."""
    return await _with_connection(url, _pending)


async def check(url: str) -> None:
    """Raise Behind unless the database is exactly at this version's revision."""
    if missing := await pending(url):
        raise Behind(f"the database lacks {len(missing)} migration(s) ({', '.join(missing)}); run: placet migrate")


def _config(connection: sa.Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _revision(connection: sa.Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _pending(connection: sa.Connection) -> list[str]:
    scripts, at = ScriptDirectory.from_config(_config()), _revision(connection)
    known = [script.revision for script in scripts.walk_revisions()]
    if at is not None and at not in known:
        raise Behind(f"the database was migrated by a later version of Placet (to {at}); run that version, or a later")
    return list(reversed(known if at is None else known[: known.index(at)]))


def _upgrade(connection: sa.Connection) -> list[str]:
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    missing = _pending(connection)
    if missing:
        command.upgrade(_config(connection), "head")
    return missing


async def _with_connection(url: str, work: Callable[[sa.Connection], T]) -> T:
    read = url_of(url)
    try:
        if is_sqlite(read):
            return await asyncio.to_thread(_with_sqlite, read, work)
        return await _with_postgres(read, work)
    except (OSError, TimeoutError, asyncpg.PostgresError, sa.exc.InterfaceError, sa.exc.OperationalError) as error:
        cause = getattr(error, "orig", None) or error
        raise Unavailable(f"the database cannot be reached ({type(cause.__cause__ or cause).__name__})") from None


def _with_sqlite(url: sa.URL, work: Callable[[sa.Connection], T]) -> T:
    engine = sqlite_engine(url, _LOCK_WAIT_S)
    # SQLite's DDL is part of the transaction; this is also the lock against another process that migrates.
    sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    try:
        with engine.begin() as connection:
            return work(connection)
    finally:
        engine.dispose()


async def _with_postgres(url: sa.URL, work: Callable[[sa.Connection], T]) -> T:
    arguments: dict[str, Any] = connect_arguments(None)
    engine = create_async_engine(url, connect_args=arguments, hide_parameters=True, poolclass=sa.pool.NullPool)
    try:
        async with engine.begin() as connection:
            return await connection.run_sync(work)
    finally:
        await engine.dispose()
