"""Waiting for days, on a server that skips time: what it costs, and what ends it."""

from __future__ import annotations

import asyncio
import shutil
import sysconfig
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from typing import TypeVar

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.testing import WorkflowEnvironment

from core.approvals import Approval, Outcome, Status, Verdict
from core.people import Refusal
from core.ports import Ledger, Store
from tests.workflows.callers import Agent, Refunds
from tests.workflows.test_drafts import a_draft
from tests.workflows.test_pausing import at_rest
from tests.workflows.world import Clock, World, a_caller, a_run, a_world, an_ask, serving, until

T = TypeVar("T")


class ServerTime:
    """The store; before each use the clock is set to the Temporal server's time, less `behind`, unless it `stands`."""

    def __init__(self, environment: WorkflowEnvironment, store: Store, clock: Clock) -> None:
        self.environment, self.store, self.clock = environment, store, clock
        self.behind = timedelta(0)
        self.stands: datetime | None = None

    async def write(self, work: Callable[[Ledger], T]) -> T:
        await self._set()
        return await self.store.write(work)

    async def read(self, work: Callable[[Ledger], T]) -> T:
        await self._set()
        return await self.store.read(work)

    async def _set(self) -> None:
        self.clock.set = self.stands or await self.environment.get_current_time() - self.behind


@pytest.fixture
async def environment() -> AsyncIterator[WorkflowEnvironment]:
    """A server whose time can be skipped."""
    program = shutil.which("temporal-test-server", path=sysconfig.get_path("scripts"))
    assert program is not None
    async with await WorkflowEnvironment.start_time_skipping(test_server_existing_path=program) as environment:
        yield environment


@pytest.fixture
async def world(environment: WorkflowEnvironment, sqlite_url: str) -> AsyncIterator[World]:
    address = environment.client.service_client.config.target_host
    async with (
        a_world(address, sqlite_url, wrap=lambda store, clock: ServerTime(environment, store, clock)) as world,
        serving(world),
    ):
        yield world


async def test_seven_days_add_no_event_but_the_reminders_and_the_expirys(
    world: World, environment: WorkflowEnvironment
) -> None:
    handle = await world.ask(an_ask(arguments={"amount": 1}))
    row = await world.row(handle.id)
    await until(lambda: world.desk.posted)
    await asyncio.sleep(0.3)
    shown = await world.events(handle)
    assert shown[-2:] == ["ACTIVITY_TASK_STARTED", "ACTIVITY_TASK_COMPLETED"]
    assert shown.count("TIMER_STARTED") == 1
    await environment.sleep(timedelta(days=5, hours=23))
    assert await world.events(handle) == shown
    await environment.sleep(timedelta(hours=2))
    await until(lambda: world.desk.reminded)
    await asyncio.sleep(0.3)
    reminded = (await world.events(handle))[len(shown) :]
    assert sorted(reminded) == sorted(
        ["TIMER_FIRED", "ACTIVITY_TASK_SCHEDULED", "MARKER_RECORDED", "TIMER_STARTED", "ACTIVITY_TASK_STARTED",
         "ACTIVITY_TASK_COMPLETED"]
    )  # fmt: skip
    await environment.sleep(timedelta(hours=23))
    assert (await asyncio.wait_for(handle.result(), 60))["status"] == "expired"
    expired = (await world.events(handle))[len(shown) + len(reminded) :]
    assert expired == ["TIMER_FIRED", "MARKER_RECORDED", "WORKFLOW_EXECUTION_COMPLETED"]
    assert (await world.now(row)).status is Status.EXPIRED
    assert world.desk.reminded == [row.id]


async def test_ac52_an_allowed_call_that_is_cancelled_while_it_runs_is_unknown(
    world: World, environment: WorkflowEnvironment
) -> None:
    refunds = Refunds(heartbeats=True)
    async with a_caller(world.client, [refunds.refund]) as queue:
        handle = await world.ask(an_ask(run=a_run(queue)))
        row = await world.row(handle.id)
        await until(lambda: world.desk.posted)
        await environment.sleep(timedelta(days=3))
        await world.decide(row)
        await refunds.started.wait()
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await asyncio.wait_for(handle.result(), 60)
    assert (await world.now(row)).outcome is Outcome.UNKNOWN
    assert len(refunds.calls) == 1


@pytest.mark.parametrize(("before", "status"), [(1, "declined"), (0, "expired")])
async def test_ac55_a_decision_that_is_committed_just_before_the_deadline_wins_over_expiry(
    world: World, environment: WorkflowEnvironment, before: int, status: str
) -> None:
    handle = await world.ask(an_ask(timeout_s=3600))
    row = await world.row(handle.id)
    await until(lambda: world.desk.posted)
    await asyncio.sleep(0.3)
    world.bell.muted = True
    store = world.store.store
    assert isinstance(store, ServerTime)
    # The clock stands at the deadline, or a microsecond before it, while the server's goes on.
    store.stands = row.expires_at - timedelta(microseconds=before)
    said = await world.approvals.decide(
        row.id, "dana", Verdict.DECLINE, content_revision=1, note=None, key="last", via="cli"
    )
    assert isinstance(said, Approval if before else Refusal)
    store.stands = None
    await environment.sleep(timedelta(hours=1, seconds=1))
    assert (await asyncio.wait_for(handle.result(), 60))["status"] == status


