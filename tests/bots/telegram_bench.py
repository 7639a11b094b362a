"""Telegram on the bench: the real library against the sandbox's Bot API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from pydantic import SecretStr

from adapters.sandbox import Sandbox
from adapters.sandbox.telegram import World, markup
from adapters.sandbox.telegram.records import Message as Kept
from adapters.sandbox.telegram.records import Press as Pressed
from bots.telegram import Settings, Telegram
from core.approvals import Actor, Destination, Message, Reply
from core.ports import Hooks, Unavailable
from tests.bots.contract import Bench, Shown
from tests.services import free_port

ID, TOKEN = "7000000001", "7000000001:sandbox-token-AAAAAAAAAAAAAAAAAAAAAAAA"
OTHER_ID, OTHER_TOKEN = "7000000002", "7000000002:sandbox-token-BBBBBBBBBBBBBBBBBBBBBBBB"
DANA, OLA, KIM = 1001, 1002, 1003
GROUP, FORUM, SMALL = -1001234, -1005678, -4455
TOPIC = 31
LIVE = {"url", "email", "mention", "hashtag", "cashtag", "bot_command", "text_link", "text_mention", "phone_number"}


@dataclass
class Chores:
    """The commands and chats behind a surface, as far as a surface can tell: it records what it is asked."""

    asked: list[tuple[str, ...]] = field(default_factory=list)
    down: int = 0
    reply: Reply = field(default_factory=lambda: Reply("No rules."))
    mapped: frozenset[str] = frozenset()
    speaks: str = "en"

    async def link(self, actor: Actor, code: str) -> Reply:
        self.asked.append(("link", actor.id, code))
        return Reply("You are linked.")

    async def pending(self, actor: Actor) -> Reply:
        self.asked.append(("pending", actor.id))
        return Reply("Nothing waits for you.")

    async def rules(self, actor: Actor, agent: str) -> Reply:
        self.asked.append(("rules", actor.id, agent))
        return self.reply

    async def mode(self, actor: Actor, agent: str, mode: str) -> Reply:
        self.asked.append(("mode", actor.id, agent, mode))
        return Reply("It asks for everything.")

    async def pause(self, actor: Actor, agent: str) -> Reply:
        self.asked.append(("pause", actor.id, agent))
        return Reply("Paused.")

    async def resume(self, actor: Actor, agent: str) -> Reply:
        self.asked.append(("resume", actor.id, agent))
        return Reply("It goes on.")

    async def groups(self, platform: str) -> frozenset[str]:
        if self.down > 0:
            self.down -= 1
            raise Unavailable("the database is down")
        return frozenset(key for key in self.mapped if key.startswith(f"{platform}:"))

    def language(self, actor: Actor, place: Message | None) -> str:
        return self.speaks

    async def moved(self, platform: str, account: str, chat: str, to: str) -> None:
        if self.down > 0:
            self.down -= 1
            raise Unavailable("the database is down")
        self.asked.append(("moved", platform, account, chat, to))


def hooks(chores: Chores, lease: SwitchedLease | None = None) -> Hooks:
    """What a surface needs besides the door; without a lease of its own, a new one for each name."""
    return Hooks(chores, chores, lambda name: lease or SwitchedLease(), chores.groups, chores.language)


@dataclass
class SwitchedLease:
    """A lease that a test gives and takes."""

    mine: bool = True
    down: bool = False
    dropped: bool = False

    async def held(self) -> bool:
        if self.down:
            raise Unavailable("the database is down")
        return self.mine

    async def drop(self) -> None:
        self.dropped = True


@dataclass
class Setting:
    """A sandbox with a bot, two people, a group, a forum and a small group; and a surface that speaks to it."""

    sandbox: Sandbox
    settings: Settings
    surface: Telegram
    chores: Chores
    lease: SwitchedLease
    public_port: int

    @property
    def world(self) -> World:
        return self.sandbox.telegram


@asynccontextmanager
async def telegram(
    *tokens: str, pace: float = 0, rate_scale: float = float("inf"), webhook_secret: str = ""
) -> AsyncIterator[Setting]:
    """A sandbox and the surface of `tokens` (the first bot's), in webhook mode when a secret is given."""
    async with Sandbox(rate_scale=rate_scale) as sandbox:
        sandbox.add_bot(TOKEN, "placet_bot", name="Placet")
        if OTHER_TOKEN in tokens:
            sandbox.add_bot(OTHER_TOKEN, "second_bot", name="Second")
        dana, ola = sandbox.add_person(DANA, "Dana Reyes", "dana"), sandbox.add_person(OLA, "Ola Berg", "ola")
        kim = sandbox.add_person(KIM, "Kim Sato", "kim")
        sandbox.add_group(GROUP, "Billing", [dana, ola])
        sandbox.add_group(FORUM, "Operations", [dana, ola], forum=True, topics={TOPIC: "Refunds"})
        sandbox.add_group(SMALL, "Small", [dana, ola, kim])
        port = free_port()
        settings = Settings(
            telegram_token=tuple(map(SecretStr, tokens or (TOKEN,))),
            telegram_base_url=sandbox.url,
            telegram_webhook_secret=SecretStr(webhook_secret) if webhook_secret else None,
            public_url=f"http://127.0.0.1:{port}",
        )
        chores, lease = Chores(), SwitchedLease()
        surface = Telegram(settings, hooks(chores, lease), pace=pace)
        try:
            yield Setting(sandbox, settings, surface, chores, lease, port)
        finally:
            await surface.close()


def seen(kept: Kept) -> Shown:
    """A kept message as a person sees it."""
    live = [markup.cut(kept.text, each.offset, each.length) for each in kept.entities if each.type in LIVE]
    buttons = {button.text: button.data or "" for row in kept.buttons for button in row}
    return Shown(kept.text, buttons, live)


@asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    async with telegram() as setting:
        world = setting.world
        presses: list[Pressed] = []
        said: list[Kept] = []
        menus: list[int] = []

        def kept(message: Message) -> Kept:
            return world.chat(int(message.chat)).message(int(message.id))

        def files(message: Message) -> list[tuple[str, str]]:
            replies = [m for m in world.chat(int(message.chat)).messages if m.reply_to == int(message.id)]
            return [(m.document.name, world.content(m.document).decode()) for m in replies if m.document]

        def meet(trouble: str) -> str:
            match trouble:
                case "gone":
                    world.fail("*", status=403, description="Forbidden: bot was kicked from the supergroup chat")
                case "moved":
                    return str(world.migrate(SMALL))
                case "slow":
                    world.fail("*", retry_after=33)
                case "refused":
                    text = 'Bad Request: can\'t parse entities: Unsupported start tag "The customer was charged twice."'
                    world.fail("*", status=400, description=text)
                case "unavailable":
                    world.fail("*", status=502)
            return ""

        def press(message: Message, label: str, by: int = 0) -> None:
            who = (DANA, OLA, KIM)[by]
            presses.append(world.press(who, int(message.chat), int(message.id), label=label))

        def reply(message: Message, text: str) -> None:
            said.append(world.say(DANA, int(message.chat), text, reply_to=int(message.id)))

        async def told() -> str:
            if presses:
                return (await world.answer(presses[-1])).text
            chat = world.chat(SMALL)
            return await world.until(lambda: "".join(m.text for m in chat.messages if m.reply_to == said[-1].id))

        async def menu() -> Shown:
            chat = world.chat(SMALL)
            found = await world.until(lambda: next((m for m in chat.messages[::-1] if m.reply_to and m.buttons), None))
            menus.append(found.id)
            return seen(found)

        yield Bench(
            surface=setting.surface,
            place=Destination("telegram", ID, str(SMALL)),
            troubles=frozenset({"gone", "moved", "slow", "refused", "unavailable"}),
            shown=lambda message: seen(kept(message)),
            files=files, meet=meet, press=press, reply=reply, told=told, people=("Dana Reyes", "Ola Berg", "Kim Sato"),
            menu=menu, pick=lambda label: presses.append(world.press(DANA, SMALL, menus[-1], label=label)),
            menu_now=lambda: seen(world.chat(SMALL).message(menus[-1])),
        )  # fmt: skip
