"""A press, from `Press` in to `Reply` out, beside its own statements on the bare driver."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any, Protocol, TypeVar
from uuid import uuid4

import asyncpg
from redis.asyncio import Redis

from adapters.app import SystemClock
from adapters.database import Database
from adapters.feed import RedisFeed
from adapters.gate import Limits, RedisGate
from adapters.ledger import Ledger
from adapters.metrics import Metrics
from adapters.migrate import migrate
from adapters.postgres import CONNECTIONS, WRITE
from adapters.statements import Line, Row
from core.approvals import Actor, Approval, Kind, Message, Posted, Press
from core.people import Directory
from core.ports import Ledger as Rows
from core.ports import Store
from core.service import Approvals
from tests.bench.figures import Figure, over_rounds
from tests.builders import an_approval

T = TypeVar("T")
Statements = list[tuple[str, Sequence[Any]]]

ACCOUNT, GROUP = "7000000001", "-100500"
DIRECTORY = {
    "people": {"dana": {"name": "Dana Reyes", "identities": {"telegram": "1001"}}},
    "roles": {"approver": ["approvals:view", "approvals:answer"]},
    "members": {"approver": ["dana"]},
    "agents": {"billing": {"owner": "dana"}},
    "routes": [{"match": {"agent": "billing"}, "ask": ["role:approver"], "at": [f"telegram:{GROUP}"]}],
}

WARM_UP = 100
ROUNDS, PRESSES = 7, 150
CROWD, CROWD_ROUNDS, CROWD_PRESSES = 64, 5, 512


@dataclass(frozen=True, slots=True)
class Card:
    """A posted card of a pending approval, and the press of its Allow."""

    approval: Approval
    posted: Posted
    press: Press

    @property
    def own(self) -> tuple[str, ...]:
        """The values among the press's parameters that no other card has."""
        return (self.approval.id, self.posted.id, self.press.token, self.press.key)


def a_card() -> Card:
    now, message, token = datetime.now(UTC), str(uuid4().int % 10**12), uuid4().hex[:16]
    approval = an_approval(
        created_at=now, expires_at=now + timedelta(days=7), workflow_id=f"refund-{uuid4()}", first_run_id=str(uuid4()),
        route={"ask": ["role:approver"], "at": [f"telegram:{GROUP}"]},
    )  # fmt: skip
    posted = Posted(
        id=str(uuid4()), approval_id=approval.id, destination=f"telegram||{GROUP}|", kind=Kind.CARD, person="",
        token=token, platform="telegram", account=ACCOUNT, chat=GROUP, thread="", message_id=message, shown_revision=1,
        shown_id="f" * 64, attached_revision=1, posted_at=now,
    )  # fmt: skip
    press = Press(
        key=str(uuid4().int % 10**18), actor=Actor("telegram", "", "1001", "Dana"), verb="a", token=token,
        content_revision=1, message=Message("telegram", ACCOUNT, GROUP, "", message),
    )  # fmt: skip
    return Card(approval, posted, press)


class Listening:
    """A line that keeps what is sent over it."""

    def __init__(self, line: Line, sent: Statements) -> None:
        self._line, self._sent, self.dialect = line, sent, line.dialect

    def rows(self, sql: str, parameters: Sequence[Any]) -> Sequence[Row]:
        self._sent.append((sql, parameters))
        return self._line.rows(sql, parameters)


@dataclass
class Recorder:
    """A store that keeps the statements it is given."""

    store: Store
    sent: Statements

    async def write(self, work: Callable[[Rows], T]) -> T:
        def listened(ledger: Rows) -> T:
            assert isinstance(ledger, Ledger)
            return work(Ledger(Listening(ledger._line, self.sent)))

        return await self.store.write(listened)

    async def read(self, work: Callable[[Rows], T]) -> T:
        return await self.store.read(work)


class Silent:
    """No bell: what a nudge costs is measured over a real Temporal, in `tests.bench.temporal`."""

    async def ring(self, approval: Approval) -> None: ...

    async def start(self, approval: Approval) -> None: ...


class Bare(Protocol):
    """A transaction on the driver alone."""

    name: str

    async def transact(self, statements: Statements) -> None: ...

    async def close(self) -> None: ...


