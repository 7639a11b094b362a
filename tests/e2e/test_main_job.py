"""The main job on one platform: a call waits, a person answers in the chat, the call runs once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.approvals import Outcome, Status
from tests.e2e.stack import ARGUMENTS, DANA, GROUP, OLA, PAT, Servers, Stack, stack, words


@pytest.fixture
async def whole(tmp_path: Path, database_url: str, servers: Servers) -> AsyncIterator[Stack]:
    async with stack(tmp_path, database_url, servers) as made, made.app():
        yield made


async def test_allow_runs_the_call_once_with_what_was_approved(whole: Stack) -> None:
    asked = await whole.caller.ask()
    card = await whole.seen.card()
    assert card.labels == ["Allow", "Decline", "Decline with a note"]
    assert "billing wants to use refund" in words(card.text)
    told = await whole.seen.press(card, "Allow")
    assert told.startswith("Allowed.")
    answer = await asked.result()
    assert (answer["status"], answer["outcome"], answer["result"]) == ("approved", "sent", {"refund": "re_1"})
    assert answer["arguments"] == ARGUMENTS
    assert answer["text"] == "Approved by Dana Reyes and done."
    assert whole.caller.ran == [ARGUMENTS]
    settled = await whole.seen.settled(card, "Done.")
    assert "Allowed by Dana Reyes through Telegram" in words(settled.text)


async def test_w5_after_the_answer_the_card_still_shows_what_was_asked(whole: Stack) -> None:
    await whole.caller.ask()
    card = await whole.seen.card()
    before = words(card.text)
    await whole.seen.press(card, "Decline")
    settled = words((await whole.seen.settled(card, "Declined by Dana Reyes")).text)
    body = before.split("Content sha256")[0]
    assert settled.startswith(body)
    assert "UTC" in settled


async def test_a_reply_declines_with_the_note(whole: Stack) -> None:
    asked = await whole.caller.ask()
    card = await whole.seen.card()
    await whole.reply(card, "Not before Friday <b>please</b>", by=OLA)
    answer = await asked.result()
    assert (answer["status"], answer["by_message"]) == ("declined", True)
    assert answer["note"] == "Not before Friday <b>please</b>"
    assert answer["text"].startswith("Ola Berg answered with a message instead of deciding.")
    assert whole.caller.ran == []
    settled = await whole.seen.settled(card, "Ola Berg replied")
    assert "Not before Friday <b>please</b>" in words(settled.text)


async def test_a_note_after_the_prompt_declines(whole: Stack) -> None:
    asked = await whole.caller.ask()
    card = await whole.seen.card()
    await whole.seen.press(card, "Decline with a note")
    prompt = await whole.seen.world.until(
        lambda: next((message for message in whole.seen.group.messages if message.force_reply), None), 15
    )
    assert prompt.reply_to == card.id
    assert (await whole.row()).status is Status.PENDING
    await whole.reply(prompt, "Use the other account", by=DANA)
    answer = await asked.result()
    assert (answer["status"], answer["note"], answer["by_message"]) == ("declined", "Use the other account", False)
    assert answer["text"] == "Declined by Dana Reyes. Nothing was run. Note: Use the other account"
    await whole.seen.settled(card, "Note: Use the other account")


async def test_an_affirmative_reply_decides_nothing(whole: Stack) -> None:
    await whole.caller.ask()
    card = await whole.seen.card()
    await whole.reply(card, "ok 👍", by=DANA)
    await whole.seen.world.until(lambda: whole.seen.group.last("press Allow"), 15)
    assert (await whole.row()).status is Status.PENDING


async def test_l2_one_who_may_not_answer_is_told_by_whom_it_may_be_answered(whole: Stack) -> None:
    await whole.caller.ask()
    card = await whole.seen.card()
    told = await whole.seen.press(card, "Allow", by=PAT)
    assert "Dana Reyes" in told
    assert "Ola Berg" in told
    assert [line.action for line in await whole.audit(await whole.row())] == ["opened"]
    await whole.reply(card, "no!", by=PAT)
    await whole.seen.world.until(lambda: whole.seen.group.last("answered by"), 15)
    assert (await whole.row()).status is Status.PENDING


async def test_r1_a_double_press_of_decline_is_one_decision(whole: Stack) -> None:
    asked = await whole.caller.ask()
    card = await whole.seen.card()
    first = whole.seen.world.press(DANA, GROUP, card.id, label="Decline")
    second = whole.seen.world.press(DANA, GROUP, card.id, label="Decline")
    told = {(await whole.seen.world.answer(press, 15)).text for press in (first, second)}
    assert len(told) == 1
    await asked.result()
    await whole.seen.settled(card, "Declined by Dana Reyes")
    lines = await whole.audit(await whole.row())
    assert [line.action for line in lines] == ["opened", "decline"]
    edits = whole.seen.world.calls_of("editMessageText", chat=GROUP)
    assert [call.params["message_id"] for call in edits if call.status == 200] == [str(card.id)]


async def test_r2_allow_and_decline_in_the_same_instant(whole: Stack) -> None:
    asked = await whole.caller.ask()
    card = await whole.seen.card()
    presses = [
        whole.seen.world.press(DANA, GROUP, card.id, label="Allow"),
        whole.seen.world.press(OLA, GROUP, card.id, label="Decline"),
    ]
    told = [(await whole.seen.world.answer(press, 15)).text for press in presses]
    answer = await asked.result()
    winner, loser = (0, 1) if answer["status"] == "approved" else (1, 0)
    assert told[winner].startswith(("Allowed.", "Declined."))
    assert told[loser].startswith("Already decided:")
    assert ("Dana Reyes", "Ola Berg")[winner] in told[loser]
    assert "Telegram" in told[loser]
    assert len(whole.caller.ran) == (1 if answer["status"] == "approved" else 0)


async def test_r3_a_decision_touches_its_own_approval_alone(whole: Stack) -> None:
    await whole.caller.ask()
    first = await whole.seen.card()
    await whole.caller.ask()
    second = await whole.seen.card(number=2)
    await whole.seen.press(second, "Decline")
    await whole.seen.settled(second, "Declined")
    press = whole.seen.world.press(DANA, GROUP, first.id, data="a.AAAAAAAAAAAAAAAA.1")
    assert "do not know this card" in (await whole.seen.world.answer(press, 15)).text
    assert whole.seen.group.message(first.id).labels
    rows = await whole.store.read(lambda ledger: ledger.approvals())
    assert sorted(row.status for row in rows) == ["declined", "pending"]


async def test_t13_t12_one_card_for_two_who_may_answer(whole: Stack) -> None:
    await whole.caller.ask()
    await whole.seen.card()
    row = await whole.row()
    cards = await whole.store.read(lambda ledger: ledger.posted_for(row.id))
    assert len(cards) == 1
    assert len(whole.seen.cards()) == 1


async def test_t5_a_press_on_an_expired_card_is_answered_and_the_buttons_go(whole: Stack) -> None:
    asked = await whole.caller.ask(timeout_s=10)
    card = await whole.seen.card()
    data = card.buttons[0][0].data
    answer = await asked.result()
    assert (answer["status"], answer["text"]) == ("expired", "Nobody decided in time. Nothing was run.")
    press = whole.seen.world.press(DANA, GROUP, card.id, data=data)
    told = await whole.seen.world.answer(press, 15)
    assert told.alert
    assert "nobody decided in time" in told.text
    settled = await whole.seen.settled(card, "Expired")
    assert "nobody decided in time" in settled.text
    row = await whole.row()
    assert (row.status, row.outcome) == (Status.EXPIRED, Outcome.NONE)
