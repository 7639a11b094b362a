"""Asking, reading, answering, claiming and recording over HTTP, on a real database."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

import core.agents
import core.people
import core.service
from adapters.http import Limits
from adapters.http.problems import CODES
from core.approvals import Approval, Outcome
from core.canonical import digest_of
from core.service import Claim
from tests.adapters.api import REFUND, Api, an_api, problem_of


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with an_api(tmp_path, limits=Limits(wait_s=0.2)) as made:
        yield made


async def test_an_ask_reads_as_the_design_says(api: Api) -> None:
    answer = await api.call("billing", "POST", "/v1/approvals", json=REFUND)
    row = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/v1/approvals/{row['id']}"
    assert answer.headers["cache-control"] == "no-store"
    assert {key: row[key] for key in ("agent", "tool", "operation", "effect", "status", "outcome")} == {
        "agent": "billing", "tool": "stripe.refund", "operation": "create", "effect": "money", "status": "pending",
        "outcome": "none",
    }  # fmt: skip
    assert (row["revision"], row["content_revision"], row["runtime"]) == (1, 1, "external")
    assert row["waiting_for"] == ["role:approver"]
    assert (row["undeliverable"], row["decision"], row["text"], row["error"]) == (False, None, None, None)
    assert row["digest"] == digest_of("stripe.refund", "create", None, json.dumps(REFUND["arguments"]))
    assert row["card"]["title"] == "Refund a duplicate charge"
    assert "ch_1" in json.dumps(row["card"]["lines"])
    assert row["card"]["claim"] == "The customer was charged twice."
    assert api.bell.started == [row["id"]]


async def test_arguments_come_back_digit_for_digit_to_the_asking_agent_alone(api: Api) -> None:
    body = json.dumps({**REFUND, "arguments": 0, "presentation": {}}).replace(
        '"arguments": 0', '"arguments": {"rate":1.50e1, "b":{"z":1,  "a":2}}'
    )
    headers = {"Content-Type": "application/json"}
    asked = await api.call("billing", "POST", "/v1/approvals", content=body, headers=headers)
    path = asked.headers["location"]
    assert '{"rate":1.50e1, "b":{"z":1,  "a":2}}' in (await api.call("billing", "GET", path)).text
    for who in ("admin", "dana", "kim"):
        assert "arguments" not in (await api.call(who, "GET", path)).json()
        assert "arguments" not in (await api.call(who, "GET", "/v1/approvals")).json()["approvals"][0]


async def test_the_same_key_and_body_is_the_same_ask(api: Api) -> None:
    key = {"Idempotency-Key": "k-1"}
    first = await api.call("billing", "POST", "/v1/approvals", json=REFUND, headers=key)
    again = await api.call(
        "billing", "POST", "/v1/approvals", json=dict(reversed(REFUND.items())), headers=key
    )  # the same JSON, its keys in another order
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["id"] == first.json()["id"]
    other = await api.call("billing", "POST", "/v1/approvals", json={**REFUND, "reasoning": "x"}, headers=key)
    assert (other.status_code, problem_of(other)["code"]) == (409, "idempotency_conflict")
    # The key is the token's: the admin's is another.
    assert (await api.call("admin", "POST", "/v1/approvals", json=REFUND, headers=key)).status_code == 201
    assert len((await api.call("admin", "GET", "/v1/approvals")).json()["approvals"]) == 2


async def test_the_same_ask_many_times_at_once_is_one_on_every_database(tmp_path: Path, database_url: str) -> None:
    async with an_api(tmp_path, database=database_url) as api:
        key = {"Idempotency-Key": "k-1"}
        answers = await asyncio.gather(
            *(api.call("billing", "POST", "/v1/approvals", json=REFUND, headers=key) for _ in range(12))
        )
        assert sorted(answer.status_code for answer in answers) == [200] * 11 + [201]
        assert len({answer.json()["id"] for answer in answers}) == 1
        row = answers[0].json()
        answers = await asyncio.gather(*(api.decide("dana", row, verdict) for verdict in ("allow", "decline") * 4))
        assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7
        claims = await asyncio.gather(
            *(
                api.call("billing", "POST", f"/v1/approvals/{row['id']}/claim", json={"content_revision": 1})
                for _ in "1234"
            )
        )
        allowed = (await api.call("billing", "GET", f"/v1/approvals/{row['id']}")).json()["status"] == "approved"
        assert sorted(answer.status_code for answer in claims) == ([200] if allowed else [409]) + [409] * 3


async def test_allow_claim_and_outcome_of_an_external_call(api: Api) -> None:
    row = await api.ask()
    decided = await api.decide("dana", row, note="Fine.")
    assert decided.status_code == 200
    decision = decided.json()["decision"]
    assert {key: decision[key] for key in ("verdict", "by", "via", "note", "by_message")} == {
        "verdict": "allow", "by": "dana", "via": "http", "note": "Fine.", "by_message": False,
    }  # fmt: skip
    assert decided.json()["waiting_for"] == []
    path = f"/v1/approvals/{row['id']}"
    claimed = await api.call("billing", "POST", f"{path}/claim", json={"content_revision": 1})
    assert claimed.json()["arguments"] == REFUND["arguments"]
    twice = await api.call("billing", "POST", f"{path}/claim", json={"content_revision": 1})
    assert (twice.status_code, problem_of(twice)["code"]) == (409, "already_claimed")
    outcome = {"claim_token": claimed.json()["claim_token"], "outcome": "not_sent", "error": "card expired"}
    wrong = await api.call("billing", "POST", f"{path}/outcome", json={**outcome, "claim_token": "guess"})
    assert (wrong.status_code, problem_of(wrong)["code"]) == (409, "not_claimed")
    for _ in range(2):
        recorded = await api.call("billing", "POST", f"{path}/outcome", json=outcome)
        assert (recorded.status_code, recorded.json()["outcome"]) == (200, "not_sent")
        assert recorded.json()["error"] == "card expired"
    changed = await api.call("billing", "POST", f"{path}/outcome", json={**outcome, "outcome": "sent"})
    assert (changed.status_code, problem_of(changed)["code"]) == (409, "already_recorded")


async def test_an_error_that_no_database_can_hold_is_recorded_all_the_same(tmp_path: Path, database_url: str) -> None:
    """The message of a caller's activity comes as it is, and may hold what PostgreSQL has no text for."""
    async with an_api(tmp_path, database=database_url) as api:
        row = await api.ask()
        await api.decide("dana", row)
        claim = await api.approvals.claim(row["id"], 1)
        assert isinstance(claim, Claim)
        recorded = await api.approvals.record(row["id"], claim.token, Outcome.UNKNOWN, "Boom: a\x00b\ud800c")
        assert isinstance(recorded, Approval)
        assert (recorded.outcome, recorded.outcome_note) == (Outcome.UNKNOWN, "Boom: ab?c")


