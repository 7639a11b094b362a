"""Takes the README's picture of the demo anew: `.venv/bin/python -m tests.docs.picture`."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from pathlib import Path

from tests.browser import a_browser
from tests.e2e.demonstration import Chats, demonstrating

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "demo.png"
REFUND = "Refund a duplicate charge"


async def take(picture: Path) -> None:
    """A turn of the sample agent, allowed in three chats: each shows the refund that was allowed in Slack."""
    with tempfile.TemporaryDirectory() as folder:
        async with demonstrating(Path(folder) / "demo") as demo:
            async with a_browser() as browser:
                page = await browser.new_page(viewport={"width": 1280, "height": 800}, locale="en-GB")
                chats = Chats(page)
                await page.goto(await demo.start())
                await chats.act_as("slack", "Ola Berg")
                await chats.act_as("discord", "Kim Sato")
                await chats.press("discord", "Delete the old exports", "Allow")
                await chats.press("discord", "Write to a customer", "Allow")
                await chats.card("slack", REFUND).get_by_role("button", name="Allow", exact=True).click()
                await page.get_by_test_id("form-submit").click()
                await chats.everywhere(REFUND, "Done.")
                await page.evaluate("document.activeElement.blur()")
                await page.mouse.move(0, 0)
                await page.screenshot(path=picture)
            await demo.stop(signal.SIGINT)


if __name__ == "__main__":
    asyncio.run(take(PICTURE))
