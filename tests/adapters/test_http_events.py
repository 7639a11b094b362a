"""Server-sent events, over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from adapters.directory_file import read_directory
from adapters.http import Limits, release
from adapters.http import events as streams
from tests.adapters.api import DIRECTORY, Api, an_api, problem_of, served

NEVER = Limits(poll_s=3600, keep_alive_s=3600)


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with an_api(tmp_path, limits=NEVER) as made:
        yield made


class Stream:
    """The events of one response, as a client reads them."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines
        self.comments: list[str] = []
        self.last_id = ""
        self.ended = False

    async def next(self) -> tuple[str, dict[str, Any]]:
        """Name and data of the next event; ("", {}) at the end."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(20):
            async for line in self._lines:
                name, _, value = line.partition(": ")
                if line.startswith(":"):
                    self.comments.append(line)
                elif line:
                    fields[name] = value
                elif "data" in fields:
                    self.last_id = fields["id"]
                    return fields["event"], json.loads(fields["data"])
        self.ended = True
        return "", {}


@asynccontextmanager
async def following(api: Api, url: str, who: str, last_id: str = "") -> AsyncIterator[Stream]:
    headers = {"Last-Event-ID": last_id} if last_id else {}
    async with api.client(who, url) as client, client.stream("GET", "/v1/events", headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        yield Stream(answer.aiter_lines())


async def listeners(api: Api, count: int) -> None:
    while api.app.state.watch.streams != count:
        await asyncio.sleep(0.005)


async def test_a_stream_begins_with_what_waits_and_goes_on_with_changes(api: Api) -> None:
    waits, done = await api.ask(), await api.ask()
    await api.decide("dana", done)
    async with served(api) as url, following(api, url, "dana") as stream:
        assert await stream.next() == (
            "approval",
            {"id": waits["id"], "revision": 1, "content_revision": 1, "status": "pending", "outcome": "none"},
        )
        await api.decide("dana", waits, "decline")
        assert await stream.next() == (
            "approval",
            {"id": waits["id"], "revision": 2, "content_revision": 1, "status": "declined", "outcome": "none"},
        )
        asked = await api.ask()
        name, data = await stream.next()
        assert (name, data["id"], data["status"]) == ("approval", asked["id"], "pending")


async def test_an_agent_follows_its_own_alone(api: Api) -> None:
    async with served(api) as url, following(api, url, "support") as stream:
        await listeners(api, 1)
        await api.ask("billing")
        own = await api.ask("support", agent="support")
        assert (await stream.next())[1]["id"] == own["id"]


async def test_after_last_event_id_what_was_missed_comes_first(api: Api) -> None:
    first, second, old = await api.ask(), await api.ask(), await api.ask()
    await api.decide("dana", old, "decline")
    api.clock.ahead = timedelta(minutes=5)
    async with served(api) as url:
        async with following(api, url, "dana") as stream:
            assert [(await stream.next())[1]["id"] for _ in range(2)] == [first["id"], second["id"]]
        api.clock.ahead = timedelta(minutes=6)
        await api.decide("dana", first)
        async with following(api, url, "dana", stream.last_id) as again:
            seen = [(await again.next())[1] for _ in range(2)]
        assert [(data["id"], data["status"]) for data in seen] == [(first["id"], "approved"), (second["id"], "pending")]


async def test_a_client_that_missed_too_much_is_told_to_list_again(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "SNAPSHOT", 2)
    for _ in range(3):
        await api.decide("dana", await api.ask())
    async with served(api) as url, following(api, url, "dana", "1000000") as stream:
        assert (await stream.next())[0] == "reload"
        assert (await stream.next())[0] == "approval"


async def test_without_the_feed_the_database_is_asked(tmp_path: Path) -> None:
    often = Limits(poll_s=0.05, keep_alive_s=3600)
    async with (
        an_api(tmp_path, limits=often) as api,
        an_api(tmp_path, limits=often, joins=api) as other,
    ):
        row = await api.ask()
        async with served(api) as url, following(api, url, "billing") as stream:
            assert (await stream.next())[1]["status"] == "pending"
            await other.decide("dana", row)
            assert (await stream.next())[1] == {
                "id": row["id"], "revision": 2, "content_revision": 1, "status": "approved", "outcome": "none",
            }  # fmt: skip
            await other.ask()
            assert (await stream.next())[1]["revision"] == 1


async def test_comments_keep_a_quiet_stream_open_while_the_token_holds(tmp_path: Path) -> None:
    limits = Limits(poll_s=3600, keep_alive_s=0.05)
    async with an_api(tmp_path, limits=limits) as api, served(api) as url, following(api, url, "dana") as stream:
        reading = asyncio.create_task(stream.next())
        while ": still here" not in stream.comments:
            await asyncio.sleep(0.01)
        headers = {"Content-Type": "application/yaml"}
        left = DIRECTORY.replace("approver: [dana]", "approver: [ola]")
        await api.call("admin", "PUT", "/v1/directory", content=left, headers=headers)
        await reading
        assert stream.ended


async def test_a_busy_stream_ends_too_when_its_token_no_longer_holds(tmp_path: Path) -> None:
    async with (
        an_api(tmp_path, limits=Limits(poll_s=3600, keep_alive_s=0.2)) as api,
        served(api) as url,
        following(api, url, "dana") as stream,
    ):
        await api.ask()
        assert (await stream.next())[0] == "approval"
        without_dana = read_directory(DIRECTORY.replace("approver: [dana]", "approver: [ola]"))
        await api.store.write(lambda ledger: ledger.replace_directory(without_dana))

        async def keep_asking() -> None:
            while True:
                await api.ask()
                await asyncio.sleep(0.05)

        asking = asyncio.create_task(keep_asking())
        try:
            async with asyncio.timeout(10):
                while not stream.ended:
                    await stream.next()
        finally:
            asking.cancel()


async def test_a_client_that_leaves_leaves_nothing_behind(api: Api) -> None:
    async with served(api) as url:
        async with following(api, url, "dana"):
            await listeners(api, 1)
        await listeners(api, 0)


async def test_a_stopping_process_ends_its_streams(api: Api) -> None:
    async with served(api) as url, following(api, url, "dana") as stream:
        await listeners(api, 1)
        await release(api.app)
        await stream.next()
        assert stream.ended


async def test_who_may_not_follow(api: Api) -> None:
    for who, status, code in ((None, 401, "no_token"), ("nobody", 401, "bad_token"), ("ola", 403, "needs_permission")):
        refused = await api.call(who, "GET", "/v1/events")
        assert (refused.status_code, problem_of(refused)["code"]) == (status, code)
    async with api.client("dana") as client:
        wrong = await client.get("/v1/events", headers={"Last-Event-ID": "yesterday"})
    assert (wrong.status_code, problem_of(wrong)["field"]) == (422, "Last-Event-ID")
