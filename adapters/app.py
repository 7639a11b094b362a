"""Wires one process of Placet: every part over its ports, started in order and closed in reverse."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata, util
from typing import Any

import uvicorn

from adapters.database import Database
from adapters.embedded import Embedded, EmbeddedError
from adapters.feed import RedisFeed
from adapters.gate import Limits, RedisGate
from adapters.http import Check, Services, build_api, release
from adapters.logs import configure_logs
from adapters.metrics import Metrics
from adapters.migrate import Behind, check, migrate
from adapters.nobody import nobodys_hooks
from adapters.settings import Settings, admin_token
from adapters.temporal import Temporal, TemporalBell, load_codec
from bots import PLATFORMS
from core.commands import ChatCommands
from core.desk import Desk
from core.leases import StoredLease
from core.people import Directory
from core.ports import BadSetting, Checking, Hooks, Lease, Surface, Unavailable, Webhooked
from core.redaction import Redaction
from core.service import Approvals
from workflows.activities import Bookkeeping, Posts
from workflows.approval import ApprovalWorkflow
from workflows.sweep import SweepWorkflow

log = logging.getLogger("placet.app")

PARTS = frozenset({"api", "bots", "worker"})
RESTART_FIRST_S, RESTART_MOST_S = 1.0, 30.0


class SystemClock:
    """This machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


@dataclass
class App:
    """What runs in this process; what a part does not need is None."""

    settings: Settings
    parts: frozenset[str]
    store: Database
    feed: RedisFeed
    gate: RedisGate
    temporal: Temporal
    approvals: Approvals
    metrics: Metrics
    redaction: Redaction
    desk: Desk
    surfaces: dict[str, Surface]
    checks: dict[str, Check]


@asynccontextmanager
async def running(
    settings: Settings,
    parts: frozenset[str] = PARTS,
    *,
    platforms: Mapping[str, Callable[[Hooks], Surface | None]] = PLATFORMS,
    pace: float = 1.0,
) -> AsyncIterator[App]:
    """A process with these parts, running until the block ends; `pace` scales the waits between calls to platforms.

    Raises BadSetting, EmbeddedError, Behind or Unavailable, each one line for an operator.
    """
    async with AsyncExitStack() as stack:
        # What was set wrong is told before anything is started.
        if "bots" in parts:
            await _check_platforms(platforms)
        codec = load_codec(settings.temporal_codec) if settings.temporal_codec else None
        listener = stack.enter_context(_bound(settings))
        redis_url, temporal_address = await _addresses(stack, settings, parts)
        if settings.on_sqlite:
            settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            await migrate(settings.database)
        else:
            await check(settings.database)
        store = Database.open(settings.database)
        stack.push_async_callback(store.close)
        clock = SystemClock()
        key = await store.write(lambda ledger: ledger.key("redaction"))
        checks: dict[str, Check] = {}
        metrics = Metrics(
            version=metadata.version("placet"), clock=clock, services=checks,
            waiting=lambda: store.read(lambda ledger: ledger.waiting()),
            undeliverable=lambda: store.read(lambda ledger: ledger.undeliverable()),
        )  # fmt: skip
        feed = await stack.enter_async_context(RedisFeed(redis_url))
        limits = Limits(settings.presses_per_minute, settings.refusals_per_minute)
        gate = await stack.enter_async_context(RedisGate(redis_url, limits, on_state=metrics.gate))
        temporal = Temporal(temporal_address, settings.temporal_namespace, codec=codec)
        stack.push_async_callback(temporal.close)
        directory = Directory(settings.language)
        approvals = Approvals(
            store=store, gate=gate, bell=TemporalBell(temporal, metrics), feed=feed, clock=clock, meter=metrics,
            directory=directory,
        )  # fmt: skip
        stack.push_async_callback(approvals.close)
        surfaces: dict[str, Surface] = {}
        redaction = Redaction(key)
        desk = Desk(store=store, approvals=approvals, surfaces=surfaces, clock=clock, meter=metrics,
                    redaction=redaction)  # fmt: skip
        app = App(settings, parts, store, feed, gate, temporal, approvals, metrics, redaction, desk, surfaces, checks)
        checks |= {"database": _check_database(store), "redis": _check_redis(feed), "temporal": temporal.check}
        if "bots" in parts:
            await _start_bots(stack, app, platforms, pace)
        if "worker" in parts:
            books = Bookkeeping(approvals, temporal.describe)
            worker = temporal.worker(
                "placet", workflows=[ApprovalWorkflow, SweepWorkflow],
                activities=books.activities,
            )  # fmt: skip
            await stack.enter_async_context(_kept("worker", worker.run))
            await stack.enter_async_context(_kept("schedule", temporal.ensure_schedule, once=True))
        await stack.enter_async_context(_serving(app, listener, tuple(platforms)))
        log.info("started", extra={"parts": sorted(parts), "http": settings.http_url, "platforms": sorted(surfaces)})
        yield app
        log.info("stopping")


