"""What an approval costs in Temporal, each figure beside the same thing without Placet on the same server."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

import psutil
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

from adapters.embedded import TemporalServer
from core.approvals import Approval
from core.changes import UNDO
from tests.bench.callers import ACTIVITIES, BARE, STARTED, WORKFLOWS
from tests.bench.figures import Figure
from tests.workflows.callers import Refunds
from tests.workflows.world import World, a_caller, a_run, a_world, an_ask, open_store, serving, until

ROOT = Path(__file__).parents[2]
Handle = WorkflowHandle[Any, Any]

ROUNDS = 40
# The development server reads its queue of transfers 20 times a second at most. Whoever measures one approval after
# another faster than that measures the wait for that, in both columns; an approval waits for minutes.
PAUSE_S = 0.5
WAITING, CACHE, AT_ONCE = 2000, 1000, 20


async def measure_temporal(folder: Path, *, waiting: int = WAITING) -> list[Figure]:
    """Every figure of this file; `folder` is empty and takes the servers' files. Takes some minutes."""
    figures = []
    async with a_server(folder / "latency") as server:
        figures += await measure_latency(server.address, folder / "latency")
        figures += await measure_drafts(server.address, folder / "latency")
        figures += await measure_events(server.address, folder / "latency")
    figures += await measure_memory(folder, waiting)
    return figures


@asynccontextmanager
async def a_server(folder: Path) -> AsyncIterator[TemporalServer]:
    folder.mkdir(parents=True, exist_ok=True)
    server = TemporalServer(folder)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


# Latency


@dataclass
class Waiting:
    """Something that waits: what sets it going, and the key under which its next step is stamped."""

    key: str
    go: Callable[[], Awaitable[Any]]
    handle: Handle


async def measure_latency(address: str, folder: Path, rounds: int = ROUNDS) -> list[Figure]:
    """From the commit of the decision to the start of the caller's activity, and to its parent's next step."""
    figures = []
    async with (
        a_world(address, f"sqlite:///{folder}/latency.db") as world,
        serving(world),
        a_caller(world.client, ACTIVITIES, WORKFLOWS) as queue,
        Worker(world.client, task_queue=BARE, workflows=WORKFLOWS, activities=ACTIVITIES),
    ):
        for name, against, runs in (
            ("commit to the start of the caller's activity", "bare signal, local activity, activity start", True),
            ("commit to the parent's next step", "bare signal, child completion, parent step", False),
        ):
            ours = [await a_held_one(world, queue, runs) for _ in range(rounds)]
            bare = [await a_bare_one(world, queue, runs) for _ in range(rounds)]
            await asyncio.sleep(3)
            took: tuple[list[float], list[float]] = ([], [])
            for pair in zip(ours, bare, strict=True):
                for waiting, times in zip(pair, took, strict=True):
                    times.append(await time_of(waiting))
                    await asyncio.sleep(PAUSE_S)
            value, floor = (median(times) * 1000 for times in took)
            cause = f"Reading and claiming the row, and its database, take {value - floor:.1f} ms more."
            figures.append(Figure(name, value, "ms", floor=floor, bar=1.3, against=against, cause=cause))
    return figures


async def time_of(waiting: Waiting) -> float:
    """Seconds from the commit, or from the bare signal, to the next step."""
    began = await waiting.go()
    await waiting.handle.result()
    return STARTED.pop(waiting.key) - float(began)


async def a_held_one(world: World, queue: str, runs: bool) -> Waiting:
    key = str(uuid4())
    ask = an_ask(arguments={"key": key}, run=a_run(queue, "stamp") if runs else None)
    if runs:
        handle = await world.ask(ask, id=key)
    else:
        handle = await world.client.start_workflow("Parent", args=[ask, False], id=key, task_queue=queue)
    row = await world.row(key if runs else f"child-{key}")
    await until(lambda: any(posted[0] == row.id for posted in world.desk.posted))

    async def go() -> float:
        await world.decide(row)
        return time.perf_counter()

    return Waiting(key, go, handle)


async def a_bare_one(world: World, queue: str, runs: bool) -> Waiting:
    key = str(uuid4())
    ask = an_ask(arguments={"key": key})
    if runs:
        handle = await world.client.start_workflow("BareChild", args=[ask, queue], id=key, task_queue=BARE)
    else:
        handle = await world.client.start_workflow("Parent", args=[ask, True], id=key, task_queue=queue)
    child = handle if runs else world.client.get_workflow_handle(f"child-{key}")

    async def go() -> float:
        began = time.perf_counter()
        await child.signal("nudge")
        return began

    return Waiting(key, go, handle)


