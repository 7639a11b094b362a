"""The Redis feed: every process hears of a change, this one even when Redis is away."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from adapters import feed as feed_module
from adapters.embedded import ValkeyServer
from adapters.feed import CHANNEL, Changes, RedisFeed


async def next_of(changes: AsyncIterator[tuple[str, int]], within: float = 5) -> tuple[str, int]:
    async with asyncio.timeout(within):
        return await anext(changes)


async def silent(changes: AsyncIterator[tuple[str, int]]) -> bool:
    try:
        await next_of(changes, 0.2)
    except TimeoutError:
        return True
    return False


async def connected(feed: RedisFeed) -> None:
    async with asyncio.timeout(10):
        while not feed.connected:
            await asyncio.sleep(0.02)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "REST_S", 0.1)
    monkeypatch.setattr(feed_module, "BACKOFF_S", (0.05, 0.1))


async def test_another_process_hears_of_a_change_once(valkey_url: str) -> None:
    async with RedisFeed(valkey_url) as here, RedisFeed(valkey_url) as there:
        changes = there.subscribe()
        await here.publish("a-1", 2)
        assert await next_of(changes) == ("a-1", 2)
        assert await silent(changes)


async def test_the_publishing_process_hears_it_once_too(valkey_url: str) -> None:
    async with RedisFeed(valkey_url) as feed:
        changes = feed.subscribe()
        await feed.publish("a-1", 2)
        assert await next_of(changes) == ("a-1", 2)
        assert await silent(changes)


async def test_a_change_between_subscribing_and_waiting_is_not_lost(valkey_url: str) -> None:
    async with RedisFeed(valkey_url) as here, RedisFeed(valkey_url) as there:
        changes = there.subscribe()
        await here.publish("a-1", 1)
        await asyncio.sleep(0.1)
        assert await next_of(changes) == ("a-1", 1)


async def test_changes_before_subscribing_are_not_heard(valkey_url: str) -> None:
    async with RedisFeed(valkey_url) as feed:
        await feed.publish("a-1", 1)
        assert await silent(feed.subscribe())


async def test_a_slow_listener_gets_the_latest_revision_of_each_row(valkey_url: str) -> None:
    async with RedisFeed(valkey_url) as feed:
        changes = feed.subscribe()
        for revision in (1, 3, 2):
            await feed.publish("a-1", revision)
        await feed.publish("a-2", 1)
        assert [await next_of(changes), await next_of(changes)] == [("a-1", 3), ("a-2", 1)]


async def test_a_thousand_listeners_share_one_connection(valkey_url: str) -> None:
    async with RedisFeed(valkey_url) as here, RedisFeed(valkey_url) as there, Redis.from_url(valkey_url) as redis:
        listeners = [there.subscribe() for _ in range(1000)]
        await here.publish("a-1", 2)
        heard = await asyncio.gather(*(next_of(changes) for changes in listeners))
        assert heard == [("a-1", 2)] * 1000
        subscribed = [client for client in await redis.client_list() if int(client["sub"]) > 0]
        assert len(subscribed) == 2


async def test_a_closed_listener_ends_its_wait_and_hears_no_more(valkey_url: str) -> None:
    async with RedisFeed(valkey_url) as feed:
        changes = feed.subscribe()
        waiting = asyncio.create_task(collect(changes))
        await asyncio.sleep(0.05)
        await changes.aclose()
        assert await waiting == []
        await feed.publish("a-1", 1)
        assert await collect(changes) == []


async def test_leaving_the_feed_ends_every_listener(valkey_url: str) -> None:
    async with RedisFeed(valkey_url) as feed:
        changes = feed.subscribe()
        waiting = asyncio.create_task(collect(changes))
        await asyncio.sleep(0.05)
    async with asyncio.timeout(5):
        assert await waiting == []


async def test_a_dropped_listener_is_forgotten(valkey_url: str) -> None:
    async with RedisFeed(valkey_url) as feed:
        kept = feed.subscribe()
        dropped = weakref.ref(feed.subscribe())
        gc.collect()
        await feed.publish("a-1", 1)
        assert await next_of(kept) == ("a-1", 1)
        assert dropped() is None


@pytest.mark.usefixtures("quick")
async def test_redis_stopped_this_process_still_hears_and_others_again_once_it_is_back(tmp_path: Path) -> None:
    server = ValkeyServer(tmp_path)
    await server.start()
    try:
        async with RedisFeed(server.url) as here, RedisFeed(server.url) as there:
            local, remote = here.subscribe(), there.subscribe()
            await server.kill()
            for revision in (1, 2):
                await here.publish("a-1", revision)
                assert await next_of(local) == ("a-1", revision)
            await server.start()
            await connected(there)
            await asyncio.sleep(0.2)
            await here.publish("a-1", 3)
            assert await next_of(remote) == ("a-1", 3)
            assert await next_of(local) == ("a-1", 3)
    finally:
        await server.stop()


@pytest.mark.usefixtures("quick")
async def test_a_feed_made_while_redis_is_away_connects_when_it_comes(tmp_path: Path) -> None:
    server = ValkeyServer(tmp_path)
    await server.start()
    await server.stop()
    try:
        async with RedisFeed(server.url) as here, RedisFeed(server.url) as there:
            assert not there.connected
            changes = there.subscribe()
            await here.publish("a-1", 1)
            await server.start()
            await connected(there)
            await asyncio.sleep(0.2)
            await here.publish("a-1", 2)
            assert await next_of(changes) == ("a-1", 2)
    finally:
        await server.stop()


async def test_a_quiet_connection_is_asked_and_kept(valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "QUIET_S", 0.05)
    async with RedisFeed(valkey_url) as here, RedisFeed(valkey_url) as there, Redis.from_url(valkey_url) as redis:
        changes = there.subscribe()
        before = {client["id"] for client in await redis.client_list() if int(client["sub"]) > 0}
        await asyncio.sleep(0.4)
        assert {client["id"] for client in await redis.client_list() if int(client["sub"]) > 0} == before
        await here.publish("a-1", 1)
        assert await next_of(changes) == ("a-1", 1)


async def test_a_connection_that_fell_silent_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "QUIET_S", 0.05)
    monkeypatch.setattr(feed_module, "BACKOFF_S", (0.05, 0.1))
    server = ValkeyServer(tmp_path)
    await server.start()
    wire = Wire(server.port)
    await wire.open()
    try:
        async with RedisFeed(f"redis://127.0.0.1:{wire.port}/0") as there, RedisFeed(server.url) as here:
            changes = there.subscribe()
            wire.cut_silently()
            async with asyncio.timeout(5):
                while there.connected:
                    await asyncio.sleep(0.01)
            await connected(there)
            await here.publish("a-1", 1)
            assert await next_of(changes) == ("a-1", 1)
    finally:
        await wire.close()
        await server.stop()


async def test_a_message_that_is_no_change_is_passed_over(valkey_url: str) -> None:
    async with RedisFeed(valkey_url) as here, RedisFeed(valkey_url) as there, Redis.from_url(valkey_url) as redis:
        changes = there.subscribe()
        for junk in (b"\xff", b"{}", b'["x"]', b'["x", "a-1", "many"]'):
            await redis.publish(CHANNEL, junk)
        await here.publish("a-1", 1)
        assert await next_of(changes) == ("a-1", 1)


async def collect(changes: Changes) -> list[tuple[str, int]]:
    return [change async for change in changes]


class Wire:
    """A forwarder to a port of this machine that can go silent without closing anything."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self._target = target
        self._pipes: list[asyncio.Task[None]] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def open(self) -> None:
        self._listener = await asyncio.start_server(self._forward, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]

    def cut_silently(self) -> None:
        for pipe in self._pipes:
            pipe.cancel()

    async def close(self) -> None:
        self.cut_silently()
        for writer in self._writers:
            writer.close()
        self._listener.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers += [writer, there_writer]
        self._pipes += [
            asyncio.create_task(pump(reader, there_writer)),
            asyncio.create_task(pump(there_reader, writer)),
        ]


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
