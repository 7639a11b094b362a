"""Part by part: api, bots and worker as they are deployed, each killed and started again under one approval."""

from __future__ import annotations

import ast
import asyncio
import re
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import pytest
from temporalio.client import Client

from adapters.embedded import HOST, Server, TemporalServer, ValkeyServer
from adapters.sandbox.server import Sandbox
from adapters.sandbox.telegram.records import Answer, Message
from tests.e2e import billing
from tests.e2e.processes import Process, service, until
from tests.services import PostgresServer, temporal_in

BOT = "7000000001:a-token-that-no-log-line-may-have1"
ADMIN = "an-admin-token-that-no-log-line-may-have"
PASSWORD = "a-password-that-no-log-line-may-have"
GROUP, DANA = -1001618033988, 1001
DIRECTORY = f"""
people:
  dana: {{name: Dana Reyes, identities: {{telegram: {DANA}}}}}
roles:
  approver: [approvals:view, approvals:answer]
members:
  approver: [dana]
agents:
  billing:
    owner: dana
    runs: [{{tool: stripe.refund, activity: refund, task_queue: {billing.QUEUE}}}]
routes:
  - match: {{agent: billing}}
    ask: [role:approver]
    at: ["telegram:{GROUP}"]
"""


@dataclass
class Deployed:
    """The three processes and what they stand on."""

    api: Process
    bots: Process
    worker: Process
    postgres: PostgresServer
    valkey: ValkeyServer
    temporal: TemporalServer
    sandbox: Sandbox
    folder: Path
    database: str

    @property
    def processes(self) -> tuple[Process, ...]:
        return self.api, self.bots, self.worker

    def card(self) -> Message:
        """The newest card in the group; LookupError while there is none."""
        return self.sandbox.telegram.chat(GROUP).last("Refund a duplicate charge")

    async def row(self) -> dict[str, Any] | None:
        """The approval as the API tells it; None while there is none."""
        async with httpx.AsyncClient(trust_env=False, headers={"Authorization": f"Bearer {ADMIN}"}) as client:
            found = (await client.get(f"{self.api.url}/v1/approvals")).json()["approvals"]
        assert len(found) <= 1
        return found[0] if found else None

    async def stored(self, columns: str) -> Any:
        """Columns of the one row, from the database itself."""
        connection = await self._connect()
        try:
            return await connection.fetchrow(f"SELECT {columns} FROM approvals")
        finally:
            await connection.close()

    async def poller_lease_runs_out(self) -> None:
        """What takes 15 s after a kill: only then does another process poll for the bot (design section 4)."""
        connection = await self._connect()
        try:
            await connection.execute("DELETE FROM leases")
        finally:
            await connection.close()

    async def _connect(self) -> asyncpg.Connection:
        return await asyncpg.connect(host=HOST, port=self.postgres.port, user="postgres", database=self.database)


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not pytest's own: PostgreSQL runs as another user, who may not enter that one.
    with tempfile.TemporaryDirectory(prefix="placet-e2e-", ignore_cleanup_errors=True) as made:
        yield Path(made)


@pytest.fixture
async def deployed(folder: Path) -> AsyncIterator[Deployed]:
    async with AsyncExitStack() as stack:
        postgres, valkey, temporal = PostgresServer(folder), ValkeyServer(folder), temporal_in(folder)
        servers: tuple[Server, ...] = (postgres, valkey, temporal)
        stack.push_async_callback(lambda: asyncio.gather(*(server.stop() for server in servers)))
        await asyncio.gather(*(server.start() for server in servers))
        sandbox = await stack.enter_async_context(Sandbox())
        sandbox.add_bot(BOT, "placet_bot")
        sandbox.add_person(DANA, "Dana")
        sandbox.add_group(GROUP, "Refunds", [DANA])
        database = await postgres.create_database()
        settings = {
            "PLACET_DATABASE_URL": f"postgresql://postgres:{PASSWORD}@{postgres.address}/{database}",
            "PLACET_REDIS_URL": valkey.url,
            "PLACET_TEMPORAL_ADDRESS": temporal.address,
            "PLACET_DATA_DIR": str(folder / "data"),
            "PLACET_ADMIN_TOKEN": ADMIN,
            "PLACET_TELEGRAM_TOKEN": BOT,
            "PLACET_TELEGRAM_BASE_URL": sandbox.url,
        }
        migrate = service("migrate", folder, settings)
        assert "0001" in await migrate.run("migrate")
        api, bots, worker = (service(name, folder, settings) for name in ("api", "bots", "worker"))
        for process in (api, bots, worker):
            stack.callback(process.end)
            process.start()
        yield Deployed(api, bots, worker, postgres, valkey, temporal, sandbox, folder, database)


