"""Who may do what over HTTP: every kind of token against every endpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from adapters.http import Limits
from tests.adapters.api import ADMIN, DIRECTORY, REFUND, Api, an_api, problem_of

CALLERS = (None, "nobody", "admin", "kim", "dana", "ola", "billing", "support")
# kim administers and views; dana views and answers; ola is in the directory, without a role; support is another agent.
#                                                   none nobody admin kim dana ola billing support
TABLE: list[tuple[str, str, dict[str, Any], tuple[int, ...]]] = [
    ("POST", "/v1/approvals", {"json": REFUND}, (401, 401, 201, 403, 403, 403, 201, 403)),
    ("GET", "/v1/approvals", {}, (401, 401, 200, 200, 200, 403, 200, 200)),
    ("GET", "/v1/approvals?agent=billing", {}, (401, 401, 200, 200, 200, 403, 200, 403)),
    ("GET", "/v1/approvals/{id}", {}, (401, 401, 200, 200, 200, 403, 200, 404)),
    ("GET", "/v1/approvals/{id}?wait=10ms", {}, (401, 401, 200, 200, 200, 403, 200, 404)),
    ("POST", "/v1/approvals/{id}/decision", {"json": {"verdict": "allow", "content_revision": 1}},
     (401, 401, 403, 403, 200, 403, 403, 403)),
    ("POST", "/v1/approvals/{id}/decision", {"json": {"verdict": "decline"}}, (401, 401, 403, 403, 200, 403, 403, 403)),
    ("POST", "/v1/approvals/{id}/edit", {"json": {"content_revision": 1, "changes": {"/charge": "ch_2"}}},
     (401, 401, 403, 403, 422, 403, 403, 403)),
    ("DELETE", "/v1/approvals/{id}", {}, (401, 401, 200, 403, 403, 403, 200, 404)),
    ("POST", "/v1/approvals/{id}/claim", {"json": {"content_revision": 1}}, (401, 401, 403, 403, 403, 403, 409, 404)),
    ("POST", "/v1/approvals/{id}/outcome", {"json": {"claim_token": "x", "outcome": "sent"}},
     (401, 401, 403, 403, 403, 403, 409, 404)),
    ("GET", "/v1/agents/{agent}", {}, (401, 401, 200, 200, 200, 403, 200, 403)),
    ("PUT", "/v1/agents/{agent}/mode", {"json": {"mode": "everything"}}, (401, 401, 200, 200, 200, 403, 403, 403)),
    ("POST", "/v1/agents/{agent}/pause", {}, (401, 401, 200, 200, 200, 403, 403, 403)),
    ("POST", "/v1/agents/{agent}/resume", {}, (401, 401, 200, 200, 200, 403, 403, 403)),
    ("POST", "/v1/agents/{agent}/reset", {}, (401, 401, 200, 200, 200, 403, 403, 403)),
    ("GET", "/v1/agents/{agent}/rules", {}, (401, 401, 200, 200, 200, 403, 403, 403)),
    # dana owns billing, and reads and takes back its rules; making one is another permission.
    ("POST", "/v1/agents/{agent}/rules", {"json": {"tool": "notes", "scope": "tool"}},
     (401, 401, 201, 201, 403, 403, 403, 403)),
    ("DELETE", "/v1/agents/{agent}/rules/{rule_id}", {}, (401, 401, 200, 200, 200, 403, 403, 403)),
    ("DELETE", "/v1/rules/{rule_id}", {}, (401, 401, 200, 200, 200, 403, 403, 403)),
    ("GET", "/v1/agents/{agent}/updates", {}, (401, 401, 200, 403, 403, 403, 200, 403)),
    ("POST", "/v1/lanes/{lane}/messages", {"json": {"text": "No.", "client_message_id": "m-1"}},
     (401, 401, 403, 403, 200, 403, 200, 200)),
    ("POST", "/v1/lanes/{lane}/messages?agent={agent}", {"json": {"text": "No.", "client_message_id": "m-1"}},
     (401, 401, 403, 403, 200, 403, 200, 403)),
    ("POST", "/v1/runs/{run}/closed?agent={agent}", {}, (401, 401, 200, 403, 403, 403, 200, 403)),
    ("GET", "/v1/runs/{run}?agent={agent}", {}, (401, 401, 200, 200, 200, 403, 200, 403)),
    ("POST", "/v1/links", {"json": {"person": "dana"}}, (401, 401, 201, 201, 403, 403, 403, 403)),
    ("POST", "/v1/tokens", {"json": {"agent": "billing"}}, (401, 401, 201, 201, 403, 403, 403, 403)),
    ("GET", "/v1/directory", {}, (401, 401, 200, 200, 403, 403, 403, 403)),
    ("PUT", "/v1/directory", {"content": DIRECTORY, "headers": {"Content-Type": "application/yaml"}},
     (401, 401, 200, 200, 403, 403, 403, 403)),
    ("GET", "/healthz", {}, (200,) * 8),
    ("GET", "/readyz", {}, (200,) * 8),
    ("GET", "/metrics", {}, (200,) * 8),
    ("GET", "/openapi.json", {}, (200,) * 8),
]  # fmt: skip


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with an_api(tmp_path, limits=Limits(wait_s=0.2)) as made:
        yield made


@pytest.mark.parametrize(
    ("method", "path", "request_", "statuses"), TABLE, ids=lambda value: value if isinstance(value, str) else ""
)
async def test_every_token_at_every_endpoint(
    api: Api, method: str, path: str, request_: dict[str, Any], statuses: tuple[int, ...]
) -> None:
    seen = []
    for who in CALLERS:
        row = await api.ask("billing")
        made = await api.call("admin", "POST", "/v1/agents/billing/rules", json={"tool": "mail", "scope": "tool"})
        here = path.format(id=row["id"], rule_id=made.json()["id"], agent="billing", lane="chat-3", run="run-7")
        answer = await api.call(who, method, here, **request_)
        seen.append(answer.status_code)
        if answer.status_code >= 400:
            problem_of(answer)
        if answer.status_code == 401:
            assert answer.headers["www-authenticate"] == "Bearer"
        if answer.status_code in (401, 403, 404) and method != "GET":
            assert (await api.call("billing", "GET", f"/v1/approvals/{row['id']}")).json()["status"] == "pending"
    assert dict(zip(CALLERS, seen, strict=True)) == dict(zip(CALLERS, statuses, strict=True))


async def test_the_directory_that_is_read_can_be_applied(api: Api) -> None:
    read = (await api.call("admin", "GET", "/v1/directory")).json()
    again = await api.call("admin", "PUT", "/v1/directory", json=read)
    assert (again.status_code, again.json()) == (200, {"changes": []}), again.text
    tried = await api.call("admin", "PUT", "/v1/directory?dry_run=true", json=read | {"routes": []})
    assert len(tried.json()["changes"]) == 1
    assert (await api.call("admin", "GET", "/v1/directory")).json() == read


async def test_the_table_names_every_operation(api: Api) -> None:
    document = (await api.call(None, "GET", "/openapi.json")).json()
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    tried = {(method, path.partition("?")[0].replace("{id}", "{approval_id}")) for method, path, _, _ in TABLE}
    # Streams are followed in test_http_events.py.
    assert described - tried == {("GET", "/v1/events")}


async def test_l2_a_person_without_the_permission_is_refused_and_told_who_may(api: Api) -> None:
    row = await api.ask()
    for who in ("ola", "kim"):
        refused = await api.decide(who, row)
        document = problem_of(refused)
        assert (refused.status_code, document["code"]) == (403, "not_entitled")
        assert "Dana Reyes" in document["detail"]
    assert (await api.call("billing", "GET", f"/v1/approvals/{row['id']}")).json()["status"] == "pending"


async def test_the_admin_token_cannot_answer_and_says_how_to(api: Api) -> None:
    refused = await api.decide("admin", await api.ask())
    document = problem_of(refused)
    assert (refused.status_code, document["code"]) == (403, "needs_person")
    assert "placet token PERSON" in document["detail"]


async def test_whoever_may_answer_may_read_the_one_without_viewing_all(api: Api) -> None:
    directory = DIRECTORY.replace("approver: [approvals:view, approvals:answer]", "approver: [approvals:answer]")
    headers = {"Content-Type": "application/yaml"}
    await api.call("admin", "PUT", "/v1/directory", content=directory, headers=headers)
    row = await api.ask()
    assert (await api.call("dana", "GET", "/v1/approvals")).status_code == 403
    assert (await api.call("dana", "GET", f"/v1/approvals/{row['id']}")).status_code == 200
    assert (await api.decide("dana", row)).status_code == 200


async def test_permissions_are_read_live(api: Api) -> None:
    row = await api.ask()
    directory = DIRECTORY.replace("approver: [dana]", "approver: [ola]")
    headers = {"Content-Type": "application/yaml"}
    applied = await api.call("admin", "PUT", "/v1/directory", content=directory, headers=headers)
    assert applied.status_code == 200
    assert (await api.decide("dana", row)).status_code == 403
    assert (await api.decide("ola", row)).status_code == 200


async def test_the_token_of_somebody_who_left_is_nobodys(api: Api) -> None:
    directory = DIRECTORY.replace("  ola:  {name: Ola Berg}\n", "")
    headers = {"Content-Type": "application/yaml"}
    applied = await api.call("admin", "PUT", "/v1/directory", content=directory, headers=headers)
    assert applied.json()["changes"] == ["- person ola", "- 1 token of person ola"]
    answer = await api.call("ola", "GET", "/v1/approvals")
    assert (answer.status_code, problem_of(answer)["code"]) == (401, "bad_token")


async def test_a_token_is_kept_as_a_hash_alone(api: Api, tmp_path: Path) -> None:
    made = await api.call("admin", "POST", "/v1/tokens", json={"person": "dana"})
    token = made.json()["token"]
    assert {key: made.json()[key] for key in ("kind", "subject")} == {"kind": "person", "subject": "dana"}
    link = (await api.call("admin", "POST", "/v1/links", json={"person": "dana"})).json()
    assert link["person"] == "dana"
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert token.encode() not in files
    assert link["code"].encode() not in files
    assert ADMIN.encode() not in files


async def test_unknown_people_and_agents_get_no_codes(api: Api) -> None:
    for path, body, code in (
        ("/v1/links", {"person": "zoe"}, "unknown_person"),
        ("/v1/tokens", {"person": "zoe"}, "unknown_person"),
        ("/v1/tokens", {"agent": "zoe"}, "unknown_agent"),
    ):
        refused = await api.call("admin", "POST", path, json=body)
        assert (refused.status_code, problem_of(refused)["code"]) == (404, code)
    both = await api.call("admin", "POST", "/v1/tokens", json={"person": "dana", "agent": "billing"})
    assert (both.status_code, problem_of(both)["field"]) == (422, "agent")


async def test_an_empty_token_is_nobodys(api: Api, tmp_path: Path) -> None:
    async with an_api(tmp_path, joins=api, admin_token="") as without_admin:
        for header in ("Bearer ", "Bearer", "Basic YWRtaW46", "bearer  "):
            async with without_admin.client() as client:
                answer = await client.get("/v1/directory", headers={"Authorization": header})
            assert (answer.status_code, problem_of(answer)["code"]) == (401, "no_token")
        assert (await without_admin.call("admin", "GET", "/v1/directory")).status_code == 401
