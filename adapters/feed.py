"""Tells every process, over Redis pub/sub, that a row changed; and this process's own listeners directly."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import weakref
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self
from uuid import uuid4

from redis.exceptions import RedisError

from adapters.redis_client import TIMEOUT_S, connect

log = logging.getLogger("placet.adapters")

CHANNEL = "placet:changes"
REST_S = 2.0
PAUSE_S = 0.01
QUIET_S = 5.0
BACKOFF_S = (0.1, 5.0)
WAITING_IDS = 10_000


class Changes(AsyncIterator[tuple[str, int]]):
    """What one listener has not taken yet, the latest revision of each id; over 10,000 ids the oldest are dropped."""

    def __init__(self) -> None:
        self._waiting: dict[str, int] = {}
        self._wake = asyncio.Event()
        self._closed = False

    def put(self, approval_id: str, revision: int) -> None:
        self._waiting[approval_id] = max(revision, self._waiting.get(approval_id, 0))
        if len(self._waiting) > WAITING_IDS:
            del self._waiting[next(iter(self._waiting))]
        self._wake.set()

    async def __anext__(self) -> tuple[str, int]:
        while not self._waiting and not self._closed:
            self._wake.clear()
            await self._wake.wait()
        if self._closed:
            raise StopAsyncIteration
        approval_id = next(iter(self._waiting))
        return approval_id, self._waiting.pop(approval_id)

    async def aclose(self) -> None:
        """Hear no more; a waiting `anext` ends."""
        self._closed = True
        self._waiting.clear()
        self._wake.set()


class RedisFeed:
    """core.ports.Feed over one Redis channel, with one subscriber connection for all of a process's listeners.

    While Redis is away the listeners of this process still hear what this process publishes. An async context
    manager: entering connects, leaving closes.
    """

    def __init__(self, url: str) -> None:
        self._redis = connect(url)
        self._unsent: dict[str, int] = {}
        self._sent_at = 0.0
        self._origin = uuid4().hex
        self._listeners: weakref.WeakSet[Changes] = weakref.WeakSet()
        self._reader: asyncio.Task[None] | None = None
        self._connected = asyncio.Event()
        self._rests_until = 0.0

    @property
    def connected(self) -> bool:
        """Whether other processes are heard now."""
        return self._connected.is_set()

    async def publish(self, approval_id: str, revision: int) -> None:
        """Tell everybody; at most 260 ms, never raises. After a failure Redis is left alone for 2 s.

        In a rush there is one publication every 10 ms, and what comes in between goes along with it.
        """
        self._tell(approval_id, revision)
        clock = asyncio.get_running_loop()
        if clock.time() < self._rests_until:
            return
        alone = not self._unsent
        self._unsent[approval_id] = max(revision, self._unsent.get(approval_id, 0))
        if not alone:
            return
        try:
            if (left := self._sent_at + PAUSE_S - clock.time()) > 0:
                await asyncio.sleep(left)
        finally:
            changes, self._unsent = self._unsent, {}
        self._sent_at = clock.time()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await self._redis.publish(CHANNEL, json.dumps([self._origin, changes]))
        except (RedisError, OSError, TimeoutError) as error:
            self._rests_until = clock.time() + REST_S
            log.warning("feed not published", extra={"approvals": list(changes), "error": type(error).__name__})

    def subscribe(self) -> Changes:
        """Ids and revisions from this call on, not from the first `anext`; closes with `aclose` or when dropped."""
        changes = Changes()
        self._listeners.add(changes)
        self._start()
        return changes

    async def aclose(self) -> None:
        """Close the connections and end every listener."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        for changes in list(self._listeners):
            await changes.aclose()
        await self._redis.aclose()

    async def __aenter__(self) -> Self:
        """Waits for the subscription, at most 250 ms; without Redis it goes on and connects later."""
        self._start()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await self._connected.wait()
        except TimeoutError:
            pass
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _start(self) -> None:
        if self._reader is None:
            self._reader = asyncio.create_task(self._read())

    def _tell(self, approval_id: str, revision: int) -> None:
        for changes in list(self._listeners):
            changes.put(approval_id, revision)

    async def _read(self) -> None:
        least, most = BACKOFF_S
        pause = least
        while True:
            try:
                await self._read_until_lost()
            except (RedisError, OSError) as error:
                if self.connected:
                    pause = least
                    log.warning("feed lost", extra={"error": type(error).__name__})
            self._connected.clear()
            # Spread, so that many processes do not all come back to a Redis at the same moment.
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
            pause = min(pause * 2, most)

    async def _read_until_lost(self) -> None:
        async with self._redis.pubsub() as channel:
            await channel.subscribe(CHANNEL)
            pinged = False
            while True:
                message = await channel.get_message(timeout=QUIET_S)
                if message is None:
                    # A connection that is cut without a word looks just like a quiet one: ask, then give it up.
                    if pinged:
                        raise TimeoutError("the feed's connection is silent")
                    await channel.ping()
                pinged = message is None
                if message is None or message["type"] == "pong":
                    continue
                if message["type"] == "subscribe":
                    self._connected.set()
                elif message["type"] == "message":
                    self._hear(message["data"])

    def _hear(self, data: bytes) -> None:
        try:
            origin, changes = json.loads(data)
            if origin != self._origin:
                for approval_id, revision in changes.items():
                    self._tell(approval_id, int(revision))
        except (ValueError, TypeError, AttributeError):
            log.warning("feed message unreadable")
