"""A whole Placet over real servers and the sandbox, and a caller that imports nothing of it."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from google.protobuf.duration_pb2 import Duration
from redis.asyncio import Redis
from temporalio import activity
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

from adapters.app import App, running
from adapters.database import Database
from adapters.directory_file import read_directory
from adapters.embedded import TemporalServer, ValkeyServer
from adapters.migrate import migrate
from adapters.sandbox.server import Sandbox
from adapters.sandbox.telegram.records import Chat, Message
from adapters.settings import read_settings
from core.approvals import Approval, AuditLine, Status
from core.ports import Ledger
from tests.e2e.caller import Refunds
from tests.e2e.processes import PLACET, Process
from tests.services import free_port, temporal_in

Servers = tuple[TemporalServer, ValkeyServer]

TOKEN = "7001:" + "AAEE" * 8 + "AAA"
BOT = 7001
GROUP = -1001000000500
DANA, OLA, PAT = 1001, 1002, 1004
DIRECTORY = f"""
people:
  dana: {{name: Dana Reyes, identities: {{telegram: {DANA}}}}}
  ola: {{name: Ola Berg, identities: {{telegram: {OLA}}}}}
  pat: {{name: Pat Lund, identities: {{telegram: {PAT}}}}}
roles:
  approver: [approvals:view, approvals:answer]
  viewer: [approvals:view]
members: {{approver: [dana, ola], viewer: [pat]}}
agents:
  billing: {{owner: dana, runs: [{{tool: refund, activity: refund, task_queue: billing}}]}}
routes:
  - {{match: {{agent: billing}}, ask: [role:approver], at: ["telegram:{GROUP}"]}}
