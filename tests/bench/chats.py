"""Three platforms at once: how fast many cards arrive and are redrawn, presses meanwhile, and what open cards cost."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psutil

from adapters.sandbox import Sandbox
from adapters.sandbox.discord import markdown, token_of
from bots.discord import Discord
from bots.discord import Settings as DiscordSettings
from bots.slack import Settings as SlackSettings
from bots.slack import Slack
from bots.telegram import Settings as TelegramSettings
from bots.telegram import Telegram
from core.approvals import Approval, Destination, Kind, Verdict
from core.desk import Desk
from core.ports import Ledger as Rows
from core.ports import Slow, Surface, Unavailable
from core.redaction import Redaction
from tests.bench.figures import Figure, percentile
from tests.bench.presses import Door, a_door
from tests.bots.telegram_bench import Chores, hooks
from tests.builders import an_approval

CARDS, CHATS, SCALE, PRESSES = 500, 10, 2, 30
# What each platform publishes for one chat, as many messages in so many seconds: Telegram and Slack about one a second,
# taken three at a time, Discord five in five seconds.
LIMITS = ((3, 3), (3, 3), (5, 5))
# As many on each platform as busy chats get of what Slack takes of one app in a minute; more would only measure that.
REDRAWN = 120
FEW, MANY = 100, 10_000
TELEGRAM, TEAM, SLACK, APP, BOT = "7001:" + "AAEE" * 8 + "AAA", "T01", "xoxb-bench-AAAA", "xapp-bench-AAAA", 8001
FIRST_CHAT, GUILD, MEMBER, DISCORD_MEMBER = 500_000, 500, "U01", 4201
# Whoever is in a chat is known and may answer: in Telegram somebody else in each, elsewhere Dana in all.
DIRECTORY = {
    "people": {
        "dana": {"name": "Dana Reyes", "identities": {"slack": f"{TEAM}/{MEMBER}", "discord": str(DISCORD_MEMBER)}},
        **{f"p{number}": {"name": f"Person {number}", "identities": {"telegram": str(FIRST_CHAT + number)}}
           for number in range(CHATS)},
    },
    "roles": {"approver": ["approvals:view", "approvals:answer"]},
    "members": {"approver": ["dana", *(f"p{number}" for number in range(CHATS))]},
    "agents": {"billing": {"owner": "dana"}},
    "routes": [],
}  # fmt: skip


def furnish(sandbox: Sandbox, chats: int) -> list[Destination]:
    """So many chats on each platform, and where they are."""
    sandbox.add_bot(TELEGRAM, "placet_bot", name="Placet")
    places = []
    for number in range(FIRST_CHAT, FIRST_CHAT + chats):
        sandbox.add_person(number, f"Person {number}")
        sandbox.telegram.start(number)
        places.append(Destination("telegram", "", str(number)))
    slack = sandbox.slack
    slack.add_team(TEAM, "Acme", token=SLACK, app_token=APP, signing_secret="bench")
    person = slack.add_person(MEMBER, "Dana Reyes")
    for number in range(chats):
        slack.add_channel(f"C{number:03}", f"channel-{number}", [person])
        places.append(Destination("slack", TEAM, f"C{number:03}"))
    discord = sandbox.discord
    discord.add_bot(BOT, "placet", name="Placet")
    guild = discord.add_guild(GUILD, "Acme", [discord.add_person(DISCORD_MEMBER, "Dana Reyes", "dana")])
    for number in range(600, 600 + chats):
        discord.add_channel(number, guild, f"channel-{number}")
        places.append(Destination("discord", "", str(number)))
    # In turn, so that approvals in their order spread over all chats.
    return [
        place for three in zip(*(places[n * chats : (n + 1) * chats] for n in range(3)), strict=True) for place in three
    ]


def surfaces(urls: Sequence[str], pace: float) -> dict[str, Surface]:
    """The three bots against a sandbox, by its addresses."""
    at_telegram, at_slack, at_discord, gateway = urls
    telegram = {"telegram_token": [TELEGRAM], "telegram_base_url": at_telegram}
    slack = {"slack_bot_token": [SLACK], "slack_app_token": APP, "slack_base_url": at_slack}
    discord = {"discord_token": [token_of(BOT)], "discord_base_url": at_discord, "discord_gateway_url": gateway}
    return {
        "telegram": Telegram(TelegramSettings.model_validate(telegram), hooks(Chores()), pace=pace),
        "slack": Slack(SlackSettings.model_validate(slack), hooks(Chores()), pace=pace),
        "discord": Discord(DiscordSettings.model_validate(discord), hooks(Chores()), pace=pace),
    }


def urls_of(sandbox: Sandbox) -> tuple[str, str, str, str]:
    return sandbox.url, sandbox.slack_base_url, sandbox.discord_base_url, sandbox.discord_gateway_url


@dataclass(frozen=True)
class Room:
    """The door, the desk and three bots."""

    door: Door
    desk: Desk

    async def open(
        self, places: Sequence[Destination], count: int, first: int = 0
    ) -> list[tuple[Approval, Destination]]:
        """So many approvals, each asked in one chat, the chats in turn."""
        numbers = range(first, first + count)
        asked = await self.ask({f"w-{number}": [places[number % len(places)]] for number in numbers})
        return [(approval, place) for approval, (place,) in asked]

    async def ask(self, places: Mapping[str, Sequence[Destination]]) -> list[tuple[Approval, Sequence[Destination]]]:
        """An approval for each workflow, with the places where it is asked."""
        now = self.desk.clock.now()
        asked = []
        for workflow_id, each in places.items():
            route = {"ask": ["role:approver"], "at": [f"{place.platform}:{place.chat}" for place in each]}
            approval = an_approval(created_at=now, expires_at=now + timedelta(days=7), workflow_id=workflow_id,
                                   first_run_id="1", route=route)  # fmt: skip
            asked.append((approval, each))

        def insert(ledger: Rows) -> None:
            for approval, _ in asked:
                ledger.insert(approval)

        await self.door.store.write(insert)
        return asked

    async def post(self, approval: Approval, place: Destination) -> None:
        """As its workflow does: tried again after the platform's own delay."""
        while True:
            try:
                posted = await self.desk.post(approval.id, place, "")
            except (Slow, Unavailable) as fault:
                await asyncio.sleep(fault.after if isinstance(fault, Slow) else 0.1)
            else:
                assert posted == "posted", posted
                return

    async def decline(self, approval: Approval) -> None:
        """As somebody does from the command line; the cards are redrawn in the background."""
        await self.door.approvals.decide(
            approval.id, "dana", Verdict.DECLINE, content_revision=None, note=None, key=approval.id, via="cli"
        )
        self.desk.start_redraw(approval.id)

    async def card(self, approval: Approval, place: Destination) -> str:
        """The id of its card in a place, once it is there."""

        def find(ledger: Rows) -> str:
            rows = ledger.posted_for(approval.id, Kind.CARD)
            return next((row.message_id for row in rows if row.message_id and row.chat == place.chat), "")

        while not (message := await self.door.store.read(find)):
            await asyncio.sleep(0.02)
        return message


