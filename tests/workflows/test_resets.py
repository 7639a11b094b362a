"""Resets and kills: a call that may have run is never run again."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import WorkflowHandle

from core.approvals import Approval, Outcome
from tests.workflows.callers import Refunds
from tests.workflows.world import World, a_caller, a_run, an_ask, until

ROOT = Path(__file__).parents[2]


async def tasks_until_the_call(handle: WorkflowHandle[Any, Any]) -> list[int]:
    """The ids of the completed workflow tasks up to the one that scheduled the caller's activity, which is last."""
    found: list[int] = []
    for event in (await handle.fetch_history()).events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            found.append(event.event_id)
        if event.activity_task_scheduled_event_attributes.activity_type.name == "refund":
            return found
    raise AssertionError("the call was not scheduled")


async def completed_tasks(handle: WorkflowHandle[Any, Any]) -> list[int]:
    """The ids of the workflow tasks that were completed so far."""
    events = (await handle.fetch_history()).events
    return [each.event_id for each in events if each.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED]


async def reset(world: World, handle: WorkflowHandle[Any, Any], task: int) -> WorkflowHandle[Any, Any]:
    said = await handle.describe()
    answer = await world.client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace="default",
            workflow_execution=WorkflowExecution(workflow_id=handle.id, run_id=said.run_id),
            reason="a test",
            workflow_task_finish_event_id=task,
            request_id=str(uuid4()),
        )
    )
    return world.client.get_workflow_handle(handle.id, run_id=answer.run_id)


@pytest.mark.parametrize("back", [1, 2, 3])
@pytest.mark.parametrize("ended", [False, True])
async def test_a_reset_to_the_task_that_scheduled_the_call_or_an_earlier_one_runs_nothing(
    world: World, back: int, ended: bool
) -> None:
    refunds = Refunds(waits=not ended)
    async with a_caller(world.client, [refunds.refund]) as queue:
        handle = await world.ask(an_ask(run=a_run(queue)))
        row = await world.row(handle.id)
        await until(lambda: world.desk.posted)
        await asyncio.sleep(0.3)
        await world.decide(row)
        await refunds.started.wait()
        if ended:
            await handle.result()
        tasks = await tasks_until_the_call(handle)
        again = await reset(world, handle, tasks[-min(back, len(tasks))])
        answer = await asyncio.wait_for(again.result(), 20)
        await asyncio.sleep(0.2)
    assert answer["approval_id"] == row.id
    assert answer["status"] == "approved"
    # What had ended well stays so; what was under way is lost from sight.
    assert answer["outcome"] == ("sent" if ended else "unknown")
    assert len(refunds.calls) == 1
    assert (await world.now(row)).outcome is (Outcome.SENT if ended else Outcome.UNKNOWN)
    assert len(await world.store.read(lambda ledger: ledger.approvals())) == 1


@asynccontextmanager
async def a_worker_process(address: str, url: str, fault: str = "") -> AsyncIterator[asyncio.subprocess.Process]:
    """Placet's worker in a process of its own; `fault` names where it kills itself."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.workflows.worker_process", address, url, fault, cwd=ROOT
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def killed(
    idle: World,
    handle: WorkflowHandle[Any, Any],
    worker: AbstractAsyncContextManager[asyncio.subprocess.Process],
    refunds: Refunds,
    fault: str,
) -> Approval:
    """The row of an ask that is allowed while a worker runs that dies after the claim."""
    async with worker as process:
        row = await idle.row(handle.id)
        await asyncio.sleep(0.5)
        await idle.decide(row)
        if fault == "while-it-runs":
            await refunds.started.wait()
            process.send_signal(signal.SIGKILL)
        assert await asyncio.wait_for(process.wait(), 60) == -signal.SIGKILL
    assert (await idle.now(row)).outcome is Outcome.SENDING
    return row


@pytest.mark.parametrize("fault", ["after-claim", "while-it-runs", "before-record"])
async def test_a_worker_killed_after_the_claim_never_makes_the_call_run_twice(
    idle: World, temporal_address: str, sqlite_url: str, fault: str
) -> None:
    refunds = Refunds(waits=fault == "while-it-runs")
    async with a_caller(idle.client, [refunds.refund]) as queue:
        handle = await idle.ask(an_ask(run=a_run(queue)), task_timeout=timedelta(seconds=3))
        await killed(idle, handle, a_worker_process(temporal_address, sqlite_url, fault), refunds, fault)
        refunds.proceed.set()
        async with a_worker_process(temporal_address, sqlite_url):
            answer = await asyncio.wait_for(handle.result(), 60)
    assert answer["outcome"] == "sent"
    assert len(refunds.calls) == 1


@pytest.mark.parametrize("fault", ["after-claim", "while-it-runs"])
async def test_a_worker_killed_after_the_claim_and_a_reset_end_unknown_and_run_nothing_more(
    idle: World, temporal_address: str, sqlite_url: str, fault: str
) -> None:
    refunds = Refunds(waits=True)
    ran = 0 if fault == "after-claim" else 1
    async with a_caller(idle.client, [refunds.refund]) as queue:
        handle = await idle.ask(an_ask(run=a_run(queue)), task_timeout=timedelta(seconds=3))
        row = await killed(idle, handle, a_worker_process(temporal_address, sqlite_url, fault), refunds, fault)
        again = await reset(idle, handle, (await completed_tasks(handle))[-1])
        async with a_worker_process(temporal_address, sqlite_url):
            answer = await asyncio.wait_for(again.result(), 60)
        refunds.proceed.set()
    assert (answer["status"], answer["outcome"]) == ("approved", "unknown")
    assert "Do not repeat it unasked." in answer["text"]
    assert (await idle.now(row)).outcome is Outcome.UNKNOWN
    assert len(refunds.calls) == ran


async def test_the_callers_worker_killed_while_it_runs_is_unknown(world: World, temporal_address: str) -> None:
    queue = f"killed-{uuid4()}"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.workflows.worker_process", temporal_address, "caller", queue, cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    handle = await world.ask(an_ask(run=a_run(queue, start_to_close_s=2)))
    row = await world.row(handle.id)
    await world.decide(row)
    assert (await asyncio.wait_for(process.stdout.readline(), 60)).strip() == b"started"
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    answer = await asyncio.wait_for(handle.result(), 20)
    assert (answer["outcome"], (await world.now(row)).outcome) == ("unknown", Outcome.UNKNOWN)
    assert answer["text"].startswith("Approved and started, but")
