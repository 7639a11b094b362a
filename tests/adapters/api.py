"""An API over a real database, as the tests of HTTP use it: two agents, three people, a clock that can be turned."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import uvicorn
from fastapi import FastAPI

from adapters.database import Database
from adapters.feed import RedisFeed
from adapters.gate import RedisGate
from adapters.http import Limits, Services, build_api, release
from adapters.metrics import Metrics
from adapters.migrate import migrate
from core.approvals import Approval
from core.asks import read_ask
from core.people import Directory
from core.ports import Feed
from core.redaction import Redaction
from core.service import Approvals, Opened, Origin

NO_REDIS = "redis://127.0.0.1:1"
ADMIN = "the-admin-token-of-these-tests"
DIRECTORY = """
people:
  dana: {name: Dana Reyes, identities: {telegram: 1001}}
  ola:  {name: Ola Berg}
  kim:  {name: Kim Sato}
roles:
  admin: [admin, approvals:view]
  approver: [approvals:view, approvals:answer]
  viewer: [approvals:view]
members:
  admin: [kim]
  approver: [dana]
agents:
  billing:
    owner: dana
    runs: [{tool: stripe.refund, activity: refund, task_queue: billing}]
  support: {owner: dana}
routes:
  - match: {agent: billing}
    ask: [role:approver]
    at: [dm]
"""
REFUND: dict[str, Any] = {
    "agent": "billing",
    "tool": "stripe.refund",
    "operation": "create",
    "arguments": {"charge": "ch_1", "amount": 4900, "currency": "GBP"},
    "presentation": {"title": "Refund a duplicate charge", "lines": [["Charge", "/charge"]]},
    "reasoning": "The customer was charged twice.",
}


@dataclass
class TurnedClock:
    """The real time, and whatever a test turned it on by."""

    ahead: timedelta = timedelta(0)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@dataclass
class Rung:
    """core.ports.Bell without Temporal: which rows were rung and started."""

    ids: list[str] = field(default_factory=list)
    started: list[str] = field(default_factory=list)

    async def ring(self, approval: Approval) -> None:
        self.ids.append(approval.id)

    async def start(self, approval: Approval) -> None:
        self.started.append(approval.id)


@dataclass
class Api:
    """The application, what it stands on, and a token of each kind of caller."""

    app: FastAPI
    services: Services
    database: str
    store: Database
    clock: TurnedClock
    bell: Rung
    tokens: dict[str, str]

    @property
    def approvals(self) -> Approvals:
        assert self.services.approvals is not None
        return self.services.approvals

    @asynccontextmanager
    async def client(self, who: str | None = None, url: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
        """A client with somebody's token; over real sockets where a URL is given."""
        headers = {"Authorization": f"Bearer {self.tokens[who]}"} if who else {}
        transport = None if url else httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url=url or "http://placet", headers=headers, timeout=20, trust_env=False
        ) as client:
            yield client

    async def call(self, who: str | None, method: str, path: str, **request: Any) -> httpx.Response:
        async with self.client(who) as client:
            return await client.request(method, path, **request)

    async def ask(self, who: str = "billing", **changes: Any) -> dict[str, Any]:
        """A refund that waits now."""
        answer = await self.call(who, "POST", "/v1/approvals", json={**REFUND, **changes})
        assert answer.status_code == 201, answer.text
        row: dict[str, Any] = answer.json()
        return row

    async def turn(self, **changes: Any) -> Approval:
        """A refund that an agent's turn waits for, as over Temporal."""
        asked = read_ask(json.dumps({**REFUND, **changes}), over="temporal")
        opened = await self.approvals.open(asked, Origin(workflow_id=f"w-{uuid4()}", first_run_id="r"))
        assert isinstance(opened, Opened)
        return opened.approval

    async def apply(self, directory: str) -> None:
        headers = {"Content-Type": "application/yaml"}
        applied = await self.call("admin", "PUT", "/v1/directory", content=directory, headers=headers)
        assert applied.status_code == 200, applied.text

    async def decide(self, who: str, row: dict[str, Any], verdict: str = "allow", **more: Any) -> httpx.Response:
        body = {"verdict": verdict, "content_revision": row["content_revision"], **more}
        return await self.call(who, "POST", f"/v1/approvals/{row['id']}/decision", json=body)


@asynccontextmanager
async def an_api(
    folder: Path, *, limits: Limits | None = None, feed: Feed | None = None, database: str = "",
    joins: Api | None = None, **services: Any,
) -> AsyncIterator[Api]:  # fmt: skip
    """An API of its own, on SQLite unless `database` says otherwise; with `joins` a second process over its rows."""
    url = joins.database if joins else database or f"sqlite:///{folder / 'placet.db'}"
    if joins is None:
        await migrate(url)
    store = Database.open(url)
    clock, bell, directory = TurnedClock(), Rung(), Directory()
    metrics = Metrics(version="0", clock=clock, waiting=lambda: store.read(lambda ledger: ledger.waiting()))
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        if feed is None:
            feed = local = RedisFeed(NO_REDIS)
            stack.push_async_callback(local.aclose)
        gate = await stack.enter_async_context(RedisGate(NO_REDIS))
        approvals = Approvals(
            store=store, gate=gate, bell=bell, feed=feed, clock=clock, meter=metrics, directory=directory
        )
        stack.push_async_callback(approvals.close)
        given = Services(
            approvals=approvals, store=store, feed=feed, directory=directory, clock=clock, metrics=metrics,
            admin_token=ADMIN, redaction=Redaction(b"k" * 32),
        )  # fmt: skip
        given = replace(given, limits=limits or given.limits, **services)
        tokens = joins.tokens if joins else {"admin": ADMIN, "nobody": "placet_unknown"}
        api = Api(build_api(given), given, url, store, clock, bell, tokens)
        stack.push_async_callback(release, api.app)
        if given.approvals is not None and joins is None:
            await set_up(api)
        yield api


async def set_up(api: Api) -> None:
    async with api.client("admin") as admin:
        applied = await admin.put("/v1/directory", content=DIRECTORY, headers={"Content-Type": "application/yaml"})
        assert applied.status_code == 200, applied.text
        for kind, names in (("agent", ("billing", "support")), ("person", ("dana", "ola", "kim"))):
            for name in names:
                made = await admin.post("/v1/tokens", json={kind: name})
                assert made.status_code == 201, made.text
                api.tokens[name] = made.json()["token"]


class Server(uvicorn.Server):
    """Leaves signals to the tests."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def served(api: Api) -> AsyncIterator[str]:
    """The URL of a real server on a loopback port."""
    config = uvicorn.Config(api.app, host="127.0.0.1", port=0, log_config=None, timeout_graceful_shutdown=3)
    server = Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await release(api.app)
        server.should_exit = True
        await serving


def problem_of(answer: httpx.Response) -> dict[str, Any]:
    """The problem document of an answer, checked to be one."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    document: dict[str, Any] = json.loads(answer.content)
    assert document["status"] == answer.status_code
    assert document["title"]
    assert document["detail"]
    return document
