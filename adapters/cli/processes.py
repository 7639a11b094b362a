"""`placet demo`, `serve` and `migrate`: what runs on this machine and not through the HTTP API."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from adapters.cli.context import fail, settings_of
from core.ports import BadSetting, Unavailable


class Part(StrEnum):
    """What one process of a split installation does."""

    API = "api"
    BOTS = "bots"
    WORKER = "worker"


def demo(
    context: typer.Context,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where the demo's page listens; 0 is any free port.")
    ] = 8420,
    data_dir: Annotated[
        Path | None, typer.Option(help="Where it keeps its files; else the folder demo in the data folder.")
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    """Run Placet with a sandbox in the place of the platforms. It needs no account, no token and no network."""
    from adapters import demo as running

    folder = data_dir or running.folder_in(settings_of(context).data_dir)

    try:
        raise typer.Exit(running.demo(folder, port, browser))
    except BadSetting as bad:
        fail(str(bad))


def serve(
    context: typer.Context,
    only: Annotated[Part | None, typer.Option(help="Run one part in this process; needs PostgreSQL.")] = None,
) -> None:
    """Run Placet."""
    settings = settings_of(context)
    if only is not None and settings.on_sqlite:
        fail("--only needs a database that several processes share: set PLACET_DATABASE_URL to postgresql://...")
    from adapters import app

    try:
        raise typer.Exit(app.serve(settings, only.value if only else None))
    except BadSetting as bad:
        fail(str(bad))


def migrate(context: typer.Context) -> None:
    """Bring the database's tables up to this version."""
    settings = settings_of(context)
    from adapters import migrate as migrations

    try:
        if settings.on_sqlite:
            settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        done = asyncio.run(migrations.migrate(settings.database))
    except (BadSetting, migrations.Behind) as error:
        fail(str(error))
    except (Unavailable, OSError) as error:
        fail(f"PLACET_DATABASE_URL: {error}")
    typer.echo(f"Migrated: {', '.join(done)}." if done else "Nothing to do: the database has this version's tables.")
