"""The demo, as a newcomer meets it: one command, one page, a press, a reply, and starting again."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
from playwright.async_api import Browser, Page, expect

from tests.e2e.stack import eventually, free_port

WAIT_MS = 30_000
GROUP = "-1001000000001"


class Demo:
    """`placet demo` in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.out = folder.with_suffix(".out")

    async def start(self) -> str:
        """Start it; the address that its one line prints."""
        command = [sys.executable, "-m", "adapters", "demo", "--no-browser", "--port", str(self.port), "--data-dir"]
        with self.out.open("w") as out:
            self.child = subprocess.Popen(
                [*command, str(self.folder)], stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )

        async def address() -> str | None:
            assert self.child.poll() is None, self.out.read_text()
            found = re.search(r"http://127\.0\.0\.1:\d+", self.out.read_text())
            return found[0] if found else None

        found: str = await eventually(address, 60)
        self.children = psutil.Process(self.child.pid).children(recursive=True)
        return found

    async def stop(self, how: signal.Signals) -> None:
        """End it with a signal, and wait until nothing of it is left."""
        os.kill(self.child.pid, how)
        await asyncio.wait_for(asyncio.to_thread(self.child.wait), 30)

        async def gone() -> bool:
            return not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in self.children)

        await eventually(gone, 20)


@pytest.fixture
async def demo(tmp_path: Path) -> AsyncIterator[Demo]:
    made = Demo(tmp_path / "demo")
    try:
        yield made
    finally:
        if made.child.poll() is None:
            await made.stop(signal.SIGKILL)


@asynccontextmanager
async def opened(browser: Browser, address: str) -> AsyncIterator[Page]:
    page = await browser.new_page(viewport={"width": 1500, "height": 950})
    await page.goto(address)
    try:
        yield page
    finally:
        await page.close()


async def open_group(page: Page) -> None:
    await page.get_by_test_id(f"chat-{GROUP}").click()


async def test_the_demo_card_allow_settles_result_reply_declines(demo: Demo, browser: Browser) -> None:
    address = await demo.start()
    lines = demo.out.read_text().splitlines()
    assert len(lines) == 1, lines
    async with opened(browser, address) as page:
        await open_group(page)
        mail = page.get_by_test_id(re.compile(r"^message-\d+$")).filter(has_text="Write to a customer")
        command = page.get_by_test_id(re.compile(r"^message-\d+$")).filter(has_text="uname -s").first
        await expect(mail).to_be_visible(timeout=WAIT_MS)
        await expect(mail).to_contain_text("ada@example.com")
        await mail.get_by_role("button", name="Allow").click()
        await expect(mail).to_contain_text("Allowed by Dana Reyes", timeout=WAIT_MS)
        await expect(mail).to_contain_text("Done.", timeout=WAIT_MS)
        await expect(mail.get_by_role("button", name="Allow")).to_have_count(0)
        story = page.get_by_test_id(re.compile("^agent-ask-sample-message"))
        await expect(story).to_contain_text("Approved by Dana Reyes and done.", timeout=WAIT_MS)
        await expect(story).to_contain_text("msg_1")

        await command.get_by_role("button", name="Reply").click()
        await page.get_by_test_id("composer-telegram").fill("Not now, the export is still running")
        await page.get_by_test_id("send-telegram").click()
        await expect(command).to_contain_text("Dana Reyes replied", timeout=WAIT_MS)
        declined = page.get_by_test_id(re.compile("^agent-ask-sample-command"))
        await expect(declined).to_contain_text("Nothing was run.", timeout=WAIT_MS)
        await expect(declined).to_contain_text("Not now, the export is still running")
    assert (demo.folder / "outbox.jsonl").read_text().count("\n") == 1
    await demo.stop(signal.SIGINT)
    assert demo.child.returncode == 0
    assert len(demo.out.read_text().splitlines()) == 1


async def test_the_demo_killed_leaves_no_orphans_and_runs_again_on_the_same_data(demo: Demo, browser: Browser) -> None:
    address = await demo.start()
    async with opened(browser, address) as page:
        await open_group(page)
        card = page.get_by_test_id(re.compile(r"^message-\d+$")).filter(has_text="Write to a customer")
        await expect(card.get_by_role("button", name="Allow")).to_be_visible(timeout=WAIT_MS)
    await demo.stop(signal.SIGKILL)
    address = await demo.start()
    async with opened(browser, address) as page:
        await open_group(page)
        card = page.get_by_test_id(re.compile(r"^message-\d+$")).filter(has_text="Write to a customer")
        await expect(card).to_have_count(1)
        await card.get_by_role("button", name="Allow").click()
        await expect(card).to_contain_text("Done.", timeout=90_000)
    assert (demo.folder / "outbox.jsonl").read_text().count("\n") == 1
    await demo.stop(signal.SIGTERM)


async def test_a_second_demo_on_the_same_folder_is_refused_in_one_line(demo: Demo) -> None:
    await demo.start()
    command = [sys.executable, "-m", "adapters", "demo", "--no-browser", "--port", "0", "--data-dir", str(demo.folder)]
    second = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
    assert second.returncode == 1
    assert second.stdout == ""
    assert len(second.stderr.splitlines()) == 1
    assert str(demo.folder) in second.stderr