async def _addresses(stack: AsyncExitStack, settings: Settings, parts: frozenset[str]) -> tuple[str, str]:
    """Where Redis and Temporal are; what is not set is started here, unless processes are to share it."""
    redis_url = settings.redis_url.get_secret_value() if settings.redis_url else ""
    temporal_address = settings.temporal_address or ""
    if redis_url and temporal_address:
        return redis_url, temporal_address
    if parts != PARTS:
        name = "PLACET_TEMPORAL_ADDRESS" if redis_url else "PLACET_REDIS_URL"
        raise BadSetting(name, "must be set with --only: the processes share one server")
    embedded = Embedded(settings.data_dir, temporal=not temporal_address, redis=not redis_url)
    await stack.enter_async_context(embedded)
    return redis_url or embedded.redis_url, temporal_address or embedded.temporal_address


async def _check_platforms(platforms: Mapping[str, Callable[[Hooks], Surface | None]]) -> None:
    """Raises BadSetting where a platform's settings cannot be used."""
    for build in platforms.values():
        surface = build(nobodys_hooks())
        if surface is not None:
            await surface.close()


async def _start_bots(
    stack: AsyncExitStack, app: App, platforms: Mapping[str, Callable[[Hooks], Surface | None]], pace: float
) -> None:
    def lease(name: str) -> Lease:
        return StoredLease(app.store, app.approvals.clock, name)

    commands = ChatCommands(app.approvals, app.desk)
    spoken = app.approvals.spoken
    await app.store.read(spoken.learn)
    hooks = Hooks(commands, app.desk, lease, commands.groups, spoken.to, pace)
    for name, build in platforms.items():
        surface = build(hooks)
        if surface is not None:
            app.surfaces[name] = surface
            if isinstance(surface, Checking):
                app.checks[name] = _check_surface(surface)
            stack.push_async_callback(surface.close)
    stack.push_async_callback(app.desk.close)
    posts = Posts(app.desk)
    worker = app.temporal.worker("placet-bots", activities=posts.activities)
    await stack.enter_async_context(_kept("posts", worker.run))
    await stack.enter_async_context(_kept("watch", lambda: app.desk.watch(app.feed)))
    for name, surface in app.surfaces.items():
        await stack.enter_async_context(_kept(name, _listener(app.desk, surface)))


def _listener(desk: Desk, surface: Surface) -> Callable[[], Awaitable[None]]:
    return lambda: desk.listen(surface)


@asynccontextmanager
async def _kept(name: str, work: Callable[[], Awaitable[object]], *, once: bool = False) -> AsyncIterator[None]:
    """Keep something running beside the block; when it fails it is started again, ever more slowly."""
    task = asyncio.create_task(_keep(name, work, once), name=name)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _keep(name: str, work: Callable[[], Awaitable[object]], once: bool) -> None:
    pause = RESTART_FIRST_S
    while True:
        began = asyncio.get_running_loop().time()
        try:
            await work()
            if once:
                return
            log.warning("ended", extra={"part": name})
        except Unavailable as error:
            log.warning("unavailable", extra={"part": name, "error": str(error)})
        except Exception as error:
            log.error("failed", extra={"part": name, "error": type(error).__name__}, exc_info=error)
        if asyncio.get_running_loop().time() - began > RESTART_MOST_S:
            pause = RESTART_FIRST_S
        await asyncio.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311
        pause = min(pause * 2, RESTART_MOST_S)