async def measure_drafts(address: str, folder: Path, rounds: int = ROUNDS // 2) -> list[Figure]:
    """From the commit of a draft's Allow to the start of the caller's activity: the Undo, and little more."""
    async with (
        a_world(address, f"sqlite:///{folder}/drafts.db") as world,
        serving(world),
        a_caller(world.client, ACTIVITIES) as queue,
    ):
        waiting = [await a_draft(world, queue) for _ in range(rounds)]
        began = {}
        for row in waiting:
            await world.decide(row)
            began[row.id] = time.perf_counter()
            await asyncio.sleep(PAUSE_S)
        for row in waiting:
            await world.own(row).result()
        took = [STARTED.pop(row.call_id or "") - began[row.id] for row in waiting]
    undo = UNDO.total_seconds()
    cause = f"The slowest of {rounds} began {(max(took) - undo) * 1000:.0f} ms after its Undo was over."
    return [
        Figure("draft, Allow to the start of the caller's activity, the slowest", max(took), "s",
               bar=undo + 1, bar_is="value", cause=cause),
        Figure("draft, Allow to the start of the caller's activity, p50", median(took), "s"),
    ]  # fmt: skip


async def a_draft(world: World, queue: str) -> Approval:
    key = str(uuid4())
    ask = an_ask(arguments={"key": key}, call_id=key, run=a_run(queue, "stamp"), runtime="draft")
    handle = await world.ask(ask, id=key)
    await handle.result()
    row = await world.row(key)
    await until(lambda: any(posted[0] == row.id for posted in world.desk.posted))
    return row


# History


async def measure_events(address: str, folder: Path) -> list[Figure]:
    """The events of one history: allowed with a call, allowed without, expired; and what waiting adds to it."""
    counted = []
    async with (
        a_world(address, f"sqlite:///{folder}/events.db") as world,
        serving(world),
        a_caller(world.client, [Refunds().refund]) as queue,
    ):
        for name, ask in (
            ("history events, allowed and run", an_ask(run=a_run(queue))),
            ("history events, allowed without a call", an_ask()),
            ("history events, expired", an_ask(timeout_s=10)),
        ):
            handle = await world.ask(ask)
            row = await world.row(handle.id)
            await until(lambda row=row: any(posted[0] == row.id for posted in world.desk.posted))  # type: ignore[misc]
            await asyncio.sleep(0.5)
            if "expired" not in name:
                await world.decide(row)
            await handle.result()
            counted.append(Figure(name, len((await handle.fetch_history()).events), "events"))
        handle = await world.ask(an_ask())
        await world.row(handle.id)
        await asyncio.sleep(1)
        before = len((await handle.fetch_history()).events)
        await asyncio.sleep(5)
        added = len((await handle.fetch_history()).events) - before
        await handle.terminate()
    cause = "Something woke the workflow while nothing had changed."
    return [*counted, Figure("history events added by waiting", added, "events", bar=0, bar_is="value", cause=cause)]


# Memory


@dataclass(frozen=True, slots=True)
class Usage:
    """Megabytes of a worker's process and of the server's, and how many tasks the waiting workflows held."""

    worker: float
    server: float
    held: int


async def measure_memory(folder: Path, waiting: int = WAITING, cache: int = CACHE) -> list[Figure]:
    """Memory of worker and server while approvals wait, beside as many bare children with the same input and cache."""
    ours = await usage(folder / "ours", "placet", waiting, cache)
    bare = await usage(folder / "bare", "bare", waiting, cache)
    against = f"{waiting} bare children, cache {cache}"
    figures = [
        Figure(f"{name} at {waiting} waiting", mine, "MB", floor=floor, bar=1.2, against=against,
               cause=f"A waiting approval takes {(mine - floor) / each * 1000:.0f} kB more than a bare child.")
        for name, mine, floor, each in (
            ("worker", ours.worker, bare.worker, min(waiting, cache)),
            ("Temporal server", ours.server, bare.server, waiting),
        )
    ]  # fmt: skip
    return [
        *figures,
        Figure(
            "slots held by waiting",
            ours.held,
            "tasks",
            bar=0,
            bar_is="value",
            cause="So many workflow tasks and activities were open at that moment.",
        ),
    ]


async def usage(folder: Path, what: str, waiting: int, cache: int) -> Usage:
    async with a_server(folder) as server:
        url = f"sqlite:///{folder}/waiting.db"
        store = await open_store(url)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.bench.waiting_process", what, server.address, url, str(cache), cwd=ROOT
        )
        try:
            client = await Client.connect(server.address)
            handles = await start_all(client, what, waiting)
            await settled(client, handles)
            await asyncio.sleep(10)
            held = await held_by(handles[:: max(1, waiting // 100)])
            return Usage(megabytes(psutil.Process(process.pid)), megabytes(program_of(server)), held)
        finally:
            process.kill()
            await process.wait()
            await store.close()


async def start_all(client: Client, what: str, waiting: int) -> list[Handle]:
    gate = asyncio.Semaphore(AT_ONCE)

    async def start(number: int) -> Handle:
        ask = an_ask(arguments={"key": f"{number}"})
        async with gate:
            if what == "placet":
                return await client.start_workflow("ApprovalWorkflow", ask, id=f"w-{number}", task_queue="placet")
            return await client.start_workflow("BareChild", args=[ask, None], id=f"w-{number}", task_queue=BARE)

    return list(await asyncio.gather(*(start(number) for number in range(waiting))))


async def settled(client: Client, handles: Sequence[Handle]) -> None:
    """Wait until the last of them waits: nothing is pending for it any more."""
    for handle in (handles[0], handles[len(handles) // 2], handles[-1], *handles[-20:]):
        while await held_by([handle]) or (await handle.describe()).history_length < 4:
            await asyncio.sleep(0.2)


async def held_by(handles: Sequence[Handle]) -> int:
    """How many workflow tasks and activities these workflows have open."""
    held = 0
    for handle in handles:
        said = (await handle.describe()).raw_description
        held += len(said.pending_activities) + said.HasField("pending_workflow_task")
    return held


def program_of(server: TemporalServer) -> psutil.Process:
    """The server's own process, below its keeper."""
    listening = [c.pid for c in psutil.net_connections("tcp") if c.laddr and c.laddr.port == server.port]
    pid = next(pid for pid in listening if pid is not None and "temporal" in psutil.Process(pid).name())
    return psutil.Process(pid)


def megabytes(process: psutil.Process) -> float:
    return process.memory_info().rss / 1e6
