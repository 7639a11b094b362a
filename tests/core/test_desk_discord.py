"""Discord with the real door and desk on a real database, beside Telegram: one answer settles both cards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import pytest
from pydantic import SecretStr

from adapters.sandbox.discord import Message, World, markdown, token_of
from bots.discord import Discord, Settings
from core.approvals import Approval, Status
from core.commands import ChatCommands
from core.ports import Hooks
from tests.core.office import GROUP, Free, Office, ended, office

BOT, DANA, STRANGER, GUILD, CHANNEL, THREAD = 8000000001, 4201, 4299, 500, 600, 601
DIRECTORY = """
people:
  dana: {name: Dana Reyes, identities: {telegram: 1001, discord: 4201}}
roles:
  approver: [approvals:view, approvals:answer]
members: {approver: [dana]}
agents:
  billing: {owner: dana}
routes:
  - {match: {agent: billing}, ask: [dana], at: [%s], timeout: 1800s}
"""


@dataclass
class Both:
    """An office with Discord beside Telegram; `restart` puts a fresh process's surface in the place of the old one."""

    office: Office
    restart: Callable[[], Awaitable[None]]

    @property
    def world(self) -> World:
        return self.office.sandbox.discord

    async def card(self, *places: str, reason: str = "", show: object = None) -> tuple[Approval, Message]:
        """Ask, post to the places, and give the card in the channel."""
        await self.office.apply(DIRECTORY % ", ".join(places))
        more = {"arguments": {"reason": reason}, "presentation": show} if show else {}
        approval = await self.office.ask(**more)
        assert await self.office.post(approval) == ["posted"] * len(places)
        return approval, self.shown()

    def shown(self, channel: int = CHANNEL) -> Message:
        return self.world.channel(channel).last("refund")

    async def allowed(self, card: Message) -> None:
        """Press Allow on an edited card: that is drawn first and written down then, and Allow waits for both."""
        told = "still being attached"
        while "still being attached" in told:
            told = (await self.world.answer(self.world.press(DANA, CHANNEL, card.id, label="Allow"), 10)).text
        assert "Allowed" in told

    async def settled(self, card: Message, words: str) -> None:
        await self.office.until(lambda: (not card.labels and words in markdown.shown(card)[0]) or None)


@pytest.fixture
async def both(sqlite_url: str) -> AsyncIterator[Both]:
    async with office(sqlite_url) as made, _both(made) as opened:
        yield opened


@asynccontextmanager
async def _both(made: Office) -> AsyncIterator[Both]:
    world = made.sandbox.discord
    world.add_bot(BOT, "placet", name="Placet")
    people = [world.add_person(DANA, "Dana Reyes"), world.add_person(STRANGER, "Sam Strange")]
    guild = world.add_guild(GUILD, "Acme", people)
    world.add_channel(CHANNEL, guild, "approvals")
    world.add_thread(CHANNEL, "Refunds", id=THREAD)
    settings = Settings(discord_token=(SecretStr(token_of(BOT)),), discord_base_url=made.sandbox.discord_base_url,
                        discord_gateway_url=made.sandbox.discord_gateway_url)  # fmt: skip
    running: list[tuple[Discord, asyncio.Task[None]]] = []

    async def stop() -> None:
        surface, task = running.pop()
        await ended(task)
        await surface.close()

    async def start() -> None:
        surface = Discord(
            settings,
            Hooks((commands := ChatCommands(made.approvals, made.desk)), made.desk, lambda _: Free(), commands.groups),
            pace=0,
        )
        made.desk.surfaces["discord"] = surface  # type: ignore[index]
        running.append((surface, asyncio.create_task(made.desk.listen(surface))))
        await world.until(world.online, 10)

    async def restart() -> None:
        await stop()
        await start()

    await start()
    try:
        yield Both(made, restart)
    finally:
        await stop()


async def test_a_press_on_discord_settles_the_cards_on_both(both: Both) -> None:
    approval, card = await both.card(f'"discord:{CHANNEL}"', f'"telegram:{GROUP}"')
    press = both.world.press(DANA, CHANNEL, card.id, label="Allow")
    answer = await both.world.answer(press, 10)
    assert answer.ephemeral
    assert "Allowed" in answer.text
    await both.settled(card, "Allowed by Dana Reyes through Discord")
    await both.office.settled(both.office.cards()[-1], "Allowed by Dana Reyes through Discord")
    row = await both.office.row(approval)
    assert (row.status, row.decided_via, row.decision_key) == (Status.APPROVED, "discord", f"dc:{BOT}:{press.id}")


async def test_a_press_on_telegram_settles_the_card_on_discord(both: Both) -> None:
    _, card = await both.card(f'"discord:{CHANNEL}"', f'"telegram:{GROUP}"')
    both.office.press(both.office.cards()[-1], "Decline")
    await both.settled(card, "Declined by Dana Reyes through Telegram")


