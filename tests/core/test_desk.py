"""Cards, presses and replies as people meet them: the door and the desk over the real library and a real database."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from adapters.sandbox.telegram.records import Message as Kept
from core.approvals import Actor, Approval, Outcome, Status, Verdict
from core.asks import read_ask
from core.commands import ChatCommands
from core.people import Refusal
from core.ports import Slow, Unavailable
from core.service import Opened, Origin
from core.wording import say
from tests.core.office import BOT, DANA, DIRECTORY, EVE, FORUM, GROUP, OLA, PAT, SMALL, STRANGER, TOPIC, Office, office

HUGE = {"charge": "ch_1", "text": "refund " + "x" * 9000 + " the-end"}


@pytest.fixture
async def here(sqlite_url: str) -> AsyncIterator[Office]:
    async with office(sqlite_url) as opened:
        yield opened


# Races


async def test_r1_a_double_press_of_decline_two_seconds_apart(here: Office) -> None:
    approval, card = await here.card()
    data = card.buttons[0][1].data
    first = await here.told(here.press(card, "Decline"))
    await here.settled(card, "Declined by Dana Reyes")
    here.clock.ahead += timedelta(seconds=2)
    second = await here.told(here.press(card, data=data))
    assert second == first
    await here.confirmed()
    await here.desk.close()
    await here.approvals.close()
    assert [line.action for line in await here.audit(approval)] == ["opened", "decline"]
    assert here.bell.ids == [approval.id]
    assert here.edits(card) == 1


async def test_a_note_after_the_decision_is_told_that_it_came_too_late(here: Office) -> None:
    approval, card = await here.card()
    await here.told(here.press(card, "Decline"))
    await here.settled(card, "Declined by Dana Reyes")
    answer = await here.answered(here.say("Use the other account", to=card))
    assert answer.text.startswith("Already decided: declined by Dana Reyes")
    assert (await here.row(approval)).note is None


async def test_r3_an_unknown_token_resolves_nothing(here: Office) -> None:
    one, first = await here.card()
    two, second = await here.card()
    assert (await here.told(here.press(second, "Decline"))).startswith("Declined.")
    assert "do not know this card" in await here.told(here.press(first, data="a.AAAAAAAAAAAAAAAA.1"))
    assert ((await here.row(one)).status, (await here.row(two)).status) == (Status.PENDING, Status.DECLINED)
    assert first.labels


async def test_r4_three_opened_concurrently_by_one_run_are_three_cards(here: Office) -> None:
    rows = await asyncio.gather(*(here.ask(run_id="run-7", call_id="call-1") for _ in range(3)))
    assert await asyncio.gather(*(here.post(row) for row in rows)) == [["posted"]] * 3
    assert len({row.id for row in rows}) == 3
    cards = here.cards()
    assert len(cards) == 3
    assert (await here.told(here.press(cards[1], "Decline"))).startswith("Declined.")
    assert sorted([(await here.row(row)).status for row in rows]) == ["declined", "pending", "pending"]


# Stale and expired


async def test_s2_a_press_on_an_expired_card_that_nobody_had_noticed(here: Office) -> None:
    approval, card = await here.card(timeout_s=60)
    here.clock.ahead = timedelta(minutes=5)
    press = here.press(card, "Allow")
    answer = await here.world.answer(press)
    assert answer.alert
    assert "nobody decided in time" in answer.text
    await here.settled(card, "Expired")
    await here.confirmed()
    assert (await here.row(approval)).status is Status.EXPIRED
    assert [line.action for line in await here.audit(approval)] == ["opened", "expired"]
    # Confirmed once, Telegram never tells it again.
    assert not here.world.pending(here.world.bots[press.bot])


@pytest.mark.parametrize(("late", "status"), [(-1, Status.APPROVED), (1, Status.EXPIRED)])
async def test_s5_the_press_at_61_seconds_is_too_late_whatever_has_not_noticed(
    here: Office, late: int, status: Status
) -> None:
    approval, card = await here.card(timeout_s=60)
    here.clock.ahead = timedelta(seconds=60 + late)
    told = await here.told(here.press(card, "Allow"))
    assert told.startswith("Allowed." if late < 0 else "Too late: nobody decided in time")
    assert (await here.row(approval)).status is status


async def test_s7_no_list_offers_an_expired_row_however_many_there_are(here: Office) -> None:
    waits = await here.ask()
    for _ in range(210):
        await here.ask(timeout_s=10)
    here.clock.ahead = timedelta(seconds=11)
    assert [row.id for row in await here.approvals.rows(status=Status.PENDING)] == [waits.id]


async def test_what_waits_for_others_hides_nothing_of_what_waits_for_somebody(
    here: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.commands.AT_ONCE", 3)
    two = DIRECTORY.replace("routes:\n", "  other: {owner: kim}\nroutes:\n")
    await here.apply(two % f"telegram:{GROUP}")
    for _ in range(7):
        await here.ask(agent="other", timeout_s=600)
    for number in (1, 2):
        await here.ask(timeout_s=3600, presentation={"title": f"Title {number}"})
    told = (await ChatCommands(here.approvals, here.desk).pending(Actor("telegram", "", str(DANA)))).text
    assert "Title 1" in told
    assert "Title 2" in told


async def test_s10_a_row_settled_before_its_card_gets_none(here: Office) -> None:
    for settle in ("withdraw", "expire"):
        approval = await here.ask(timeout_s=60)
        if settle == "withdraw":
            await here.approvals.withdraw(approval.id, by="asker")
        else:
            here.clock.ahead = timedelta(seconds=61)
        assert await here.post(approval) == ["final"]
    assert here.cards() == []


async def test_s10_a_row_settled_while_its_card_is_on_its_way_has_no_live_buttons(here: Office) -> None:
    approval = await here.ask()
    here.world.delay("sendMessage", 0.3)
    posting = asyncio.create_task(here.post(approval))
    await here.until(lambda: here.world.calls_of("sendMessage") or None)
    await here.approvals.withdraw(approval.id, by="asker")
    assert await posting == ["posted"]
    (card,) = here.cards()
    await here.settled(card, "Withdrawn")


# Telegram


async def test_t2_a_send_that_fails_is_undeliverable_and_neither_declined_nor_lost(here: Office) -> None:
    approval = await here.ask()
    here.world.fail("sendMessage", status=500)
    with pytest.raises(Unavailable):
        await here.post(approval)
    row = await here.row(approval)
    assert (row.status, row.undeliverable) == (Status.PENDING, "Telegram cannot be reached; it is tried again")
    assert await here.post(approval) == ["posted"]
    assert (await here.row(approval)).undeliverable is None
    assert (await here.told(here.press(here.cards()[0], "Allow"))).startswith("Allowed.")


async def test_t7_everything_about_an_approval_stays_in_its_topic(sqlite_url: str) -> None:
    async with office(sqlite_url, chat=FORUM, place=f"telegram:{FORUM}/{TOPIC}") as here:
        before = len(here.seen().messages)
        approval, card = await here.card(arguments=HUGE)
        await here.told(here.press(card, "Decline with a note"))
        prompt = await here.prompt()
        await here.desk.remind(approval.id)
        note = here.say("Not today", to=prompt)
        answer = await here.answered(note)
        await here.settled(card, "Ola" if note.sender == OLA else "Dana Reyes")
        assert "gets your note" in answer.text
        of_bot = here.seen().messages[before:]
        assert {message.thread for message in of_bot} == {TOPIC}
        # Card, file, prompt, reminder, the note and its answer.
        assert len(of_bot) == 6
        row = await here.row(approval)
        assert (row.status, row.note, row.by_message) == (Status.DECLINED, "Not today", False)


async def test_t9_a_deleted_topic_is_noticed_and_the_next_place_still_gets_the_card(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with office(sqlite_url, place=f'telegram:{FORUM}/{TOPIC}", "telegram:{GROUP}') as here:
        here.world.delete_topic(FORUM, TOPIC)
        approval = await here.ask()
        assert await here.post(approval) == ["failed", "posted"]
        assert "post failed" in caplog.messages
        rows = await here.store.read(lambda ledger: ledger.posted_for(approval.id))
        gone = next(row for row in rows if row.chat == str(FORUM))
        assert gone.failed == "the chat or topic no longer exists, or the bot may not write there"
        assert (await here.row(approval)).undeliverable is None
        assert (await here.told(here.press(here.cards()[0], "Allow"))).startswith("Allowed.")


async def test_t12_one_card_where_two_may_answer_and_the_route_names_one_chat(here: Office) -> None:
    _, card = await here.card()
    assert [message.id for message in here.cards()] == [card.id]
    assert (await here.told(here.press(card, "Decline", by=OLA))).startswith("Declined.")


async def test_t13_two_that_post_the_same_card_at_once_post_one(here: Office) -> None:
    approval = await here.ask()
    here.world.delay("sendMessage", 0.2)
    done = await asyncio.gather(*(here.post(approval) for _ in range(4)), return_exceptions=True)
    assert [each for each in done if not isinstance(each, Slow)] == [["posted"]]
    assert await here.post(approval) == ["posted"]
    assert len(here.cards()) == 1


async def test_t10_a_chat_that_must_wait_holds_back_no_card_of_another(here: Office) -> None:
    first = f'- {{match: {{agent: billing, tool: refund.small}}, ask: [dana], at: ["telegram:{SMALL}"]}}'
    await here.apply((DIRECTORY % f"telegram:{here.chat}").replace("routes:", f"routes:\n  {first}"))
    crowd = [(await here.card())[1] for _ in range(10)]
    approval = await here.ask(tool="refund.small")
    assert await here.post(approval) == ["posted"]
    card = here.world.chat(SMALL).last("refund")
    here.world.fail("editMessageText", retry_after=33, times=None, chat=here.chat)
    for each in crowd:
        assert (await here.told(here.press(each, "Decline"))).startswith("Declined.")
    await here.until(lambda: here.world.calls_of("editMessageText", chat=here.chat) or None)
    assert (await here.told(here.press(card, "Decline", chat=SMALL))).startswith("Declined.")
    await here.settled(card, "Declined by Dana Reyes", chat=SMALL)
    # Nothing floods: one card was tried, and all wait.
    assert len(here.world.calls_of("editMessageText", chat=here.chat)) == 1


async def test_t10_after_its_wait_a_card_is_drawn(here: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    # So that a second is more than the surface itself waits.
    monkeypatch.setattr("bots.pacing.PATIENCE_S", 0.5)
    approval, card = await here.card()
    here.world.fail("editMessageText", retry_after=1, times=1)
    pressed = asyncio.get_running_loop().time()
    assert (await here.told(here.press(card, "Decline"))).startswith("Declined.")
    assert (await here.row(approval)).status is Status.DECLINED
    await here.settled(card, "Declined by Dana Reyes")
    assert asyncio.get_running_loop().time() - pressed >= 1


# People


async def test_l1_with_no_approver_at_all_nobody_may_press(here: Office) -> None:
    approval, card = await here.card()
    await here.apply(DIRECTORY.partition("routes:")[0].replace(", approvals:answer]", "]"))
    for who in (DANA, OLA, EVE, PAT, STRANGER):
        for label in ("Allow", "Decline", "Decline with a note"):
            told = await here.told(here.press(card, label, by=who))
            assert "nobody at present" in told or "linked to nobody" in told
    said = here.say("no", to=card)
    assert "nobody at present" in (await here.answered(said)).text
    assert await here.row(approval) == approval
    for person in ("dana", "ola", "eve", "pat", "kim"):
        refused = await here.approvals.decide(
            approval.id, person, Verdict.ALLOW, content_revision=1, note=None, key=person, via="cli"
        )
        assert isinstance(refused, Refusal)


async def test_l2_who_may_not_answer_is_told_by_whom_and_changes_nothing(here: Office) -> None:
    approval, card = await here.card()
    for who in (EVE, PAT, STRANGER):
        told = await here.told(here.press(card, "Allow", by=who))
        assert ("linked to nobody" if who == STRANGER else "by Dana Reyes, Ola Berg, Kim Sato") in told
        said = here.say("no, never", to=card, by=who)
        assert (await here.answered(said)).text == told
    assert await here.row(approval) == approval
    assert [line.action for line in await here.audit(approval)] == ["opened"]


async def test_s3_the_first_press_counts_and_the_stranger_is_told_why_not(here: Office) -> None:
    _, card = await here.card()
    data = card.buttons[0][0].data
    assert (await here.told(here.press(card, "Allow"))).startswith("Allowed.")
    await here.settled(card, "Allowed by Dana Reyes")
    assert "linked to nobody" in await here.told(here.press(card, data=data, by=STRANGER))


async def test_an_anonymous_administrator_presses_as_himself_and_cannot_type(here: Office) -> None:
    approval, card = await here.card()
    here.world.make_anonymous(DANA, here.chat)
    said = here.say("Not before Friday", to=card)
    assert "post anonymously" in (await here.answered(said)).text
    assert (await here.row(approval)).pending
    assert (await here.told(here.press(card, "Decline"))).startswith("Declined.")
    assert (await here.row(approval)).decided_by == "dana"


async def test_one_card_of_anothers_chat_decides_nothing(here: Office) -> None:
    approval, card = await here.card()
    data = card.buttons[0][0].data
    elsewhere = here.world.press(DANA, SMALL, 1, data=data)
    assert "card in another chat" in await here.told(elsewhere)
    assert (await here.row(approval)).pending


# What must be seen before Allow


async def without_its_file(here: Office) -> tuple[Approval, Kept]:
    """A call whose card stands, while its file could not be sent."""
    approval = await here.ask(arguments=HUGE)
    here.world.fail("sendDocument", status=500)
    with pytest.raises(Unavailable):
        await here.post(approval)
    (card,) = here.cards()
    return approval, card


async def test_allow_is_refused_until_the_file_is_attached(here: Office) -> None:
    approval, card = await without_its_file(here)
    assert here.files() == []
    assert "still being attached" in await here.told(here.press(card, "Allow"))
    assert (await here.row(approval)).pending
    assert await here.post(approval) == ["posted"]
    (file,) = here.files()
    assert "the-end" in file
    assert len(here.cards()) == 1
    assert (await here.told(here.press(card, "Allow"))).startswith("Allowed.")
    settled = await here.settled(card, "Allowed by Dana Reyes")
    assert settled.text.count("x") < 4096


async def test_a_card_that_is_answered_while_its_file_comes_late_is_redrawn(here: Office) -> None:
    approval, card = await without_its_file(here)
    here.world.delay("sendDocument", 0.3)
    failed = len(here.world.calls_of("sendDocument"))
    posting = asyncio.create_task(here.post(approval))
    await here.until(lambda: here.world.calls_of("sendDocument")[failed:] or None)
    assert (await here.told(here.press(card, "Decline"))).startswith("Declined.")
    assert await posting == ["posted"]
    await here.settled(card, "Declined by Dana Reyes")


async def test_a_file_that_telegram_refuses_leaves_the_row_undeliverable_and_declinable(here: Office) -> None:
    approval = await here.ask(arguments=HUGE)
    here.world.fail("sendDocument", status=400, description="Bad Request: file is odd")
    await here.post(approval)
    (card,) = here.cards()
    assert "the file that must be attached" in str((await here.row(approval)).undeliverable)
    assert "still being attached" in await here.told(here.press(card, "Allow"))
    assert (await here.told(here.press(card, "Decline"))).startswith("Declined.")


async def test_a_redraw_at_the_wrong_moment_does_not_cost_the_file(here: Office) -> None:
    """While another holds the card, the file waits for its turn instead of being left out for good."""
    approval = await here.ask(arguments=HUGE)
    here.world.fail("sendDocument", status=500)
    with pytest.raises(Unavailable):
        await here.post(approval)
    (posted,) = await here.store.read(lambda ledger: ledger.posted_for(approval.id))
    now = here.clock.now()
    await here.store.write(lambda ledger: ledger.take_redraw(posted.id, "other", now, now + timedelta(seconds=30)))
    with pytest.raises(Slow):
        await here.post(approval)
    await here.store.write(lambda ledger: ledger.mark(posted.id, claim="other", claim_until=None))
    assert await here.post(approval) == ["posted"]
    assert len(here.files()) == 1


# A group that moves


@pytest.mark.parametrize("pressed_in", ["old", "new"])
async def test_a_group_that_migrates_while_a_card_waits(sqlite_url: str, pressed_in: str) -> None:
    async with office(sqlite_url, chat=SMALL) as here:
        approval, card = await here.card()
        data = card.buttons[0][0].data
        to = here.world.migrate(SMALL)
        await here.confirmed()
        if pressed_in == "old":
            press = here.press(card, "Allow")
        else:
            press = here.world.press(DANA, to, 1000 + card.id, data=data)
        assert (await here.told(press)).startswith("Allowed.")
        assert (await here.row(approval)).status is Status.APPROVED
        await here.until(lambda: here.world.calls_of("editMessageText", chat=to) or None)
        # What is asked next goes straight to the new chat, although the route names the old one.
        later = await here.ask()
        assert await here.post(later) == ["posted"]
        assert here.world.chat(to).last("refund").labels


async def test_t13_a_card_that_moved_is_not_posted_again(sqlite_url: str) -> None:
    async with office(sqlite_url, chat=SMALL) as here:
        approval = await here.ask(arguments=HUGE)
        to = here.world.migrate(SMALL)
        here.world.fail("sendDocument", status=500)
        with pytest.raises(Unavailable):
            await here.post(approval)
        assert await here.post(approval) == ["posted"]
        moved = here.world.chat(to).messages
        assert [bool(message.labels) for message in moved if message.sender == BOT] == [True, False]


@pytest.mark.parametrize("step", ["file", "reminder"])
async def test_what_follows_a_card_follows_the_chat_too(sqlite_url: str, step: str) -> None:
    async with office(sqlite_url, chat=SMALL) as here:
        approval = await here.ask(arguments=HUGE)
        if step == "file":
            here.world.fail("sendDocument", status=500)
            with pytest.raises(Unavailable):
                await here.post(approval)
        else:
            assert await here.post(approval) == ["posted"]
        # Nobody tells the bot of the move: it learns it from the next call.
        here.world.bots[BOT].allowed = ["callback_query"]
        to = here.world.migrate(SMALL)
        if step == "file":
            assert await here.post(approval) == ["posted"]
            assert any(message.document for message in here.world.chat(to).messages)
        else:
            await here.desk.remind(approval.id)
            assert here.world.chat(to).last("Still waiting")


async def test_what_is_at_hand_is_drawn_before_a_process_ends(here: Office) -> None:
    approval, card = await here.card()
    here.world.delay("editMessageText", 0.1)
    await here.approvals.withdraw(approval.id, by="asker")
    here.desk.start_redraw(approval.id)
    await here.desk.close()
    assert "Withdrawn" in here.seen().message(card.id).text


async def test_a_process_ends_at_once_when_a_chat_has_to_wait(here: Office) -> None:
    approval, _ = await here.card()
    here.world.fail("editMessageText", retry_after=33, times=None, chat=here.chat)
    await here.approvals.withdraw(approval.id, by="asker")
    here.desk.start_redraw(approval.id)
    async with asyncio.timeout(2):
        await here.desk.close()
    assert here.world.calls_of("editMessageText")


async def test_what_fails_in_one_place_is_not_said_of_a_call_whose_card_came_to_stand_in_another(here: Office) -> None:
    approval, _ = await here.card()
    await here.approvals.mark_undeliverable(approval.id, "the chat is gone", unless_seen=True)
    assert (await here.row(approval)).undeliverable is None


# The database goes away


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The desk asks again soon."""
    monkeypatch.setattr("core.desk.FIRST_PAUSE_S", 0.02)


