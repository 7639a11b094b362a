"""An office on three platforms at once: the real libraries, one sandbox, and cards in a place of each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from adapters.sandbox.discord import markdown, token_of
from bots.discord import Discord
from bots.discord import Settings as DiscordSettings
from bots.slack import Settings as SlackSettings
from bots.slack import Slack
from core.approvals import Approval, Kind
from core.commands import ChatCommands
from core.ports import Hooks
from tests.core.office import GROUP, Free, Office, ended, office

CHANNEL, TEAM, TOKEN, APP_TOKEN = "C01", "T01", "xoxb-sandbox-token-AAAAAAAAAAAA", "xapp-sandbox-token-CCCCCCCCCCCC"
BOT, GUILD, ROOM, ROLE = 8000000001, 500, 600, 900
# Who they are on Telegram, Slack and Discord.
DANA, OLA, EVE, PAT, SAM = range(5)
IDS: dict[str, tuple[Any, ...]] = {
    "telegram": (1001, 1002, 1003, 1004, 1099),
    "slack": ("U01", "U02", "U03", "U04", "U99"),
    "discord": (4201, 4202, 4203, 4204, 4299),
}
NAMES = ("Dana Reyes", "Ola Berg", "Eve Moss", "Pat Lund", "Sam Strange")
# Dana, Ola and Eve may answer and Pat may look, each on every platform; Sam is nobody.
PEOPLE = """
people:
  dana: {name: Dana Reyes, identities: {telegram: 1001, slack: T01/U01, discord: 4201}}
  ola: {name: Ola Berg, identities: {telegram: 1002, slack: T01/U02, discord: 4202}}
  eve: {name: Eve Moss, identities: {telegram: 1003, slack: T01/U03, discord: 4203}}
  pat: {name: Pat Lund, identities: {telegram: 1004, slack: T01/U04, discord: 4204}}
roles:
  approver: [approvals:view, approvals:answer]
  ruler: [approvals:delegate]
  viewer: [approvals:view]
members: {approver: [dana, ola, eve], ruler: [dana, ola], viewer: [pat]}
agents:
  billing: {owner: dana}
