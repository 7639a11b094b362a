"""What an agent's model reads after each of its calls was allowed, declined or left to expire."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import WorkflowHandle

from core.approvals import Approval, Status, Verdict
from core.people import Refusal
from tests.services import temporal_in
from tests.workflows.callers import Loop, Model, Refunds
from tests.workflows.world import World, a_caller, a_run, a_world, an_ask, serving, until


async def a_loop(world: World, queue: str) -> WorkflowHandle[Any, Any]:
    return await world.client.start_workflow("Loop", id=f"loop-{uuid4()}", task_queue=queue)


async def held(world: World, loop: WorkflowHandle[Any, Any], number: int = 0) -> Approval:
    """The row of the loop's call of that number."""
    return await world.row(f"{loop.id}-{number}", Status.PENDING)


async def test_ac01_after_allow_it_runs_once_and_the_model_reads_the_real_result(world: World) -> None:
    refunds = Refunds(answer=lambda: {"refund": "re_77"})
    model = Model([])
    async with a_caller(world.client, [refunds.refund, model.model], [Loop]) as queue:
        model.wants = [an_ask(run=a_run(queue))]
        loop = await a_loop(world, queue)
        row = await held(world, loop)
        await until(lambda: world.desk.posted)
        assert model.inputs == [[]]
        assert refunds.calls == []
        await world.decide(row)
        await asyncio.wait_for(loop.result(), 60)
    assert model.inputs[-1] == [{"said": "Approved by Dana Reyes and done.", "result": {"refund": "re_77"}}]
    assert len(refunds.calls) == 1


@pytest.mark.parametrize(
    ("note", "said"),
    [
        pytest.param("Ask her first", "Declined by Dana Reyes. Nothing was run. Note: Ask her first", id="ac02"),
        pytest.param(
            None,
            "Declined by Dana Reyes. Nothing was run. Do not look for another way to the same result.",
            id="ac03",
        ),
    ],
)
async def test_ac02_ac03_after_decline_the_model_reads_the_note_or_a_plain_no_and_goes_on_in_the_same_turn(
    world: World, note: str | None, said: str
) -> None:
    refunds = Refunds()
    model = Model([])
    async with a_caller(world.client, [refunds.refund, model.model], [Loop]) as queue:
        model.wants = [an_ask(run=a_run(queue)), an_ask(tool="mail.send", effect=None)]
        loop = await a_loop(world, queue)
        await world.decide(await held(world, loop), Verdict.DECLINE, note)
        await world.decide(await held(world, loop, 1))
        await asyncio.wait_for(loop.result(), 60)
    assert model.inputs[1] == [{"said": said, "result": None}]
    assert model.inputs[2][1]["said"] == "Approved by Dana Reyes."
    assert refunds.calls == []


async def test_ac04_after_expiry_nothing_ran_and_a_late_allow_is_refused(world: World) -> None:
    refunds = Refunds()
    model = Model([])
    async with a_caller(world.client, [refunds.refund, model.model], [Loop]) as queue:
        model.wants = [an_ask(run=a_run(queue), timeout_s=60)]
        loop = await a_loop(world, queue)
        row = await held(world, loop)
        world.clock.set = row.expires_at
        late = await world.approvals.decide(
            row.id, "dana", Verdict.ALLOW, content_revision=1, note=None, key="late", via="cli"
        )
        assert isinstance(late, Refusal)
        assert late.code == "expired"
        await asyncio.wait_for(loop.result(), 60)
    assert model.inputs[-1] == [{"said": "Nobody decided in time. Nothing was run.", "result": None}]
    assert refunds.calls == []


async def test_ac59_with_temporal_stopped_allow_is_final_at_once_and_the_call_runs_once_when_it_is_back(
    tmp_path_factory: pytest.TempPathFactory, sqlite_url: str
) -> None:
    server = temporal_in(tmp_path_factory.mktemp("temporal"))
    await server.start()
    refunds = Refunds()
    try:
        async with (
            a_world(server.address, sqlite_url) as world,
            a_caller(world.client, [refunds.refund]) as queue,
            serving(world),
        ):
            handle = await world.ask(an_ask(run=a_run(queue)))
            row = await world.row(handle.id)
            await until(lambda: world.desk.posted)
            await server.stop()
            loop = asyncio.get_running_loop()
            began = loop.time()
            assert (await world.decide(row)).status is Status.APPROVED
            assert loop.time() - began < 1
            await world.approvals.close()
            assert refunds.calls == []
            await server.start()
            world.clock.set = world.clock.now() + timedelta(seconds=6)
            await until(lambda: swept(world))
            assert (await asyncio.wait_for(handle.result(), 60))["outcome"] == "sent"
            assert [line.action for line in await world.audit(row)] == ["opened", "allow", "claimed", "sent"]
    finally:
        await server.stop()
    assert len(refunds.calls) == 1


async def swept(world: World) -> bool:
    """Whether a round of the sweep could be started."""
    try:
        await world.sweep()
    except Exception:
        return False
    return True
