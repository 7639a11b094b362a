"""One way to talk to Redis: a short patience, one retry, and shared round trips in a rush."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from hiredis import pack_command
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

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
    """Sends commands over one connection, in their order; what comes while a round trip is under way goes in the next.

    A command costs half of what it does through the client, and in a rush of presses the trips are shared. Where
    nobody waits for the answer, the next trip may start `pause_s` after the last one, so that more share it.
    """

    def __init__(self, redis: Redis, pause_s: float = 0.0) -> None:
        self._connection: Any = redis.connection_pool.make_connection()  # type: ignore[no-untyped-call]
        self._pause_s = pause_s
        self._busy = False
        self._waiting: list[tuple[Command, asyncio.Future[Any]]] = []
        self._sending: asyncio.Task[None] | None = None

    async def run(self, *command: str | int | bytes) -> Any:
        """The answer. Raises RedisError or OSError; TimeoutError after `TIMEOUT_S`, the pause apart."""
        if self._busy:
            asked: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self._waiting.append((command, asked))
            return await asked
        self._busy = True
        try:
            (answer,) = await self._exchange([command])
        except Exception as error:
            self._refuse_waiting(error)
            raise
        finally:
            self._go_on()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def aclose(self) -> None:
        """Close the connection; what is under way is given up."""
        for _, asked in self._waiting:
            asked.cancel()
        self._waiting.clear()
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
        await self._connection.disconnect()

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
            answers = await self._exchange([command for command, _ in batch])
        except Exception as error:
            answers = [error] * len(batch)
            self._refuse_waiting(error)
        finally:
            self._go_on()
        for (_, asked), answer in zip(batch, answers, strict=True):
            if asked.done():
                continue
            if isinstance(answer, Exception):
                asked.set_exception(answer)
            else:
                asked.set_result(answer)

    def _refuse_waiting(self, error: Exception) -> None:
        """Whoever waits behind a trip that failed has waited long enough."""
        waiting, self._waiting = self._waiting, []
        for _, asked in waiting:
            if not asked.done():
                asked.set_exception(error)

    async def _exchange(self, commands: Sequence[Command]) -> list[Any]:
        """One answer for each, or the error that Redis gives for it."""
        async with asyncio.timeout(TIMEOUT_S):
            try:
                return await self._attempt(commands)
            except RedisConnectionError:
                # After a restart of Redis the connection is dead but the server is well: once more, at once.
                return await self._attempt(commands)

    async def _attempt(self, commands: Sequence[Command]) -> list[Any]:
        # Whatever breaks off a read or a write closes the connection, so that no answer meets another question.
        await self._connection.connect()
        await self._connection.send_packed_command(
            [pack_command(command) for command in commands]  # type: ignore[arg-type]
        )
        return [await self._answer() for _ in commands]

    async def _answer(self) -> Any:
        try:
            return await self._connection.read_response()
        except ResponseError as error:
            return error
