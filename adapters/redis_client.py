"""One way to talk to Redis: a short patience, one retry, and shared round trips in a rush."""

from __future__ import annotations

import asyncio
from typing import Any

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

TIMEOUT_S = 0.25

Command = tuple[str | int | bytes, ...]


def connect(url: str) -> Redis:
    """A client that sends nothing before its first command; bound each with `asyncio.timeout(TIMEOUT_S)`."""
    # After a restart of Redis the pooled connections are dead but the server is well: one retry, at once.
    pool = ConnectionPool.from_url(
        url, socket_timeout=None, socket_connect_timeout=TIMEOUT_S, retry=Retry(NoBackoff(), 1)
    )
    return Redis.from_pool(pool)


class Commands:
    """Sends commands in their order; those that come while a round trip is under way go together in the next.

    In a rush of presses redis-py costs several times what Redis does: a shared round trip shares that. Where nobody
    waits for the answer, the next round trip may start `pause_s` after the last, so that more share it.
    """

    def __init__(self, redis: Redis, pause_s: float = 0.0) -> None:
        self._redis, self._pause_s = redis, pause_s
        self._busy = False
        self._waiting: list[tuple[Command, asyncio.Future[Any]]] = []
        self._sending: asyncio.Task[None] | None = None

    async def run(self, *command: str | int | bytes) -> Any:
        """The answer. Raises RedisError or OSError; bound it with `asyncio.timeout(TIMEOUT_S)`."""
        if self._busy:
            answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self._waiting.append((command, answer))
            return await answer
        self._busy = True
        try:
            return await self._redis.execute_command(*command)  # type: ignore[no-untyped-call]
        finally:
            self._go_on()

    async def aclose(self) -> None:
        """Give up what is under way."""
        for _, asked in self._waiting:
            asked.cancel()
        self._waiting.clear()
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    def _go_on(self) -> None:
        if self._pause_s:
            asyncio.get_running_loop().call_later(self._pause_s, self._next)
        else:
            self._next()

    def _next(self) -> None:
        self._busy = bool(self._waiting)
        if self._busy:
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        batch, self._waiting = self._waiting, []
        try:
            for (_, asked), answer in zip(batch, await self._answers([command for command, _ in batch]), strict=True):
                if asked.done():
                    continue
                if isinstance(answer, Exception):
                    asked.set_exception(answer)
                else:
                    asked.set_result(answer)
        finally:
            self._go_on()

    async def _answers(self, commands: list[Command]) -> list[Any]:
        """One answer for each, or the error that stands for it."""
        pipeline = self._redis.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return list(await pipeline.execute(raise_on_error=False))
        except Exception as error:
            return [error] * len(commands)
