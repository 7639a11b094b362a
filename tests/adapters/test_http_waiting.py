"""Long polls, over real sockets: woken, not polling; and what happens when the feed is away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from adapters.feed import RedisFeed
from adapters.http import Limits, release
from tests.adapters.api import Api, an_api, served

# So seldom that within a test only the feed can have woken anybody.
NEVER = Limits(poll_s=3600)


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with an_api(tmp_path, limits=NEVER) as made:
        yield made


async def polls(api: Api, count: int) -> None:
    """Until so many long polls wait."""
    while api.app.state.watch.polls != count:
        await asyncio.sleep(0.005)


async def wait_for(client: httpx.AsyncClient, row: dict[str, Any], wait: str = "30s") -> dict[str, Any]:
    answer = await client.get(f"/v1/approvals/{row['id']}", params={"wait": wait})
    assert answer.status_code == 200, answer.text
    waited: dict[str, Any] = answer.json()
    return waited


async def test_200_long_polls_are_woken_by_one_decision(api: Api) -> None:
    row, other = await api.ask(), await api.ask()
    limits = httpx.Limits(max_connections=300)
    headers = {"Authorization": f"Bearer {api.tokens['billing']}"}
    async with (
        served(api) as url,
        httpx.AsyncClient(base_url=url, headers=headers, limits=limits, timeout=40) as client,
    ):
        waiting = [asyncio.create_task(wait_for(client, row)) for _ in range(200)]
        beside = asyncio.create_task(wait_for(client, other))
        await polls(api, 201)
        assert (await api.decide("dana", row)).status_code == 200
        answers = await asyncio.gather(*waiting)
        assert {answer["status"] for answer in answers} == {"approved"}
        assert not beside.done()
        beside.cancel()
        await polls(api, 0)


async def test_a_final_row_is_answered_at_once(api: Api) -> None:
    row = await api.ask()
    await api.decide("dana", row, "decline")
    async with served(api) as url, api.client("billing", url) as client:
        assert (await wait_for(client, row, "60s"))["status"] == "declined"


async def test_a_wait_ends_at_the_expiry(api: Api) -> None:
    row = await api.ask(timeout_s=10)
    api.clock.ahead = timedelta(seconds=9.7)
    async with served(api) as url, api.client("billing", url) as client:
        assert (await wait_for(client, row))["status"] == "expired"


async def test_a_decision_in_another_process_wakes_over_redis(tmp_path: Path, valkey_url: str) -> None:
    async with (
        RedisFeed(valkey_url) as here,
        RedisFeed(valkey_url) as there,
        an_api(tmp_path, limits=NEVER, feed=here) as api,
        an_api(tmp_path, limits=NEVER, feed=there, joins=api) as other,
    ):
        row = await api.ask()
        async with served(api) as url, api.client("billing", url) as client:
            waiting = asyncio.create_task(wait_for(client, row))
            await polls(api, 1)
            assert (await other.decide("dana", row)).status_code == 200
            assert (await waiting)["status"] == "approved"


async def test_without_redis_the_database_is_asked(tmp_path: Path) -> None:
    often = Limits(poll_s=0.05)
    async with (
        an_api(tmp_path, limits=often) as api,
        an_api(tmp_path, limits=often, joins=api) as other,
    ):
        row = await api.ask()
        async with served(api) as url, api.client("billing", url) as client:
            waiting = asyncio.create_task(wait_for(client, row))
            await polls(api, 1)
            assert (await other.decide("dana", row)).status_code == 200
            assert (await waiting)["status"] == "approved"


async def test_a_client_that_leaves_leaves_nothing_behind(api: Api) -> None:
    row = await api.ask()
    async with served(api) as url, api.client("billing", url) as client:
        waiting = asyncio.create_task(wait_for(client, row))
        await polls(api, 1)
        waiting.cancel()
        await polls(api, 0)


async def test_a_stopping_process_answers_its_long_polls(api: Api) -> None:
    row = await api.ask()
    async with served(api) as url, api.client("billing", url) as client:
        waiting = asyncio.create_task(wait_for(client, row, "60s"))
        await polls(api, 1)
        began = time.monotonic()
        await release(api.app)
        assert (await waiting)["status"] == "pending"
        assert (await wait_for(client, row, "60s"))["status"] == "pending"
        assert time.monotonic() - began < 30
