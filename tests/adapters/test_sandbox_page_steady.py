"""What stays on the sandbox's page when it reconnects, narrows, or is open in two windows of one person."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, Locator, Page, expect
from telegram import Bot, ForceReply, InlineKeyboardButton, InlineKeyboardMarkup, ReplyParameters

from adapters.sandbox import Sandbox
from tests.adapters.test_sandbox_page import CARD, FORUM, TOKEN, bot, browser, sandbox, told

pytestmark = pytest.mark.asyncio(loop_scope="module")
__all__ = ["bot", "browser", "sandbox"]

CHANNEL, GUILD, DISCORD_BOT = 600, 500, 8000000001
FROM_THE_END = "node => node.scrollHeight - node.scrollTop - node.clientHeight"


def furnish(sandbox: Sandbox) -> None:
    """One person on three platforms."""
    sandbox.add_bot(TOKEN, "placet_bot", name="Placet")
    sandbox.telegram.start(sandbox.add_person(1001, "Dana Reyes", "dana"))
    slack, discord = sandbox.slack, sandbox.discord
    slack.add_team("T01", "Acme", token="xoxb-sandbox")
    slack.add_channel("C01", "billing", [slack.add_person("U01", "Dana Reyes")])
    discord.add_bot(DISCORD_BOT, "placet", name="Placet")
    discord.add_channel(CHANNEL, discord.add_guild(GUILD, "Acme", [discord.add_person(4201, "Dana Reyes")]), "billing")


async def fill(sandbox: Sandbox) -> None:
    """More than a screen of messages, which wrap, in each chat."""
    for number in range(30):
        text = f"message {number} " + "and a few more words that wrap in a narrow column " * 3
        sandbox.telegram.say(1001, 1001, text)
        sandbox.slack.say("U01", "C01", text)
        sandbox.discord.say(4201, CHANNEL, text)


@asynccontextmanager
async def window(browser: Browser, sandbox: Sandbox, width: int = 1280, height: int = 800) -> AsyncIterator[Page]:
    page = await browser.new_page(viewport={"width": width, "height": height})
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    await page.goto(sandbox.url)
    await expect(page.get_by_test_id("connection")).to_have_text("Live")
    yield page
    await page.close()
    assert complaints == []


def log_of(page: Page, platform: str) -> Locator:
    return page.get_by_test_id(f"messages-{platform}")


async def scroll_up(page: Page, log: Locator, pixels: int) -> None:
    """As a person does, with the wheel; until the page has heard of it."""
    before = await log.evaluate("node => node.scrollTop")
    await log.hover()
    await page.mouse.wheel(0, -pixels)
    await page.wait_for_function(
        "([node, top]) => node.scrollTop === top", arg=[await log.element_handle(), before - pixels]
    )
    await drawn(page)


async def drawn(page: Page) -> None:
    """Until what was done is on the screen, and the page has heard of it."""
    await page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


async def test_a_chat_is_where_it_was_when_the_page_has_reconnected(browser: Browser, tmp_path: Path) -> None:
    async with Sandbox(0, tmp_path, rate_scale=math.inf) as first:
        furnish(first)
        await fill(first)
        port = first.port
        page = await browser.new_page(viewport={"width": 1280, "height": 800})
        await page.goto(first.url)
        read, ends = log_of(page, "telegram"), [log_of(page, "slack"), log_of(page, "discord")]
        await expect(read).to_contain_text("message 29")
        await scroll_up(page, read, 700)
        place = await read.evaluate("node => node.scrollTop")
        for end in ends:
            assert await end.evaluate(FROM_THE_END) < 2
        await page.evaluate("window.unmoved = document.querySelector('[data-testid=messages-discord]')")
    await expect(page.get_by_test_id("banner")).to_be_visible()
    async with Sandbox(port, tmp_path, rate_scale=math.inf) as second:
        furnish(second)
        second.discord.say(4201, CHANNEL, "said meanwhile")
        await expect(page.get_by_test_id("connection")).to_have_text("Live", timeout=15_000)
        await expect(ends[1]).to_contain_text("said meanwhile")
        assert await read.evaluate("node => node.scrollTop") == place
        for end in ends:
            assert await end.evaluate(FROM_THE_END) < 2
        await page.close()


async def test_the_end_stays_in_view_when_the_window_narrows(browser: Browser, sandbox: Sandbox, bot: Bot) -> None:
    furnish(sandbox)
    await fill(sandbox)
    keys = [
        [InlineKeyboardButton(label, callback_data=label) for label in ("Decline with a note", "Always allow this")]
    ]
    await bot.send_message(1001, "card " * 80, reply_markup=InlineKeyboardMarkup(keys))
    async with window(browser, sandbox) as page:
        logs = {platform: log_of(page, platform) for platform in ("telegram", "slack", "discord")}
        await expect(logs["discord"]).to_contain_text("message 29")
        for width, height in ((1024, 700), (900, 700), (1280, 800), (390, 800), (1024, 700)):
            await page.set_viewport_size({"width": width, "height": height})
            for platform, log in logs.items():
                await drawn(page)
                assert await log.evaluate(FROM_THE_END) < 2, (platform, width)
        # The page hears of a scrolling in the next frame, by which time the messages may be wrapped anew.
        for platform, log in logs.items():
            await log.evaluate(NARROWED_WHILE_IT_SCROLLS)
            await drawn(page)
            assert await log.evaluate(FROM_THE_END) < 2, platform
        # What a person has scrolled to is theirs: neither a new message nor another width leads away from it.
        await scroll_up(page, logs["slack"], 600)
        sandbox.slack.say("U01", "C01", "one more")
        await expect(logs["slack"]).to_contain_text("one more")
        assert await logs["slack"].evaluate(FROM_THE_END) > 500
        await page.set_viewport_size({"width": 1280, "height": 800})
        await drawn(page)
        assert await logs["slack"].evaluate(FROM_THE_END) > 200


NARROWED_WHILE_IT_SCROLLS = """
(node) => {
  node.scrollTop -= 1;
  node.closest(".platform").style.width = "200px";
}
"""


async def test_a_prompt_that_was_answered_in_one_window_asks_in_no_other(
    browser: Browser, sandbox: Sandbox, bot: Bot
) -> None:
    async with window(browser, sandbox) as here, window(browser, sandbox) as there:
        card = await bot.send_message(1001, "card", reply_markup=CARD)
        prompt = await bot.send_message(
            1001, "Your note?", reply_markup=ForceReply(), reply_parameters=ReplyParameters(card.message_id)
        )
        for page in (here, there):
            await expect(page.get_by_test_id("reply-bar-telegram")).to_contain_text("Your note?")
        await here.get_by_test_id("composer-telegram").fill("Not today")
        heard = (await told(bot, here.get_by_test_id("send-telegram").click())).message
        assert heard is not None
        assert heard.reply_to_message is not None
        assert heard.reply_to_message.message_id == prompt.message_id
        await expect(there.get_by_test_id("reply-bar-telegram")).to_be_hidden()
        await there.get_by_test_id("composer-telegram").fill("hello")
        heard = (await told(bot, there.get_by_test_id("send-telegram").click())).message
        assert heard is not None
        assert (heard.text, heard.reply_to_message) == ("hello", None)


async def test_a_reply_ends_with_its_card_and_what_was_written_stays(
    browser: Browser, sandbox: Sandbox, bot: Bot
) -> None:
    async with window(browser, sandbox) as page:
        bar, field = page.get_by_test_id("reply-bar-telegram"), page.get_by_test_id("composer-telegram")
        card = await bot.send_message(1001, "card", reply_markup=CARD)
        await page.get_by_test_id(f"reply-{card.message_id}").click()
        await field.fill("Not to")
        await bot.edit_message_text("card, changed", 1001, card.message_id, reply_markup=CARD)
        await expect(page.get_by_test_id(f"text-{card.message_id}")).to_have_text("card, changed")
        await expect(bar).to_be_visible()
        undo = InlineKeyboardMarkup([[InlineKeyboardButton("Undo", callback_data="u.t.1")]])
        await bot.edit_message_text("Allowed by Ola Berg", 1001, card.message_id, reply_markup=undo)
        await expect(bar).to_be_hidden()
        await expect(field).to_have_value("Not to")
        await expect(page.get_by_test_id("toast")).to_contain_text("answered meanwhile")


async def test_a_prompt_ends_with_the_card_that_it_is_about(browser: Browser, sandbox: Sandbox, bot: Bot) -> None:
    async with window(browser, sandbox) as page:
        bar = page.get_by_test_id("reply-bar-telegram")
        await page.get_by_test_id(f"chat-{FORUM}").click()
        await page.get_by_test_id("topic-general").click()
        card = await bot.send_message(FORUM, "card", reply_markup=CARD)
        under = ReplyParameters(card.message_id)
        await bot.send_message(FORUM, "@dana: why?", reply_markup=ForceReply(selective=True), reply_parameters=under)
        await expect(bar).to_contain_text("@dana: why?")
        await bot.edit_message_text("Allowed by Ola Berg", FORUM, card.message_id)
        await expect(bar).to_be_hidden()
        # Nor does a window that is opened now ask for it.
        async with window(browser, sandbox) as late:
            await late.get_by_test_id(f"chat-{FORUM}").click()
            await late.get_by_test_id("topic-general").click()
            await expect(late.get_by_test_id(f"text-{card.message_id}")).to_have_text("Allowed by Ola Berg")
            await expect(late.get_by_test_id("reply-bar-telegram")).to_be_hidden()


async def test_the_field_stays_above_the_tabs_while_the_page_reconnects(browser: Browser) -> None:
    async with Sandbox(rate_scale=math.inf) as sandbox:
        furnish(sandbox)
        await fill(sandbox)
        page = await browser.new_page(viewport={"width": 390, "height": 800})
        await page.goto(sandbox.url)
        await expect(log_of(page, "discord")).to_contain_text("message 29")
        for platform in ("telegram", "slack", "discord"):
            await page.get_by_test_id(f"tab-{platform}").click()
            column = page.get_by_test_id(f"platform-{platform}")
            await column.get_by_role("button", name="Reply to Dana Reyes").last.click()
            await expect(page.get_by_test_id(f"reply-bar-{platform}")).to_be_visible()
        await page.get_by_test_id("tab-slack").click()
        await expect(page.locator(".tabs [aria-current]")).to_have_attribute("data-testid", "tab-slack")
    await expect(page.get_by_test_id("banner")).to_be_visible()
    await expect(page.get_by_test_id("composer-slack")).to_be_in_viewport(ratio=1)
    for platform in ("slack", "telegram", "discord"):
        if platform != "slack":
            await page.get_by_test_id(f"tab-{platform}").click()
        await expect(page.locator(".tabs [aria-current]")).to_have_attribute("data-testid", f"tab-{platform}")
        for name in ("reply-bar", "composer"):
            await expect(page.get_by_test_id(f"{name}-{platform}")).to_be_in_viewport(ratio=1)
        assert await page.get_by_test_id(f"composer-{platform}").evaluate(ABOVE_THE_TABS)
    await page.close()


ABOVE_THE_TABS = """
(field) => field.getBoundingClientRect().bottom <= document.querySelector(".tabs").getBoundingClientRect().top
"""


@pytest.mark.parametrize("width", [390, 870, 1024, 1280])
async def test_who_one_acts_as_has_its_label_at_every_width(browser: Browser, sandbox: Sandbox, width: int) -> None:
    furnish(sandbox)
    sandbox.discord.say(4201, CHANNEL, "hello")
    async with window(browser, sandbox, width) as page:
        for platform in ("telegram", "slack", "discord"):
            column = page.get_by_test_id(f"platform-{platform}")
            await expect(column.get_by_label("Acting as")).to_be_visible()
            box = await column.get_by_text("Acting as", exact=True).bounding_box()
            assert box is not None
            assert box["width"] > 40, (platform, box)
            chosen = await column.get_by_label("Acting as").bounding_box()
            edge = await column.bounding_box()
            assert chosen is not None
            assert edge is not None
            assert chosen["width"] > 60
            assert chosen["x"] + chosen["width"] <= edge["x"] + edge["width"]


async def test_a_command_of_discord_without_what_it_needs_names_it(browser: Browser, sandbox: Sandbox) -> None:
    furnish(sandbox)
    world = sandbox.discord
    code = {"type": 3, "name": "code", "description": "The code", "required": True}
    link = {"type": 1, "name": "link", "description": "Link", "options": [code]}
    command = {"name": "placet", "description": "Approvals", "options": [link]}
    headers = {"authorization": f"Bot {world.bots[DISCORD_BOT].token}"}
    async with httpx.AsyncClient(base_url=sandbox.discord_base_url, headers=headers, trust_env=False) as rest:
        assert (await rest.put(f"/applications/{DISCORD_BOT}/commands", json=[command])).status_code == 200
    async with window(browser, sandbox) as page:
        await page.get_by_test_id(f"chat-{CHANNEL}").click()
        await page.get_by_test_id("composer-discord").fill("/placet link")
        await page.get_by_test_id("send-discord").click()
        await expect(page.get_by_test_id("toast")).to_have_text("code: This option is required. Specify a value.")
        await expect(page.get_by_test_id("composer-discord")).to_have_value("/placet link")
        assert not world.interactions
