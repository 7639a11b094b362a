"""The browser that tests look at pages with."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, async_playwright

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@asynccontextmanager
async def a_browser() -> AsyncIterator[Browser]:
    """A headless Chromium."""
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=_chromium(), args=FLAGS)
        try:
            yield launched
        finally:
            await launched.close()


def _chromium() -> str:
    """The path of the installed Chromium."""
    mac = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
    for name in ("chromium", "chromium-browser", "google-chrome", mac):
        if path := shutil.which(name):
            return path
    raise FileNotFoundError("no Chromium is installed: run deploy/bootstrap.sh test")
