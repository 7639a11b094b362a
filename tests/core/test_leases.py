"""One process holds a lease, and the next has it once the first is gone; two pollers of one bot prove it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import TypeVar

import pytest

from adapters.database import Database
from adapters.migrate import migrate
from bots.telegram import Telegram
from core.approvals import Destination, Press, Reply
from core.buttons import new_token
from core.leases import LASTS, StoredLease
from core.ports import Hooks, Ledger, Store, Unavailable
from tests.adapters.api import TurnedClock
from tests.bots.contract import PLAIN
from tests.bots.telegram_bench import DANA, ID, Chores, telegram
from tests.faulty import Faulty

T = TypeVar("T")
NAME = f"telegram:{ID}"


class Counted:
    """A store that tells how much was written."""

    def __init__(self, store: Store) -> None:
        self.store, self.read, self.writes = store, store.read, 0

    async def write(self, work: Callable[[Ledger], T]) -> T:
        answer = await self.store.write(work)
        self.writes += 1
        return answer

    async def more(self, writes: int) -> None:
        """Wait until so much more was written."""
        wanted = self.writes + writes
        async with asyncio.timeout(10):
            while self.writes < wanted:
                await asyncio.sleep(0.005)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    await migrate(database_url)
    opened = Database.open(database_url)
    yield opened
    await opened.close()


async def test_it_is_given_back_at_the_end_and_the_next_has_it_at_once(database: Database) -> None:
    clock = TurnedClock()
    first, second = (StoredLease(database, clock, NAME) for _ in range(2))
    assert await first.held()
    assert not await second.held()
    assert await StoredLease(database, clock, "telegram:another").held()
    await first.drop()
    assert await second.held()
    assert not await first.held()
    # What it does not hold any more, it cannot give away.
    await first.drop()
    assert not await StoredLease(database, clock, NAME).held()
    await second.drop()


async def test_a_killed_holder_keeps_it_until_it_runs_out(database: Database) -> None:
    clock = TurnedClock()
    killed, next_ = StoredLease(database, clock, NAME), StoredLease(database, clock, NAME)
    assert await killed.held()
    clock.ahead += LASTS - timedelta(seconds=2)
    assert not await next_.held()
    clock.ahead += timedelta(seconds=3)
    assert await next_.held()
    assert not await killed.held()
    await next_.drop()


async def test_it_renews_itself_however_long_its_holder_is_busy(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.leases.RENEWED_EVERY", timedelta(milliseconds=5))
    clock, store = TurnedClock(), Counted(database)
    holder, other = StoredLease(store, clock, NAME), StoredLease(database, clock, NAME)
    assert await holder.held()
    for _ in range(4):
        clock.ahead += LASTS - timedelta(seconds=5)
        await store.more(2)
        assert not await other.held()
    await holder.drop()


async def test_without_the_database_it_is_held_until_it_runs_out_and_then_nobody_knows(database: Database) -> None:
    clock, store = TurnedClock(), Faulty(database)
    holder, other = StoredLease(store, clock, NAME), StoredLease(store, clock, NAME)
    assert await holder.held()
    store.down = True
    clock.ahead += LASTS - timedelta(seconds=2)
    assert await holder.held()
    clock.ahead += timedelta(seconds=3)
    for lease in (holder, other):
        with pytest.raises(Unavailable):
            await lease.held()
    await holder.drop()
    store.down = False
    assert await other.held()
    await other.drop()


async def test_of_two_processes_with_one_token_one_polls_and_the_other_when_that_is_gone(database: Database) -> None:
    clock = TurnedClock()
    taken: list[int] = []
    async with telegram() as setting, AsyncExitStack() as exits:
        setting.world.start(DANA)
        card = await setting.surface.post(Destination("telegram", "", str(DANA), ""), PLAIN, token=new_token())

        def listening(number: int) -> asyncio.Task[None]:
            chores = Chores()
            lease = StoredLease(database, clock, NAME)
            hooks = Hooks(chores, chores, lambda name: lease, chores.groups, chores.language)
            surface = Telegram(setting.settings, hooks, pace=0.01)
            exits.push_async_callback(surface.close)

            async def on_press(press: Press) -> Reply:
                taken.append(number)
                return Reply("Allowed.")

            return asyncio.create_task(surface.listen(on_press))

        async def pressed(times: int) -> None:
            press = setting.world.press(DANA, DANA, int(card.id), label="Allow")
            await setting.world.answer(press, 10)
            assert len(taken) == times

        tasks = {number: listening(number) for number in (1, 2)}
        for times in (1, 2, 3):
            await pressed(times)
        assert len(set(taken)) == 1
        holder, next_ = taken[0], 3 - taken[0]
        tasks[holder].cancel()
        await asyncio.gather(tasks[holder], return_exceptions=True)
        await pressed(4)
        assert taken == [holder] * 3 + [next_]
        tasks[next_].cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        # Telegram ends the older of two polls with a conflict: there was never a second one.
        assert 409 not in [call.status for call in setting.world.calls_of("getUpdates")]
    # Both gave it back.
    assert await StoredLease(database, clock, NAME).held()