async def posted_by_a_workflow(here: Office, approval: Approval) -> list[str]:
    """Posted, with another try after each fault; a Slow would say wrongly that somebody else is at it."""
    for _ in range(3):
        with suppress(Unavailable):
            return await here.post(approval)
    raise AssertionError("not posted in three tries")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("fault", ["before", "after"])
@pytest.mark.parametrize("write", range(2), ids=["taking", "saving"])
async def test_a_redraw_whose_write_failed_holds_back_no_later_one(here: Office, write: int, fault: str) -> None:
    approval, card = await here.card()
    await here.approvals.mark_undeliverable(approval.id, "somebody left")
    here.line.faults = [""] * write + [fault]
    here.desk.start_redraw(approval.id)
    await here.line.broke()
    await here.approvals.withdraw(approval.id, by="asker")
    here.desk.start_redraw(approval.id)
    await here.settled(card, "Withdrawn")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("cut", ["before", "in the middle"])
async def test_a_card_shows_the_row_as_soon_as_the_database_is_back(here: Office, cut: str) -> None:
    approval, card = await here.card()
    await here.approvals.mark_undeliverable(approval.id, "somebody left")
    here.world.delay("editMessageText", 0.1)
    here.line.down = cut == "before"
    here.desk.start_redraw(approval.id)
    if cut == "in the middle":
        await here.until(lambda: here.world.calls_of("editMessageText") or None)
        here.line.down = True
    await here.line.broke(times=3)
    here.line.down = False
    await here.approvals.withdraw(approval.id, by="asker")
    here.desk.start_redraw(approval.id)
    await here.settled(card, "Withdrawn")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("fault", ["before", "after"])