async def test_a_claim_comes_too_late_an_hour_after_allow(api: Api) -> None:
    row = await api.ask()
    await api.decide("dana", row)
    api.clock.ahead = timedelta(minutes=61)
    path = f"/v1/approvals/{row['id']}"
    late = await api.call("billing", "POST", f"{path}/claim", json={"content_revision": 1})
    assert (late.status_code, problem_of(late)["code"]) == (409, "too_late")
    assert (await api.call("billing", "GET", path)).json()["outcome"] == "not_sent"


async def test_the_second_answer_is_told_the_first(api: Api) -> None:
    row = await api.ask()
    await api.decide("dana", row, key="once")
    again = await api.decide("dana", row, key="once")
    assert (again.status_code, again.json()["revision"]) == (200, 2)
    late = await api.decide("dana", row, "decline")
    assert (late.status_code, problem_of(late)["code"]) == (409, "already_decided")
    # A client's key is its own for one approval: the same word for the next approval is another key.
    assert (await api.decide("dana", await api.ask(), key="once")).status_code == 200


async def test_allow_needs_the_content_revision_that_was_read(api: Api) -> None:
    row = await api.ask()
    path = f"/v1/approvals/{row['id']}/decision"
    missing = await api.call("dana", "POST", path, json={"verdict": "allow"})
    assert (missing.status_code, problem_of(missing)["field"]) == (422, "content_revision")
    stale = await api.call("dana", "POST", path, json={"verdict": "allow", "content_revision": 7})
    assert (stale.status_code, problem_of(stale)["code"]) == (409, "changed")
    assert (await api.call("dana", "POST", path, json={"verdict": "decline"})).status_code == 200


