"""What is planted in arguments, notes, codes and tokens is looked for wherever it must not be."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from adapters.directory_file import read_directory
from core.approvals import Status
from tests.e2e.processes import Process
from tests.e2e.stack import ARGUMENTS, DANA, DIRECTORY, TOKEN, Servers, Stack, eventually, stack

ADMIN, VALUE, NOTE = "planted-admin-token-0123456789", "planted-argument-value", "planted words of a note"
KEY, KIM = "planted-idempotency-key", 1005
WITH_KIM = DIRECTORY.replace("roles:", "  kim: {name: Kim Sato}\nroles:").replace("[dana, ola]", "[dana, ola, kim]")


@pytest.fixture
async def whole(tmp_path: Path, sqlite_url: str, servers: Servers) -> AsyncIterator[Stack]:
    async with stack(tmp_path, sqlite_url, servers) as made:
        await made.store.write(lambda ledger: ledger.replace_directory(read_directory(WITH_KIM)))
        made.seen.sandbox.add_person(KIM, "Kim")
        made.seen.group.members.add(KIM)
        yield made


def served(whole: Stack) -> Process:
    """A whole Placet that logs everything it can."""
    return whole.process(PLACET_ADMIN_TOKEN=ADMIN, PLACET_LOG_LEVEL="debug")


async def test_from_placet_link_to_a_press(whole: Stack) -> None:
    async with served(whole) as process:
        asked = await whole.caller.ask()
        card = await whole.seen.card()
        assert "linked to nobody" in await whole.seen.press(card, "Decline", by=KIM)
        start, _, code = (await process.run("link", "kim")).strip().partition(" ")
        assert start == "/start"
        whole.seen.world.start(KIM, code)
        private = whole.seen.world.chat(KIM)

        def said(words: str) -> Any:
            return next((message for message in private.messages if words in message.text), None)

        await whole.seen.world.until(lambda: said("Linked. You are Kim Sato"), 15)
        whole.seen.world.say(KIM, KIM, "/pending")
        listed = await whole.seen.world.until(lambda: said("Waiting for you: 1"), 15)
        assert "refund (billing" in listed.text
        assert (await whole.seen.press(card, "Decline", by=KIM)).startswith("Declined.")
        assert (await asked.result())["decided_by"] == "kim"
    assert code not in process.log.read_text()


async def test_no_planted_secret_is_in_logs_problems_or_histories(whole: Stack) -> None:
    world = whole.seen.world
    async with served(whole) as process, httpx.AsyncClient(base_url=process.url, trust_env=False) as http:
        tokens = [(await process.run("token", name)).split()[-1] for name in ("billing", "dana")]
        agent, person = ({"Authorization": f"Bearer {token}"} for token in tokens)
        code = (await process.run("link", "kim")).split()[-1]
        problems = await refused_asks(http, agent, person)

        # Over Temporal, with a card that Telegram first refuses in words that quote it; declined with a note.
        world.fail("sendMessage", status=400, description=f"Bad Request: can't parse entities: '{VALUE}'")
        lost = await whole.caller.ask(arguments=ARGUMENTS | {"password": VALUE}, reasoning=NOTE)
        await whole.until(lambda row: row.undeliverable is not None)
        asked = await whole.caller.ask(arguments=ARGUMENTS | {"password": VALUE}, context=NOTE)
        card = await whole.seen.card()
        await whole.reply(card, NOTE, by=DANA)
        assert (await asked.result())["note"] == NOTE
        await lost.terminate()

        # Over HTTP: what runs is the asker's, so that nothing of it has to reach Temporal.
        ask = {"agent": "billing", "tool": "refund", "arguments": {"password": VALUE}, "reasoning": NOTE}
        made = await http.post("/v1/approvals", json=ask, headers=agent | {"Idempotency-Key": KEY})
        path = f"/v1/approvals/{made.json()['id']}"
        told = await whole.seen.press(await whole.seen.card(number=2), "Allow")
        assert told.startswith("Allowed.")
        await whole.decided(Status.APPROVED)
        claim = (await http.post(f"{path}/claim", json={"content_revision": 1}, headers=agent)).json()
        assert claim["arguments"] == {"password": VALUE}
        again = await http.post(f"{path}/claim", json={"content_revision": 1}, headers=agent)
        problems.append(again)
        outcome = {"claim_token": claim["claim_token"], "outcome": "unknown", "error": NOTE}
        assert (await http.post(f"{path}/outcome", json=outcome, headers=agent)).status_code == 200
        external = await history(whole, f"approval-{made.json()['id']}")
        turn = await history(whole, f"{asked.id}-approval")
    secrets = [TOKEN, ADMIN, *tokens, code, KEY, claim["claim_token"]]
    log = process.log.read_text()
    events = [json.loads(line) for line in log.splitlines() if line]
    assert {"opened", "declined", "approved", "post failed", "unknown"} <= {event["event"] for event in events}
    for text in (log, *(answer.text for answer in problems), external):
        for secret in (*secrets, VALUE, NOTE):
            assert secret not in text
    # A caller's arguments travel as the caller sent them, and its answer has the note; nothing is added to them.
    assert VALUE in turn
    assert not [secret for secret in secrets if secret in turn]


async def refused_asks(http: httpx.AsyncClient, agent: dict[str, str], person: dict[str, str]) -> list[httpx.Response]:
    """Requests with something planted in them, each refused with a problem document."""
    ask = {"agent": "billing", "tool": "refund", "arguments": {"password": VALUE}}
    headers = agent | {"Idempotency-Key": KEY}
    found = [
        *[await http.post("/v1/approvals", json=ask | wrong, headers=headers)
          for wrong in ({VALUE.replace("-", "_"): 1}, {"tool": [VALUE]}, {"effect": NOTE}, {"arguments": VALUE})],
        await http.post("/v1/approvals", content=f'{{"agent": "{VALUE}"', headers=headers),
        await http.post("/v1/approvals", json=ask, headers={"Authorization": f"Bearer {VALUE}"}),
        await http.post("/v1/approvals", json=ask, headers=person),
        await http.post("/v1/approvals/none/decision", json={"verdict": "decline", "note": NOTE}, headers=person),
        await http.put("/v1/directory", content=f"people: {{{VALUE}: 1", headers={"Authorization": f"Bearer {ADMIN}",
                                                                                   "Content-Type": "text/yaml"}),
    ]  # fmt: skip
    assert all(answer.headers["content-type"] == "application/problem+json" for answer in found), found
    return found


async def history(whole: Stack, workflow_id: str) -> str:
    """A closed workflow's history, payloads in the clear."""
    handle = whole.caller.client.get_workflow_handle(workflow_id)

    async def closed() -> bool:
        return (await handle.describe()).close_time is not None

    await eventually(closed, 60)
    events = (await handle.fetch_history()).events
    return "\n".join(event.SerializeToString().decode("utf-8", "replace") for event in events)
