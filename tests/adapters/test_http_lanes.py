"""Messages where an agent's turn waits, and what programs ask and say of their runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from core.approvals import Approval, Status
from tests.adapters.api import DIRECTORY, Api, an_api, problem_of

LANE = {"lane": "chat-3", "run_id": "run-7"}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with an_api(tmp_path) as made:
        yield made


async def say(
    api: Api, who: str = "billing", text: str = "Use the other account.", key: str = "m-1", lane: str = "chat-3",
    **query: str,
) -> httpx.Response:  # fmt: skip
    body = {"text": text, "client_message_id": key}
    return await api.call(who, "POST", f"/v1/lanes/{lane}/messages", json=body, params=query)


async def heard(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


async def row(api: Api, approval: Approval) -> Approval:
    found = await api.approvals.get(approval.id)
    assert found is not None
    return found


async def test_ac05_a_message_declines_what_the_turn_asked_with_the_text_as_the_note(api: Api) -> None:
    first, second, elsewhere = await api.turn(**LANE), await api.turn(**LANE), await api.turn(lane="chat-4")
    told = await heard(await say(api))
    assert told == {
        "result": "declined", "declined": {"run_id": "run-7", "approval_ids": [first.id, second.id]}, "delivery": "now",
    }  # fmt: skip
    for asked in (first, second):
        declined = await row(api, asked)
        assert (declined.status, declined.note, declined.by_message) == (
            Status.DECLINED,
            "Use the other account.",
            True,
        )
    assert (await row(api, elsewhere)).pending
    # No row was made of the message.
    assert len((await api.call("billing", "GET", "/v1/approvals")).json()["approvals"]) == 3


async def test_b_037_the_same_message_gets_the_same_answer_before_anything_else_is_looked_at(api: Api) -> None:
    await api.turn(**LANE)
    told = await heard(await say(api))
    await api.turn(**LANE)
    assert await heard(await say(api)) == told
    assert (await api.call("billing", "POST", "/v1/runs/run-7/closed")).status_code == 200
    assert await heard(await say(api, text="Something else.")) == told
    assert await heard(await say(api, key="m-2")) == {"result": "no_run", "declined": None, "delivery": None}


async def test_b_006_a_message_that_loses_to_a_press_is_told_that_the_run_goes_on(api: Api) -> None:
    asked = await api.turn(**LANE)
    assert (await heard(await say(api, lane="chat-9")))["result"] == "no_run"
    decided = await api.call("dana", "POST", f"/v1/approvals/{asked.id}/decision",
                             json={"verdict": "allow", "content_revision": 1})  # fmt: skip
    assert decided.status_code == 200
    assert await heard(await say(api)) == {"result": "run_in_progress", "declined": None, "delivery": None}
    assert (await row(api, asked)).status is Status.APPROVED


async def test_b_038_while_the_agent_is_paused_the_answer_is_queued(api: Api) -> None:
    await api.turn(**LANE)
    await api.call("dana", "POST", "/v1/agents/billing/pause")
    assert (await heard(await say(api)))["delivery"] == "queued"


async def test_a_persons_message_counts_only_where_they_may_answer(api: Api) -> None:
    await api.apply(DIRECTORY.replace("approver: [dana]", "approver: [dana, ola]").replace("[role:approver]", "[dana]"))
    asked = await api.turn(**LANE)
    for who, code in (("kim", "needs_permission"), ("ola", "not_entitled")):
        refused = await say(api, who)
        assert (refused.status_code, problem_of(refused)["code"]) == (403, code)
    assert (await row(api, asked)).pending
    assert (await heard(await say(api, "dana")))["result"] == "declined"
    assert (await row(api, asked)).decided_by == "dana"


async def test_the_admin_token_declines_nothing_with_a_message(api: Api) -> None:
    asked = await api.turn(**LANE)
    for named in ({}, {"agent": "billing"}):
        refused = await say(api, "admin", **named)
        assert (refused.status_code, problem_of(refused)["code"]) == (403, "needs_person")
    assert (await row(api, asked)).pending
    assert (await heard(await say(api)))["result"] == "declined"


async def test_w6_nobody_declines_their_own_request_with_a_message(api: Api) -> None:
    await api.apply(DIRECTORY.replace("    at: [dm]", "    at: [dm]\n    four_eyes: true"))
    asked = await api.turn(**LANE, on_behalf_of="dana")
    refused = await say(api, "dana")
    assert (refused.status_code, problem_of(refused)["code"]) == (403, "own_request")
    assert (await row(api, asked)).pending


async def test_a_lane_that_two_agents_have_must_be_told_apart(api: Api) -> None:
    asked, other = await api.turn(**LANE), await api.turn(**LANE, agent="support")
    unclear = await say(api, "dana")
    assert (unclear.status_code, problem_of(unclear)["field"]) == (422, "agent")
    assert (await row(api, asked)).pending
    assert (await row(api, other)).pending
    assert (await heard(await say(api, "dana", agent="billing")))["declined"]["approval_ids"] == [asked.id]
    assert (await heard(await say(api, "dana", lane="chat-9")))["result"] == "no_run"
    assert (await row(api, other)).pending


async def test_a_message_that_only_says_yes_or_nothing_decides_nothing(api: Api) -> None:
    asked = await api.turn(**LANE)
    yes = await say(api, text="Yes!")
    assert (yes.status_code, problem_of(yes)["code"]) == (422, "press_allow_instead")
    for text in ("", " \n", "x" * 4001):
        assert (await say(api, text=text)).status_code == 422
    assert (await row(api, asked)).pending


async def test_a_lane_may_have_a_slash_in_its_name(api: Api) -> None:
    asked = await api.turn(lane="C01/171.5", run_id="w/7")
    assert (await heard(await say(api, lane="C01%2F171.5")))["declined"]["approval_ids"] == [asked.id]
    assert (await api.call("billing", "GET", "/v1/runs/w%2F7")).json()["run_id"] == "w/7"


async def test_ac09_a_run_that_waits_is_known_to_wait_and_its_time_counts_from_the_answer(api: Api) -> None:
    asked = await api.turn(**LANE)
    path = "/v1/runs/run-7"
    waiting = (await api.call("billing", "GET", path)).json()
    assert (waiting["agent"], waiting["waiting"], waiting["closed"]) == ("billing", True, False)
    assert datetime.fromisoformat(waiting["counts_from"]) == asked.created_at
    # A day later it waits still: no program that asks this ends it as timed out.
    api.clock.ahead = timedelta(hours=30)
    assert (await api.call("billing", "GET", path)).json()["waiting"] is True
    assert (await heard(await say(api)))["result"] == "declined"
    answered = (await api.call("billing", "GET", path)).json()
    assert answered["waiting"] is False
    assert datetime.fromisoformat(answered["counts_from"]) == (await row(api, asked)).decided_at


async def test_ac09_a_run_that_asks_over_http_waits_as_one_that_asks_over_temporal_and_not_for_drafts(api: Api) -> None:
    run: dict[str, Any] = {"activity": "refund", "task_queue": "billing"}
    path = "/v1/runs/run-7"
    await api.ask(run_id="run-7", runtime="draft", run=run)
    assert (await api.call("billing", "GET", path)).json() == {
        "run_id": "run-7", "agent": "billing", "waiting": False, "closed": False, "counts_from": None,
    }  # fmt: skip
    asked = await api.ask(run_id="run-7")
    api.clock.ahead = timedelta(hours=30)
    waiting = (await api.call("billing", "GET", path)).json()
    assert (waiting["waiting"], waiting["counts_from"]) == (True, asked["created_at"])
    decided = await api.decide("dana", asked)
    answered = (await api.call("billing", "GET", path)).json()
    assert answered["waiting"] is False
    assert answered["counts_from"] == decided.json()["decision"]["at"]


async def test_a_run_that_is_over_leaves_nothing_waiting(api: Api) -> None:
    asked, other = await api.turn(**LANE), await api.turn(lane="chat-3", run_id="run-8")
    closed = await api.call("admin", "POST", "/v1/runs/run-7/closed", params={"agent": "billing"})
    assert closed.json() == {"run_id": "run-7", "agent": "billing", "settled": [asked.id]}
    assert (await row(api, asked)).status is Status.CANCELLED
    assert (await row(api, other)).pending
    assert (await api.call("billing", "POST", "/v1/runs/run-7/closed")).json()["settled"] == []
    assert (await api.call("billing", "GET", "/v1/runs/run-7")).json()["closed"] is True
    unsaid = await api.call("admin", "POST", "/v1/runs/run-7/closed")
    assert (unsaid.status_code, problem_of(unsaid)["field"]) == (422, "agent")
    unknown = await api.call("admin", "GET", "/v1/runs/run-7", params={"agent": "zoe"})
    assert (unknown.status_code, problem_of(unknown)["code"]) == (404, "unknown_agent")