async def test_s9_expiry_and_a_refusal_are_told_apart(api: Api) -> None:
    declined, expired, gone = await api.ask(), await api.ask(timeout_s=60), await api.ask()
    await api.decide("dana", declined, "decline", note="Not this one.")
    await api.call("billing", "DELETE", f"/v1/approvals/{gone['id']}")
    api.clock.ahead = timedelta(seconds=61)
    late = await api.decide("dana", expired)
    assert (late.status_code, problem_of(late)["code"]) == (409, "expired")
    rows = [
        (await api.call("billing", "GET", f"/v1/approvals/{row['id']}")).json() for row in (declined, expired, gone)
    ]
    assert [row["status"] for row in rows] == ["declined", "expired", "cancelled"]
    assert [row["decision"] and row["decision"]["verdict"] for row in rows] == ["decline", None, None]
    assert len({row["text"] for row in rows}) == 3
    assert "Nobody decided in time" in rows[1]["text"]


async def test_s7_a_list_offers_nothing_for_an_expired_row(api: Api) -> None:
    row = await api.ask(timeout_s=60)
    assert [
        each["id"] for each in (await api.call("dana", "GET", "/v1/approvals?status=pending")).json()["approvals"]
    ] == [row["id"]]
    api.clock.ahead = timedelta(seconds=61)
    assert (await api.call("dana", "GET", "/v1/approvals?status=pending")).json()["approvals"] == []
    (listed,) = (await api.call("dana", "GET", "/v1/approvals")).json()["approvals"]
    assert (listed["status"], listed["waiting_for"]) == ("expired", [])


async def test_the_asker_withdraws(api: Api) -> None:
    row = await api.ask()
    path = f"/v1/approvals/{row['id']}"
    for _ in range(2):
        gone = await api.call("billing", "DELETE", path)
        assert (gone.status_code, gone.json()["status"]) == (200, "cancelled")
    late = await api.decide("dana", row)
    assert (late.status_code, problem_of(late)["code"]) == (409, "cancelled")
    decided = await api.ask()
    await api.decide("dana", decided)
    late = await api.call("billing", "DELETE", f"/v1/approvals/{decided['id']}")
    assert (late.status_code, problem_of(late)["code"]) == (409, "already_decided")


async def test_lists_are_filtered_and_limited(api: Api) -> None:
    first = await api.ask()
    second = await api.ask("admin", agent="support")
    listed = (await api.call("admin", "GET", "/v1/approvals")).json()["approvals"]
    assert [row["id"] for row in listed] == [second["id"], first["id"]]
    assert listed[0]["undeliverable"] is False
    by_agent = (await api.call("admin", "GET", "/v1/approvals?agent=billing")).json()["approvals"]
    assert [row["id"] for row in by_agent] == [first["id"]]
    assert len((await api.call("admin", "GET", "/v1/approvals?limit=1")).json()["approvals"]) == 1
    for query, field in (("status=open", "status"), ("limit=0", "limit"), ("agent=a%00b", "agent")):
        wrong = await api.call("admin", "GET", f"/v1/approvals?{query}")
        assert (wrong.status_code, problem_of(wrong)["field"]) == (422, field)


