"""Many cards to redraw in one chat hold back no card elsewhere, nor the one that somebody presses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest
from pydantic import SecretStr

from adapters.sandbox.discord import markdown, token_of
from bots.discord import Discord
from bots.discord import Settings as DiscordSettings
from bots.slack import Settings as SlackSettings
from bots.slack import Slack
from bots.telegram import Settings as TelegramSettings
from bots.telegram import Telegram
from core.approvals import Approval, Kind, Posted, Verdict
from core.ports import Ledger
from tests.bots.telegram_bench import Chores, hooks
from tests.builders import an_approval
from tests.core import office as one
from tests.core.three import (
    APP_TOKEN,
    BOT,
    CHANNEL,
    GUILD,
    IDS,
    PEOPLE,
    PLACES,
    ROOM,
    TEAM,
    TOKEN,
    Three,
    directory,
    three,
)

EDITS = {"telegram": "editMessageText", "slack": "chat.update", "discord": "edit_message"}
BUSY = {"telegram": (str(one.BOT), str(one.GROUP)), "slack": (TEAM, CHANNEL), "discord": (str(BOT), str(ROOM))}
QUIET = {"telegram": one.SMALL, "slack": "C02", "discord": 601}
# Five times the platforms' own pace: the crowd below then takes from 40 s to 2 minutes in one chat.
PACE, CROWD = 0.2, 200


@pytest.fixture
async def here(sqlite_url: str) -> AsyncIterator[Three]:
    """Three platforms; the desk's own bots keep the pace of each, those that listen have none."""
    async with three(sqlite_url) as made, AsyncExitStack() as stack:
        sandbox, desk = made.office.sandbox, made.office.desk
        sandbox.slack.add_channel("C02", "quiet", [sandbox.slack.people[who] for who in IDS["slack"]])
        sandbox.discord.add_channel(601, GUILD, "quiet")
        told = hooks(Chores())
        paced: dict[str, Any] = {
            "telegram": Telegram(TelegramSettings(telegram_token=(SecretStr(one.TOKEN),),
                                                  telegram_base_url=sandbox.url), told, pace=PACE),
            "slack": Slack(SlackSettings(slack_bot_token=(SecretStr(TOKEN),), slack_app_token=SecretStr(APP_TOKEN),
                                         slack_base_url=sandbox.slack_base_url), told, pace=PACE),
            "discord": Discord(DiscordSettings(discord_token=(SecretStr(token_of(BOT)),),
                                               discord_base_url=sandbox.discord_base_url,
                                               discord_gateway_url=sandbox.discord_gateway_url), told, pace=PACE),
        }  # fmt: skip
        for surface in paced.values():
            stack.push_async_callback(surface.close)
        stack.push_async_callback(desk.close, 0.1)
        desk.surfaces.update(paced)  # type: ignore[attr-defined]
        yield made


def in_two_places() -> str:
    """What is quiet is asked in a chat of its own on each platform."""
    quiet = ", ".join(f'"{platform}:{chat}"' for platform, chat in QUIET.items())
    return PEOPLE + (
        "routes:\n"
        f"  - {{match: {{tool: refund.quiet}}, ask: [role:approver], at: [{quiet}]}}\n"
        f"  - {{match: {{}}, ask: [role:approver], at: [{PLACES}]}}\n"
    )


async def a_crowd(here: Three, *platforms: str, number: int = CROWD) -> list[str]:
    """So many approvals whose cards in the busy chat of each platform show an old revision.

    Their messages have been deleted, which the platform only says when their turn has come.
    """
    now = here.office.clock.now()
    crowd = [
        an_approval(revision=2, created_at=now, expires_at=now + timedelta(days=7), workflow_id=f"crowd-{each}")
        for each in range(number)
    ]

    def insert(ledger: Ledger) -> None:
        for each, approval in enumerate(crowd):
            ledger.insert(approval)
            for platform in platforms:
                account, chat = BUSY[platform]
                ledger.reserve(Posted(
                    id=f"{approval.id}-{platform}", approval_id=approval.id, destination=f"{platform}||{chat}|",
                    kind=Kind.CARD, person="", token=f"{platform[0]}{each:015}", platform=platform, account=account,
                    chat=chat, thread="", message_id=str(10**9 + each), shown_revision=1, shown_id=None,
                    attached_revision=1, posted_at=now,
                ), now)  # fmt: skip

    await here.office.store.write(insert)
    return [approval.id for approval in crowd]


async def under_way(here: Three, *platforms: str) -> None:
    """Wait until a redraw of the crowd has come through on each platform."""
    for platform in platforms:
        await here.office.until(lambda p=platform: here.worlds[p].calls_of(EDITS[p]) or None)  # type: ignore[misc]


async def decided(here: Three, approval: Approval, person: str = "dana", verdict: Verdict = Verdict.DECLINE) -> None:
    """As another process leaves it: committed, and this desk told."""
    done = await here.office.approvals.decide(
        approval.id, person, verdict, content_revision=1, note=None, key=f"{approval.id} {person}", via="cli"
    )
    assert isinstance(done, Approval)
    here.office.desk.start_redraw(approval.id)


