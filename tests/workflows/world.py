"""One Placet worker over a real Temporal server and a real database, with a recorder in the place of the chats."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle
from temporalio.converter import PayloadCodec
from temporalio.worker import Worker

from adapters.database import Database
from adapters.migrate import migrate
from adapters.temporal import Temporal, TemporalBell
from core.agents import Agents
from core.approvals import (
    Actor,
    Approval,
    AuditLine,
    Destination,
    Kind,
    Outcome,
    Posted,
    Press,
    Reply,
    Status,
    Verdict,
)
from core.asks import read_ask
from core.buttons import new_token
from core.people import Directory, Refusal
from core.ports import Ledger, Slow, Store
from core.service import Approvals, Opened, Origin
from tests.core.door import OpenGate, Silence
from tests.faulty import Faulty
from workflows.activities import Bookkeeping, Posts
from workflows.approval import ApprovalWorkflow
from workflows.sweep import SweepWorkflow

DIRECTORY: dict[str, Any] = {
    "people": {
        "dana": {"name": "Dana Reyes", "identities": {"telegram": "1001"}},
        "ola": {"name": "Ola Berg", "identities": {"telegram": "1002"}},
    },
    "roles": {"approver": ["approvals:view", "approvals:answer"], "lead": ["approvals:answer"]},
    "members": {"approver": ["dana"], "lead": ["ola"]},
    "agents": {
        "billing": {
            "owner": "dana",
            "runs": [{"tool": "stripe.refund", "activity": "refund", "task_queue": "billing"}],
        }
    },
    "routes": [{"match": {"agent": "billing"}, "ask": ["role:approver"], "at": ["telegram:-1001/31"]}],
}


class Clock:
    """This machine's clock, until a test sets it."""

    def __init__(self) -> None:
        self.set: datetime | None = None

    def now(self) -> datetime:
        return self.set or datetime.now(UTC)


class Quiet(Silence):
    """A feed and a meter that tell nobody; the nudges are counted."""

    def __init__(self) -> None:
        self.nudges: list[str] = []

    def nudge(self, result: str) -> None:
        self.nudges.append(result)


class Deaf:
    """A bell that can be muted, as when a nudge is lost."""

    def __init__(self, bell: TemporalBell) -> None:
        self.bell = bell
        self.muted = False

    async def ring(self, approval: Approval) -> None:
        if not self.muted:
            await self.bell.ring(approval)

    async def start(self, approval: Approval) -> None:
        if not self.muted:
            await self.bell.start(approval)


@dataclass
class Recorder:
    """A desk that keeps what it is asked to post; `faults` are raised first, one a post."""

    posted: list[tuple[str, Destination, str]] = field(default_factory=list)
    reminded: list[str] = field(default_factory=list)
    faults: list[Exception] = field(default_factory=list)
    stuck: bool = False
    approvals: Approvals | None = None

    async def post(self, approval_id: str, destination: Destination, person: str) -> str:
        if self.stuck:
            raise Slow(0.2)
        if self.faults:
            raise self.faults.pop(0)
        assert self.approvals is not None
        if await self.approvals.get(approval_id) is None:
            # A workflow of another test's, which the run's server still remembers.
            return "final"
        self.posted.append((approval_id, destination, person))
        card = Posted(
            str(uuid4()), approval_id, destination.key, Kind.CARD, person, new_token(), destination.platform,
            destination.account, destination.chat, destination.thread, str(len(self.posted)), 0, None, 0, None,
        )  # fmt: skip
        now = self.approvals.clock.now()
        await self.approvals.store.write(lambda ledger: ledger.reserve(card, now))
        return "posted"

    async def remind(self, approval_id: str) -> None:
        assert self.approvals is not None
        if await self.approvals.mark_reminded(approval_id):
            self.reminded.append(approval_id)

    async def redraw_stale(self, limit: int) -> int:
        return 0