async def test_what_nobody_can_be_asked_says_so(api: Api) -> None:
    row = await api.ask("admin", agent="stranger")
    assert row["undeliverable"] is True
    assert row["undeliverable_reason"]
    assert row["status"] == "pending"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({**REFUND, "tol": "x"}, "tol"),
        ({**REFUND, "tool": 7}, "tool"),
        ({key: value for key, value in REFUND.items() if key != "arguments"}, "arguments"),
        ({**REFUND, "arguments": {"n": 2**60}}, "arguments.n"),
        ({**REFUND, "arguments": {"text": "\ud800"}}, "arguments.text"),
        ({**REFUND, "presentation": {"titel": "x"}}, "presentation.titel"),
        ({**REFUND, "presentation": {"lines": [["Charge"]]}}, "presentation.lines"),
        ({**REFUND, "timeout_s": "60"}, "timeout_s"),
        ({**REFUND, "runtime": "turn"}, "runtime"),
        ({**REFUND, "arguments": {"x": "y" * 300_000}}, "arguments"),
        ([REFUND], "(the whole ask)"),
    ],
)
async def test_a_wrong_ask_is_refused_by_field(api: Api, body: object, field: str) -> None:
    headers = {"Content-Type": "application/json"}
    wrong = await api.call("billing", "POST", "/v1/approvals", content=json.dumps(body), headers=headers)
    document = problem_of(wrong)
    assert (wrong.status_code, document["code"], document["field"]) == (422, "invalid", field)
    assert "yyyy" not in wrong.text
    assert (await api.call("admin", "GET", "/v1/approvals")).json()["approvals"] == []


