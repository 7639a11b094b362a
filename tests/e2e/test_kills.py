"""What happens when a process is killed in the middle, or started again: nothing is lost, and nothing runs twice."""

from __future__ import annotations

import asyncio

import pytest

from core.approvals import Outcome, Status
from tests.e2e.stack import ARGUMENTS, DANA, GROUP, Stack


@pytest.fixture
def patient_telegram(monkeypatch: pytest.MonkeyPatch) -> None:
    """A press can be answered for two minutes: a loaded machine takes long to start a process again."""
    monkeypatch.setattr("adapters.sandbox.telegram.api.ANSWER_WINDOW_S", 120)


@pytest.mark.usefixtures("patient_telegram")
async def test_s1_s3_s4_restarted_it_takes_the_first_press(on_sqlite: Stack) -> None:
    async with on_sqlite.app():
        asked = await on_sqlite.caller.ask()
        card = await on_sqlite.seen.card()
    # Pressed while nothing runs: the update waits at the platform, and no process remembers the card.
    press = on_sqlite.seen.world.press(DANA, GROUP, card.id, label="Allow")
    async with on_sqlite.app():
        assert (await on_sqlite.seen.world.answer(press, 30)).text.startswith("Allowed.")
        assert (await asyncio.wait_for(asked.result(), 60))["outcome"] == "sent"
        stranger = on_sqlite.seen.world.press(1004, GROUP, card.id, data=press.data)
        assert "answered by" in (await on_sqlite.seen.world.answer(stranger, 15)).text
    assert on_sqlite.caller.ran == [ARGUMENTS]


@pytest.mark.usefixtures("patient_telegram")
async def test_killed_after_admission_and_before_the_commit_the_press_counts_after_the_restart(
    on_sqlite: Stack,
) -> None:
    async with on_sqlite.process("before_the_commit") as first:
        asked = await on_sqlite.caller.ask()
        card = await on_sqlite.seen.card()
        press = on_sqlite.seen.world.press(DANA, GROUP, card.id, label="Allow")
        await first.killed()
    await on_sqlite.forget_claims()
    assert (await on_sqlite.row()).status is Status.PENDING
    async with on_sqlite.process():
        assert (await on_sqlite.seen.world.answer(press, 30)).text.startswith("Allowed.")
        assert (await asyncio.wait_for(asked.result(), 60))["outcome"] == "sent"
        await on_sqlite.seen.settled(card, "Done.")
    assert on_sqlite.caller.ran == [ARGUMENTS]


@pytest.mark.usefixtures("patient_telegram")
async def test_killed_after_the_commit_and_before_the_nudge_the_call_runs_once(on_sqlite: Stack) -> None:
    async with on_sqlite.process("before_the_nudge") as first:
        asked = await on_sqlite.caller.ask()
        card = await on_sqlite.seen.card()
        press = on_sqlite.seen.world.press(DANA, GROUP, card.id, label="Allow")
        await first.killed()
    await on_sqlite.forget_claims()
    row = await on_sqlite.row()
    assert (row.status, row.outcome) == (Status.APPROVED, Outcome.NONE)
    async with on_sqlite.process():
        # Telegram delivers the unconfirmed press again: it is the same one, and gets the same answer.
        assert (await on_sqlite.seen.world.answer(press, 30)).text.startswith("Allowed.")
        assert (await asyncio.wait_for(asked.result(), 60))["outcome"] == "sent"
        await on_sqlite.seen.settled(card, "Done.")
    assert on_sqlite.caller.ran == [ARGUMENTS]
    assert [line.action for line in await on_sqlite.audit(row)] == ["opened", "allow", "claimed", "sent"]


@pytest.mark.parametrize("point", ["after_the_claim", "before_the_outcome"])
async def test_killed_between_claim_and_outcome_the_call_never_runs_twice(on_sqlite: Stack, point: str) -> None:
    async with on_sqlite.process(point) as first:
        asked = await on_sqlite.caller.ask()
        card = await on_sqlite.seen.card()
        await on_sqlite.seen.press(card, "Allow")
        await first.killed()
    await on_sqlite.forget_claims()
    assert (await on_sqlite.row()).outcome is Outcome.SENDING
    async with on_sqlite.process():
        answer = await asyncio.wait_for(asked.result(), 90)
        assert answer["outcome"] == "sent"
        await on_sqlite.seen.settled(card, "Done.", timeout=60)
    assert on_sqlite.caller.ran == [ARGUMENTS]


async def test_killed_between_a_card_and_its_message_id_the_orphan_copy_works_too(on_sqlite: Stack) -> None:
    async with on_sqlite.process("before_the_message_id") as first:
        asked = await on_sqlite.caller.ask()
        orphan = await on_sqlite.seen.card()
        await first.killed()
    await on_sqlite.forget_claims()
    async with on_sqlite.process():
        # The token of the copy was stored before it was sent, so its buttons are good.
        told = await on_sqlite.seen.press(orphan, "Allow", timeout=60)
        assert told.startswith("Allowed.")
        assert (await asyncio.wait_for(asked.result(), 60))["outcome"] == "sent"
        settled = await on_sqlite.seen.settled(orphan, "Allowed by Dana Reyes")
        assert not settled.labels
    assert on_sqlite.caller.ran == [ARGUMENTS]
