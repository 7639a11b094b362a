"""Health, readiness, metrics and webhooks; and what a fault looks like from outside."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from adapters.http import Limits
from core.ports import Unavailable
from tests.adapters.api import REFUND, Api, an_api, problem_of


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with an_api(tmp_path, limits=Limits(poll_s=3600)) as made:
        yield made


async def well() -> str | None:
    return None


async def down() -> str | None:
    return "no answer from 127.0.0.1:6379"


async def broken() -> str | None:
    raise RuntimeError("redis://user:hunter2hunter2@db")


async def never() -> str | None:
    await asyncio.sleep(3600)
    return None


async def test_ready_names_what_is_down_and_fails_for_what_is_needed(tmp_path: Path) -> None:
    checks = {"database": well, "redis": down, "temporal": never, "telegram 12345": broken}
    limits = Limits(check_s=0.05)
    async with an_api(tmp_path, checks=checks, limits=limits) as api:
        ready = await api.call(None, "GET", "/readyz")
        assert ready.status_code == 200
        assert ready.json() == {
            "status": "ready",
            "checks": {
                "database": "ok", "redis": "no answer from 127.0.0.1:6379",
                "temporal": "no answer within 0.05 s", "telegram 12345": "failed (RuntimeError)",
            },
        }  # fmt: skip
    (tmp_path / "worker").mkdir()
    async with an_api(tmp_path / "worker", checks=checks, limits=limits, needed=frozenset({"temporal"})) as worker:
        ready = await worker.call(None, "GET", "/readyz")
        document = problem_of(ready)
        assert (ready.status_code, document["code"]) == (503, "not_ready")
        assert "temporal" in document["detail"]
        assert document["checks"]["redis"] == "no answer from 127.0.0.1:6379"


async def test_a_process_without_the_api_serves_health_metrics_and_its_webhooks(tmp_path: Path) -> None:
    taken: list[tuple[str, str | None, bytes]] = []

    async def take(account: str, headers: Mapping[str, str], body: bytes) -> int:
        taken.append((account, headers.get("x-telegram-bot-api-secret-token"), body))
        if body == b"later":
            raise Unavailable("the database is away")
        return 401 if account == "2" else 200

    async with an_api(tmp_path, approvals=None, webhooks={"telegram": take}) as bots:
        secret = {"X-Telegram-Bot-Api-Secret-Token": "s"}
        answer = await bots.call(None, "POST", "/telegram/1", content=b"{}", headers=secret)
        assert (answer.status_code, answer.content) == (200, b"")
        assert taken == [("1", "s", b"{}")]
        refused = await bots.call(None, "POST", "/telegram/2", content=b"{}")
        assert (refused.status_code, problem_of(refused)["code"]) == (401, "webhook_refused")
        away = await bots.call(None, "POST", "/telegram/1", content=b"later")
        assert (away.status_code, problem_of(away)["code"]) == (503, "unavailable")
        large = await bots.call(None, "POST", "/telegram/1", content=b"x" * (1024 * 1024 + 1))
        assert (large.status_code, problem_of(large)["code"]) == (413, "too_large")
        for path in ("/healthz", "/readyz", "/metrics"):
            assert (await bots.call(None, "GET", path)).status_code == 200
        for path in ("/v1/approvals", "/v1/events", "/v1/directory", "/slack/events"):
            assert (await bots.call("admin", "GET", path)).status_code == 404
        assert list((await bots.call(None, "GET", "/openapi.json")).json()["paths"]) == [
            "/healthz",
            "/readyz",
            "/metrics",
        ]


async def test_a_webhook_is_answered_with_the_text_that_its_platform_wants_to_read(tmp_path: Path) -> None:
    async def take(account: str, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        return 200, f"{account} {body.decode()}"

    async with an_api(tmp_path, approvals=None, webhooks={"slack": take}) as bots:
        answer = await bots.call(None, "POST", "/slack/events", content=b"challenge")
        assert (answer.status_code, answer.text) == (200, "events challenge")
        assert answer.headers["content-type"].startswith("text/plain")


async def test_webhooks_are_not_served_where_none_is_given(api: Api) -> None:
    assert (await api.call(None, "POST", "/telegram/1", content=b"{}")).status_code == 404


async def test_a_database_that_is_away_is_503_and_decides_nothing(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    row = await api.ask()
    with monkeypatch.context() as patched:

        async def away(work: object) -> None:
            raise Unavailable("the database is away: host db.internal")

        patched.setattr(api.store, "read", away)
        patched.setattr(api.store, "write", away)
        for method, path in (
            ("GET", f"/v1/approvals/{row['id']}"),
            ("POST", "/v1/approvals"),
            ("GET", "/v1/directory"),
        ):
            answer = await api.call("admin", method, path, json=REFUND if method == "POST" else None)
            document = problem_of(answer)
            assert (answer.status_code, document["code"]) == (503, "unavailable")
            assert int(answer.headers["retry-after"]) > 0
            assert "db.internal" not in answer.text
        scraped = (await api.call(None, "GET", "/metrics")).text
        assert "placet_database_up 0.0" in scraped
        assert (await api.call(None, "GET", "/healthz")).status_code == 200
    scraped = (await api.call(None, "GET", "/metrics")).text
    assert "placet_database_up 1.0" in scraped
    assert "placet_waiting_approvals 1.0" in scraped


async def test_a_fault_is_a_problem_without_its_text(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    row = await api.ask()

    async def fail(approval_id: str) -> None:
        raise RuntimeError("card 4242424242424242")

    monkeypatch.setattr(api.approvals, "get", fail)
    answer = await api.call("dana", "GET", f"/v1/approvals/{row['id']}")
    document = problem_of(answer)
    assert (answer.status_code, document["code"]) == (500, "fault")
    assert "4242" not in answer.text
    assert answer.headers["cache-control"] == "no-store"
    (logged,) = [record for record in caplog.records if record.message == "fault"]
    assert logged.__dict__["route"] == "/v1/approvals/{approval_id}"
    assert row["id"] not in logged.message


async def test_requests_are_counted_by_template(api: Api) -> None:
    row = await api.ask()
    await api.call("dana", "GET", f"/v1/approvals/{row['id']}")
    await api.call("dana", "GET", "/v1/approvals/none")
    await api.call("dana", "GET", f"/elsewhere/{row['id']}")
    await api.call("dana", "BREW", "/v1/approvals")
    scraped = (await api.call(None, "GET", "/metrics")).text
    route = "/v1/approvals/{approval_id}"
    assert f'placet_http_requests_total{{method="GET",route="{route}",status="200"}} 1.0' in scraped
    assert f'placet_http_requests_total{{method="GET",route="{route}",status="404"}} 1.0' in scraped
    assert 'placet_http_requests_total{method="GET",route="other",status="404"} 1.0' in scraped
    assert 'method="other"' in scraped
    assert "BREW" not in scraped
    assert f'placet_http_request_seconds_count{{method="GET",route="{route}"}} 2.0' in scraped
    assert row["id"] not in scraped


async def test_metrics_count_decisions_and_what_waits(api: Api) -> None:
    row = await api.ask()
    await api.ask()
    await api.decide("dana", row)
    scraped = (await api.call(None, "GET", "/metrics")).text
    assert "placet_waiting_approvals 1.0" in scraped
    assert 'placet_decisions_total{verdict="approved",via="http"} 1.0' in scraped


VALUE, NOTE = "hunter2-argument-value", "note-nobody-may-log"
TOKEN, KEY = "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1", "key-of-idempotency"


async def test_no_secret_reaches_logs_problems_or_metrics(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    ask = {**REFUND, "arguments": {"charge": "ch_1", "password": VALUE}, "reasoning": NOTE, "context": NOTE}
    headers = {"Idempotency-Key": KEY, "X-Api-Key": TOKEN, "Cookie": f"session={TOKEN}"}
    row = (await api.call("billing", "POST", "/v1/approvals", json=ask, headers=headers)).json()
    path = f"/v1/approvals/{row['id']}"
    seen = await api.call("dana", "GET", path)
    assert VALUE not in seen.text
    asks = [
        {**ask, "arguments": {"password": VALUE, "n": 2**70}},
        {**ask, "tool": [VALUE]},
        {**ask, "presentation": VALUE},
    ]
    decisions = [
        {"verdict": NOTE, "note": NOTE}, {"verdict": "allow", "note": NOTE}, {"verdict": "decline", "note": [NOTE]},
        {"verdict": "decline", "key": f"{NOTE} {NOTE}"}, {"verdict": "allow", "content_revision": 9, "note": NOTE},
    ]  # fmt: skip
    refused = [
        await api.call("dana", "POST", "/v1/approvals", json=ask, headers=headers),
        *[await api.call("billing", "POST", "/v1/approvals", json=each, headers=headers) for each in asks],
        *[await api.call("dana", "POST", f"{path}/decision", json=each) for each in decisions],
        await api.call("billing", "POST", f"{path}/claim", json={"content_revision": VALUE}),
        await api.call(
            "billing", "POST", f"{path}/outcome", json={"claim_token": TOKEN, "outcome": "sent", "error": NOTE}
        ),
        await api.call(
            "admin", "PUT", "/v1/directory", content=f"people: [{VALUE}]", headers={"Content-Type": "text/yaml"}
        ),
        await api.call(None, "GET", "/v1/approvals", headers={"Authorization": f"Bearer {TOKEN}"}),
    ]
    assert (await api.decide("dana", row, note=NOTE)).status_code == 200
    refused.append(await api.decide("dana", row, "decline", note=NOTE))
    texts = [problem_of(answer)["detail"] + answer.text for answer in refused]
    texts.append((await api.call(None, "GET", "/metrics")).text)
    logged = [
        f"{record.getMessage()} {record.__dict__}" for record in caplog.records if record.name.startswith("placet")
    ]
    assert any("approved" in line and row["id"] in line for line in logged)
    for text in [*texts, *logged]:
        for secret in (VALUE, NOTE, TOKEN, KEY, *api.tokens.values()):
            assert secret not in text, text


async def test_what_an_administrator_changes_is_a_line_without_its_secret(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="placet.http"):
        token = (await api.call("admin", "POST", "/v1/tokens", json={"agent": "billing"})).json()
        link = (await api.call("admin", "POST", "/v1/links", json={"person": "dana"})).json()
        directory = (await api.call("admin", "GET", "/v1/directory")).json()
        directory["people"]["zoe"] = {"name": "Zoe Lind"}
        applied = await api.call("admin", "PUT", "/v1/directory", json=directory)
    assert applied.status_code == 200, applied.text
    assert [line.message for line in caplog.records] == ["token made", "link code made", "directory applied"]
    said = " ".join(str(vars(line)) for line in caplog.records)
    assert "'kind': 'agent', 'subject': 'billing'" in said
    assert "'kind': 'person', 'subject': 'dana'" in said
    assert token["token"] not in said
    assert link["code"] not in said
