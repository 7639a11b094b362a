"""Slack on the bench: the real library against the sandbox's Web API and Socket Mode."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pydantic import SecretStr

from adapters.sandbox import Sandbox
from adapters.sandbox.slack import Message as Kept
from adapters.sandbox.slack import Press as Pressed
from adapters.sandbox.slack import World
from bots.slack import Settings, Slack
from core.approvals import Destination, Message
from tests.bots.contract import Bench, Shown
from tests.bots.telegram_bench import Chores, hooks

TEAM, TOKEN = "T01", "xoxb-sandbox-token-AAAAAAAAAAAA"
OTHER_TEAM, OTHER_TOKEN = "T02", "xoxb-sandbox-token-BBBBBBBBBBBB"
APP_TOKEN, SECRET = "xapp-sandbox-token-CCCCCCCCCCCC", "sandbox-signing-secret"
DANA, OLA, GUEST, OUTSIDER = "U01", "U02", "U03", "U91"
CHANNEL, PRIVATE, SHARED = "C01", "C02", "C03"


@dataclass
class Setting:
    """A sandbox with a workspace, its people and channels; and a surface that speaks to it."""

    sandbox: Sandbox
    settings: Settings
    surface: Slack
    chores: Chores

    @property
    def world(self) -> World:
        return self.sandbox.slack


@asynccontextmanager
async def slack(
    *tokens: str, pace: float = 0, rate_scale: float = float("inf"), over_http: bool = False
) -> AsyncIterator[Setting]:
    """A sandbox and the surface of `tokens` (the first workspace's), in Socket Mode unless `over_http`."""
    async with Sandbox(rate_scale=rate_scale) as sandbox:
        world = sandbox.slack
        world.add_team(TEAM, "Acme", token=TOKEN, app_token=APP_TOKEN, signing_secret=SECRET)
        if OTHER_TOKEN in tokens:
            world.add_team(OTHER_TEAM, "Bolt", token=OTHER_TOKEN)
        people = [world.add_person(DANA, "Dana Reyes"), world.add_person(OLA, "Ola Berg")]
        people.append(world.add_person(GUEST, "Gus Guest", restricted=True))
        outsider = world.add_person(OUTSIDER, "Otto Outsider", team="T99")
        world.add_channel(CHANNEL, "billing", people)
        world.add_channel(PRIVATE, "secret", people, private=True)
        world.add_channel(SHARED, "with-others", [*people, outsider])
        settings = Settings(
            slack_bot_token=tuple(map(SecretStr, tokens or (TOKEN,))),
            slack_app_token=None if over_http else SecretStr(APP_TOKEN),
            slack_signing_secret=SecretStr(SECRET) if over_http else None,
            slack_base_url=sandbox.slack_base_url,
        )
        chores = Chores()
        surface = Slack(settings, hooks(chores), pace=pace)
        try:
            yield Setting(sandbox, settings, surface, chores)
        finally:
            await surface.close()


def seen(kept: Kept) -> Shown:
    """A kept message as a person sees it."""
    buttons = {button["text"]["text"]: button["value"] for button in kept.buttons}
    return Shown(kept.shown, buttons, kept.live)


@asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    async with slack() as setting:
        world = setting.world
        presses: list[Pressed] = []
        menus: list[str] = []
        setting.chores.mapped = frozenset({f"slack:{TEAM}/S01", f"slack:{TEAM}/S02"})

        def files(message: Message) -> list[tuple[str, str]]:
            thread = world.channels[message.chat].thread(message.id)
            return [(file.name, world.content(file).decode()) for each in thread for file in each.files]

        def meet(trouble: str) -> str:
            match trouble:
                case "gone":
                    world.fail("*", error="channel_not_found")
                case "slow":
                    world.fail("*", retry_after=33)
                case "refused":
                    world.fail("*", error="invalid_blocks")
                case "unavailable":
                    world.fail("*", status=502)
            return ""

        def press(message: Message, label: str, by: int = 0) -> None:
            presses.append(world.press((DANA, OLA, GUEST)[by], message.chat, message.id, label=label))

        def reply(message: Message, text: str) -> None:
            world.reply(DANA, message.chat, message.id, text)

        async def told() -> str:
            if presses and presses[-1].ts:
                return (await world.until(lambda: presses[-1].words))[-1]
            return (await world.until(lambda: world.told(DANA)))[-1]

        async def menu() -> Shown:
            found = await world.until(
                lambda: next((m for m in world.channels[CHANNEL].messages[::-1] if m.only == DANA and m.buttons), None)
            )
            menus.append(found.ts)
            return seen(found)

        async def opened() -> tuple[str, dict[str, str]]:
            view = (await world.opened(presses[-1])).view
            fields = [block for block in view["blocks"] if block["type"] == "input"]
            return view["title"]["text"], {
                field["label"]["text"]: field["element"].get("initial_value", "") for field in fields
            }

        def submit(texts: list[str]) -> None:
            view = world.views[presses[-1].view or ""]
            names = [field["element"]["action_id"] for field in view.fields]
            presses.append(world.submit(view, dict(zip(names, texts, strict=True))))

        yield Bench(
            surface=setting.surface,
            place=Destination("slack", TEAM, CHANNEL),
            troubles=frozenset({"gone", "slow", "refused", "unavailable"}),
            shown=lambda message: seen(world.channels[message.chat].message(message.id)),
            files=files, meet=meet, press=press, reply=reply, told=told,
            people=("Dana Reyes", "Ola Berg", "Gus Guest"), menu=menu,
            pick=lambda label: presses.append(world.press(DANA, CHANNEL, menus[-1], label=label)),
            menu_now=lambda: seen(world.channels[CHANNEL].message(menus[-1])),
            opened=opened, submit=submit, group=f"slack:{TEAM}/S01",
            join=lambda: world.set_usergroup("S01", [DANA]),
        )  # fmt: skip
