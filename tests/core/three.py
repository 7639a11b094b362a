"""An office on three platforms at once: the real libraries, one sandbox, and cards in a place of each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from adapters.sandbox import Sandbox
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
# A second account of each platform; Slack's is another workspace, with a channel and a member of its own.
SECOND_BOT, OTHER_BOT, OTHER_TOKEN = "7002:" + "BBFF" * 8 + "BBB", 8000000002, "xoxb-sandbox-token-BBBBBBBBBBBB"
OTHER_TEAM, OTHER_CHANNEL, OTHER_MEMBER = "T02", "C21", "U21"
# Who they are on Telegram, Slack and Discord.
DANA, OLA, EVE, PAT, SAM = range(5)
IDS: dict[str, tuple[Any, ...]] = {
    "telegram": (1001, 1002, 1003, 1004, 1099),
    "slack": ("U01", "U02", "U03", "U04", "U99"),
    "discord": (4201, 4202, 4203, 4204, 4299),
}
NAMES = ("Dana Reyes", "Ola Berg", "Eve Moss", "Pat Lund", "Sam Strange")
# Dana, Ola and Eve may answer and Pat may look, each on every platform; Sam is nobody, on Slack of another workspace.
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
AT = {"telegram": f'"telegram:{GROUP}"', "slack": f'"slack:{CHANNEL}"', "discord": f'"discord:{ROOM}"'}
PLACES = ", ".join(AT.values())
REDRAWS = {"telegram": "editMessageText", "slack": "chat.update", "discord": "edit_message"}
POSTS = {"telegram": "sendMessage", "slack": "chat.postMessage", "discord": "create_message"}


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
                return self.worlds["slack"].channels[self.chat_of(platform, card)].message(card)
            case _:
                return self.worlds["discord"].channel(self.chat_of(platform, card)).message(int(card))

    def chat_of(self, platform: str, card: str) -> Any:
        """The chat that a message is in; on Telegram, whose ids are not unique, the group."""
        if platform == "telegram":
            return GROUP
        key: Any = card if platform == "slack" else int(card)
        return next(id for id, channel in self.worlds[platform].channels.items() if key in channel.history)

    def shown(self, platform: str, card: str) -> Shown:
        return self._seen(platform, self.kept(platform, card))

    def all_shown(self, platform: str) -> list[Shown]:
        """Every message in the platform's place, oldest first."""
        match platform:
            case "telegram":
                messages = self.office.seen().messages
            case "slack":
                messages = self.worlds["slack"].channels[CHANNEL].messages
            case _:
                messages = self.worlds["discord"].channel(ROOM).messages
        return [self._seen(platform, kept) for kept in messages]

    @staticmethod
    def _seen(platform: str, kept: Any) -> Shown:
        match platform:
            case "telegram":
                return Shown(kept.text, tuple(kept.labels))
            case "slack":
                return Shown(kept.shown, tuple(kept.labels))
            case _:
                return Shown(markdown.shown(kept)[0], tuple(kept.labels))

    def data(self, platform: str, card: str, label: str) -> str:
        """What a button carries."""
        kept = self.kept(platform, card)
        match platform:
            case "telegram":
                return next(str(each.data) for row in kept.buttons for each in row if each.text == label)
            case "slack":
                return next(str(each["value"]) for each in kept.buttons if each["text"]["text"] == label)
            case _:
                return next(str(each["custom_id"]) for each in kept.buttons if each["label"] == label)

    def press(
        self, platform: str, card: str, label: str | None, by: int | str = DANA, *, data: str | None = None
    ) -> Callable[[], Any]:
        """Press a button, or send `data` that need not be on any; what is answered gives the presser's words once
        they are there. `by` is one of ours, or somebody's id on Slack."""
        who = IDS[platform][by] if isinstance(by, int) else by
        world, chat = self.worlds[platform], self.chat_of(platform, card)
        match platform:
            case "telegram":
                press = world.press(who, chat, int(card), label=label, data=data)
                return lambda: world.answer(press, 10)
            case "slack":
                press = world.press(who, chat, card, label=label, value=data)
                return lambda: world.until(lambda: press.words or ([press.view] if press.view else None), 10)
            case _:
                press = world.press(who, chat, int(card), label=label, custom_id=data)
                return lambda: world.answer(press, 10)

    async def told(
        self, platform: str, card: str, label: str | None, by: int | str = DANA, *, data: str | None = None
    ) -> str:
        answer = await self.press(platform, card, label, by, data=data)()
        text = str(answer[-1] if isinstance(answer, list) else answer.text)
        return markdown.read(text)[0] if platform == "discord" else text

    def reply(self, platform: str, card: str, text: str, by: int = DANA) -> Any:
        world, who = self.worlds[platform], IDS[platform][by]
        match platform:
            case "telegram":
                return world.say(who, GROUP, text, reply_to=int(card))
            case "slack":
                return world.reply(who, CHANNEL, card, text)
            case _:
                return world.say(who, ROOM, text, reply_to=int(card))

    async def heard(self, platform: str, card: str, text: str, by: int = DANA) -> str:
        """What a reply is answered with."""
        world, who = self.worlds[platform], IDS[platform][by]
        before = len(world.told(who)) if platform == "slack" else 0
        said = self.reply(platform, card, text, by)
        match platform:
            case "telegram":
                return str((await self.office.answered(said)).text)
            case "slack":
                return str((await world.until(lambda: world.told(who)[before:], 10))[-1])
            case _:
                room = world.channel(ROOM)
                answer = await world.until(lambda: next((m for m in room.messages if m.reference == said.id), None), 10)
                return markdown.shown(answer)[0]

    async def pending(self, platform: str) -> str:
        """What the bot lists when Dana asks it what waits."""
        world, who = self.worlds[platform], IDS[platform][DANA]
        match platform:
            case "telegram":
                said = world.say(who, who, "/pending")
                found = await world.until(
                    lambda: next((m for m in world.chat(who).messages if m.reply_to == said.id), None), 10
                )
                return str(found.text)
            case "slack":
                asked = world.command(who, CHANNEL, "pending")
                return str((await world.until(lambda: asked.words, 10))[-1])
            case _:
                await world.until(lambda: world.bots[BOT].commands, 10)
                asked = world.command(who, "placet pending", channel=ROOM)
                return markdown.read((await world.answer(asked, 10)).text)[0]

    async def menu(self, platform: str, card: str) -> str:
        """The id of the menu that Dana was shown last."""
        world, who = self.worlds[platform], IDS[platform][DANA]

        def found() -> str | None:
            match platform:
                case "telegram":
                    menus = [m.id for m in self.office.seen().messages if m.reply_to == int(card) and m.buttons]
                case "slack":
                    menus = [m.ts for m in world.channels[CHANNEL].messages if m.only == who and m.buttons]
                case _:
                    menus = [m.id for m in world.channel(ROOM).messages if m.only_for == who and m.buttons]
            return str(menus[-1]) if menus else None

        return str(await world.until(found, 10))

    def files(self, platform: str, card: str) -> list[str]:
        """The texts of what is attached to a card; on Telegram of all that was attached in the group."""
        world = self.worlds[platform]
        match platform:
            case "telegram":
                return self.office.files()
            case "slack":
                each = [file for reply in world.channels[CHANNEL].thread(card) for file in reply.files]
            case _:
                each = [f for m in world.channel(ROOM).messages if m.reference == int(card) for f in m.attachments]
        return [world.content(file).decode() for file in each]

    async def quiet(self) -> None:
        """Wait until nothing is at hand any more."""
        await self.office.desk.close()
        await self.office.approvals.close()

    async def until_shown(self, cards: dict[str, str], check: Callable[[Shown], bool]) -> None:
        for platform, card in cards.items():
            await self.office.until(lambda p=platform, c=card: check(self.shown(p, c)) or None)  # type: ignore[misc]

    async def settled(self, cards: dict[str, str], words: str) -> None:
        """Every card without buttons, saying so."""
        await self.until_shown(cards, lambda shown: not shown.buttons and words in shown.text)

    def tell_to_wait(self, platform: str, seconds: int) -> None:
        """Have the next redraw on a platform answered with a 429; on Discord by the wall in front of it, whose 429 its
        library leaves to us."""
        more = {"via": False} if platform == "discord" else {}
        self.worlds[platform].fail(REDRAWS[platform], retry_after=seconds, **more)

    def mend(self) -> None:
        for world in self.worlds.values():
            world.mend()