@pytest.mark.parametrize("write", range(6), ids=["reserving", "saving", "clearing", "taking", "noting", "attaching"])
async def test_a_post_whose_write_failed_is_one_card_with_one_file(here: Office, write: int, fault: str) -> None:
    approval = await here.ask(arguments=HUGE)
    here.line.faults = [""] * write + [fault]
    assert await posted_by_a_workflow(here, approval) == ["posted"]
    await here.line.broke()
    (card,) = here.cards()
    assert len(here.files()) == 1
    assert (await here.told(here.press(card, "Allow"))).startswith("Allowed.")
    await here.settled(card, "Allowed by Dana Reyes")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("fault", ["before", "after"])
async def test_a_post_that_could_not_give_its_claim_back_is_tried_again_at_once(here: Office, fault: str) -> None:
    approval = await here.ask()
    here.world.fail("sendMessage", status=500)
    here.line.faults = ["", fault]
    assert await posted_by_a_workflow(here, approval) == ["posted"]
    await here.line.broke()
    assert len(here.cards()) == 1


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("fault", ["before", "after"])
@pytest.mark.parametrize("write", range(3), ids=["reserving", "saving", "marking"])
async def test_a_reminder_whose_write_failed_is_sent_once(here: Office, write: int, fault: str) -> None:
    approval, _ = await here.card()
    here.line.faults = [""] * write + [fault]
    for _ in range(2):
        with suppress(Unavailable):
            await here.desk.remind(approval.id)
    await here.line.broke()
    assert sum("Still waiting" in message.text for message in here.seen().messages) == 1
    assert (await here.row(approval)).reminded_at is not None


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("fault", ["before", "after"])
async def test_a_prompt_whose_write_failed_takes_the_note_all_the_same(here: Office, fault: str) -> None:
    approval, card = await here.card()
    here.line.faults = [fault]
    await here.told(here.press(card, "Decline with a note"))
    prompt = await here.prompt()
    await here.line.broke()
    await here.answered(here.say("Use the other account", to=prompt))
    assert (await here.row(approval)).note == "Use the other account"
    await here.settled(card, "Use the other account")