async def test_an_answer_that_waits_for_its_agent_adds_nothing_but_a_look_a_day_and_outlives_the_deadline(
    world: World, environment: WorkflowEnvironment
) -> None:
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund]) as queue:
        handle = await world.ask(an_ask(run=a_run(queue)))
        row = await world.row(handle.id)
        await until(lambda: world.desk.posted)
        await world.agents.pause("billing")
        await world.decide(row)
        resting = await at_rest(world, handle.id, 1)
        await environment.sleep(timedelta(days=8, hours=1))
        looks = (await world.events(handle))[len(resting) :]
        assert looks == ["TIMER_FIRED", "MARKER_RECORDED", "TIMER_STARTED"] * 8
        assert refunds.calls == []
        await world.agents.resume("billing")
        assert (await asyncio.wait_for(handle.result(), 60))["outcome"] == "sent"
    assert len(refunds.calls) == 1
    assert world.desk.reminded == []


async def test_ac09_a_run_that_waited_for_more_than_a_day_goes_on_and_its_time_counts_from_the_answer(
    world: World, environment: WorkflowEnvironment
) -> None:
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund], [Agent]) as queue:
        asks = [an_ask(run=a_run(queue), run_id="run-7"), an_ask(run_id="run-7")]
        run = await world.client.start_workflow("Agent", asks, id="run-7", task_queue=queue)
        first, second = [await world.row(f"{run.id}-{number}") for number in range(2)]
        await until(lambda: len(world.desk.posted) == 2)
        await environment.sleep(timedelta(hours=30))
        state = await world.agents.run("billing", "run-7")
        assert (state.waiting, state.counts_from) == (True, first.created_at)
        await world.decide(first)
        await world.became(first, Outcome.SENT)
        assert (await world.agents.run("billing", "run-7")).waiting
        await world.decide(second, Verdict.DECLINE)
        answers = await asyncio.wait_for(run.result(), 60)
    assert [answer["status"] for answer in answers] == ["approved", "declined"]
    state, answered = await world.agents.run("billing", "run-7"), await world.now(second)
    assert (state.waiting, state.counts_from) == (False, answered.consumed_at)
    assert answered.consumed_at is not None
    assert answered.consumed_at - first.created_at > timedelta(hours=30)
    assert len(refunds.calls) == 1


async def test_an_escalation_and_a_reminder_come_in_their_own_time(
    world: World, environment: WorkflowEnvironment
) -> None:
    await world.apply(
        escalate={"after_s": 8 * 3600, "ask": ["role:lead"], "at": ["telegram:-1002"]}, remind_s=4 * 3600,
        timeout_s=24 * 3600,
    )  # fmt: skip
    handle = await world.ask(an_ask())
    row = await world.row(handle.id)
    await until(lambda: world.desk.posted)
    await environment.sleep(timedelta(hours=7, minutes=59))
    assert (len(world.desk.posted), world.desk.reminded) == (1, [])
    early = await world.approvals.decide(
        row.id, "ola", Verdict.DECLINE, content_revision=1, note=None, key="early", via="cli"
    )
    assert isinstance(early, Refusal)
    await environment.sleep(timedelta(minutes=2))
    await until(lambda: len(world.desk.posted) == 2)
    await environment.sleep(timedelta(hours=11, minutes=58))
    assert world.desk.reminded == []
    await environment.sleep(timedelta(minutes=2))
    await until(lambda: world.desk.reminded)
    await environment.sleep(timedelta(hours=4))
    assert (await asyncio.wait_for(handle.result(), 60))["status"] == "expired"
    escalated = (await world.now(row)).escalated_at
    assert escalated is not None
    assert timedelta(0) <= escalated - row.created_at - timedelta(hours=8) < timedelta(seconds=2)


async def test_a_draft_goes_out_five_seconds_after_the_answer_and_a_decline_is_final_five_seconds_after(
    world: World, environment: WorkflowEnvironment
) -> None:
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund]) as queue:
        allowed, declined = [await a_draft(world, queue, arguments={"number": number}) for number in range(2)]
        await environment.sleep(timedelta(days=2))
        await world.decide(allowed)
        await world.decide(declined, Verdict.DECLINE)
        await asyncio.sleep(0.3)
        assert refunds.calls == []
        await environment.sleep(timedelta(seconds=6))
        answers = [await asyncio.wait_for(world.own(row).result(), 60) for row in (allowed, declined)]
    assert [(answer["status"], answer["outcome"]) for answer in answers] == [("approved", "sent"), ("declined", "none")]
    assert refunds.ids == [allowed.id]


async def test_a_timer_that_fires_before_the_row_is_due_asks_ever_more_slowly(
    world: World, environment: WorkflowEnvironment
) -> None:
    store = world.store.store
    assert isinstance(store, ServerTime)
    handle = await world.ask(an_ask(timeout_s=10))
    await world.row(handle.id)
    await until(lambda: world.desk.posted)
    # The database's clock goes ten minutes after the server's.
    store.behind = timedelta(minutes=10)
    await environment.sleep(timedelta(minutes=9))
    waiting = (await world.events(handle)).count("TIMER_FIRED")
    # 1, 2, 4 .. 60 s: a handful, where one a second would be hundreds.
    assert 5 <= waiting <= 16
    await environment.sleep(timedelta(minutes=3))
    assert (await asyncio.wait_for(handle.result(), 60))["status"] == "expired"
