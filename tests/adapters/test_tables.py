"""Migrating an empty database gives exactly the declared tables, on both databases."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy.ext.asyncio import create_async_engine

from adapters import migrate
from adapters.database import url_of
from adapters.tables import metadata
from core.ports import Unavailable


async def on(url: str, work: Any) -> Any:
    """Run `work` over a plain SQLAlchemy connection and commit."""
    read = url_of(url)
    if read.get_backend_name() == "sqlite":
        engine = sa.create_engine(read)
        try:
            with engine.begin() as connection:
                return work(connection)
        finally:
            engine.dispose()
    pooled = create_async_engine(read, poolclass=sa.pool.NullPool)
    async with pooled.begin() as connection:
        return await connection.run_sync(work)


def described(connection: sa.Connection) -> dict[str, Any]:
    """Everything the database says of its tables."""
    inspector = sa.inspect(connection)

    def by_name(things: Any) -> list[Any]:
        return sorted((plain(thing) for thing in things), key=lambda thing: str(thing["name"]))

    def plain(thing: Any) -> Any:
        if isinstance(thing, dict):
            return {key: plain(value) for key, value in thing.items()}
        return str(thing) if isinstance(thing, sa.types.TypeEngine | sa.TextClause) else thing

    sqlite = connection.dialect.name == "sqlite"
    strict = {row.name: row.strict for row in connection.execute(sa.text("PRAGMA table_list"))} if sqlite else {}
    return {
        table: {
            "strict": strict.get(table),
            "columns": by_name(inspector.get_columns(table)),
            "primary key": inspector.get_pk_constraint(table),
            "foreign keys": by_name(inspector.get_foreign_keys(table)),
            "indexes": by_name(inspector.get_indexes(table)),
            "uniques": by_name(inspector.get_unique_constraints(table)),
            "checks": by_name(inspector.get_check_constraints(table)),
        }
        for table in sorted(inspector.get_table_names())
        if table != "alembic_version"
    }


async def test_migrating_from_nothing_gives_exactly_the_declared_tables(database_url: str) -> None:
    assert await migrate.migrate(database_url) == ["0001", "0002"]
    migrated = await on(database_url, described)
    assert {table: len(columns["columns"]) for table, columns in migrated.items()} == {
        table.name: len(table.c) for table in metadata.tables.values()
    }

    def recreated(connection: sa.Connection) -> dict[str, Any]:
        # Within one transaction that is rolled back, the declared tables in the place of the migrated ones.
        metadata.drop_all(connection)
        metadata.create_all(connection)
        return described(connection)

    assert migrated == await on(database_url, recreated)


async def test_alembic_sees_no_difference(database_url: str) -> None:
    await migrate.migrate(database_url)

    def differences(connection: sa.Connection) -> Any:
        options = {"compare_type": True, "compare_server_default": True}
        return compare_metadata(MigrationContext.configure(connection, opts=options), metadata)

    assert await on(database_url, differences) == []


async def test_migrating_again_does_nothing(database_url: str) -> None:
    assert await migrate.current(database_url) is None
    assert await migrate.pending(database_url) == ["0001", "0002"]
    await migrate.migrate(database_url)
    assert await migrate.migrate(database_url) == []
    assert await migrate.current(database_url) == "0002"
    assert await migrate.pending(database_url) == []


async def test_a_database_that_is_behind_is_refused_with_the_command(database_url: str) -> None:
    with pytest.raises(migrate.Behind, match="run: placet migrate"):
        await migrate.check(database_url)
    await migrate.migrate(database_url)
    await migrate.check(database_url)


async def test_a_database_of_a_later_version_is_refused(database_url: str) -> None:
    await migrate.migrate(database_url)
    await on(
        database_url, lambda connection: connection.execute(sa.text("UPDATE alembic_version SET version_num = '9'"))
    )
    with pytest.raises(migrate.Behind, match="a later version"):
        await migrate.check(database_url)
    with pytest.raises(migrate.Behind, match="a later version"):
        await migrate.migrate(database_url)


async def test_several_that_migrate_at_once_wait_for_one_another(database_url: str) -> None:
    done = await asyncio.gather(*(migrate.migrate(database_url) for _ in range(4)))
    assert sorted(done) == [[], [], [], ["0001", "0002"]]
    await migrate.check(database_url)


async def test_down_and_up_again_gives_the_same(database_url: str) -> None:
    from alembic import command

    await migrate.migrate(database_url)
    before = await on(database_url, described)
    await on(database_url, lambda connection: command.downgrade(migrate._config(connection), "base"))
    assert await on(database_url, described) == {}
    await migrate.migrate(database_url)
    assert await on(database_url, described) == before


@pytest.mark.parametrize("statement", ["UPDATE audit SET note = 'x'", "DELETE FROM audit"])
async def test_the_audit_refuses_to_be_changed(database_url: str, statement: str) -> None:
    await migrate.migrate(database_url)
    line = (
        "INSERT INTO audit (approval_id, at, action, revision) VALUES ('a', '2026-03-09T12:00:00.000000Z', 'opened', 1)"
    )
    await on(database_url, lambda connection: connection.execute(sa.text(line)))
    with pytest.raises(sa.exc.DBAPIError, match="append-only"):
        await on(database_url, lambda connection: connection.execute(sa.text(statement)))
    count = await on(
        database_url, lambda c: c.execute(sa.text("SELECT count(*) FROM audit WHERE note IS NULL")).scalar()
    )
    assert count == 1


async def test_the_audit_refuses_to_be_emptied(postgres_database: str) -> None:
    await migrate.migrate(postgres_database)
    with pytest.raises(sa.exc.DBAPIError, match="append-only"):
        await on(postgres_database, lambda connection: connection.execute(sa.text("TRUNCATE audit")))


async def test_a_database_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(Unavailable) as refused:
        await migrate.migrate("postgresql://placet:hunter2@127.0.0.1:1/placet")
    assert "hunter2" not in str(refused.value)


def test_the_migrations_are_part_of_the_wheel(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    subprocess.run(
        ["uv", "build", "--wheel", "--offline", "--out-dir", str(tmp_path), str(root)], check=True, capture_output=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    code = (
        f"import sys; sys.path.insert(0, {str(wheel)!r})\n"
        "import zipfile; names = zipfile.ZipFile(sys.path[0]).namelist()\n"
        "assert 'adapters/migrations/env.py' in names and 'adapters/migrations/script.py.mako' in names\n"
        "assert 'adapters/migrations/versions/0001_the_first_tables.py' in names\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
