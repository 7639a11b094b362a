"""Pausing and resetting an agent, and the end of a run: what waits, what runs, and who is told."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError
from temporalio.common import WorkflowIDReusePolicy
from temporalio.service import RPCError

from core.approvals import Agent, Approval, Outcome, Status, Verdict
from core.people import Refusal
from core.service import LOOK_AGAIN
from tests.workflows.callers import Agent as Parent
from tests.workflows.callers import Listener, Refunds
from tests.workflows.test_drafts import AGO, a_draft, a_listener
from tests.workflows.world import World, a_caller, a_run, an_ask, until


async def paused(world: World) -> None:
    assert isinstance(await world.agents.pause("billing"), Agent)
    await world.approvals.close()


async def resumed(world: World) -> None:
    assert isinstance(await world.agents.resume("billing"), Agent)


async def a_turn(world: World, **ask: object) -> Approval:
    """The row of a call that waits in a turn, its card posted."""
    handle = await world.ask(an_ask(**ask))
    row = await world.row(handle.id)
    await until(lambda: any(key == row.id for key, _, _ in world.desk.posted))
    return row


async def at_rest(world: World, workflow_id: str, wakes: int) -> list[str]:
    """The events of a workflow that has posted its card and looked at its row so often, and waits."""
    handle = world.client.get_workflow_handle(workflow_id)

    async def has_looked() -> bool:
        events = await world.events(handle)
        under_way = events.count("ACTIVITY_TASK_SCHEDULED") - events.count("ACTIVITY_TASK_COMPLETED")
        # The first timer waits for the answer, one more for each look.
        return not under_way and events.count("TIMER_STARTED") > wakes and "TIMER_STARTED" in events[-3:]

    await until(has_looked)
    return await world.events(handle)


async def test_ac06_an_agent_is_paused_at_once_while_a_call_waits_and_its_card_can_be_answered(world: World) -> None:
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund]) as queue:
        row = await a_turn(world, run=a_run(queue))
        await asyncio.wait_for(paused(world), 2)
        assert (await world.now(row)).pending
        await world.decide(row, Verdict.DECLINE, note="Not today")
        assert (await world.now(row)).status is Status.DECLINED
        await resumed(world)
        answer = await asyncio.wait_for(world.client.get_workflow_handle(str(row.workflow_id)).result(), 60)
    assert (answer["status"], answer["note"]) == ("declined", "Not today")
    assert refunds.calls == []


@pytest.mark.parametrize("lost", [False, True])
async def test_ac07_what_was_decided_while_paused_runs_after_it_resumes_and_once(world: World, lost: bool) -> None:
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund]) as queue:
        row = await a_turn(world, run=a_run(queue))
        handle = world.client.get_workflow_handle(str(row.workflow_id))
        await paused(world)
        await world.decide(row)
        resting = await at_rest(world, handle.id, 1)
        # Hours of sweeps wake nothing: the answer waits, and its workflow with it.
        for hour in range(1, 4):
            world.clock.set = row.created_at + timedelta(hours=hour)
            assert (await world.sweep())["rung"] == 0
        world.clock.set = None
        assert await world.events(handle) == resting
        assert ((await world.now(row)).status, (await world.now(row)).outcome) == (Status.APPROVED, Outcome.NONE)
        assert refunds.calls == []
        world.bell.muted = lost
        await resumed(world)
        if lost:
            await world.approvals.close()
            world.bell.muted = False
            world.clock.set = world.clock.now() + timedelta(seconds=6)
            assert (await world.sweep())["rung"] == 1
        assert (await asyncio.wait_for(handle.result(), 60))["outcome"] == "sent"
    assert len(refunds.calls) == 1


async def test_ac50_a_draft_allowed_while_paused_goes_out_after_it_resumes_and_once(world: World) -> None:
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund]) as queue:
        row = await a_draft(world, queue)
        await paused(world)
        await world.decide_before(row, AGO)
        resting = await at_rest(world, f"approval-{row.id}", 1)
        world.clock.set = world.clock.now() + timedelta(hours=1)
        assert (await world.sweep())["rung"] == 0
        assert await world.events(world.own(row)) == resting
        assert ((await world.now(row)).status, (await world.now(row)).outcome) == (Status.APPROVED, Outcome.NONE)
        await resumed(world)
        assert (await asyncio.wait_for(world.own(row).result(), 60))["outcome"] == "sent"
    assert len(refunds.calls) == 1


async def test_a_decision_that_waits_for_its_agent_is_looked_at_once_a_day(world: World) -> None:
    row = await a_turn(world, run=a_run("billing"))
    await paused(world)
    await world.decide(row)
    taken = await world.approvals.take(row.id, "run")
    assert taken is not None
    assert taken.until is not None
    assert taken.until - world.clock.now() > LOOK_AGAIN - timedelta(minutes=1)


async def test_a_call_that_has_begun_goes_on_while_its_agent_is_paused(world: World) -> None:
    refunds = Refunds(waits=True)
    async with a_caller(world.client, [refunds.refund]) as queue:
        row = await a_turn(world, run=a_run(queue))
        await world.decide(row)
        await refunds.started.wait()
        await paused(world)
        world.clock.set = world.clock.now() + timedelta(minutes=32)
        assert (await world.sweep())["settled"] == 1
        assert (await world.now(row)).outcome is Outcome.UNKNOWN
        refunds.proceed.set()
        answer = await asyncio.wait_for(world.client.get_workflow_handle(str(row.workflow_id)).result(), 60)
    assert answer["outcome"] == "sent"
    assert (await world.now(row)).outcome is Outcome.SENT


async def test_what_is_withdrawn_while_paused_is_heard_of_at_once(world: World) -> None:
    row = await a_turn(world)
    await paused(world)
    await world.approvals.withdraw(row.id, by="agent:billing")
    answer = await asyncio.wait_for(world.client.get_workflow_handle(str(row.workflow_id)).result(), 60)
    assert answer["status"] == "cancelled"


# What must never come back


async def test_ac19_pausing_and_resuming_send_nothing_to_what_waits_for_an_answer(world: World) -> None:
    row = await a_turn(world)
    handle = world.client.get_workflow_handle(str(row.workflow_id))
    resting = await at_rest(world, handle.id, 0)
    await paused(world)
    await resumed(world)
    await world.approvals.close()
    await world.sweep()
    assert await world.events(handle) == resting
    assert "WORKFLOW_EXECUTION_SIGNALED" not in resting


async def test_ac19_a_turn_row_never_gets_a_second_sender(world: World) -> None:
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund]) as queue:
        row = await a_turn(world, run=a_run(queue))
        await world.client.get_workflow_handle(str(row.workflow_id)).terminate()
        allowed = await world.decide(row)
        await world.approvals.close()
        await world.bell.start(allowed)
        world.clock.set = world.clock.now() + timedelta(seconds=6)
        await world.sweep()
        own = world.client.get_workflow_handle(f"approval-{row.id}")
        with pytest.raises(RPCError, match="not found"):
            await own.describe()
        # Nor when somebody starts it by hand.
        for reference in ({"approval_id": row.id}, {"approval_id": row.id, "agent": "billing"}):
            with pytest.raises(WorkflowFailureError):
                await world.client.execute_workflow(
                    "ApprovalWorkflow", reference, id=own.id, task_queue="placet",
                    id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                )  # fmt: skip
    assert refunds.calls == []


# Resetting


@pytest.mark.parametrize("lost", [False, True])
async def test_a_reset_ends_what_turns_wait_for_also_when_the_word_is_lost(world: World, lost: bool) -> None:
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund]) as queue:
        pending = await a_turn(world, run=a_run(queue))
        allowed, left_to_the_asker = await a_turn(world, run=a_run(queue)), await a_turn(world)
        await paused(world)
        for row in (allowed, left_to_the_asker):
            await world.decide(row)
            await at_rest(world, str(row.workflow_id), 1)
        world.bell.muted = lost
        assert isinstance(await world.agents.reset("billing"), Agent)
        if lost:
            await world.approvals.close()
            world.bell.muted = False
            world.clock.set = world.clock.now() + timedelta(seconds=6)
            assert (await world.sweep())["rung"] == 3
        answers = [
            await asyncio.wait_for(world.client.get_workflow_handle(str(row.workflow_id)).result(), 60)
            for row in (pending, allowed, left_to_the_asker)
        ]
        await resumed(world)
    assert [(answer["status"], answer["outcome"]) for answer in answers] == [
        ("cancelled", "none"), ("approved", "not_sent"), ("approved", "not_sent"),
    ]  # fmt: skip
    assert refunds.calls == []
    late = await world.approvals.decide(
        pending.id, "dana", Verdict.ALLOW, content_revision=1, note=None, key="late", via="cli"
    )
    assert isinstance(late, Refusal)


async def test_an_allowed_draft_of_an_ended_generation_is_not_sent_and_its_asker_is_told(world: World) -> None:
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund], [Listener]) as queue:
        listener = await a_listener(world, queue)
        row = await a_draft(world, queue, notify={"workflow_id": listener.id})
        await paused(world)
        await world.decide_before(row, AGO)
        await at_rest(world, f"approval-{row.id}", 1)
        await world.agents.reset("billing")
        await resumed(world)
        answer = await asyncio.wait_for(world.own(row).result(), 60)
        (heard,) = await asyncio.wait_for(listener.result(), 60)
    assert (answer["status"], answer["outcome"]) == ("approved", "not_sent")
    assert (heard["approval_id"], heard["outcome"]) == (row.id, "not_sent")
    (update,) = await world.agents.updates("billing", 0)
    assert (update.approval_id, update.outcome, update.text) == (row.id, "not_sent", heard["text"])
    assert refunds.calls == []


# The end of a run


async def a_run_of_two(world: World, queue: str) -> tuple[str, Approval, Approval]:
    """A run that asks in a turn and in a draft: its workflow, and the two rows."""
    asks = [an_ask(run=a_run(queue), run_id="run-7"), an_ask(run=a_run(queue), run_id="run-7", runtime="draft")]
    run = await world.client.start_workflow("Agent", asks, id=f"run-{uuid4()}", task_queue=queue)
    turn, draft = [await world.row(f"{run.id}-{number}") for number in range(2)]
    await until(lambda: len(world.desk.posted) == 2)
    return run.id, turn, draft


@pytest.mark.parametrize("how", ["cancelled", "terminated", "closed over HTTP"])
async def test_when_a_run_ends_its_turns_are_withdrawn_and_its_drafts_live_on(world: World, how: str) -> None:
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund], [Parent]) as queue:
        run_id, turn, draft = await a_run_of_two(world, queue)
        run = world.client.get_workflow_handle(run_id)
        if how == "cancelled":
            await run.cancel()
        elif how == "terminated":
            await run.terminate()
        else:
            assert await world.agents.close_run("billing", "run-7") == [turn.id]

        async def is_cancelled() -> bool:
            return (await world.now(turn)).status is Status.CANCELLED

        await until(is_cancelled)
        if how == "closed over HTTP":
            asked, kept = await asyncio.wait_for(run.result(), 60)
            assert (asked["status"], kept["status"]) == ("cancelled", "pending")
        assert (await world.now(draft)).pending
        assert (await world.own(draft).describe()).status is WorkflowExecutionStatus.RUNNING
        await world.decide_before(draft, AGO)
        assert (await asyncio.wait_for(world.own(draft).result(), 60))["outcome"] == "sent"
    assert refunds.ids == [draft.id]
