"""A call that nobody could be asked about is asked as soon as somebody can be."""

from __future__ import annotations

import asyncio
from pathlib import Path

from adapters.directory_file import read_directory
from tests.e2e.stack import DANA, GROUP, Servers, stack

UNLINKED = """
people: {dana: {name: Dana Reyes}}
roles: {approver: [approvals:view, approvals:answer]}
members: {approver: [dana]}
agents: {billing: {owner: dana, runs: [{tool: refund, activity: refund, task_queue: billing}]}}
"""


async def test_a_card_is_posted_once_the_person_has_linked(tmp_path: Path, sqlite_url: str, servers: Servers) -> None:
    async with stack(tmp_path, sqlite_url, servers) as whole:
        await whole.store.write(lambda ledger: ledger.replace_directory(read_directory(UNLINKED)))
        async with whole.app() as app:
            asked = await whole.caller.ask()
            row = await whole.until(lambda row: row.undeliverable is not None)
            assert row.pending
            directory, now = app.approvals.directory, app.approvals.clock.now()
            code = await whole.store.write(lambda ledger: directory.issue_pairing(ledger, "dana", "admin", now))
            assert code is not None
            world = whole.seen.world
            world.start(DANA, code)
            card = await world.until(lambda: next((m for m in world.chat(DANA).messages if m.labels), None), 30)
            assert "billing wants to use refund" in card.text
            assert (await whole.until(lambda row: row.undeliverable is None)).pending
            world.press(DANA, DANA, card.id, label="Allow")
            assert (await asyncio.wait_for(asked.result(), 60))["outcome"] == "sent"
            assert [message for message in world.chat(GROUP).messages if message.labels] == []