@asynccontextmanager
async def a_room(url: str, redis_url: str, urls: Sequence[str], pace: float) -> AsyncIterator[Room]:
    async with AsyncExitStack() as stack:
        door = await stack.enter_async_context(a_door(url, redis_url))
        await door.store.write(lambda ledger: ledger.replace_directory(DIRECTORY))
        approvals, bots = door.approvals, surfaces(urls, pace)
        desk = Desk(store=door.store, approvals=approvals, surfaces=bots, clock=approvals.clock, meter=approvals.meter,
                    redaction=Redaction(b"bench" * 8))  # fmt: skip
        for bot in bots.values():
            stack.push_async_callback(bot.close)
        stack.push_async_callback(desk.close)
        yield Room(door, desk)


@asynccontextmanager
async def listening(room: Room, sandbox: Sandbox) -> AsyncIterator[None]:
    """Every bot takes presses, and has answered those who opened a chat with it."""
    tasks = [asyncio.create_task(room.desk.listen(bot)) for bot in room.desk.surfaces.values()]
    try:
        await until(lambda: sandbox.slack.connected > 0 and sandbox.discord.online(), 30)
        await until(lambda: len(sandbox.telegram.calls_of("sendMessage")) == CHATS, 30)
        # What that took of their chats' pace has come back.
        await asyncio.sleep(3)
        yield
    finally:
        for task in tasks:
            task.cancel()


async def pressed(sandbox: Sandbox, place: Destination, message: str) -> None:
    """Press Decline, and wait until the presser is told something."""
    match place.platform:
        case "telegram":
            chat = int(place.chat)
            in_telegram = sandbox.telegram.press(chat, chat, int(message), label="Decline")
            told = (await sandbox.telegram.answer(in_telegram, 30)).text
        case "slack":
            in_slack = sandbox.slack.press(MEMBER, place.chat, message, label="Decline")
            told = (await sandbox.slack.until(lambda: in_slack.words, 30))[-1]
        case _:
            in_discord = sandbox.discord.press(DISCORD_MEMBER, int(place.chat), int(message), label="Decline")
            told = (await sandbox.discord.answer(in_discord, 30)).text
    assert told.startswith("Declined"), told