@dataclass
class World:
    """What a test holds: the door, the chats' recorder, and a client that knows nothing of Placet."""

    temporal: Temporal
    client: Client
    approvals: Approvals
    store: Faulty
    clock: Clock
    bell: Deaf
    desk: Recorder
    meter: Quiet
    books: Bookkeeping
    agents: Agents

    async def apply(self, agent: dict[str, Any] | None = None, **route: Any) -> None:
        """The directory, with more said of the agent, and of the route."""
        billing = DIRECTORY["agents"]["billing"] | (agent or {})
        changed = {"agents": {"billing": billing}, "routes": [DIRECTORY["routes"][0] | route]}
        await self.store.store.write(lambda ledger: ledger.replace_directory(DIRECTORY | changed))

    async def ask(self, document: dict[str, Any], **options: Any) -> WorkflowHandle[Any, Any]:
        """Start `ApprovalWorkflow` as any program would."""
        options.setdefault("id", f"ask-{uuid4()}")
        return await self.client.start_workflow("ApprovalWorkflow", document, task_queue="placet", **options)

    async def row(self, workflow_id: str, status: Status | None = None) -> Approval:
        """The row that a workflow asked for, once it is there (with a status: once it has it)."""
        for _ in range(3000):
            rows = await self.store.store.read(lambda ledger: ledger.approvals(limit=1000))
            for row in rows:
                if workflow_id in (row.workflow_id, f"approval-{row.id}") and status in (None, row.status):
                    return row
            await asyncio.sleep(0.02)
        raise AssertionError(f"no such row of {workflow_id} in 60 s")

    async def ask_over_http(self, **ask: Any) -> Approval:
        """Open what an agent asks for over HTTP."""
        origin = Origin(asked_by="agent:billing", idempotency_key=str(uuid4()))
        opened = await self.approvals.open(read_ask(json.dumps(an_ask(**ask)), over="http"), origin)
        assert isinstance(opened, Opened), opened
        return opened.approval

    async def decide(
        self, row: Approval, verdict: Verdict = Verdict.ALLOW, note: str | None = None, *, by: str = "dana"
    ) -> Approval:
        decided = await self.approvals.decide(
            row.id, by, verdict, content_revision=row.content_revision, note=note, key=str(uuid4()), via="cli"
        )
        assert not isinstance(decided, Refusal), decided
        return decided

    async def decide_before(self, row: Approval, seconds: float, verdict: Verdict = Verdict.ALLOW) -> Approval:
        """Decide as if it had been so long ago, so that less is left of a draft's Undo or Restore."""
        self.clock.set = datetime.now(UTC) - timedelta(seconds=seconds)
        try:
            return await self.decide(row, verdict)
        finally:
            self.clock.set = None

    async def press(self, row: Approval, verb: str) -> Reply:
        """What dana is told who presses a button on the row's first card."""
        current = await self.now(row)

        def shown(ledger: Ledger) -> Posted:
            (card, *_) = ledger.posted_for(row.id, Kind.CARD)
            ledger.mark(card.id, attached_revision=current.content_revision)
            return card

        card = await self.store.store.write(shown)
        assert card.message is not None
        pressed = Press(str(uuid4()), Actor("telegram", "", "1001"), card.message, verb=verb, token=card.token,
                        content_revision=current.content_revision)  # fmt: skip
        return await self.approvals.press(pressed)

    def own(self, row: Approval) -> WorkflowHandle[Any, Any]:
        """Placet's own workflow of a row."""
        return self.client.get_workflow_handle(f"approval-{row.id}")

    async def became(self, row: Approval, outcome: Outcome) -> Approval:
        """The row, once its call has come to that."""

        async def has() -> bool:
            return (await self.now(row)).outcome is outcome

        await until(has)
        return await self.now(row)

    async def now(self, row: Approval) -> Approval:
        """The row as it stands in the database."""
        found = await self.store.store.read(lambda ledger: ledger.approval(row.id))
        assert found is not None
        return found

    async def sweep(self, id: str = "") -> dict[str, Any]:
        """One round of the sweep, as the schedule would start it."""
        done: dict[str, Any] = await self.client.execute_workflow(
            "SweepWorkflow", id=id or f"sweep-{uuid4()}", task_queue="placet"
        )
        return done

    async def events(self, handle: WorkflowHandle[Any, Any]) -> list[str]:
        """The names of a history's events, without the workflow tasks between them."""
        history = await handle.fetch_history()
        names = [EventType.Name(event.event_type).removeprefix("EVENT_TYPE_") for event in history.events]
        return [name for name in names if not name.startswith("WORKFLOW_TASK")]

    async def audit(self, row: Approval) -> list[AuditLine]:
        return list(await self.store.store.read(lambda ledger: ledger.audit_of(row.id)))