"""
ARGUMENTS = {"charge": "ch_1", "amount": 4900, "currency": "GBP"}


@dataclass
class Caller:
    """The caller's program: its worker, and what its activity was run with."""

    address: str
    namespace: str
    ran: list[dict[str, Any]] = field(default_factory=list)
    hold: asyncio.Event | None = None

    @activity.defn(name="refund")
    async def refund(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self.ran.append(arguments)
        if self.hold is not None:
            await self.hold.wait()
        return {"refund": f"re_{len(self.ran)}"}

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        self.client = await Client.connect(self.address, namespace=self.namespace)
        async with Worker(
            self.client, task_queue="billing", workflows=[Refunds], activities=[self.refund],
            graceful_shutdown_timeout=timedelta(0),
        ):  # fmt: skip
            yield

    async def ask(self, **fields: Any) -> WorkflowHandle[Any, dict[str, Any]]:
        """Start a workflow of the caller's that asks for a refund; fields are added to the ask, or replace in it."""
        ask = {"agent": "billing", "tool": "refund", "arguments": ARGUMENTS,
               "run": {"activity": "refund", "task_queue": "billing", "start_to_close_s": 60}} | fields  # fmt: skip
        return await self.client.start_workflow(Refunds.run, ask, id=f"refunds-{uuid4().hex[:8]}", task_queue="billing")


class Seen:
    """What people see and do in the sandbox's chats."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox, self.world = sandbox, sandbox.telegram

    @property
    def group(self) -> Chat:
        return self.world.chat(GROUP)

    def cards(self) -> list[Message]:
        return [message for message in self.group.messages if message.sender == BOT and "refund" in message.text]

    async def card(self, *, number: int = 1, timeout: float = 60) -> Message:
        """The newest card, once so many are there and its buttons work."""

        def found() -> Message | None:
            cards = self.cards()
            return cards[-1] if len(cards) >= number and cards[-1].labels else None

        return await self.world.until(found, timeout)

    async def settled(self, card: Message, words: str, timeout: float = 60) -> Message:
        """The card, once it has no buttons and says these words."""

        def found() -> Message | None:
            message = self.group.message(card.id)
            return message if not message.labels and words in message.text else None

        return await self.world.until(found, timeout)

    async def press(self, card: Message, label: str, *, by: int = DANA, timeout: float = 30) -> str:
        """Press a button; what the presser is told."""
        press = self.world.press(by, GROUP, card.id, label=label)
        return (await self.world.answer(press, timeout)).text


@asynccontextmanager
async def chats() -> AsyncIterator[Seen]:
    """A sandbox with a group of Dana, Ola and Pat, and the bot in it."""
    async with Sandbox(rate_scale=float("inf")) as sandbox:
        bot = sandbox.add_bot(TOKEN, "placet_test_bot")
        people = [sandbox.add_person(id, name) for id, name in ((DANA, "Dana"), (OLA, "Ola"), (PAT, "Pat"))]
        sandbox.add_group(GROUP, "Approvals", [*people, bot])
        yield Seen(sandbox)


@dataclass
class Stack:
    """Everything of one test. `app` is the process in here; a test that kills processes starts them with `process`."""

    folder: Path
    database_url: str
    temporal: TemporalServer
    namespace: str
    valkey: ValkeyServer
    seen: Seen
    caller: Caller
    store: Database

    def environment(self) -> dict[str, str]:
        return {
            "PLACET_DATABASE_URL": self.database_url,
            "PLACET_REDIS_URL": self.valkey.url,
            "PLACET_TEMPORAL_ADDRESS": self.temporal.address,
            "PLACET_TEMPORAL_NAMESPACE": self.namespace,
            "PLACET_HTTP_BIND": f"127.0.0.1:{free_port()}",
            "PLACET_DATA_DIR": str(self.folder / "data"),
            "PLACET_TELEGRAM_TOKEN": TOKEN,
            "PLACET_TELEGRAM_BASE_URL": self.seen.sandbox.url,
            "PLACET_LOG_FORMAT": "json",
            "PLACET_PRESSES_PER_MINUTE": "1000",
        }

    @asynccontextmanager
    async def app(self, **settings: Any) -> AsyncIterator[App]:
        """A whole Placet in this process."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment().items():
                patch.setenv(name, value)
            async with running(read_settings(**settings)) as app:
                yield app

    def process(self, point: str = "", **settings: str) -> Process:
        """A whole Placet in a process of its own, which kills itself at a point of `tests.e2e.crashing`."""
        command = (sys.executable, "-m", "tests.e2e.crashing", point) if point else (PLACET, "serve")
        return Process(f"placet-{uuid4().hex[:6]}", self.folder, self.environment() | settings, command)

    async def forget_claims(self) -> None:
        """As if the time had passed for which a process that was killed holds its lease (15 s) and its cards (60 s)."""
        name, later = f"telegram:{BOT}", datetime.now(UTC) + timedelta(hours=1)

        def forget(ledger: Ledger) -> None:
            ledger.take_lease(name, "nobody", later, later)
            ledger.drop_lease(name, "nobody")
            for approval in ledger.approvals():
                for posted in ledger.posted_for(approval.id):
                    ledger.mark(posted.id, claim_until=None)

        await self.store.write(forget)

    async def reply(self, to: Message, text: str, *, by: int) -> None:
        """Reply to a message of the bot's, once Placet has stored which one it is: before that nobody could have."""

        def known(ledger: Ledger) -> bool:
            rows = (row for approval in ledger.approvals() for row in ledger.posted_for(approval.id))
            return any(row.message_id == str(to.id) for row in rows)

        await eventually(lambda: self.store.read(known))
        self.seen.world.say(by, GROUP, text, reply_to=to.id)

    async def row(self) -> Approval:
        """The newest approval."""
        rows = await self.store.read(lambda ledger: ledger.approvals(limit=1))
        return rows[0]

    async def audit(self, approval: Approval) -> list[AuditLine]:
        return list(await self.store.read(lambda ledger: ledger.audit_of(approval.id)))

    async def until(self, check: Callable[[Approval], bool], timeout: float = 60) -> Approval:
        """The newest approval, once the check holds."""

        async def holds() -> Approval | None:
            rows = await self.store.read(lambda ledger: ledger.approvals(limit=1))
            return rows[0] if rows and check(rows[0]) else None

        found: Approval = await eventually(holds, timeout)
        return found

    async def decided(self, status: Status, timeout: float = 60) -> Approval:
        return await self.until(lambda row: row.status is status, timeout)


async def eventually(check: Callable[[], Any], timeout: float = 60) -> Any:
    """What the coroutine function `check` answers once that is true; asked again every 50 ms."""
    async with asyncio.timeout(timeout):
        while True:
            if (value := await check()) is not None and value is not False:
                return value
            await asyncio.sleep(0.05)


@asynccontextmanager
async def servers_in(folder: Path) -> AsyncIterator[Servers]:
    """Servers of a test's own, which it can stop."""
    temporal, valkey = temporal_in(folder), ValkeyServer(folder)
    try:
        await asyncio.gather(temporal.start(), valkey.start())
        yield temporal, valkey
    finally:
        await asyncio.gather(temporal.stop(), valkey.stop())


async def new_namespace(address: str) -> str:
    """A namespace of a test's own: workflows that another left open do not reach it."""
    name = f"test-{uuid4().hex[:8]}"
    client = await Client.connect(address)
    await client.workflow_service.register_namespace(
        RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=Duration(seconds=86_400))
    )
    return name


@asynccontextmanager
async def stack(folder: Path, database_url: str, servers: Servers) -> AsyncIterator[Stack]:
    """Chats and a caller on these servers, and an empty migrated database with the directory above."""
    async with AsyncExitStack() as exits:
        (folder / "data").mkdir(exist_ok=True)
        temporal, valkey = servers
        namespace = await new_namespace(temporal.address)
        async with Redis.from_url(valkey.url) as redis:
            await redis.flushall()
        await migrate(database_url)
        store = Database.open(database_url)
        exits.push_async_callback(store.close)
        await store.write(lambda ledger: ledger.replace_directory(read_directory(DIRECTORY)))
        seen = await exits.enter_async_context(chats())
        caller = Caller(temporal.address, namespace)
        await exits.enter_async_context(caller.working())
        yield Stack(folder, database_url, temporal, namespace, valkey, seen, caller, store)


def words(text: str) -> str:
    """A card's text with its white space made plain."""
    return re.sub(r"\s+", " ", text)