"""
PLACES = f'"telegram:{GROUP}", "slack:{CHANNEL}", "discord:{ROOM}"'


def directory(needed: int = 1, *, ask: str = "role:approver", at: str = PLACES, more: str = "") -> str:
    return PEOPLE + f"routes: [{{match: {{}}, ask: [{ask}], at: [{at}], needed: {needed}{more}}}]\n"


@dataclass(frozen=True)
class Shown:
    """What a card shows now."""

    text: str
    buttons: tuple[str, ...]


@dataclass
class Three:
    """What a test holds; cards are named by platform."""

    office: Office

    @property
    def worlds(self) -> dict[str, Any]:
        sandbox = self.office.sandbox
        return {"telegram": sandbox.telegram, "slack": sandbox.slack, "discord": sandbox.discord}

    async def asked(self, **fields: Any) -> tuple[Approval, dict[str, str]]:
        """Ask and post; the row, and the id of its card on each platform."""
        approval = await self.office.ask(**fields)
        assert set(await self.office.post(approval)) == {"posted"}
        return approval, await self.cards(approval)

    async def cards(self, approval: Approval) -> dict[str, str]:
        rows = await self.office.store.read(lambda ledger: ledger.posted_for(approval.id, Kind.CARD))
        return {row.platform: row.message_id for row in rows if row.message_id}

    def kept(self, platform: str, card: str) -> Any:
        match platform:
            case "telegram":
                return self.office.seen().message(int(card))
            case "slack":
                return self.worlds["slack"].channels[CHANNEL].message(card)
            case _:
                return self.worlds["discord"].channel(ROOM).message(int(card))

    def shown(self, platform: str, card: str) -> Shown:
        kept = self.kept(platform, card)
        match platform:
            case "telegram":
                return Shown(kept.text, tuple(kept.labels))
            case "slack":
                return Shown(kept.shown, tuple(kept.labels))
            case _:
                return Shown(markdown.shown(kept)[0], tuple(kept.labels))

    def press(self, platform: str, card: str, label: str, by: int = DANA) -> Callable[[], Any]:
        """Press a button; what is answered gives the presser's words once they are there."""
        world, who = self.worlds[platform], IDS[platform][by]
        match platform:
            case "telegram":
                press = world.press(who, GROUP, int(card), label=label)
                return lambda: world.answer(press, 10)
            case "slack":
                press = world.press(who, CHANNEL, card, label=label)
                return lambda: world.until(lambda: press.words, 10)
            case _:
                press = world.press(who, ROOM, int(card), label=label)
                return lambda: world.answer(press, 10)

    async def told(self, platform: str, card: str, label: str, by: int = DANA) -> str:
        answer = await self.press(platform, card, label, by)()
        return str(answer[-1] if isinstance(answer, list) else answer.text)

    def reply(self, platform: str, card: str, text: str, by: int = DANA) -> None:
        world, who = self.worlds[platform], IDS[platform][by]
        match platform:
            case "telegram":
                world.say(who, GROUP, text, reply_to=int(card))
            case "slack":
                world.reply(who, CHANNEL, card, text)
            case _:
                world.say(who, ROOM, text, reply_to=int(card))

    async def until_shown(self, cards: dict[str, str], check: Callable[[Shown], bool]) -> None:
        for platform, card in cards.items():
            await self.office.until(lambda p=platform, c=card: check(self.shown(p, c)) or None)  # type: ignore[misc]

    async def settled(self, cards: dict[str, str], words: str) -> None:
        """Every card without buttons, saying so."""
        await self.until_shown(cards, lambda shown: not shown.buttons and words in shown.text)

    def mend(self) -> None:
        for world in self.worlds.values():
            world.mend()


@asynccontextmanager
async def three(url: str) -> AsyncIterator[Three]:
    async with AsyncExitStack() as stack:
        made = await stack.enter_async_context(office(url))
        slack, discord = made.sandbox.slack, made.sandbox.discord
        slack.add_team(TEAM, "Acme", token=TOKEN, app_token=APP_TOKEN, signing_secret="sandbox-signing-secret")
        members = [slack.add_person(who, name) for who, name in zip(IDS["slack"], NAMES, strict=True)]
        slack.add_channel(CHANNEL, "billing", members)
        discord.add_bot(BOT, "placet", name="Placet")
        people = [discord.add_person(who, name) for who, name in zip(IDS["discord"], NAMES, strict=True)]
        discord.add_channel(ROOM, discord.add_guild(GUILD, "Acme", people, roles={ROLE: "Approvers"}), "billing")
        commands = ChatCommands(made.approvals, made.desk)
        hooks = Hooks(commands, made.desk, lambda name: Free(), commands.groups, made.approvals.spoken.to)
        surfaces: dict[str, Any] = {
            "slack": Slack(SlackSettings(slack_bot_token=(SecretStr(TOKEN),), slack_app_token=SecretStr(APP_TOKEN),
                                         slack_base_url=made.sandbox.slack_base_url), hooks, pace=0),
            "discord": Discord(DiscordSettings(discord_token=(SecretStr(token_of(BOT)),),
                                               discord_base_url=made.sandbox.discord_base_url,
                                               discord_gateway_url=made.sandbox.discord_gateway_url), hooks, pace=0),
        }  # fmt: skip
        for name, surface in surfaces.items():
            made.desk.surfaces[name] = surface  # type: ignore[index]
            stack.push_async_callback(surface.close)
            stack.push_async_callback(ended, asyncio.create_task(made.desk.listen(surface)))
        await slack.until(lambda: slack.connected)
        await discord.until(discord.online, 10)
        await made.apply(directory())
        yield Three(made)
