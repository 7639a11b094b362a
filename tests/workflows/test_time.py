"""Waiting for days, on a server that skips time: what it costs, and what ends it."""

from __future__ import annotations

import asyncio
import shutil
import sysconfig
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import TypeVar

import pytest
from temporalio.testing import WorkflowEnvironment

from core.approvals import Status
from core.ports import Ledger, Store
from tests.workflows.world import Clock, World, a_world, an_ask, serving, until

T = TypeVar("T")


class ServerTime:
    """The store; before each use the clock is set to the Temporal server's time, less `behind`."""

    def __init__(self, environment: WorkflowEnvironment, store: Store, clock: Clock) -> None:
        self.environment, self.store, self.clock = environment, store, clock
        self.behind = timedelta(0)

    async def write(self, work: Callable[[Ledger], T]) -> T:
        await self._set()
        return await self.store.write(work)

    async def read(self, work: Callable[[Ledger], T]) -> T:
        await self._set()
        return await self.store.read(work)

    async def _set(self) -> None:
        self.clock.set = await self.environment.get_current_time() - self.behind


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