async def test_an_edit_here_is_shown_there_and_the_edited_text_is_what_is_allowed(both: Both) -> None:
    presentation = {"title": "refund", "lines": [["Reason", "/reason"]], "editable": ["/reason"]}
    approval, card = await both.card(f'"discord:{CHANNEL}"', f'"telegram:{GROUP}"', reason="dup", show=presentation)
    other = both.office.cards()[-1]
    opened = both.world.press(DANA, CHANNEL, card.id, label="Edit…")
    assert (await both.world.answer(opened, 10)).modal is not None
    sent = both.world.submit(DANA, opened, {"1": "charged twice"})
    assert "Look at the new text" in (await both.world.answer(sent, 10)).text
    await both.office.until(lambda: "charged twice" in both.office.world.chat(GROUP).message(other.id).text or None)
    await both.office.told(both.office.press(other, "Edit…"))
    both.office.say("charged three times", to=await both.office.prompt())
    await both.office.until(lambda: "charged three times" in markdown.shown(both.shown())[0] or None)
    await both.allowed(card)
    row = await both.office.row(approval)
    assert (row.status, row.content_revision) == (Status.APPROVED, 3)
    assert '"charged three times"' in row.final_arguments


async def test_s6_a_window_of_1800_s_and_a_press_at_400_s_after_a_restart(both: Both) -> None:
    approval, card = await both.card(f'"discord:{CHANNEL}"')
    both.office.clock.ahead = timedelta(seconds=400)
    both.world.skip(400)
    await both.restart()
    both.world.press(DANA, CHANNEL, card.id, label="Allow")
    await both.settled(card, "Allowed by Dana Reyes")
    assert (await both.office.row(approval)).status is Status.APPROVED


async def test_a_note_from_the_form_declines_with_it(both: Both) -> None:
    approval, card = await both.card(f'"discord:{CHANNEL}"')
    opened = both.world.press(DANA, CHANNEL, card.id, label="Decline with a note")
    await both.world.answer(opened)
    await both.restart()
    both.world.submit(DANA, opened, {"note": "Wrong *customer*"})
    await both.settled(card, "Wrong *customer*")
    row = await both.office.row(approval)
    assert (row.status, row.note) == (Status.DECLINED, "Wrong *customer*")


async def test_a_reply_in_a_thread_declines_with_a_note(both: Both) -> None:
    await both.office.apply(DIRECTORY % f'"discord:{CHANNEL}/{THREAD}"')
    approval = await both.office.ask()
    assert await both.office.post(approval) == ["posted"]
    card = both.shown(THREAD)
    both.world.say(DANA, THREAD, "Not this month", reply_to=card.id)
    await both.settled(card, "Not this month")
    assert (await both.office.row(approval)).note == "Not this month"


async def test_a_private_chat_takes_the_card_and_its_press(both: Both) -> None:
    await both.office.apply(DIRECTORY.replace("telegram: 1001, ", "") % "dm")
    approval = await both.office.ask()
    assert await both.office.post(approval) == ["posted"]
    private = both.world.private_of(DANA)
    card = both.shown(private.id)
    both.world.press(DANA, private.id, card.id, label="Allow")
    await both.settled(card, "Allowed by Dana Reyes")
    assert (await both.office.row(approval)).status is Status.APPROVED


async def test_a_person_who_takes_no_messages_is_skipped_and_the_channel_settles_it(both: Both) -> None:
    both.world.add_person(DANA, "Dana Reyes", accepts=False)
    await both.office.apply(DIRECTORY.replace("telegram: 1001, ", "") % f'dm, "discord:{CHANNEL}"')
    approval = await both.office.ask()
    assert sorted(await both.office.post(approval)) == ["failed", "posted"]
    assert (await both.office.row(approval)).undeliverable is None
    both.world.press(DANA, CHANNEL, both.shown().id, label="Allow")
    await both.settled(both.shown(), "Allowed by Dana Reyes")


async def test_who_is_not_linked_is_told_so_and_decides_nothing(both: Both) -> None:
    approval, card = await both.card(f'"discord:{CHANNEL}"')
    press = both.world.press(STRANGER, CHANNEL, card.id, label="Allow")
    answer = await both.world.answer(press, 10)
    assert answer.ephemeral
    assert "link" in answer.text.lower()
    assert (await both.office.row(approval)).status is Status.PENDING


async def test_pending_lists_what_waits(both: Both) -> None:
    await both.card(f'"discord:{CHANNEL}"')
    await both.world.until(lambda: both.world.bots[BOT].commands)
    asked = both.world.command(DANA, "placet pending", channel=CHANNEL)
    assert "refund" in (await both.world.answer(asked, 10)).text
