"""Nothing that a request waits on waits for Temporal: not where no worker polls, nor where the server is away."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable
from typing import Any, TypeVar
from uuid import uuid4

import pytest

from core.approvals import Agent, Approval, Mode, Outcome, Status, Verdict
from core.asks import read_ask
from core.people import Refusal
from core.ports import Unavailable
from core.rules import Rule, Scope, ScopeKind
from core.service import CLOSING_S, Opened, Origin
from tests.services import free_port
from tests.workflows.world import World, a_run, a_world, an_ask

T = TypeVar("T")
# What design section 5 gives a call to the server, and what a loaded machine takes besides.
BOUND_S = 1 + 2


async def soon(request: Awaitable[T], bound: float = BOUND_S) -> T:
    """What a request answers, within its bound."""
    began = time.monotonic()
    answer = await asyncio.wait_for(request, bound + 10)
    took = time.monotonic() - began
    assert took < bound, f"it took {took:.1f} s"
    return answer


@pytest.fixture(params=["no worker polls", "nobody listens", "nobody answers"])
async def alone(request: pytest.FixtureRequest, temporal_address: str, sqlite_url: str) -> AsyncIterator[World]:
    """A world whose workflows nobody carries on."""

    async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1024):
            pass
        writer.close()

    silent = await asyncio.start_server(says_nothing, "127.0.0.1", 0)
    address = {
        "no worker polls": temporal_address,
        "nobody listens": f"127.0.0.1:{free_port()}",
        "nobody answers": f"127.0.0.1:{silent.sockets[0].getsockname()[1]}",
    }[request.param]
    async with silent, a_world(address, sqlite_url, lazy=True) as world:
        yield world


async def a_turn(world: World, **ask: Any) -> Approval:
    """A row whose workflow waits, as far as the row knows."""
    asked = read_ask(json.dumps(an_ask(**ask)), over="temporal")
    opened = await world.approvals.open(asked, Origin(workflow_id=f"nobody-{uuid4()}", first_run_id=str(uuid4())))
    assert isinstance(opened, Opened)
    return opened.approval


async def test_ac56_an_ask_an_answer_and_a_withdrawal_wait_for_no_worker_and_no_server(alone: World) -> None:
    external, draft = await soon(alone.ask_over_http()), await soon(alone.ask_over_http(run=a_run("billing"),
                                                                                        runtime="draft"))  # fmt: skip
    turn, withdrawn = await a_turn(alone, run=a_run("billing")), await a_turn(alone)
    for row in (external, draft, turn):
        assert (await soon(alone.decide(row))).status is Status.APPROVED
    cancelled = await soon(alone.approvals.withdraw(withdrawn.id, by="agent:billing"))
    assert not isinstance(cancelled, Refusal)
    assert cancelled.status is Status.CANCELLED
    claim = await soon(alone.approvals.claim(external.id, 1))
    assert not isinstance(claim, Refusal)
    done = await soon(alone.approvals.record(external.id, claim.token, Outcome.SENT, None))
    assert not isinstance(done, Refusal)
    # Nor does the end of a process, for what it put off.
    await soon(alone.approvals.close(), CLOSING_S + BOUND_S)


async def test_ac56_what_is_done_to_an_agent_waits_for_no_worker_and_no_server(alone: World) -> None:
    agents = alone.agents
    for number in range(5):
        await a_turn(alone, run=a_run("billing"), lane="chat-3", run_id="run-7", arguments={"number": number})
    heard = await soon(agents.hear("billing", "chat-3", "Not now", "m-1"))
    assert not isinstance(heard, Refusal)
    assert len(heard.approval_ids) == 5
    rows = [await a_turn(alone, run=a_run("billing"), run_id="run-8") for _ in range(5)]
    assert sorted(await soon(agents.close_run("billing", "run-8"))) == sorted(row.id for row in rows)  # type: ignore[arg-type]
    assert isinstance(await soon(agents.set_mode("billing", Mode.EVERYTHING)), Agent)
    assert isinstance(await soon(agents.add_rule("billing", Scope(ScopeKind.TOOL, "chat.post", ""))), Rule)
    for change in (agents.pause, agents.resume, agents.reset):
        for _ in range(5):
            await alone.decide(await a_turn(alone, run=a_run("billing")))
        assert isinstance(await soon(change("billing")), Agent)
    assert (await soon(agents.run("billing", "run-8"))).waiting is False
    assert len(await soon(agents.updates("billing", 0))) >= 0
    await soon(alone.approvals.close(), CLOSING_S + BOUND_S)


async def test_ac56_every_call_to_the_server_has_its_bound(alone: World, request: pytest.FixtureRequest) -> None:
    turn, draft = await a_turn(alone), await alone.ask_over_http(run=a_run("billing"), runtime="draft")
    polled = "no worker polls" in request.node.callspec.id
    for row in (turn, draft):
        await soon(alone.bell.bell.ring(row))
        await soon(alone.bell.bell.start(row), 2 * BOUND_S)
    assert (await soon(alone.temporal.check()) is None) == polled
    describing = soon(alone.temporal.describe(turn), 5 + 2)
    if polled:
        assert await describing == "missing"
    else:
        with pytest.raises(Unavailable):
            await describing
    assert (await alone.decide(turn, Verdict.DECLINE)).status is Status.DECLINED