class BarePostgres:
    """asyncpg over so many connections."""

    name = "asyncpg"

    def __init__(self) -> None:
        self._free: asyncio.LifoQueue[Any] = asyncio.LifoQueue()

    @classmethod
    async def connect(cls, url: str, connections: int) -> BarePostgres:
        bare = cls()
        for _ in range(connections):
            bare._free.put_nowait(await asyncpg.connect(url.replace("+asyncpg", "")))
        return bare

    async def transact(self, statements: Statements) -> None:
        connection = await self._free.get()
        await connection.execute(WRITE)
        for sql, parameters in statements:
            await connection.fetch(sql, *parameters)
        await connection.execute("COMMIT")
        self._free.put_nowait(connection)

    async def close(self) -> None:
        while not self._free.empty():
            await self._free.get_nowait().close()


class BareSqlite:
    """sqlite3 on one writer thread."""

    name = "sqlite3 on one writer thread"

    def __init__(self, path: str) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            self._connection.execute(f"PRAGMA {pragma}")

    async def transact(self, statements: Statements) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._transact, statements)

    def _transact(self, statements: Statements) -> None:
        run = self._connection.execute
        run("BEGIN IMMEDIATE")
        for sql, parameters in statements:
            run(sql, parameters).fetchall()
        run("COMMIT")

    async def close(self) -> None:
        self._thread.shutdown()
        self._connection.close()


@dataclass
class Door:
    """One database with the door in front of it as production wires it, and the same database on the bare driver."""

    store: Database
    approvals: Approvals
    bare: Bare
    bare_few: Bare
    redis: Redis
    recorded: Statements
    recorded_of: tuple[str, ...] = ()

    async def cards(self, number: int) -> list[Card]:
        """So many fresh cards, in the database as the desk leaves them."""
        made = [a_card() for _ in range(number)]

        def insert(ledger: Rows) -> None:
            for card in made:
                ledger.insert(card.approval)
                ledger.reserve(card.posted, card.approval.created_at)

        await self.store.write(insert)
        return made

    async def record(self) -> None:
        """Keep what a press sends to the database."""
        (card,) = await self.cards(1)
        self.approvals.store = Recorder(self.store, self.recorded)
        await self.press(card)
        self.approvals.store = self.store
        self.recorded_of = card.own

    def statements(self, card: Card) -> Statements:
        """What a press of this card sends to the database."""
        own = dict(zip(self.recorded_of, card.own, strict=True))
        return [
            (sql, [own.get(value, value) if isinstance(value, str) else value for value in parameters])
            for sql, parameters in self.recorded
        ]

    async def press(self, card: Card) -> None:
        reply = await self.approvals.press(card.press)
        if reply.result != "approved":
            raise AssertionError(f"a press was answered: {reply.text}")

    async def settled(self) -> None:
        """What follows a press off its path is over; presses of people are seconds apart."""
        await self.approvals.close()


@asynccontextmanager
async def a_door(url: str, redis_url: str) -> AsyncIterator[Door]:
    await migrate(url)
    store, clock = Database.open(url), SystemClock()
    bare, bare_few = await bare_drivers(url)
    async with RedisGate(redis_url, Limits(person_per_minute=10_000_000)) as gate, RedisFeed(redis_url) as feed:
        approvals = Approvals(
            store=store, gate=gate, bell=Silent(), feed=feed, clock=clock, directory=Directory(),
            meter=Metrics(version="bench", clock=clock),
        )  # fmt: skip
        await store.write(lambda ledger: ledger.replace_directory(DIRECTORY))
        door = Door(store, approvals, bare, bare_few, Redis.from_url(redis_url), [])
        try:
            await door.record()
            yield door
        finally:
            await approvals.close()
            await door.redis.aclose()
            await bare.close()
            await bare_few.close()
            await store.close()


async def bare_drivers(url: str) -> tuple[Bare, Bare]:
    """The driver with a connection for each of the crowd, and with as many as Placet has."""
    if "postgresql" in url:
        return await BarePostgres.connect(url, CROWD), await BarePostgres.connect(url, CONNECTIONS)
    writer = BareSqlite(url.removeprefix("sqlite:///"))
    return writer, writer


