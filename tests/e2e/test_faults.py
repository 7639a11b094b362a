"""What happens when a part that Placet stands on, or a chat platform, is away or slow."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from adapters.embedded import Embedded
from core.approvals import Status
from tests.e2e.stack import ARGUMENTS, DANA, GROUP, OLA, Servers, Stack, eventually, servers_in, stack, words
from tests.services import PostgresServer


@pytest.fixture
async def alone(tmp_path: Path, sqlite_url: str) -> AsyncIterator[Stack]:
    """A stack whose servers can be stopped."""
    async with servers_in(tmp_path) as own, stack(tmp_path, sqlite_url, own) as made:
        yield made


@asynccontextmanager
async def on_postgres(folder: Path, servers: Servers) -> AsyncIterator[tuple[Stack, PostgresServer]]:
    """A stack over a PostgreSQL server of its own, which can be stopped."""
    with tempfile.TemporaryDirectory(prefix="placet-tests-") as own:
        server = PostgresServer(Path(own))
        await server.start()
        try:
            async with stack(folder, server.url(await server.create_database()), servers) as made:
                yield made, server
        finally:
            await server.stop()


async def test_with_temporal_stopped_a_press_is_answered_and_the_call_runs_when_it_returns(alone: Stack) -> None:
    async with alone.app():
        asked = await alone.caller.ask()
        card = await alone.seen.card()
        await alone.temporal.stop()
        told = await alone.seen.press(card, "Allow")
        assert told.startswith("Allowed.")
        assert (await alone.row()).status is Status.APPROVED
        await alone.seen.settled(card, "Allowed by Dana Reyes")
        assert alone.caller.ran == []
        await alone.temporal.start()
        answer = await asyncio.wait_for(asked.result(), 60)
        assert answer["outcome"] == "sent"
        assert alone.caller.ran == [ARGUMENTS]


async def test_with_redis_stopped_presses_decide_once(alone: Stack) -> None:
    async with alone.app():
        asked = await alone.caller.ask()
        card = await alone.seen.card()
        await alone.valkey.stop()
        presses = [alone.seen.world.press(DANA, GROUP, card.id, label="Allow") for _ in range(3)]
        told = {(await alone.seen.world.answer(press, 15)).text for press in presses}
        assert len(told) == 1
        assert (await asyncio.wait_for(asked.result(), 60))["outcome"] == "sent"
        assert alone.caller.ran == [ARGUMENTS]
        await alone.seen.settled(card, "Done.", timeout=60)
        actions = [line.action for line in await alone.audit(await alone.row())]
        assert actions == ["opened", "allow", "claimed", "sent"]


async def test_with_the_database_stopped_the_press_counts_when_it_is_back(tmp_path: Path, servers: Servers) -> None:
    async with on_postgres(tmp_path, servers) as (whole, server), whole.app():
        asked = await whole.caller.ask()
        card = await whole.seen.card()
        await server.stop()
        press = whole.seen.world.press(DANA, GROUP, card.id, label="Allow")
        told = await whole.seen.world.answer(press, 30)
        assert "cannot save answers" in told.text
        pending = whole.seen.world.pending(whole.seen.world.bots[press.bot])
        assert [update.id for update in pending] == [press.update_id], "the update was confirmed to Telegram"
        await server.start()
        answer = await asyncio.wait_for(asked.result(), 90)
        assert answer["status"] == "approved"
        assert whole.caller.ran == [ARGUMENTS]
        await whole.seen.settled(card, "Done.", timeout=60)

        async def confirmed() -> bool:
            return not whole.seen.world.pending(whole.seen.world.bots[press.bot])

        await eventually(confirmed)


async def test_t1_t2_with_telegram_refusing_the_row_stays_pending_and_says_undeliverable(on_sqlite: Stack) -> None:
    on_sqlite.seen.world.fail("sendMessage", status=400, description="Bad Request: message is too strange", times=None)
    async with on_sqlite.app():
        await on_sqlite.caller.ask(arguments=ARGUMENTS | {"note": "x" * 5000})
        row = await on_sqlite.until(lambda row: row.undeliverable is not None)
        assert row.status is Status.PENDING
        assert on_sqlite.caller.ran == []


async def test_with_telegram_answering_500_and_429_nothing_is_lost_and_nothing_floods(on_sqlite: Stack) -> None:
    world = on_sqlite.seen.world
    world.fail("sendMessage", status=500, times=2)
    world.fail("sendMessage", retry_after=3, times=1)
    async with on_sqlite.app():
        asked = await on_sqlite.caller.ask()
        undelivered = await on_sqlite.until(lambda row: row.undeliverable is not None)
        assert undelivered.status is Status.PENDING
        card = await on_sqlite.seen.card(timeout=60)
        assert (await on_sqlite.until(lambda row: row.undeliverable is None)).pending
        assert len(world.calls_of("sendMessage", chat=GROUP)) <= 5
        world.fail("editMessageText", retry_after=2, times=1)
        world.fail("answerCallbackQuery", status=500, times=1)
        press = world.press(DANA, GROUP, card.id, label="Allow")
        assert (await asyncio.wait_for(asked.result(), 60))["outcome"] == "sent"
        await on_sqlite.seen.settled(card, "Done.", timeout=60)
        assert len(world.calls_of("editMessageText", chat=GROUP)) <= 6
        assert press.data
        assert len(on_sqlite.seen.cards()) == 1


async def test_t6_an_answer_that_comes_too_late_for_telegram_leaves_the_decision_standing(on_sqlite: Stack) -> None:
    async with on_sqlite.app():
        asked = await on_sqlite.caller.ask()
        card = await on_sqlite.seen.card()
        on_sqlite.seen.world.fail(
            "answerCallbackQuery", status=400,
            description="Bad Request: query is too old and response timeout expired or query ID is invalid",
        )  # fmt: skip
        on_sqlite.seen.world.press(DANA, GROUP, card.id, label="Allow")
        assert (await asyncio.wait_for(asked.result(), 60))["outcome"] == "sent"
        await on_sqlite.seen.settled(card, "Done.")


async def test_t10_a_redraw_waits_its_429_out_and_decisions_do_not_wait_for_it(on_sqlite: Stack) -> None:
    async with on_sqlite.app():
        first = await on_sqlite.caller.ask()
        card = await on_sqlite.seen.card()
        on_sqlite.seen.world.fail("editMessageText", retry_after=8, times=1)
        began = datetime.now(UTC)
        await on_sqlite.seen.press(card, "Allow")
        await asyncio.wait_for(first.result(), 30)
        decided = await on_sqlite.decided(Status.APPROVED)
        assert decided.decided_at is not None
        assert on_sqlite.seen.group.message(card.id).labels, "the card was redrawn before its time"
        await on_sqlite.seen.settled(card, "Done.", timeout=60)
        assert (datetime.now(UTC) - began).total_seconds() >= 8
        assert len(on_sqlite.seen.world.calls_of("editMessageText", chat=GROUP)) <= 4


async def test_a_lost_nudge_is_made_up_for_by_the_sweep(on_sqlite: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(*_: object) -> None: ...

    async with on_sqlite.app() as app:
        asked = await on_sqlite.caller.ask()
        card = await on_sqlite.seen.card()
        ring = app.approvals.bell.ring
        monkeypatch.setattr(app.approvals.bell, "ring", lost)
        await on_sqlite.seen.press(card, "Allow")
        decided = (await on_sqlite.decided(Status.APPROVED)).decided_at
        assert decided is not None
        await app.approvals.close()
        monkeypatch.setattr(app.approvals.bell, "ring", ring)
        await asyncio.wait_for(asked.result(), 60)
        claimed = (await on_sqlite.row()).claimed_at
        assert claimed is not None
        assert (claimed - decided).total_seconds() <= 40


async def test_a_call_that_breaks_off_is_unknown_and_never_repeated(on_sqlite: Stack) -> None:
    on_sqlite.caller.hold = asyncio.Event()
    async with on_sqlite.app():
        run = {"activity": "refund", "task_queue": "billing", "start_to_close_s": 3}
        asked = await on_sqlite.caller.ask(run=run)
        card = await on_sqlite.seen.card()
        await on_sqlite.seen.press(card, "Allow")
        answer = await asyncio.wait_for(asked.result(), 60)
        assert (answer["status"], answer["outcome"]) == ("approved", "unknown")
        assert "Do not repeat it unasked." in answer["text"]
        settled = await on_sqlite.seen.settled(card, "may")
        assert "Done" not in words(settled.text)
        on_sqlite.caller.hold.set()
        on_sqlite.caller.hold = None
        again = await on_sqlite.caller.ask()
        await on_sqlite.seen.press(await on_sqlite.seen.card(number=2), "Decline", by=OLA)
        await asyncio.wait_for(again.result(), 60)
    assert on_sqlite.caller.ran == [ARGUMENTS]


@pytest.mark.parametrize("name", ["temporal", "valkey-server"])
async def test_with_an_embedded_server_killed_what_was_asked_before_and_after_is_decided_and_runs(
    tmp_path: Path, sqlite_url: str, name: str
) -> None:
    async with Embedded(tmp_path / "servers") as own:
        assert own.temporal is not None
        assert own.redis is not None
        async with stack(tmp_path, sqlite_url, (own.temporal, own.redis)) as whole, whole.app():
            before = await whole.caller.ask()
            card = await whole.seen.card()
            family = [each for each in psutil.Process().children(recursive=True) if each.name() == name]
            (server,) = [each for each in family if Path(each.cwd()).is_relative_to(own.data_dir)]
            server.kill()
            told = await whole.seen.press(card, "Allow")
            assert told.startswith("Allowed.")
            after = await whole.caller.ask()
            await whole.seen.press(await whole.seen.card(number=2), "Allow")
            for asked in (before, after):
                assert (await asyncio.wait_for(asked.result(), 60))["outcome"] == "sent"
            assert whole.caller.ran == [ARGUMENTS, ARGUMENTS]
