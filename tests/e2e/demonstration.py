"""The demo in a process of its own, and its page as a person uses it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from playwright.async_api import Locator, Page, expect

from tests.e2e.stack import eventually
from tests.services import free_port

WAIT_MS = 30_000
PLATFORMS = ("telegram", "slack", "discord")


class Demo:
    """`placet demo` in a process of its own."""

    address = ""

    def __init__(self, folder: Path, cwd: Path | None = None, **env: str) -> None:
        """`cwd` and `env` are those of the terminal it is started in, this process's where nothing is said."""
        self.folder, self.port, self._cwd = folder, free_port(), cwd
        self._env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])} | env
        self.out = folder.with_suffix(".out")

    async def start(self) -> str:
        """Start it; the address that its one line prints."""
        command = [sys.executable, "-m", "adapters", "demo", "--no-browser", "--port", str(self.port), "--data-dir"]
        with self.out.open("w") as out:
            self.child = subprocess.Popen(
                [*command, str(self.folder)], stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
                cwd=self._cwd, env=self._env,
            )  # fmt: skip

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


@dataclass
class Chats:
    """The demo's page, and whatever the browser complained about or fetched from elsewhere."""

    page: Page
    complaints: list[str] = field(default_factory=list)

    def column(self, platform: str) -> Locator:
        return self.page.get_by_test_id(f"platform-{platform}")

    def card(self, platform: str, text: str) -> Locator:
        """The newest message of a column that contains a text."""
        messages = self.column(platform).get_by_test_id(re.compile(r"^message-[\d.]+$"))
        return messages.filter(has=self.page.locator(".text", has_text=text)).last

    async def everywhere(self, card: str, text: str) -> None:
        for platform in PLATFORMS:
            await expect(self.card(platform, card)).to_contain_text(text, timeout=WAIT_MS)
            await expect(self.card(platform, card).get_by_role("button", name="Allow")).to_have_count(0)

    async def act_as(self, platform: str, name: str) -> None:
        await self.page.get_by_test_id(f"acting-as-{platform}").select_option(label=name)

    async def press(self, platform: str, card: str, label: str) -> None:
        """Press a button, and wait until the press was answered."""
        await self.card(platform, card).get_by_role("button", name=label, exact=True).click(timeout=WAIT_MS)
        await expect(self.column(platform).locator(".key[aria-busy=true]")).to_have_count(0, timeout=WAIT_MS)

    async def write(self, platform: str, text: str) -> None:
        await self.page.get_by_test_id(f"composer-{platform}").fill(text)
        await self.page.get_by_test_id(f"send-{platform}").click()

    async def ask(self, task: str, card: str) -> None:
        """Let the agent ask, and wait for the card in all three chats."""
        await self.page.get_by_test_id(f"action-{task}").click()
        for platform in PLATFORMS:
            allow = self.card(platform, card).get_by_role("button", name="Allow", exact=True)
            await expect(allow).to_be_visible(timeout=WAIT_MS)

    def story(self, task: str) -> Locator:
        """The newest of what the agent tells about a task."""
        return self.page.get_by_test_id(re.compile(f"^agent-ask-sample-{task}")).first


@asynccontextmanager
async def demonstrating(folder: Path, cwd: Path | None = None, **env: str) -> AsyncIterator[Demo]:
    made = Demo(folder, cwd, **env)
    try:
        yield made
    finally:
        if made.child.poll() is None:
            await made.stop(signal.SIGKILL)