@pytest.mark.parametrize("body", [b"{", b"", b'{"agent": "\xff"}', b"[" * 200_000, b'{"agent": 1e999'])
async def test_an_ask_that_cannot_be_decoded_is_refused_whole(api: Api, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    wrong = await api.call("billing", "POST", "/v1/approvals", content=body, headers=headers)
    document = problem_of(wrong)
    assert (wrong.status_code, document["code"]) == (422, "invalid")
    assert document["field"].startswith("(the whole ")
    large = await api.call("billing", "POST", "/v1/approvals", content=b" " * 600_000, headers=headers)
    assert (large.status_code, problem_of(large)["code"]) == (413, "too_large")


@pytest.mark.parametrize(
    ("extra", "field"),
    [
        ({"arguments": {"text": "y" * 1_500_000}}, "arguments"),
        ({"reasoning": "y" * 600_000}, "reasoning"),
        ({"arguments": {"text": "y" * 3_000_000}}, "(the whole body)"),
    ],
)
async def test_an_ask_that_is_too_large_says_what_makes_it_so(api: Api, extra: dict[str, object], field: str) -> None:
    large = await api.call("billing", "POST", "/v1/approvals", json={**REFUND, **extra})
    document = problem_of(large)
    assert (large.status_code, document["code"], document["field"]) == (413, "too_large", field)
    assert "pass a reference" in document["detail"]
    assert "yyyy" not in large.text


@pytest.mark.parametrize(("name", "status"), [("y" * 600_000, 413), ("y" * 400_000, 422), ("arguments", 422)])
async def test_a_name_that_is_too_long_is_refused_in_few_words(api: Api, name: str, status: int) -> None:
    value: object = {"y" * 100_000: {"y": 2**60}} if name == "arguments" else 1
    refused = await api.call("billing", "POST", "/v1/approvals", json={**REFUND, name: value})
    document = problem_of(refused)
    assert refused.status_code == status
    assert document["field"].startswith(name[:100])
    assert len(refused.text) < 1500


async def test_a_draft_runs_only_what_the_directory_lists(api: Api) -> None:
    run = {"activity": "refund", "task_queue": "billing"}
    listed = await api.ask(runtime="draft", run=run)
    assert listed["runtime"] == "draft"
    for wrong in ({**run, "activity": "drop_tables"}, {**run, "task_queue": "other"}):
        refused = await api.call("billing", "POST", "/v1/approvals", json={**REFUND, "runtime": "draft", "run": wrong})
        assert (refused.status_code, problem_of(refused)["code"]) == (403, "run_not_listed")


async def test_wrong_bodies_are_problems(api: Api) -> None:
    row = await api.ask()
    path = f"/v1/approvals/{row['id']}/decision"
    typed = await api.call("dana", "POST", path, content=b"{}", headers={"Content-Type": "text/plain"})
    assert (typed.status_code, problem_of(typed)["code"]) == (415, "wrong_content_type")
    headers = {"Content-Type": "application/json"}
    large = await api.call("dana", "POST", path, content=b" " * 70_000, headers=headers)
    assert (large.status_code, problem_of(large)["code"]) == (413, "too_large")

    async def unannounced() -> AsyncIterator[bytes]:
        for _ in range(70):
            yield b" " * 1024

    large = await api.call("dana", "POST", path, content=unannounced(), headers=headers)
    assert (large.status_code, problem_of(large)["code"]) == (413, "too_large")
    for body, field in (
        (b"{", "(the whole body)"), (b"\xff", "(the whole body)"), (b'{"verdict": "maybe"}', "verdict"),
        (b'{"verdict": "decline", "notes": ""}', "notes"), (b'{"verdict": "decline", "note": 1}', "note"),
        (b'{"verdict": "decline", "verdict": "allow"}', "(the whole body)"),
    ):  # fmt: skip
        wrong = await api.call("dana", "POST", path, content=body, headers=headers)
        assert (wrong.status_code, problem_of(wrong)["field"]) == (422, field)
    assert (await api.call("dana", "GET", f"/v1/approvals/{row['id']}")).json()["status"] == "pending"


async def test_what_was_shown_is_kept_with_the_decision(api: Api) -> None:
    row = await api.ask()
    await api.decide("dana", row)
    lines = await api.store.read(lambda ledger: ledger.audit_of(row["id"]))
    decided = next(line for line in lines if line.action == "allow")
    assert (decided.person, decided.surface) == ("dana", "http")
    shown_id = decided.shown_id
    assert shown_id is not None
    shown = await api.store.read(lambda ledger: ledger.shown(shown_id))
    assert shown is not None
    assert "Refund a duplicate charge" in shown
    assert "ch_1" in shown


async def test_the_command_line_is_recorded_as_the_surface(api: Api) -> None:
    row = await api.ask()
    async with api.client("dana") as client:
        client.headers["Placet-Client"] = "cli"
        body = {"verdict": "decline", "content_revision": 1}
        decided = await client.post(f"/v1/approvals/{row['id']}/decision", json=body)
    assert decided.json()["decision"]["via"] == "cli"


async def test_a_wait_that_is_over_answers_what_stands(api: Api) -> None:
    row = await api.ask()
    waited = await api.call("billing", "GET", f"/v1/approvals/{row['id']}?wait=61s")
    assert waited.status_code == 422
    assert problem_of(waited)["detail"] == "wait: must be a length of time of at most 60s, such as 30s, 1m or 500ms"
    waited = await api.call("billing", "GET", f"/v1/approvals/{row['id']}?wait=1m")
    assert (waited.status_code, waited.json()["status"]) == (200, "pending")


def test_every_refusal_of_the_door_has_a_problem() -> None:
    door = "".join(map(inspect.getsource, (core.service, core.agents, core.people)))
    codes = set(re.findall(r'Refusal\(\s*"(\w+)"', door))
    assert {"not_found", "not_entitled", "changed", "already_claimed"} <= codes
    assert codes | {"already_decided", "expired", "cancelled"} <= set(CODES)


async def test_paths_and_methods_that_are_not_there_are_problems(api: Api) -> None:
    nothing = await api.call("admin", "GET", "/v1/approval")
    assert (nothing.status_code, problem_of(nothing)["code"]) == (404, "no_such_path")
    assert problem_of(await api.call("admin", "GET", "/v1/approvals/")).get("code") in ("no_such_path", "not_found")
    method = await api.call("admin", "PATCH", "/v1/approvals/x")
    assert (method.status_code, problem_of(method)["code"]) == (405, "method_not_allowed")
    assert method.headers["allow"] == "DELETE, GET"
    for strange in ("x", "%00", "0" * 36, "019cd2a1-7c00-7d3e-9f00-2b6f0c1d4e5a"):
        missing = await api.call("admin", "GET", f"/v1/approvals/{strange}")
        assert (missing.status_code, problem_of(missing)["code"]) == (404, "not_found")