def test_the_caller_imports_nothing_of_placet() -> None:
    tree = ast.parse(Path(billing.__file__).read_text())
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {node.module or "." for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in imported} == {"__future__", "asyncio", "datetime", "temporalio", "typing"}


@pytest.mark.timeout(300)
async def test_one_approval_while_each_process_is_killed_and_started_again(deployed: Deployed) -> None:
    api, bots, worker = deployed.processes
    telegram = deployed.sandbox.telegram
    well = {"database": "ok", "redis": "ok", "temporal": "ok"}
    assert [await process.ready() for process in deployed.processes] == [well, well | {"telegram": "ok"}, well]
    assert all(process.healthy() for process in deployed.processes)
    (deployed.folder / "placet.yaml").write_text(DIRECTORY)
    assert "billing" in await api.run("apply", "placet.yaml")
    assert await api.run("apply", "placet.yaml") == "No changes.\n"

    client, refunds = await Client.connect(deployed.temporal.address), billing.Refunds()
    async with refunds.worker(client):
        # No bots: the row is written, nobody can be shown a card, and nothing is allowed by that.
        bots.kill()
        assert not bots.healthy()
        asked = await client.start_workflow("Billing", id=f"billing-{uuid4()}", task_queue=billing.QUEUE)
        row = await until(deployed.row)
        assert (row["status"], row["outcome"]) == ("pending", "none")
        with pytest.raises(LookupError):
            deployed.card()
        await deployed.poller_lease_runs_out()
        await bots.ready()
        card = await telegram.until(lambda: ready_to_press(deployed.card()), timeout=60)

        # Neither worker nor api: the bots alone take the press, and the answer is in the database.
        worker.kill()
        api.kill()
        answer = await allowed(deployed.sandbox, card)
        bots.kill()
        assert answer.text.startswith("Allowed.")
        assert tuple(await deployed.stored("status, decided_by, decided_via")) == ("approved", "dana", "telegram")
        assert refunds.calls == []

        # The worker finds the answer without another press; it dies while the call runs, before it can record.
        worker.start()
        await until(lambda: called(refunds))
        worker.kill()
        refunds.may_end.set()
        assert tuple(await deployed.stored("status, outcome")) == ("approved", "sending")
        worker.start()
        result = await asyncio.wait_for(asked.result(), 60)

    assert refunds.calls == [billing.ARGUMENTS]
    assert (result["status"], result["outcome"], result["error"]) == ("approved", "sent", None)
    assert (result["arguments"], result["result"]) == (billing.ARGUMENTS, {"refund": "re_1"})
    assert (result["decided_by"], result["approval_id"]) == ("dana", row["id"])

    # With all of them back, everybody tells the same truth.
    await deployed.poller_lease_runs_out()
    for process in deployed.processes:
        await process.ready()
    # Bots that were killed in the middle of a redraw hold their claim for a minute; then the next sweep draws it.
    shown = await telegram.until(lambda: done(deployed.card()), timeout=100)
    assert shown.id == card.id
    assert shown.buttons == []
    assert "Allowed by Dana Reyes through Telegram" in shown.text
    row = await until(deployed.row)
    assert (row["status"], row["outcome"], row["decision"]["by"]) == ("approved", "sent", "dana")
    assert "approved" in (await api.run("show", row["id"])).lower()
    assert [each.id for each in telegram.chat(GROUP).messages if each.sender == 7000000001] == [card.id]

    for process in deployed.processes:
        assert await process.stop() == 0
    for process in deployed.processes:
        for event in process.events():
            assert {"event", "level", "logger", "timestamp"} <= set(event)
        assert "stopping" in [event["event"] for event in process.events()]
    told = {
        (process.name, name): count for process in (bots, worker) for name, count in of_approval(process, row["id"])
    }
    once = {("worker", "opened"), ("bots", "approved"), ("worker", "sent")}
    assert {event: told.get(event) for event in once} == dict.fromkeys(once, 1)
    # The card is pressed as soon as it is seen, and the process killed: it may not have come to this line.
    assert told.get(("bots", "posted"), 0) <= 1
    logs = "".join(process.log.read_text() for process in deployed.processes)
    for secret in (BOT, BOT.partition(":")[2], ADMIN, PASSWORD, *map(str, billing.ARGUMENTS.values())):
        assert secret not in logs


