"""The demo, from the command to the first card that a person could press in a browser."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from statistics import median

from playwright.async_api import Browser, Error

from tests.bench.figures import Figure
from tests.browser import a_browser
from tests.services import free_port

STARTS = 3
BAR_S = 10.0


async def measure_demo(folder: Path) -> list[Figure]:
    """A new data folder at each start; the first start only warms the machine."""
    async with a_browser() as browser:
        took = [await seconds_to_card(browser, folder / f"demo-{number}") for number in range(STARTS + 1)][1:]
    against = f"median of {STARTS} starts, each with a new data folder"
    return [Figure("start of the demo to the first card on screen", median(took), "s", bar=BAR_S, bar_is="value",
                   against=against, cause=f"The machine's load was {os.getloadavg()[0]:.1f}.")]  # fmt: skip


async def seconds_to_card(browser: Browser, folder: Path) -> float:
    port = free_port()
    page = await browser.new_page()
    began = time.perf_counter()
    demo = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "adapters", "demo", "--no-browser", "--port", str(port), "--data-dir", str(folder)),
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(60):
            while True:
                try:
                    await page.goto(f"http://127.0.0.1:{port}/")
                    break
                except Error:
                    await asyncio.sleep(0.02)
            await page.get_by_role("button", name="Allow").first.wait_for(state="visible")
        return time.perf_counter() - began
    finally:
        await page.close()
        demo.send_signal(signal.SIGINT)
        await demo.wait()