def in_quiet(here: Three, platform: str) -> str:
    """What the one card in the quiet chat shows."""
    world, chat = here.worlds[platform], QUIET[platform]
    match platform:
        case "telegram":
            return str(world.chat(chat).messages[-1].text)
        case "slack":
            return str(world.channels[chat].messages[-1].shown)
        case _:
            return markdown.shown(world.channel(chat).messages[-1])[0]


async def test_t10_200_cards_to_redraw_in_one_chat_of_each_platform_hold_back_none_in_another(here: Three) -> None:
    await here.office.apply(in_two_places())
    approval = await here.office.ask(tool="refund.quiet")
    assert set(await here.office.post(approval)) == {"posted"}
    for each in await a_crowd(here, *BUSY):
        here.office.desk.start_redraw(each)
    await under_way(here, *BUSY)
    # The crowd has taken what there is at once; in Slack that is most of the bot's minute.
    taken = 0
    while taken < (now := len(here.worlds["slack"].calls_of("chat.update"))) or taken < 40:
        taken = now
        await asyncio.sleep(0.3)
    await decided(here, approval)
    async with asyncio.timeout(1):
        for platform in QUIET:
            while "Declined by Dana Reyes" not in in_quiet(here, platform):
                await asyncio.sleep(0.01)


async def test_a_chat_where_many_wait_holds_at_most_one_claim(here: Three) -> None:
    for each in await a_crowd(here, "telegram", "discord"):
        here.office.desk.start_redraw(each)
    await under_way(here, "telegram", "discord")
    most, later = 0, here.office.clock.now() + timedelta(days=1)
    for _ in range(20):
        now = here.office.clock.now()
        # As they will be when every claim has run out: all that wait.
        rows = await here.office.store.read(lambda ledger: [
            row for on in ("telegram", "discord") for row in ledger.stale_cards(later, 2 * CROWD, on)
        ])  # fmt: skip
        assert len(rows) > CROWD
        most = max(most, sum(row.claim_until is not None and row.claim_until > now for row in rows))
        await asyncio.sleep(0.02)
    assert 1 <= most <= 2


async def test_a_pressed_card_goes_before_the_many_of_its_chat(here: Three) -> None:
    await here.office.apply(directory(at=f'"discord:{ROOM}"'))
    _, cards = await here.asked()
    for each in await a_crowd(here, "discord"):
        here.office.desk.start_redraw(each)
    await under_way(here, "discord")
    before = len(here.worlds["discord"].calls_of("edit_message"))
    assert (await here.told("discord", cards["discord"], "Decline")).startswith("Declined.")
    await here.settled(cards, "Declined by Dana Reyes")
    # What was on its way went first, and whatever the sandbox answered while the test looked.
    assert len(here.worlds["discord"].calls_of("edit_message")) - before < 20


async def test_a_card_that_waits_for_its_turn_holds_back_no_other_card_of_its_approval(here: Three) -> None:
    await here.office.apply(directory(2, at=f'"telegram:{one.GROUP}", "slack:{CHANNEL}"'))
    approval, cards = await here.asked()
    for each in await a_crowd(here, "telegram"):
        here.office.desk.start_redraw(each)
    await under_way(here, "telegram")
    await decided(here, approval, verdict=Verdict.ALLOW)
    slack = {"slack": cards["slack"]}
    async with asyncio.timeout(1):
        await here.until_shown(slack, lambda shown: "1 of 2" in shown.text)
    await decided(here, approval, "ola", Verdict.ALLOW)
    async with asyncio.timeout(1):
        await here.settled(slack, "Allowed by Dana Reyes, Ola Berg")
    assert here.shown("telegram", cards["telegram"]).buttons


async def test_the_sweep_sees_a_card_behind_the_many_of_another_chat(here: Three) -> None:
    await a_crowd(here, "telegram")
    await here.office.apply(in_two_places())
    approval = await here.office.ask(tool="refund.quiet")
    assert set(await here.office.post(approval)) == {"posted"}
    await here.office.desk.close()

    def lose(ledger: Ledger) -> None:
        for posted in ledger.posted_for(approval.id, Kind.CARD):
            ledger.mark(posted.id, shown_revision=0)

    await here.office.store.write(lose)
    await here.office.desk.redraw_stale(limit=10)
    async with asyncio.timeout(1):
        for platform, chat in QUIET.items():
            while not any(call.chat == str(chat) for call in here.worlds[platform].calls_of(EDITS[platform])):
                await asyncio.sleep(0.01)


async def test_a_crowd_is_redrawn_to_the_last(here: Three) -> None:
    for each in await a_crowd(here, "discord", number=12):
        here.office.desk.start_redraw(each)
    world = here.worlds["discord"]
    await here.office.until(lambda: len(world.calls_of("edit_message")) >= 12 or None)
    await here.office.desk.close()
    now = here.office.clock.now()
    assert await here.office.store.read(lambda ledger: ledger.stale_cards(now, 100, "discord")) == []
