"""Pushes updates to the bots that set a web hook, and tries again until they take them."""

from __future__ import annotations

import asyncio
import contextlib

import httpx

from adapters.sandbox.telegram.records import Bot, Update
from adapters.sandbox.telegram.world import World

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 60.0


class Webhooks:
    """Anything but 2xx is sent again: at once, then with doubling pauses, or after the seconds of Retry-After."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._under_way: dict[tuple[int, int], asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Push until cancelled."""
        async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
            try:
                while True:
                    for bot in self._world.bots.values():
                        self._push_pending(client, bot)
                    await self._world.next_change.wait()
            finally:
                for task in self._under_way.values():
                    task.cancel()
                await asyncio.gather(*self._under_way.values(), return_exceptions=True)

    def _push_pending(self, client: httpx.AsyncClient, bot: Bot) -> None:
        if bot.webhook is None:
            return
        busy = sum(1 for of, _ in self._under_way if of == bot.id)
        for update in self._world.pending(bot):
            key = (bot.id, update.id)
            if key not in self._under_way and busy < bot.webhook.max_connections:
                busy += 1
                task = asyncio.create_task(self._push(client, bot, update))
                self._under_way[key] = task
                task.add_done_callback(lambda _, key=key: self._finished(key))  # type: ignore[misc]

    def _finished(self, key: tuple[int, int]) -> None:
        self._under_way.pop(key, None)
        self._world.announce()

    async def _push(self, client: httpx.AsyncClient, bot: Bot, update: Update) -> None:
        pause = 0.0
        while (hook := bot.webhook) is not None and update in self._world.pending(bot):
            headers = {"X-Telegram-Bot-Api-Secret-Token": hook.secret} if hook.secret else {}
            wait = pause
            try:
                response = await client.post(hook.url, json=update.wire, headers=headers)
                if response.is_success:
                    self._world.confirm(bot, only=update.id)
                    return
                error = f"Wrong response from the webhook: {response.status_code} {response.reason_phrase}"
                with contextlib.suppress(ValueError):
                    wait = float(response.headers.get("retry-after", ""))
            except httpx.HTTPError as failure:
                error = f"Connection failed: {type(failure).__name__}"
            hook.last_error_at, hook.last_error = int(self._world.now()), error
            self._world.keep(bot)
            await asyncio.sleep(wait)
            pause = min(max(pause * 2, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
