"""Discord on the bench: the real library against the sandbox's REST API and gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pydantic import SecretStr

from adapters.sandbox import Sandbox
from adapters.sandbox.discord import Interaction, World, markdown, token_of
from adapters.sandbox.discord.records import Message as Kept
from adapters.sandbox.discord.world import inputs_of
from bots.discord import Discord, Settings
from core.approvals import Destination, Message
from tests.bots.contract import Bench, Shown
from tests.bots.telegram_bench import Chores, SwitchedLease, hooks

ID, OTHER_ID = 8000000001, 8000000002
DANA, OLA, KIM = 4201, 4202, 4203
ROLE = 900
GUILD, CHANNEL, FORUM, POST, THREAD = 500, 600, 610, 611, 601


@dataclass
class Setting:
    """A sandbox with a bot, two people, a channel with a thread and a forum with a post; and a surface."""

    sandbox: Sandbox
    settings: Settings
    surface: Discord
    chores: Chores
    lease: SwitchedLease

    @property
    def world(self) -> World:
        return self.sandbox.discord


@asynccontextmanager
async def discord(
    *ids: int, pace: float = 0, rate_scale: float = float("inf"), endpoint: str | None = None
) -> AsyncIterator[Setting]:
    """A sandbox and the surface of the bots `ids` (the first one's); `endpoint` takes their presses elsewhere."""
    async with Sandbox(rate_scale=rate_scale) as sandbox:
        world = sandbox.discord
        world.add_bot(ID, "placet", name="Placet", interactions_endpoint_url=endpoint)
        if OTHER_ID in ids:
            world.add_bot(OTHER_ID, "second", name="Second")
        dana, ola = world.add_person(DANA, "Dana Reyes", "dana"), world.add_person(OLA, "Ola Berg", "ola")
        kim = world.add_person(KIM, "Kim Sato", "kim")
        guild = world.add_guild(GUILD, "Acme", [dana, ola, kim], roles={ROLE: "Approvers"})
        world.add_channel(CHANNEL, guild, "billing")
        world.add_thread(CHANNEL, "Refunds", id=THREAD)
        world.add_channel(FORUM, guild, "requests", forum=True)
        world.add_thread(FORUM, "October", id=POST)
        settings = Settings(
            discord_token=tuple(SecretStr(token_of(id)) for id in ids or (ID,)),
            discord_base_url=sandbox.discord_base_url,
            discord_gateway_url=sandbox.discord_gateway_url,
        )
        chores, lease = Chores(), SwitchedLease()
        surface = Discord(settings, hooks(chores, lease), pace=pace)
        try:
            yield Setting(sandbox, settings, surface, chores, lease)
        finally:
            await surface.close()


def seen(kept: Kept) -> Shown:
    """A kept message as a person sees it."""
    buttons = {button["label"]: button["custom_id"] for button in kept.buttons}
    return Shown(markdown.shown(kept)[0], buttons, markdown.live(kept))


@asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    async with discord() as setting:
        world = setting.world
        menus: list[int] = []
        acts: list[asyncio.Task[Interaction | Kept]] = []

        def kept(message: Message) -> Kept:
            return world.channel(int(message.chat)).message(int(message.id))

        def files(message: Message) -> list[tuple[str, str]]:
            replies = [m for m in world.channel(int(message.chat)).messages if m.reference == int(message.id)]
            return [(file.name, world.content(file).decode()) for m in replies for file in m.attachments]

        def meet(trouble: str) -> str:
            match trouble:
                case "gone":
                    world.fail("*", status=403, code=50001)
                case "slow":
                    world.fail("*", retry_after=33)
                case "refused":
                    errors = {"embeds": {"_errors": [{"code": "X", "message": "The customer was charged twice."}]}}
                    world.fail("*", status=400, code=50035, errors=errors)
                case "unavailable":
                    world.fail("*", status=503)
            return ""

        def once_online(act: Callable[[], Interaction | Kept]) -> None:
            # Discord keeps nothing for a bot that is not connected yet.
            async def do() -> Interaction | Kept:
                await world.until(world.online, 10)
                return act()

            acts.append(asyncio.create_task(do()))

        def press(message: Message, label: str, by: int = 0) -> None:
            who = (DANA, OLA, KIM)[by]
            once_online(lambda: world.press(who, int(message.chat), int(message.id), label=label))

        def reply(message: Message, text: str) -> None:
            once_online(lambda: world.say(DANA, int(message.chat), text, reply_to=int(message.id)))

        async def told() -> str:
            done = await acts[-1]
            if isinstance(done, Interaction):
                return markdown.read((await world.answer(done)).text)[0]
            channel = world.channel(CHANNEL)
            return await world.until(
                lambda: "".join(markdown.shown(m)[0] for m in channel.messages if m.reference == done.id)
            )

        async def menu() -> Shown:
            found = await world.until(
                lambda: next(
                    (m for m in world.channel(CHANNEL).messages[::-1] if m.only_for == DANA and m.buttons), None
                )
            )
            menus.append(found.id)
            return seen(found)

        async def opened() -> tuple[str, dict[str, str]]:
            done = await acts[-1]
            assert isinstance(done, Interaction)
            modal = (await world.answer(done)).modal or {}
            return modal["title"], {field["label"]: field.get("value", "") for field in inputs_of(modal)}

        def submit(texts: list[str]) -> None:
            interaction = acts[-1].result()
            assert isinstance(interaction, Interaction)
            names = [field["custom_id"] for field in inputs_of(interaction.modal or {})]
            filled = dict(zip(names, texts, strict=True))
            once_online(lambda: world.submit(DANA, interaction, filled))

        yield Bench(
            surface=setting.surface,
            place=Destination("discord", str(ID), str(CHANNEL)),
            troubles=frozenset({"gone", "slow", "refused", "unavailable"}),
            shown=lambda message: seen(kept(message)),
            files=files, meet=meet, press=press, reply=reply, told=told, people=("Dana Reyes", "Ola Berg", "Kim Sato"),
            menu=menu, pick=lambda label: once_online(lambda: world.press(DANA, CHANNEL, menus[-1], label=label)),
            menu_now=lambda: seen(world.channel(CHANNEL).message(menus[-1])),
            opened=opened, submit=submit, group=f"discord:{GUILD}/{ROLE}",
            join=lambda: world.give_role(DANA, GUILD, ROLE),
        )  # fmt: skip
