"""The sweep does again what a crash or a lost word left undone, and one fault in it stops nothing else."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import timedelta
from uuid import uuid4

import pytest

from core.approvals import Approval, Outcome, Status
from core.asks import read_ask
from core.ports import Unavailable
from core.service import Opened, Origin
from tests.workflows.callers import Refunds
from tests.workflows.world import World, a_caller, a_run, an_ask, until
from workflows.activities import MISSING_LIMIT, Bookkeeping
from workflows.approval import ApprovalWorkflow
from workflows.sweep import SweepWorkflow


async def a_turn(world: World, workflow_id: str = "") -> Approval:
    """A row whose workflow does not exist."""
    asked = read_ask(json.dumps(an_ask(run=a_run("billing"))), over="temporal")
    opened = await world.approvals.open(asked, Origin(workflow_id=workflow_id or f"gone-{uuid4()}", first_run_id="r"))
    assert isinstance(opened, Opened)
    return opened.approval


async def test_a_row_whose_workflow_is_gone_is_settled_in_the_second_round(world: World) -> None:
    pending, approved, claimed = [await a_turn(world) for _ in range(3)]
    await world.decide(approved)
    await world.decide(claimed)
    taken = await world.approvals.take(claimed.id, "a run that has ended")
    assert taken is not None
    alive = await world.ask(an_ask())
    waiting = await world.row(alive.id)
    first = await world.sweep()
    assert (first["checked"], first["missing"]) == (4, 3)
    assert (await world.now(pending)).status is Status.PENDING
    await world.sweep()
    assert (await world.now(pending)).status is Status.CANCELLED
    assert (await world.now(approved)).outcome is Outcome.NOT_SENT
    assert (await world.now(claimed)).outcome is Outcome.UNKNOWN
    assert (await world.now(waiting)).pending


async def test_a_terminated_workflows_row_is_settled(world: World) -> None:
    handle = await world.ask(an_ask())
    row = await world.row(handle.id)
    await handle.terminate()
    await world.sweep()
    assert (await world.now(row)).pending
    await world.sweep()
    assert (await world.now(row)).status is Status.CANCELLED


async def test_an_id_that_was_used_again_is_another_rows_workflow(world: World) -> None:
    handle = await world.ask(an_ask(), id=f"again-{uuid4()}")
    row = await world.row(handle.id)
    await handle.terminate()
    again = await world.ask(an_ask(arguments={"charge": "ch_2"}), id=handle.id)
    for _ in range(400):
        rows = await world.store.read(lambda ledger: ledger.approvals())
        if len(rows) == 2:
            break
        await asyncio.sleep(0.02)
    other = next(found for found in rows if found.id != row.id)
    await world.sweep()
    await world.sweep()
    assert (await world.now(row)).status is Status.CANCELLED
    assert (await world.now(other)).pending
    await again.terminate()


async def test_a_replaced_server_closes_nothing_and_raises_an_alarm(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [await a_turn(world) for _ in range(MISSING_LIMIT + 1)]
    with caplog.at_level(logging.ERROR, "placet.workflows"):
        for _ in range(3):
            assert (await world.sweep())["missing"] == MISSING_LIMIT + 1
    assert {(await world.now(row)).status for row in rows} == {Status.PENDING}
    assert "was the Temporal server replaced" in caplog.text


async def test_the_sweep_starts_a_missing_workflow_and_expires_what_is_due(world: World) -> None:
    world.bell.muted = True
    asked = read_ask(json.dumps(an_ask()), over="http")
    opened = await world.approvals.open(asked, Origin(asked_by="agent:billing", idempotency_key="k"))
    assert isinstance(opened, Opened)
    await world.approvals.close()
    due = await a_turn(world)
    world.bell.muted = False
    world.clock.set = world.clock.now() + timedelta(seconds=6)
    await world.sweep()
    await until(lambda: [key for key, _, _ in world.desk.posted] == [opened.approval.id])
    world.clock.set = due.expires_at
    await world.sweep()
    assert (await world.now(due)).status is Status.EXPIRED


async def test_ac54_a_row_that_nobody_waits_for_expires_at_its_deadline(world: World) -> None:
    row = await a_turn(world)
    world.clock.set = row.expires_at - timedelta(microseconds=1)
    await world.sweep()
    assert (await world.now(row)).status is Status.PENDING
    world.clock.set = row.expires_at
    assert (await world.sweep())["expired"] == 1
    assert (await world.now(row)).status is Status.EXPIRED


async def test_a_call_that_stays_open_far_beyond_its_limit_becomes_unknown(world: World) -> None:
    refunds = Refunds(waits=True)
    async with a_caller(world.client, [refunds.refund]) as queue:
        handle = await world.ask(an_ask(run=a_run(queue)))
        row = await world.row(handle.id)
        await world.decide(row)
        await refunds.started.wait()
        world.clock.set = world.clock.now() + timedelta(minutes=32)
        assert (await world.sweep())["settled"] == 1
        assert (await world.now(row)).outcome is Outcome.UNKNOWN
        refunds.proceed.set()
        # A late truth takes the place of "unknown".
        assert (await asyncio.wait_for(handle.result(), 60))["outcome"] == "sent"
    assert (await world.now(row)).outcome is Outcome.SENT


async def test_a_failing_step_is_named_and_stops_no_other(idle: World) -> None:
    async def silent(approval: Approval) -> str:
        raise Unavailable("the server does not say")

    async def broken(limit: int = 0, after: timedelta = timedelta(0)) -> int:
        raise ZeroDivisionError

    row = await a_turn(idle)
    books = Bookkeeping(idle.approvals, silent)
    idle.approvals.ring_unconsumed = broken  # type: ignore[method-assign]
    idle.clock.set = row.expires_at
    done = await books.sweep()
    assert done.failed == ("rung", "checked")
    assert done.expired == 1
    assert (await idle.now(row)).status is Status.EXPIRED


async def test_a_round_goes_on_while_no_process_of_the_bots_runs(idle: World) -> None:
    workflows = [ApprovalWorkflow, SweepWorkflow]
    worker = idle.temporal.worker("placet", workflows=workflows, activities=idle.books.activities)
    running = asyncio.create_task(worker.run())
    await asyncio.sleep(0.2)
    row = await a_turn(idle)
    idle.clock.set = row.expires_at
    done = await asyncio.wait_for(idle.sweep(), 15)
    assert (done["expired"], done["failed"]) == (1, ["redrawn"])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
