"""The Slack column of the sandbox's page in a real browser, with the real surface behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from core.buttons import new_token
from tests.adapters.test_sandbox_page import browser
from tests.bots.contract import PLAIN, Door
from tests.bots.slack_bench import CHANNEL, DANA, OLA, Setting, slack
from tests.bots.test_slack import HERE

pytestmark = pytest.mark.asyncio(loop_scope="module")
__all__ = ["browser"]


@pytest_asyncio.fixture(loop_scope="module")
async def setting() -> AsyncIterator[Setting]:
    async with slack() as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def door(setting: Setting) -> AsyncIterator[Door]:
    door = Door()
    task = asyncio.create_task(setting.surface.listen(door.on_press))
    await setting.world.until(lambda: setting.world.connected)
    yield door
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, setting: Setting) -> AsyncIterator[Page]:
    opened = await browser.new_page(viewport={"width": 1400, "height": 820})
    complaints: list[str] = []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("console", lambda line: complaints.append(line.text) if "Content Security" in line.text else None)
    await opened.goto(setting.sandbox.url)
    await expect(opened.get_by_test_id("connection")).to_have_text("Live")
    await opened.get_by_test_id(f"chat-{CHANNEL}").click()
    yield opened
    await opened.close()
    assert complaints == []


async def test_money_is_confirmed_and_only_the_presser_is_told(page: Page, setting: Setting, door: Door) -> None:
    message = await setting.surface.post(HERE, PLAIN, token=new_token())
    allow = page.get_by_test_id(f"button-{message.id}-0-0")
    await allow.click()
    await expect(page.get_by_test_id("form")).to_contain_text("Allow this refund of 49.00 GBP?")
    await page.get_by_test_id("form-close").click()
    await allow.click()
    await page.get_by_test_id("form-submit").click()
    await expect(page.get_by_test_id("messages-slack")).to_contain_text("Only you see this")
    assert [press.verb for press in door.presses] == ["a"]
    await page.get_by_test_id("acting-as-slack").select_option(label="Ola Berg")
    await page.get_by_test_id(f"chat-{CHANNEL}").click()
    await expect(page.get_by_test_id("messages-slack")).to_contain_text(PLAIN.title)
    await expect(page.get_by_test_id("messages-slack")).not_to_contain_text("Only you see this")


async def test_a_note_is_written_in_a_form_and_a_reply_stands_in_the_thread(
    page: Page, setting: Setting, door: Door
) -> None:
    message = await setting.surface.post(HERE, PLAIN, token=new_token())
    await setting.surface.post(HERE, PLAIN, token=new_token())
    await page.get_by_test_id(f"button-{message.id}-0-2").click()
    await page.get_by_test_id("form-note").fill("Wrong customer")
    await page.get_by_test_id("form-submit").click()
    assert (await door.pressed())[0].text == "Wrong customer"
    await page.get_by_test_id(f"reply-{message.id}").click()
    await page.get_by_test_id("composer-slack").fill("not this month")
    await page.get_by_test_id("send-slack").click()
    assert (await door.pressed(2))[1].text == "not this month"
    reply = setting.world.channels[CHANNEL].thread(message.id)[0]
    rows = page.get_by_test_id("messages-slack").locator("li.message")
    await expect(rows.nth(1)).to_have_attribute("data-testid", f"message-{reply.ts}")


async def test_a_command_is_used_from_the_field(page: Page, setting: Setting, door: Door) -> None:
    await page.get_by_test_id("composer-slack").fill("/placet pending")
    await page.get_by_test_id("send-slack").click()
    await expect(page.get_by_test_id("messages-slack")).to_contain_text("Nothing waits for you.")
    assert setting.chores.asked == [("pending", DANA)]
    assert setting.world.told(OLA) == []