async def measure_chats(folder: Path, redis_url: str) -> list[Figure]:
    """500 approvals within a second over 30 chats of three platforms; then all decided at once."""
    async with Sandbox(rate_scale=SCALE) as sandbox:
        places = furnish(sandbox, CHATS)
        url = f"sqlite:///{folder / 'chats.db'}"
        async with a_room(url, redis_url, urls_of(sandbox), 1 / SCALE) as room, listening(room, sandbox):
            asked = await room.open(places, CARDS)
            began = time.perf_counter()
            posting = asyncio.gather(*(room.post(approval, place) for approval, place in asked))
            waits = [await wait_of_press(room, sandbox, *each) for each in asked[:PRESSES]]
            meanwhile = not posting.done()
            await posting
            posted_in = time.perf_counter() - began
            await until(lambda: settled(sandbox) >= PRESSES, 120)
            # What the presses took of Slack's minute has come back.
            await asyncio.sleep(60 / SCALE)
            began = time.perf_counter()
            for approval, _ in asked[PRESSES : PRESSES + REDRAWN]:
                await room.decline(approval)
            await until(lambda: settled(sandbox) >= PRESSES + REDRAWN, 120)
            drawn_in = time.perf_counter() - began
    assert meanwhile, "the presses took longer than the posting"
    against = f"what the platforms' published limits allow in {3 * CHATS} chats, times {SCALE}"
    return [
        Figure(f"cards of {CARDS} approvals over {3 * CHATS} chats, {SCALE} times the limits", CARDS / posted_in, "/s",
               floor=CARDS * SCALE / at_best(CARDS), bar=0.9, higher=True, against=against),
        Figure("press to answer while they are posted, the slowest", max(waits), "s", bar=1, bar_is="value",
               against=f"none: {len(waits)} presses on three platforms, by who may answer, until they are answered"),
        Figure("press to answer while they are posted, the median", percentile(waits, 0.5), "s"),
        Figure(f"cards redrawn per second over three platforms, {SCALE} times the limits", REDRAWN / drawn_in, "/s",
               floor=REDRAWN * SCALE / at_best(REDRAWN), higher=True, against=against),
    ]  # fmt: skip


async def wait_of_press(room: Room, sandbox: Sandbox, approval: Approval, place: Destination) -> float:
    """How long a press on a card waits for its answer; spread over the posting."""
    message = await room.card(approval, place)
    began = time.perf_counter()
    await pressed(sandbox, place, message)
    took = time.perf_counter() - began
    await asyncio.sleep(0.25 / SCALE)
    return took


def at_best(cards: int) -> float:
    """Seconds that so many cards take within the published limits, on the platform that takes longest."""
    in_a_chat = -(-cards // (3 * CHATS))
    return max((in_a_chat - 1) // limit * seconds for limit, seconds in LIMITS)


def settled(sandbox: Sandbox) -> int:
    """How many cards tell that they were declined, over all platforms."""
    telegram = (sandbox.telegram.chat(FIRST_CHAT + number).messages for number in range(CHATS))
    texts = [message.text for chat in telegram for message in chat]
    texts += [message.shown for channel in sandbox.slack.channels.values() for message in channel.messages]
    discord = (sandbox.discord.channel(600 + number).messages for number in range(CHATS))
    texts += [markdown.shown(message)[0] for channel in discord for message in channel]
    return sum("Declined by" in text for text in texts)


async def until(check: Callable[[], bool], timeout: float) -> None:
    async with asyncio.timeout(timeout):
        while not check():
            await asyncio.sleep(0.05)


async def measure_memory(folder: Path, redis_url: str) -> list[Figure]:
    """The memory of a bots' process with few and with many cards open, each in a process of its own."""
    cost = {}
    for count in (FEW, MANY):
        async with Sandbox(rate_scale=float("inf")) as sandbox:
            furnish(sandbox, CHATS)
            url = f"sqlite:///{folder / f'memory-{count}.db'}"
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.bench.chats", str(count), url, redis_url, *urls_of(sandbox),
                stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            said, _ = await process.communicate()
            assert process.returncode == 0, f"the bots' process ended with {process.returncode}"
            cost[count] = float(said)
    return [
        Figure(f"memory of {MANY:,} open cards on three platforms, beyond that of {FEW}", cost[MANY] - cost[FEW], "MB",
               bar=50, bar_is="value", against=f"none: the bots' process has {cost[FEW]:.0f} MB with {FEW}"),
    ]  # fmt: skip


async def hold(count: int, url: str, redis_url: str, urls: Sequence[str]) -> float:
    """Post so many cards, look through them as the sweep does, and say what this process takes, in MB."""
    places = [place for number in range(CHATS) for place in (
        Destination("telegram", "", str(FIRST_CHAT + number)), Destination("slack", TEAM, f"C{number:03}"),
        Destination("discord", "", str(600 + number)),
    )]  # fmt: skip
    async with a_room(url, redis_url, urls, 0) as room:
        listening = [asyncio.create_task(room.desk.listen(bot)) for bot in room.desk.surfaces.values()]
        for start in range(0, count, FEW):
            asked = await room.open(places, FEW, start)
            await asyncio.gather(*(room.post(approval, place) for approval, place in asked))
        await room.desk.redraw_stale()
        used = psutil.Process(os.getpid()).memory_info().rss / 1e6
        for task in listening:
            task.cancel()
        return used


if __name__ == "__main__":
    print(asyncio.run(hold(int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:8])))