async def allowed(sandbox: Sandbox, card: Message) -> Answer:
    """Press Allow, again while the bot says that it is too early for this card; what the person is told in the end."""
    async with asyncio.timeout(60):
        while True:
            answer = await sandbox.telegram.answer(sandbox.telegram.press(DANA, GROUP, card.id, label="Allow"), 60)
            if not answer.alert:
                return answer
            await asyncio.sleep(0.5)


def of_approval(process: Process, approval_id: str) -> Iterable[tuple[str, int]]:
    """How often the process logged each event of an approval."""
    return Counter(event["event"] for event in process.events() if event.get("approval") == approval_id).items()


async def called(refunds: billing.Refunds) -> bool:
    return bool(refunds.calls)


def ready_to_press(card: Message) -> Message | None:
    return card if "Allow" in card.labels else None


def done(card: Message) -> Message | None:
    return card if "Done." in card.text else None


async def test_readiness_names_what_is_down(deployed: Deployed) -> None:
    for process in deployed.processes:
        await process.ready()
    for name, server, needed in (
        ("redis", deployed.valkey, False),
        ("temporal", deployed.temporal, False),
        ("database", deployed.postgres, True),
    ):
        await server.kill()

        async def down(process: Process, name: str = name) -> bool:
            return (await process.checks())[name] != "ok"

        for process in deployed.processes:
            await until(lambda process=process: down(process))  # type: ignore[misc]
            checks = await process.checks()
            assert {service for service, said in checks.items() if said != "ok"} == {name}
            assert PASSWORD not in checks[name]
            assert await process.status() == (503 if needed else 200)
            assert f'placet_service_up{{service="{name}"}} 0.0' in await process.metrics()
            assert process.healthy(), "what is down elsewhere is no reason to start a process again"
        await server.start()
        for process in deployed.processes:
            await process.ready()


async def test_processes_start_and_stop_well_while_everything_else_is_down(deployed: Deployed) -> None:
    for process in deployed.processes:
        await process.ready()
    deployed.worker.kill()
    await asyncio.gather(deployed.valkey.kill(), deployed.temporal.kill())
    deployed.worker.start()
    assert set(await until(deployed.worker.checks)) == {"database", "redis", "temporal"}
    await deployed.postgres.kill()
    for process in deployed.processes:
        assert process.healthy()
        assert await process.stop() == 0


async def test_a_process_before_its_migrations_ends_and_says_what_to_run(
    postgres_database: str, tmp_path: Path
) -> None:
    for name in ("api", "bots", "worker"):
        settings = {"PLACET_DATABASE_URL": postgres_database, "PLACET_TELEGRAM_BASE_URL": "http://127.0.0.1:1"}
        process = service(name, tmp_path, settings)
        process.start()
        assert await process.ended() == 1
        (line,) = process.log.read_text().splitlines()
        assert re.match(r"placet: the database lacks \d+ migration", line)
        assert line.endswith("run: placet migrate")
