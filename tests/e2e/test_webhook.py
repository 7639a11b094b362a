"""Telegram delivers to the process of the bots: only with the secret, and an update counts once it is committed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

from core.approvals import Status
from tests.e2e.stack import ARGUMENTS, BOT, DANA, GROUP, Servers, eventually
from tests.e2e.test_faults import on_postgres
from tests.services import free_port

SECRET = "a-secret-that-only-telegram-knows"


async def test_a_webhooks_press_is_confirmed_once_it_is_committed_and_a_forged_one_decides_nothing(
    tmp_path: Path, servers: Servers
) -> None:
    bind = f"127.0.0.1:{free_port()}"
    settings = {
        "PLACET_HTTP_BIND": bind, "PLACET_PUBLIC_URL": f"http://{bind}", "PLACET_TELEGRAM_WEBHOOK_SECRET": SECRET,
    }  # fmt: skip
    async with on_postgres(tmp_path, servers) as (whole, server), whole.process(**settings) as process:
        world = whole.seen.world
        asked = await whole.caller.ask()
        card = await whole.seen.card()

        # Whoever knows the address and the button, and not the secret.
        forged = {
            "update_id": 1,
            "callback_query": {
                "id": "1", "from": {"id": DANA, "is_bot": False, "first_name": "Dana"}, "chat_instance": "1",
                "data": card.buttons[0][0].data,
                "message": {"message_id": card.id, "date": 0, "chat": {"id": GROUP, "type": "supergroup"}},
            },
        }  # fmt: skip
        async with httpx.AsyncClient(base_url=f"http://{bind}", trust_env=False) as stranger:
            for headers in ({}, {"X-Telegram-Bot-Api-Secret-Token": SECRET[:-1]}):
                answer = await stranger.post(f"/telegram/{BOT}", json=forged, headers=headers)
                assert answer.status_code == 401
        assert (await whole.row()).status is Status.PENDING

        await server.stop()
        press = world.press(DANA, GROUP, card.id, label="Allow")
        assert "cannot save answers" in (await world.answer(press, 30)).text
        bot = world.bots[press.bot]

        async def refused() -> bool:
            return bot.webhook is not None and "503" in (bot.webhook.last_error or "")

        await eventually(refused, 30)
        assert [update.id for update in world.pending(bot)] == [press.update_id], "the update was confirmed to Telegram"
        await server.start()
        assert (await asyncio.wait_for(asked.result(), 90))["outcome"] == "sent"
        assert whole.caller.ran == [ARGUMENTS]
        await whole.seen.settled(card, "Done.", timeout=60)

        async def confirmed() -> bool:
            return not world.pending(bot)

        await eventually(confirmed)
        assert world.calls_of("getUpdates") == []
    assert SECRET not in process.log.read_text()
