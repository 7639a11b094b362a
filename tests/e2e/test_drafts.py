"""Drafts and pausing, from the chat and over HTTP to the call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from pydantic import SecretStr

from core.approvals import Outcome
from tests.e2e.stack import ARGUMENTS, Stack

ADMIN = "the-admin-token-of-this-test"
RUN = {"activity": "refund", "task_queue": "billing", "start_to_close_s": 60}
DRAFT = {"agent": "billing", "tool": "refund", "arguments": ARGUMENTS, "runtime": "draft", "run": RUN}


@asynccontextmanager
async def served(whole: Stack) -> AsyncIterator[httpx.AsyncClient]:
    """A whole Placet, and an administrator's client of it."""
    headers = {"Authorization": f"Bearer {ADMIN}"}
    async with (
        whole.app(admin_token=SecretStr(ADMIN)) as app,
        httpx.AsyncClient(base_url=app.settings.http_url, headers=headers, trust_env=False) as client,
    ):
        yield client


async def heard(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    answer = await client.get("/v1/agents/billing/updates", params={"since": 0})
    assert answer.status_code == 200, answer.text
    updates: list[dict[str, Any]] = answer.json()["updates"]
    return updates


async def test_a_draft_asked_over_http_is_undone_restored_and_sent_once(on_sqlite: Stack) -> None:
    seen = on_sqlite.seen
    async with served(on_sqlite) as client:
        asked = await client.post("/v1/approvals", json=DRAFT)
        assert asked.status_code == 201, asked.text
        assert asked.json()["text"] == "Waiting for a person. Nothing has run yet."
        card = await seen.card()
        assert (await seen.press(card, "Allow")).startswith("Allowed. It is sent in 5 seconds")
        await seen.world.until(lambda: seen.group.message(card.id).labels == ["Undo"] or None, 30)
        assert (await seen.press(card, "Undo")).startswith("Taken back.")
        await seen.world.until(lambda: "Allow" in seen.group.message(card.id).labels or None, 30)
        await seen.press(card, "Decline")
        await seen.world.until(lambda: seen.group.message(card.id).labels == ["Restore"] or None, 30)
        assert (await seen.press(card, "Restore")).startswith("Restored.")
        await seen.world.until(lambda: "Allow" in seen.group.message(card.id).labels or None, 30)
        assert on_sqlite.caller.ran == []
        assert await heard(client) == []
        await seen.press(card, "Allow")
        await seen.settled(card, "Sent.")
        row = await on_sqlite.until(lambda row: row.outcome is Outcome.SENT)
        (update,) = await heard(client)
        assert (update["approval_id"], update["status"], update["outcome"]) == (row.id, "approved", "sent")
    assert on_sqlite.caller.ran == [ARGUMENTS]
    lines = [line.action for line in await on_sqlite.audit(row)]
    assert lines == ["opened", "allow", "undo", "decline", "restore", "allow", "claimed", "sent"]


async def test_a_draft_that_was_declined_offers_no_restore_once_its_agent_has_the_answer(on_sqlite: Stack) -> None:
    seen = on_sqlite.seen
    async with served(on_sqlite) as client:
        asked = await on_sqlite.caller.ask(runtime="draft")
        assert (await asyncio.wait_for(asked.result(), 60))["status"] == "pending"
        card = await seen.card()
        await seen.press(card, "Decline")
        await seen.settled(card, "Declined by Dana Reyes")
        (update,) = await heard(client)
        assert update["status"] == "declined"
    assert on_sqlite.caller.ran == []


async def test_ac06_ac07_what_is_allowed_while_the_agent_is_paused_runs_when_it_resumes_and_once(
    on_sqlite: Stack,
) -> None:
    seen = on_sqlite.seen
    async with served(on_sqlite) as client:
        asked = await on_sqlite.caller.ask()
        card = await seen.card()
        paused = await client.post("/v1/agents/billing/pause")
        assert paused.status_code == 200, paused.text
        assert paused.json()["paused_at"] is not None
        assert "takes effect when billing resumes" in await seen.press(card, "Allow")
        await seen.settled(card, "It takes effect when the agent resumes")
        assert on_sqlite.caller.ran == []
        await client.post("/v1/agents/billing/resume")
        assert (await asyncio.wait_for(asked.result(), 60))["outcome"] == "sent"
        await seen.settled(card, "Done.")
    assert on_sqlite.caller.ran == [ARGUMENTS]