# Secrets and words


async def test_w3_no_chat_shows_a_secret_and_what_runs_is_unchanged(here: Office) -> None:
    secret = "sk-live-0123456789abcdef"
    arguments = {"command": f'curl -H "Authorization: Bearer {secret}" https://x.example', "pad": HUGE["text"]}
    approval, card = await here.card(arguments=arguments | {"api_key": secret})
    assert await here.told(here.press(card, "Allow"))
    await here.settled(card, "Allowed by")
    shown = [message.text for message in here.seen().messages] + here.files()
    assert len(here.files()) == 1
    assert any("Authorization" in text for text in shown)
    assert not any(secret in text for text in shown)
    taken = await here.approvals.take(approval.id, "run")
    assert taken is not None
    assert secret in taken.approval.final_arguments


async def test_w5_the_settled_card_shows_what_was_asked_who_answered_and_when(here: Office) -> None:
    _, card = await here.card()
    before = card.text
    said = here.say("Use the other account", to=card, by=OLA)
    await here.answered(said)
    settled = await here.settled(card, "Ola Berg replied: Use the other account")
    assert "UTC" in settled.text.rpartition("Content")[2]
    assert settled.text.startswith(before.partition("Content")[0])


async def test_s9_expiry_is_not_a_refusal_on_the_card(here: Office) -> None:
    approval, card = await here.card(timeout_s=60)
    here.clock.ahead = timedelta(seconds=61)
    assert await here.approvals.expire_due() == 1
    text = (await here.settled(card, "nobody decided in time")).text
    assert "Declined" not in text
    row = await here.row(approval)
    assert (row.status, row.outcome, row.decided_by) == (Status.EXPIRED, Outcome.NONE, None)