async def measure_one_at_a_time(door: Door, name: str, bars: tuple[float, float]) -> list[Figure]:
    """Press to reply, each press when everything about the one before is over."""
    ours: list[list[float]] = []
    floors: list[list[float]] = []
    for number in range(ROUNDS + 1):
        presses = PRESSES if number else WARM_UP
        ours.append([])
        floors.append([])
        pressed, replayed = await door.cards(presses), await door.cards(presses)
        statements = [door.statements(card) for card in replayed]
        gc.collect()
        for card, sent in zip(pressed, statements, strict=True):
            began = time.perf_counter()
            await door.press(card)
            ours[-1].append(time.perf_counter() - began)
            await door.settled()
            began = time.perf_counter()
            await door.redis.ping()
            await door.bare.transact(sent)
            floors[-1].append(time.perf_counter() - began)
    against = f"its {len(door.recorded)} statements, BEGIN and COMMIT on {door.bare.name}, and one PING by redis-py"
    return [
        Figure(f"press to reply, {name}, {label}", over_rounds(ours[1:], share) * 1000, "ms",
               floor=over_rounds(floors[1:], share) * 1000, bar=bar, against=against,
               cause=f"What the door adds to its statements; the machine's load was {os.getloadavg()[0]:.1f}.")
        for label, share, bar in (("p50", 0.5, bars[0]), ("p99", 0.99, bars[1]))
    ]  # fmt: skip


async def measure_crowd(door: Door, name: str, bar: float | None) -> list[Figure]:
    """Presses per second, 64 at a time, with all that follows them in this process.

    The floor is 64 transactions at a time on the driver. Few connections serve a crowd better than many, and so Placet
    has 16: where that makes a difference the same statements over 16 connections are reported too.
    """
    ours, floors, few, busy, busy_floors = [], [], [], [], []
    for number in range(CROWD_ROUNDS + 1):
        pressed = await door.cards(CROWD_PRESSES)
        replayed = [[door.statements(card) for card in await door.cards(CROWD_PRESSES)] for _ in range(2)]
        gc.collect()
        took, cpu = await crowd(pressed, door.press, door.settled)
        floor_took, floor_cpu = await crowd(replayed[0], door.bare.transact)
        few_took, _ = await crowd(replayed[1], door.bare_few.transact)
        if number:
            ours.append(CROWD_PRESSES / took)
            floors.append(CROWD_PRESSES / floor_took)
            few.append(CROWD_PRESSES / few_took)
            busy.append(cpu / CROWD_PRESSES * 1000)
            busy_floors.append(floor_cpu / CROWD_PRESSES * 1000)
    named = f"presses per second, {CROWD} at a time, {name}"
    against = f"the same statements on {door.bare.name}, {CROWD} at a time"
    cause = (
        f"One process is one core: a press takes {median(busy):.2f} ms of it, its bare statements "
        f"{median(busy_floors):.2f} ms; the machine's load was {os.getloadavg()[0]:.1f}."
    )
    figures = [Figure(named, median(ours), "/s", floor=median(floors), bar=bar, higher=True, against=against,
                      cause=cause)]  # fmt: skip
    if door.bare_few is not door.bare:
        against = f"the same statements on {door.bare.name} over {CONNECTIONS} connections, {CROWD} waiting"
        figures.append(Figure(f"{named}, beside {CONNECTIONS} connections", median(ours), "/s", floor=median(few),
                              higher=True, against=against))  # fmt: skip
    return figures


async def crowd(
    items: Sequence[T], work: Callable[[T], Awaitable[None]], then: Callable[[], Awaitable[None]] | None = None
) -> tuple[float, float]:
    """Seconds, and seconds of this process's CPU, for all items, 64 at a time."""
    began, cpu = time.perf_counter(), time.process_time()
    await at_a_time(CROWD, items, work)
    if then is not None:
        await then()
    return time.perf_counter() - began, time.process_time() - cpu


async def at_a_time(number: int, items: Sequence[T], work: Callable[[T], Awaitable[None]]) -> None:
    waiting = iter(items)

    async def worker() -> None:
        for item in waiting:
            await work(item)

    await asyncio.gather(*(worker() for _ in range(number)))


async def measure_postgres(url: str, redis_url: str) -> list[Figure]:
    async with a_door(url, redis_url) as door:
        one = await measure_one_at_a_time(door, "PostgreSQL", (1.5, 2.0))
        return [*one, *await measure_crowd(door, "PostgreSQL", 0.6)]


async def measure_sqlite(folder: Path, redis_url: str) -> list[Figure]:
    async with a_door(f"sqlite:///{folder / 'press.db'}", redis_url) as door:
        one = await measure_one_at_a_time(door, "SQLite", (2.0, 3.0))
        return [*one, *await measure_crowd(door, "SQLite", None)]