class _Server(uvicorn.Server):
    """Leaves signals to the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def _serving(app: App, listener: socket.socket, platforms: Sequence[str]) -> AsyncIterator[None]:
    settings = app.settings
    services = Services(
        approvals=app.approvals if "api" in app.parts else None, store=app.store, feed=app.feed,
        directory=app.approvals.directory, clock=app.approvals.clock, metrics=app.metrics,
        admin_token=admin_token(settings).get_secret_value() if "api" in app.parts else "",
        redaction=app.redaction, checks=app.checks, platforms=platforms,
        webhooks={name: surface.receive for name, surface in app.surfaces.items() if isinstance(surface, Webhooked)},
    )  # fmt: skip
    api = build_api(services)
    config = uvicorn.Config(
        api, log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=3, server_header=False
    )
    server = _Server(config)
    _listen(settings, listener)
    serving = asyncio.create_task(server.serve(sockets=[listener]), name="http")
    while not server.started and not serving.done():  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    try:
        yield
    finally:
        await release(api)
        server.should_exit = True
        await serving


def _bound(settings: Settings) -> socket.socket:
    """A socket on the bind address, which takes no connection yet. Raises BadSetting when the port is taken."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            settings.http_host, settings.http_port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise _taken(settings, error) from None
    return listener


def _listen(settings: Settings, listener: socket.socket) -> None:
    # Whoever has bound the address as well may have been first to listen.
    try:
        listener.listen(2048)
    except OSError as error:
        raise _taken(settings, error) from None


def _taken(settings: Settings, error: OSError) -> BadSetting:
    problem = (
        f"{settings.http_bind} cannot be used ({error.strerror}): end what has it (another Placet, a demo or "
        "another program), or set it to another port, such as 127.0.0.1:8430"
    )
    return BadSetting("PLACET_HTTP_BIND", problem)


def _check_database(store: Database) -> Check:
    async def check_database() -> str | None:
        try:
            await store.read(lambda ledger: ledger.waiting())
        except Unavailable as error:
            return str(error)
        return None

    return check_database


def _check_redis(feed: RedisFeed) -> Check:
    async def check_redis() -> str | None:
        return None if feed.connected else "Redis cannot be reached; presses are still decided, without rate limits"

    return check_redis


def _check_surface(surface: Checking) -> Check:
    async def check_surface() -> str | None:
        wrong = [finding.what for finding in await surface.check() if finding.level == "fail"]
        return "; ".join(wrong) or None

    return check_surface


async def until_stopped() -> None:
    """Wait for SIGINT or SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()


def serve(settings: Settings, only: str | None = None) -> int:
    """Run `placet serve` until it is told to stop; the exit code."""
    as_json = settings.log_format == "json" or (settings.log_format == "auto" and not sys.stderr.isatty())
    configure_logs(settings.log_level, as_json)
    parts = PARTS if only is None else frozenset({only})

    async def run() -> None:
        async with running(settings, parts):
            await until_stopped()

    return run_until_stopped(run())


def run_until_stopped(work: Coroutine[Any, Any, None]) -> int:
    """Run to the end; what an operator can mend is one line on stderr and exit code 1."""
    try:
        if util.find_spec("uvloop"):
            import uvloop

            uvloop.run(work)
        else:
            asyncio.run(work)
    except (BadSetting, EmbeddedError, Behind, Unavailable) as error:
        print(f"placet: {error}", file=sys.stderr)  # noqa: T201
        return 1
    except KeyboardInterrupt:
        return 130
    return 0
