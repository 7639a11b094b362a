"""What is set for an agent over HTTP, and what comes of it: edits, votes, rules, modes, pausing, drafts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from adapters.http import Limits
from core.approvals import AUTO, Outcome, Status
from tests.adapters.api import DIRECTORY, Api, an_api, problem_of

EDITABLE: dict[str, Any] = {
    "presentation": {"title": "Refund", "lines": [["Charge", "/charge"]], "editable": ["/charge", "/amount"]}
}
MAIL: dict[str, Any] = {
    "tool": "mail.send",
    "operation": "",
    "presentation": {},
    "arguments": {"to": "team@example.com", "text": "Hello"},
}
DRAFT: dict[str, Any] = {
    "runtime": "draft",
    "run": {"activity": "refund", "task_queue": "billing", "start_to_close_s": 60, "schedule_to_start_s": 60},
}
QUORUM = DIRECTORY.replace("    at: [dm]", "    at: [dm]\n    needed: 2").replace(
    "approver: [dana]", "approver: [dana, ola]"
)
FOUR_EYES = QUORUM.replace("needed: 2", "four_eyes: true")


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with an_api(tmp_path, limits=Limits(wait_s=5, poll_s=3600)) as made:
        yield made


async def row_of(api: Api, row: dict[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = (await api.call("dana", "GET", f"/v1/approvals/{row['id']}")).json()
    return read


async def edit(api: Api, who: str, row: dict[str, Any], **changes: Any) -> httpx.Response:
    body = {"content_revision": row["content_revision"], "changes": {f"/{name}": new for name, new in changes.items()}}
    return await api.call(who, "POST", f"/v1/approvals/{row['id']}/edit", json=body)


async def rule(api: Api, who: str = "admin", **body: Any) -> httpx.Response:
    return await api.call(who, "POST", "/v1/agents/billing/rules", json=body)


# Edits


async def test_what_was_edited_is_what_runs_and_is_decided_on_anew(api: Api) -> None:
    row = await api.ask(**EDITABLE)
    assert row["editable"] == [
        {"pointer": "/charge", "label": "Charge", "value": "ch_1"},
        {"pointer": "/amount", "label": "amount", "value": 4900},
    ]
    edited = await edit(api, "dana", row, charge="ch_2", amount=2500)
    assert edited.status_code == 200, edited.text
    after = edited.json()
    assert (after["status"], after["content_revision"], after["edited_by"]) == ("pending", 2, "dana")
    assert after["edited_at"] is not None
    assert after["digest"] != row["digest"]
    stale = await api.decide("dana", row)
    assert (stale.status_code, problem_of(stale)["code"]) == (409, "changed")
    assert (await api.decide("dana", after)).status_code == 200
    claimed = await api.call("billing", "POST", f"/v1/approvals/{row['id']}/claim", json={"content_revision": 2})
    assert claimed.json()["arguments"] == {"charge": "ch_2", "amount": 2500, "currency": "GBP"}


async def test_an_edit_that_cannot_be_is_refused_with_the_pointer(api: Api) -> None:
    row = await api.ask(**EDITABLE)
    for changes, code, names in (
        ({"currency": "EUR"}, "bad_edit", "/currency"),
        ({"amount": "much"}, "bad_edit", "/amount"),
        ({"charge": True}, "bad_edit", "/charge"),
        ({"charge": "ch_1"}, "unchanged", ""),
    ):
        refused = await edit(api, "dana", row, **changes)
        document = problem_of(refused)
        assert (refused.status_code, document["code"]) == (422, code)
        assert names in document["detail"]
    for body in ({"content_revision": 1}, {"content_revision": 1, "changes": {}},
                 {"content_revision": 1, "changes": {"/charge": None}},
                 {"content_revision": 1, "changes": {"/charge": ["ch_2"]}}):  # fmt: skip
        wrong = await api.call("dana", "POST", f"/v1/approvals/{row['id']}/edit", json=body)
        assert (wrong.status_code, problem_of(wrong)["code"]) == (422, "invalid")
    assert (await row_of(api, row))["revision"] == 1


async def test_a_text_that_nothing_could_carry_is_refused(api: Api) -> None:
    row = await api.ask(**EDITABLE)
    for text in (r'"\u0000"', r'"\ud800"', "12345678901234567890", "0.1000000000000000055511"):
        name = "/charge" if text.startswith('"') else "/amount"
        body = f'{{"content_revision": 1, "changes": {{"{name}": {text}}}}}'
        headers = {"Content-Type": "application/json"}
        refused = await api.call("dana", "POST", f"/v1/approvals/{row['id']}/edit", content=body, headers=headers)
        assert (refused.status_code, problem_of(refused)["code"]) in ((422, "bad_edit"), (422, "invalid")), text
    assert (await row_of(api, row))["revision"] == 1


async def test_an_edit_that_comes_too_late_changes_nothing(api: Api) -> None:
    row = await api.ask(**EDITABLE)
    assert (await edit(api, "dana", row, charge="ch_2")).status_code == 200
    stale = await edit(api, "dana", row, charge="ch_3")
    assert (stale.status_code, problem_of(stale)["code"]) == (409, "changed")
    decided, old = await api.ask(**EDITABLE), await api.ask(**EDITABLE)
    await api.decide("dana", decided)
    late = await edit(api, "dana", decided, charge="ch_2")
    assert (late.status_code, problem_of(late)["code"]) == (409, "already_decided")
    api.clock.ahead = timedelta(days=8)
    expired = await edit(api, "dana", old, charge="ch_2")
    assert (expired.status_code, problem_of(expired)["code"]) == (409, "expired")


# Several must allow, and nobody their own


async def test_votes_are_counted_shown_and_cleared_by_an_edit(api: Api) -> None:
    await api.apply(QUORUM)
    row = await api.ask(**EDITABLE)
    first = (await api.decide("dana", row)).json()
    assert (first["status"], first["needed"], first["allowed_by"]) == ("pending", 2, ["dana"])
    edited = (await edit(api, "ola", row, charge="ch_2")).json()
    assert edited["allowed_by"] == []
    counted = (await api.decide("ola", edited)).json()
    assert (counted["status"], counted["allowed_by"]) == ("pending", ["ola"])
    settled = (await api.decide("dana", edited)).json()
    assert (settled["status"], settled["allowed_by"]) == ("approved", ["dana", "ola"])


async def test_w6_nobody_answers_or_edits_their_own_request(api: Api) -> None:
    await api.apply(FOUR_EYES)
    row = await api.ask(on_behalf_of="dana", **EDITABLE)
    for refused in (await api.decide("dana", row), await api.decide("dana", row, "decline"),
                    await edit(api, "dana", row, charge="ch_2")):  # fmt: skip
        document = problem_of(refused)
        assert (refused.status_code, document["code"]) == (403, "own_request")
        assert "Ola Berg" in document["detail"]
    assert (await row_of(api, row))["revision"] == 1
    assert (await api.decide("ola", row)).status_code == 200


async def test_who_is_asked_besides_stands_among_those_waited_for(api: Api) -> None:
    later = "    at: [dm]\n    escalate: {after: 1h, ask: [ola], at: [dm]}"
    await api.apply(DIRECTORY.replace("    at: [dm]", later).replace("approver: [dana]", "approver: [dana, ola]"))
    row = await api.ask()
    assert (row["waiting_for"], row["escalated"]) == (["role:approver"], False)
    api.clock.ahead = timedelta(hours=2)
    # Whatever touches the row next tells the time.
    assert (await api.decide("dana", row, content_revision=9)).status_code == 409
    after = await row_of(api, row)
    assert (after["waiting_for"], after["escalated"]) == (["role:approver", "ola"], True)


# Modes and rules


async def test_the_mode_holds_from_the_next_call_on(api: Api) -> None:
    assert (await api.call("billing", "GET", "/v1/agents/billing")).json() == {
        "agent": "billing", "owner": "dana", "mode": "outside", "paused_at": None, "generation": 1,
    }  # fmt: skip
    waits = await api.ask(**MAIL)
    assert waits["status"] == "pending"
    set_ = await api.call("dana", "PUT", "/v1/agents/billing/mode", json={"mode": "money_only"})
    assert (set_.status_code, set_.json()["mode"]) == (200, "money_only")
    unasked = await api.ask(**MAIL)
    assert unasked["status"] == "approved"
    assert {key: unasked["decision"][key] for key in ("verdict", "by", "via")} == {
        "verdict": "allow", "by": AUTO, "via": "mode",
    }  # fmt: skip
    assert "money_only" in unasked["decision"]["note"]
    assert (await row_of(api, waits))["status"] == "pending"
    assert (await api.ask())["status"] == "pending"
    wrong = await api.call("dana", "PUT", "/v1/agents/billing/mode", json={"mode": "never"})
    assert (wrong.status_code, problem_of(wrong)["field"]) == (422, "mode")


async def test_ac10_a_rule_runs_the_next_call_is_listed_and_removed_and_then_it_asks_again(api: Api) -> None:
    waits = await api.ask(**MAIL)
    made = await rule(api, tool="mail.send", scope="recipient", value="team@example.com")
    assert made.status_code == 201, made.text
    saved = made.json()
    assert saved["label"] == "mail.send to team@example.com, until removed"
    settled, unasked = await row_of(api, waits), await api.ask(**MAIL)
    for row in (settled, unasked):
        assert (row["status"], row["decision"]["by"], row["decision"]["via"]) == ("approved", AUTO, "rule")
        assert row["decision"]["note"] == saved["label"]
    assert (await api.ask(**MAIL | {"arguments": {"to": "all@example.com", "text": "Hello"}}))["status"] == "pending"
    listed = await api.call("dana", "GET", "/v1/agents/billing/rules")
    assert listed.json() == {"rules": [saved]}
    other = await api.call("dana", "DELETE", f"/v1/agents/support/rules/{saved['id']}")
    assert (other.status_code, problem_of(other)["code"]) == (404, "unknown_rule")
    removed = await api.call("dana", "DELETE", f"/v1/agents/billing/rules/{saved['id']}")
    assert (removed.status_code, removed.json()) == (200, saved)
    assert (await api.ask(**MAIL))["status"] == "pending"
    gone = await api.call("dana", "DELETE", f"/v1/rules/{saved['id']}")
    assert (gone.status_code, problem_of(gone)["code"]) == (404, "unknown_rule")


async def test_a_rule_for_money_has_a_ceiling_and_an_end(api: Api) -> None:
    soon = (api.clock.now() + timedelta(days=1)).isoformat()
    money: dict[str, Any] = {
        "tool": "stripe.refund", "operation": "create", "scope": "operation",
        "ceiling": {"amount": "50.00", "currency": "GBP"}, "expires_at": soon,
    }  # fmt: skip
    endless = await rule(api, **money | {"expires_at": None})
    past = await rule(api, **money | {"expires_at": "2020-01-01T00:00:00Z"})
    nothing = await rule(api, **money | {"ceiling": {"amount": "0", "currency": "GBP"}})
    for refused in (endless, past, nothing):
        assert (refused.status_code, problem_of(refused)["code"]) == (422, "bad_rule")
    unread = await rule(api, **money | {"tool": "acme.pay", "operation": "send"})
    assert (unread.status_code, problem_of(unread)["code"]) == (422, "bad_rule")
    assert problem_of(unread)["detail"] == (
        "nothing says what acme.pay moves; list its arguments under effects.amounts"
    )
    # Whoever may make rules may not make this one.
    await api.apply(
        DIRECTORY.replace("viewer: [approvals:view]", "ruler: [approvals:delegate]").replace(
            "  approver: [dana]\n", "  approver: [dana]\n  ruler: [ola]\n"
        )
    )
    refused = await rule(api, "ola", **money)
    assert (refused.status_code, problem_of(refused)["code"]) == (403, "not_yours")
    assert problem_of(refused)["detail"] == "Only an administrator may make a rule for money."
    assert (await rule(api, "ola", tool="notes", scope="tool")).status_code == 201
    made = await rule(api, "kim", **money)
    assert made.status_code == 201, made.text
    assert made.json()["created_by"] == "kim"
    assert (await api.ask())["decision"]["by"] == AUTO
    assert (await api.ask(arguments={"charge": "ch_1", "amount": 5001, "currency": "GBP"}))["status"] == "pending"
    api.clock.ahead = timedelta(days=2)
    assert (await api.ask())["status"] == "pending"


async def test_a_rule_that_there_cannot_be_says_what_would_be_right(api: Api) -> None:
    for body, says in (
        ({"tool": "bash", "scope": "tool"}, "exactly these arguments"),
        ({"tool": "mail.send", "scope": "arguments", "value": "x"}, "digest"),
        ({"tool": "mail.send", "scope": "operation"}, "needs an operation"),
    ):
        refused = await rule(api, **body)
        assert (refused.status_code, problem_of(refused)["code"]) == (422, "bad_rule"), body
        assert says in problem_of(refused)["detail"]
    tool: dict[str, Any] = {"tool": "x", "scope": "tool"}
    instants = ("x", 7, "2099-01-01T00:00:00", "0001-01-01T00:00:00+14:00")
    for wrong in ({"scope": "tool"}, tool | {"scope": "all"}, *(tool | {"expires_at": at} for at in instants)):
        refused = await rule(api, **wrong)
        assert (refused.status_code, problem_of(refused)["code"]) == (422, "invalid"), wrong
    unknown = await api.call("admin", "POST", "/v1/agents/zoe/rules", json={"tool": "x", "scope": "tool"})
    assert (unknown.status_code, problem_of(unknown)["code"]) == (404, "unknown_agent")


# Pausing and resetting


async def test_an_answer_takes_effect_when_the_agent_resumes(api: Api) -> None:
    row = await api.ask()
    paused = (await api.call("dana", "POST", "/v1/agents/billing/pause")).json()
    assert paused["paused_at"] is not None
    assert (await api.call("dana", "POST", "/v1/agents/billing/pause")).json() == paused
    assert (await row_of(api, row))["paused"] is True
    assert (await api.decide("dana", row)).json()["status"] == "approved"
    path = f"/v1/approvals/{row['id']}/claim"
    early = await api.call("billing", "POST", path, json={"content_revision": 1})
    assert (early.status_code, problem_of(early)["code"]) == (409, "paused")
    assert (await api.call("dana", "POST", "/v1/agents/billing/resume")).json()["paused_at"] is None
    assert (await row_of(api, row))["paused"] is False
    assert (await api.call("billing", "POST", path, json={"content_revision": 1})).status_code == 200


async def test_a_reset_ends_what_its_turns_waited_for(api: Api) -> None:
    turn, external = await api.turn(), await api.ask()
    reset = await api.call("dana", "POST", "/v1/agents/billing/reset")
    assert reset.json()["generation"] == 2
    cancelled = await api.approvals.get(turn.id)
    assert cancelled is not None
    assert cancelled.status is Status.CANCELLED
    late = await api.decide("dana", external)
    assert (late.status_code, problem_of(late)["code"]) == (409, "generation_over")
    assert (await api.ask())["generation"] == 2


async def test_an_agent_may_have_a_slash_in_its_name(api: Api) -> None:
    await api.apply(DIRECTORY.replace("  support: {owner: dana}", '  "team/night%": {owner: dana}'))
    here = "/v1/agents/team%2Fnight%25"
    assert (await api.call("dana", "POST", f"{here}/pause")).json()["agent"] == "team/night%"
    assert (await api.call("dana", "GET", here)).json()["paused_at"] is not None
    assert (await api.call("dana", "GET", "/v1/agents/team%1Fnight%25")).status_code == 422
    assert (await api.call("dana", "GET", "/v1/agents/team/night%25")).status_code == 404


# Drafts


async def test_ac14_a_draft_is_asked_over_http_and_its_agent_reads_what_became_of_it(api: Api) -> None:
    row = await api.ask(**DRAFT)
    assert (row["runtime"], row["status"]) == ("draft", "pending")
    assert row["text"] == "Waiting for a person. Nothing has run yet."
    again = await api.ask(**DRAFT)
    assert again["id"] != row["id"]
    path = "/v1/agents/billing/updates"
    assert (await api.call("billing", "GET", path)).json() == {"updates": [], "next": 0}
    waiting = asyncio.create_task(api.call("billing", "GET", f"{path}?wait=5s"))
    while not api.app.state.watch.streams:
        await asyncio.sleep(0.005)
    assert (await api.decide("dana", row)).status_code == 200
    api.clock.ahead = timedelta(seconds=6)
    taken = await api.approvals.take(row["id"], "run-1")
    assert taken is not None
    assert taken.claim is not None
    await api.approvals.record(row["id"], taken.claim.token, Outcome.SENT)
    heard = (await waiting).json()
    (update,) = heard["updates"]
    assert (update["approval_id"], update["status"], update["outcome"]) == (row["id"], "approved", "sent")
    assert update["text"] == "Approved by Dana Reyes and done."
    after = await api.call("billing", "GET", f"{path}?since={heard['next']}&wait=10ms")
    assert after.json() == {"updates": [], "next": heard["next"]}
    assert (await api.call("admin", "GET", path)).json() == heard
    unknown = await api.call("admin", "GET", "/v1/agents/zoe/updates")
    assert (unknown.status_code, problem_of(unknown)["code"]) == (404, "unknown_agent")


async def test_a_wait_for_updates_may_last_a_minute(api: Api) -> None:
    for wait, status in (("61s", 422), ("2m", 422), ("60001ms", 422), ("0ms", 200), ("5ms", 200), ("00s", 200)):
        answer = await api.call("billing", "GET", f"/v1/agents/billing/updates?wait={wait}")
        assert answer.status_code == status, wait