@asynccontextmanager
async def three(url: str, *, sandbox: Sandbox | None = None, second: bool = False) -> AsyncIterator[Three]:
    """With the `sandbox` and the `url` of one that is closed it is that one, started again; `second`: with two accounts
    of each platform."""
    async with AsyncExitStack() as stack:
        made = await stack.enter_async_context(office(url, sandbox=sandbox, second=SECOND_BOT if second else ""))
        slack, discord = made.sandbox.slack, made.sandbox.discord
        slack.add_team(TEAM, "Acme", token=TOKEN, app_token=APP_TOKEN, signing_secret="sandbox-signing-secret")
        members = [slack.add_person(who, name) for who, name in zip(IDS["slack"], NAMES, strict=True)]
        members[SAM] = slack.add_person(IDS["slack"][SAM], NAMES[SAM], team="T99")
        slack.add_channel(CHANNEL, "billing", members)
        discord.add_bot(BOT, "placet", name="Placet")
        slack_tokens, discord_tokens = [TOKEN], [token_of(BOT)]
        if second:
            slack.add_team(OTHER_TEAM, "Bolt", token=OTHER_TOKEN)
            member = slack.add_person(OTHER_MEMBER, "Ola Berg", team=OTHER_TEAM)
            slack.add_channel(OTHER_CHANNEL, "bolts", [member], team=OTHER_TEAM)
            discord.add_bot(OTHER_BOT, "second", name="Second")
            slack_tokens.append(OTHER_TOKEN)
            discord_tokens.append(token_of(OTHER_BOT))
        people = [discord.add_person(who, name) for who, name in zip(IDS["discord"], NAMES, strict=True)]
        discord.add_channel(ROOM, discord.add_guild(GUILD, "Acme", people, roles={ROLE: "Approvers"}), "billing")
        commands = ChatCommands(made.approvals, made.desk)
        hooks = Hooks(commands, made.desk, lambda name: Free(), commands.groups, made.approvals.spoken.to)
        surfaces: dict[str, Any] = {
            "slack": Slack(SlackSettings(slack_bot_token=tuple(map(SecretStr, slack_tokens)),
                                         slack_app_token=SecretStr(APP_TOKEN),
                                         slack_base_url=made.sandbox.slack_base_url), hooks, pace=0),
            "discord": Discord(DiscordSettings(discord_token=tuple(map(SecretStr, discord_tokens)),
                                               discord_base_url=made.sandbox.discord_base_url,
                                               discord_gateway_url=made.sandbox.discord_gateway_url), hooks, pace=0),
        }  # fmt: skip
        for name, surface in surfaces.items():
            made.desk.surfaces[name] = surface  # type: ignore[index]
            stack.push_async_callback(surface.close)
        # First of all in the end, as in a process: what it has at hand needs the surfaces.
        stack.push_async_callback(made.desk.close)
        for surface in surfaces.values():
            stack.push_async_callback(ended, asyncio.create_task(made.desk.listen(surface)))
        await slack.until(lambda: slack.connected)
        await discord.until(lambda: all(map(discord.online, discord.bots)), 10)
        await made.apply(directory())
        yield Three(made)