async def test_a_note_of_nothing_that_can_be_seen_decides_nothing(here: Office) -> None:
    approval, _ = await here.card()
    for note in (" \x00 ", "\x00"):
        refused = await here.approvals.decide(
            approval.id, "dana", Verdict.DECLINE, content_revision=1, note=note, key="k", via="http"
        )
        assert not isinstance(refused, Refusal)
        assert refused.note is None


# Time


async def test_s8_the_route_may_give_more_time_than_the_default_and_the_shorter_of_two_holds(here: Office) -> None:
    async def lifetime(**fields: int) -> timedelta:
        row = await here.ask(**fields)
        return row.expires_at - row.created_at

    assert await lifetime() == timedelta(hours=168)
    assert await lifetime(timeout_s=60) == timedelta(seconds=60)
    await here.apply(DIRECTORY.replace('at: ["%s"]', "at: [dm], timeout: 30d"))
    assert await lifetime() == timedelta(days=30)
    assert await lifetime(timeout_s=60) == timedelta(seconds=60)
    await here.apply(DIRECTORY.replace('at: ["%s"]', "at: [dm], timeout: 1h"))
    assert await lifetime() == await lifetime(timeout_s=7200) == timedelta(hours=1)


# Linking


async def test_from_a_code_to_a_decision_in_private(here: Office, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    directory, now = here.approvals.directory, here.clock.now()
    code = await here.store.write(lambda ledger: directory.issue_pairing(ledger, "kim", "admin", now))
    approval, card = await here.card()
    assert "linked to nobody" in await here.told(here.press(card, "Allow", by=STRANGER))
    here.world.start(STRANGER, code)
    private = here.world.chat(STRANGER)
    await here.until(lambda: next((each for each in private.messages if "You are Kim Sato" in each.text), None))
    here.world.say(STRANGER, STRANGER, "/pending")
    listed = await here.until(lambda: next((each for each in private.messages if "Waiting for" in each.text), None))
    assert "Waiting for you: 1" in listed.text
    assert "refund (billing" in listed.text
    assert (await here.told(here.press(card, "Decline", by=STRANGER))).startswith("Declined.")
    assert (await here.row(approval)).decided_by == "kim"
    # The code is used up, for this account and for any other.
    here.world.start(PAT, code)
    await here.until(lambda: next((e for e in here.world.chat(PAT).messages if "linked already" in e.text), None))
    assert code
    assert not any(code in f"{record.__dict__}" for record in caplog.records if record.name.startswith("placet"))


async def test_a_written_edit_is_told_which_numbers_there_are(here: Office) -> None:
    editable = {"editable": ["/charge", "/amount"]}
    approval, card = await here.card(presentation=editable)
    await here.told(here.press(card, "Edit…"))
    prompt = await here.prompt()
    for text in ("3: ch_2", "ch_2", "1: ch_2\n3: x"):
        answer = await here.answered(here.say(text, to=prompt))
        assert "nothing was changed" in answer.text
        assert "the numbers go from 1 to 2." in answer.text
    row = await here.row(approval)
    assert (row.status, row.content_revision) == (Status.PENDING, 1)


MAIL: dict[str, Any] = {
    "arguments": {"subject": "Your refund", "text": "Hello Ada", "charge": "Charge: ch_1"},
    "presentation": {
        "lines": [["Subject", "/subject"], ["Message", "/text"], ["Charge", "/charge"]],
        "editable": ["/subject", "/text", "/charge"],
    },
}


@pytest.mark.parametrize(
    ("typed", "after"),
    [
        ("1: Other subject", {"subject": "Other subject"}),
        ("1: Subject = Other subject", {"subject": "Other subject"}),
        ("1: subject: Other subject\n2: Message=Dear Ada", {"subject": "Other subject", "text": "Dear Ada"}),
        # Of another field, or nothing but the label: that is a text.
        ("1: Message: read it", {"subject": "Message: read it"}),
        ("1: Subject:", {"subject": "Subject:"}),
        ("1: Subjects = many", {"subject": "Subjects = many"}),
        # The text that stands there begins so itself.
        ("3: Charge: ch_2", {"charge": "Charge: ch_2"}),
    ],
)
async def test_a_written_edit_is_asked_for_as_it_is_typed_and_a_copied_label_is_no_part_of_it(
    here: Office, typed: str, after: dict[str, str]
) -> None:
    approval, card = await here.card(**MAIL)
    await here.told(here.press(card, "Edit…"))
    prompt = await here.prompt()
    assert prompt.text.splitlines()[1:] == [
        "1 = Subject", "2 = Message", "3 = Charge", "", "1: Your refund", "2: Hello Ada", "3: Charge: ch_1",
    ]  # fmt: skip
    assert "Changed." in (await here.answered(here.say(typed, to=prompt))).text
    assert json.loads((await here.row(approval)).final_arguments) == MAIL["arguments"] | after


async def test_what_waits_is_listed_by_its_title_as_its_card_shows_it(here: Office) -> None:
    await here.ask(tool="sql", presentation={"title": "Count the orders with password=hunter2hunter2 of May"})
    await here.ask(tool="sql", operation="query", presentation={"title": "x" * 150})
    await here.ask(tool="sql", operation="query")
    here.world.say(DANA, DANA, "/pending")
    private = here.world.chat(DANA)
    listed = await here.until(lambda: next((each for each in private.messages if "Waiting for" in each.text), None))
    first, second, third = listed.text.splitlines()[1:]
    assert first.startswith("1. Count the orders with password=[hidden")
    assert "hunter2" not in listed.text
    assert second.startswith(f"2. {'x' * 119}… (billing, ")
    assert third.startswith("3. sql query (billing, ")


async def test_a_press_does_not_wait_while_a_hostile_call_is_drawn(here: Office) -> None:
    approval = await here.ask(arguments={"text": "token=a " * 30_000})
    drawing = asyncio.create_task(here.desk.draw(approval.id))
    turns = 0
    while not drawing.done():
        await asyncio.sleep(0.001)
        turns += 1
    drawn = await drawing
    assert drawn is not None
    assert drawn.card.attachments
    # Drawn on the loop, it lets it turn only around the reads of the database.
    assert turns > 20


async def test_a_person_who_acts_for_another_is_called_by_name(here: Office) -> None:
    _, card = await here.card(on_behalf_of="ola")
    assert "On behalf of (agent's words): Ola Berg" in card.text
    here.press(card, "Decline")
    await here.settled(card, "Declined by Dana Reyes")


# More rows than are looked at at once


async def test_what_nobody_can_wake_keeps_no_other_answer_asleep(here: Office) -> None:
    rows = [await here.ask() for _ in range(5)]
    for approval in rows:
        await here.approvals.decide(
            approval.id, "dana", Verdict.DECLINE, content_revision=None, note=None, key=approval.id, via="cli"
        )
    await here.approvals.close()
    here.clock.ahead += timedelta(seconds=6)
    here.bell.ids.clear()
    assert await here.approvals.ring_unconsumed(limit=2) == 5
    assert sorted(here.bell.ids) == sorted(row.id for row in rows)


async def test_every_card_that_nobody_could_see_is_posted_after_a_link(here: Office) -> None:
    rows = [await here.ask() for _ in range(5)]
    for approval in rows[:3]:
        await here.approvals.mark_undeliverable(approval.id, "nobody can be reached")
    here.bell.ids.clear()
    assert await here.approvals.ring_undeliverable(limit=2) == 3
    assert sorted(here.bell.ids) == sorted(row.id for row in rows[:3])


async def test_long_calls_keep_no_short_one_from_being_judged_overdue(here: Office) -> None:
    hours = {"activity": "crawl", "task_queue": "crawlers", "start_to_close_s": 86_400}
    minutes = hours | {"start_to_close_s": 60, "schedule_to_start_s": 60}
    rows = [await here.ask(run=run) for run in (minutes, hours, hours, hours, minutes)]
    for approval in rows:
        await here.approvals.decide(
            approval.id, "dana", Verdict.ALLOW, content_revision=1, note=None, key=approval.id, via="cli"
        )
        await here.approvals.take(approval.id, "a run")
    here.clock.ahead += timedelta(minutes=33)
    assert await here.approvals.settle_overdue(limit=2) == 2
    outcomes = [(await here.row(approval)).outcome for approval in rows]
    assert outcomes == [Outcome.UNKNOWN, Outcome.SENDING, Outcome.SENDING, Outcome.SENDING, Outcome.UNKNOWN]


async def test_a_row_that_cannot_be_read_keeps_no_other_from_being_judged_overdue(here: Office) -> None:
    run = {"activity": "crawl", "task_queue": "crawlers"}
    broken, sound = [await here.ask(run=run) for _ in range(2)]
    for approval in (broken, sound):
        await here.approvals.decide(
            approval.id, "dana", Verdict.ALLOW, content_revision=1, note=None, key=approval.id, via="cli"
        )
        await here.approvals.take(approval.id, "a run")
    row = await here.row(broken)
    await here.store.write(lambda ledger: ledger.change(row, run="{"))
    here.clock.ahead += timedelta(minutes=51)
    assert await here.approvals.settle_overdue() == 2
    assert {(await here.row(approval)).outcome for approval in (broken, sound)} == {Outcome.UNKNOWN}


async def test_what_waits_for_a_paused_agent_keeps_no_other_from_being_judged_overdue(here: Office) -> None:
    await here.apply((DIRECTORY % f"telegram:{GROUP}").replace("routes:", "  mailing: {owner: dana}\nroutes:"))

    async def allowed(agent: str) -> Approval:
        here.asked += 1
        ask = {"agent": agent, "tool": "refund", "arguments": {"number": here.asked}}
        opened = await here.approvals.open(read_ask(json.dumps(ask), over="http"), Origin(f"w{here.asked}", "r"))
        assert isinstance(opened, Opened)
        await here.approvals.decide(
            opened.approval.id, "dana", Verdict.ALLOW, content_revision=1, note=None, key="k", via="http"
        )
        return opened.approval

    held = [await allowed("billing") for _ in range(2)]
    late = await allowed("mailing")
    await here.desk.agents.pause("billing")
    here.clock.ahead += timedelta(hours=2)
    assert await here.approvals.settle_overdue(limit=2) == 1
    assert [(await here.row(row)).outcome for row in (*held, late)] == [Outcome.NONE, Outcome.NONE, Outcome.NOT_SENT]


async def test_a_command_without_an_agent_is_told_which_there_are(here: Office) -> None:
    async def told(text: str, by: int = 1001) -> str:
        said = here.world.say(by, by, text)
        answer = await here.until(
            lambda: next((each for each in here.world.chat(by).messages if each.reply_to == said.id), None)
        )
        return str(answer.text)

    here.world.start(1001)
    assert (await told("/rules")).startswith(say("rules_none", agent="billing"))
    for text in ("/pause", "/resume"):
        assert await told(text) == say("agent_which", known="billing")
    (agent,) = await here.store.read(lambda ledger: ledger.agents())
    assert agent.paused_at is None