async def history_of(handle: WorkflowHandle[Any, Any]) -> str:
    """Everything in a workflow's history, payloads spelt out; what is no UTF-8 is left out."""
    history = await handle.fetch_history()
    return b"".join(event.SerializeToString() for event in history.events).decode(errors="ignore")


async def until(done: Callable[[], Any], seconds: float = 30) -> None:
    """Wait until `done` answers something true, now or awaited."""
    for _ in range(int(seconds / 0.02)):
        answer = done()
        if await answer if isinstance(answer, Awaitable) else answer:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"it did not come to pass in {seconds:g} s")


def an_ask(**changes: Any) -> dict[str, Any]:
    """A refund that `refund` on the test's own task queue would make; None leaves a field out."""
    document: dict[str, Any] = {
        "agent": "billing",
        "tool": "stripe.refund",
        "operation": "create",
        "arguments": {"charge": "ch_1", "amount": 4900, "currency": "GBP"},
        "effect": "money",
    }
    document |= changes
    return {name: value for name, value in document.items() if value is not None}


def a_run(queue: str, activity: str = "refund", **changes: Any) -> dict[str, Any]:
    return {"activity": activity, "task_queue": queue, "start_to_close_s": 30, "schedule_to_start_s": 30} | changes


async def open_store(url: str) -> Database:
    await migrate(url)
    store = Database.open(url)
    await store.write(lambda ledger: ledger.replace_directory(DIRECTORY))
    return store


@asynccontextmanager
async def a_world(
    address: str,
    url: str,
    *,
    wrap: Callable[[Store, Clock], Store] = lambda store, clock: store,
    codec: PayloadCodec | None = None,
    lazy: bool = False,
) -> AsyncIterator[World]:
    """Everything but the workers."""
    database = await open_store(url)
    clock, quiet = Clock(), Quiet()
    store = Faulty(wrap(database, clock))
    temporal = Temporal(address, codec=codec)
    bell = Deaf(TemporalBell(temporal, quiet))
    approvals = Approvals(
        store=store, gate=OpenGate(), bell=bell, feed=quiet, clock=clock, meter=quiet, directory=Directory()
    )
    desk = Recorder(approvals=approvals)
    client = await Client.connect(address, identity="caller", lazy=lazy)
    books = Bookkeeping(approvals, temporal.describe)
    try:
        yield World(temporal, client, approvals, store, clock, bell, desk, quiet, books, Agents(approvals))
    finally:
        await approvals.close()
        await database.close()


@asynccontextmanager
async def serving(world: World, *, cache: int = 1000) -> AsyncIterator[None]:
    """Placet's two workers, stopped at the end of the block."""
    posts = Posts(world.desk)
    workers = [
        world.temporal.worker(
            "placet", workflows=[ApprovalWorkflow, SweepWorkflow], activities=world.books.activities, cache=cache
        ),
        world.temporal.worker("placet-bots", activities=posts.activities),
    ]
    running = [asyncio.create_task(worker.run()) for worker in workers]
    try:
        yield
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


@asynccontextmanager
async def a_caller(
    client: Client, activities: Sequence[Callable[..., Any]], workflows: Sequence[type] = (), *, queue: str = ""
) -> AsyncIterator[str]:
    """The worker of another program; yields the name of its task queue."""
    queue = queue or f"caller-{uuid4()}"
    async with AsyncExitStack() as stack:
        worker = Worker(
            client,
            task_queue=queue,
            activities=activities,
            workflows=workflows,
            # How soon an activity that heartbeats learns of a cancel.
            default_heartbeat_throttle_interval=timedelta(milliseconds=100),
        )
        await stack.enter_async_context(worker)
        yield queue
