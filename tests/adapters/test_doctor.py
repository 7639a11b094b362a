"""placet doctor: what it finds on this machine and in the running services, each with its fix."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Collection, Sequence
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from temporalio import activity, workflow
from temporalio.client import Client, Schedule, ScheduleActionStartWorkflow, ScheduleSpec
from temporalio.worker import Worker

from adapters.database import Database
from adapters.directory_file import read_directory
from adapters.doctor import examine
from adapters.migrate import migrate
from adapters.sandbox import Sandbox
from adapters.sandbox.discord import token_of
from adapters.settings import ADMIN_TOKEN_FILE, Settings, admin_token, read_settings
from core.approvals import Status
from core.ports import Finding
from tests.adapters.api import an_api, served
from tests.builders import an_approval
from tests.services import free_port, temporal_in

TELEGRAM = {"telegram": "PLACET_TELEGRAM_TOKEN"}
SWITCHES = {**TELEGRAM, "slack": "PLACET_SLACK_BOT_TOKEN", "discord": "PLACET_DISCORD_TOKEN"}


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting but the test's own."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.upper().startswith("PLACET_")]:
        monkeypatch.delenv(name)


def settings_in(folder: Path, **given: Any) -> Settings:
    return read_settings(**{"data_dir": folder / "data", "http_bind": f"127.0.0.1:{free_port()}", **given})


async def found(settings: Settings, *words: str) -> Finding:
    """The one finding that has all these words; every finding that is not ok names a fix."""
    findings = await examine(settings, TELEGRAM)
    for finding in findings:
        assert "\n" not in finding.what + finding.fix
        assert finding.level == "ok" or finding.fix
    matching = [finding for finding in findings if all(word in finding.what for word in words)]
    assert len(matching) == 1, findings
    return matching[0]


async def test_a_fresh_machine_is_well(tmp_path: Path) -> None:
    findings = await examine(settings_in(tmp_path), TELEGRAM)
    assert {finding.level for finding in findings} == {"ok"}
    assert not (tmp_path / "data").exists()


async def test_the_data_folder(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    settings.data_dir.mkdir(mode=0o700)
    assert (await found(settings, "data folder")).level == "ok"
    settings.data_dir.chmod(0o755)
    finding = await found(settings, "other users may look into")
    assert (finding.level, finding.fix) == ("warn", f"chmod 700 {settings.data_dir}")
    (tmp_path / "file").write_text("")
    finding = await found(settings_in(tmp_path, data_dir=tmp_path / "file"), "cannot be written to")
    assert finding.level == "fail"


async def test_a_demos_data_folder_says_how_to_find_the_demo(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    settings.data_dir.mkdir(mode=0o700)
    (settings.data_dir / "demo.env").touch()
    finding = await found(settings, "a demo's data folder")
    assert (finding.level, finding.fix) == ("warn", f"tell this terminal: . {settings.data_dir}/demo.env")
    told = settings_in(tmp_path, temporal_address="127.0.0.1:1")
    assert (await found(told, "data folder")).level == "ok"


async def test_the_admin_token(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    token = admin_token(settings).get_secret_value()
    assert (await found(settings, "admin token", "alone")).level == "ok"
    path = settings.data_dir / ADMIN_TOKEN_FILE
    path.chmod(0o644)
    finding = await found(settings, "other users may read the admin token")
    assert finding.level == "fail"
    assert f"chmod 600 {path}" in finding.fix
    assert token not in finding.what + finding.fix
    path.write_text("short")
    assert (await found(settings, "PLACET_ADMIN_TOKEN: the one in")).level == "fail"


async def test_the_http_address(tmp_path: Path) -> None:
    assert (await found(settings_in(tmp_path), "is free")).level == "ok"
    finding = await found(settings_in(tmp_path, http_bind="192.0.2.1:8420"), "cannot be listened on")
    assert finding.level == "fail"
    assert "PLACET_HTTP_BIND" in finding.what
    finding = await found(settings_in(tmp_path, http_bind=f"0.0.0.0:{free_port()}"), "open to other machines")
    assert finding.level == "warn"


async def test_a_stranger_at_the_http_address(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as stranger:
        bind = f"127.0.0.1:{stranger.sockets[0].getsockname()[1]}"
        finding = await found(settings_in(tmp_path, http_bind=bind), "is not Placet")
    assert finding.level == "fail"
    assert "the page of a demo" in finding.what


async def test_placet_at_the_http_address(tmp_path: Path) -> None:
    async def nothing() -> str | None:
        return None

    async def broken() -> str | None:
        return "no answer"

    async with an_api(tmp_path, checks={"database": nothing}) as api, served(api) as url:
        settings = settings_in(tmp_path, http_bind=url.removeprefix("http://"))
        assert (await found(settings, "Placet answers at")).level == "ok"
        assert admin_token(settings)
        finding = await found(settings, "does not know the admin token")
        assert (finding.level, "PLACET_DATA_DIR" in finding.fix) == ("fail", True)
        settings = settings_in(tmp_path, http_bind=url.removeprefix("http://"), token=api.tokens["dana"])
        assert (await found(settings, "it knows PLACET_TOKEN")).level == "ok"
    (tmp_path / "other").mkdir()
    async with an_api(tmp_path / "other", checks={"database": broken}) as api, served(api) as url:
        finding = await found(settings_in(tmp_path, http_bind=url.removeprefix("http://")), "Placet answers at")
        assert finding.level == "fail"
        assert "database" in finding.what


async def test_an_embedded_server_that_is_down_is_left_to_placet_which_starts_it_again(tmp_path: Path) -> None:
    async def well() -> str | None:
        return None

    async def down() -> str | None:
        return "no answer"

    async with an_api(tmp_path, checks={"database": well, "redis": down, "temporal": down}) as api, served(api) as url:
        settings = settings_in(tmp_path, http_bind=url.removeprefix("http://"))
        for name, log in (("Redis", "valkey.log"), ("Temporal", "temporal.log")):
            finding = await found(settings, f"the embedded {name} server does not answer")
            assert finding.level == "fail"
            assert finding.fix.startswith("Placet starts it again by itself, within 30 s; if it does not, ")
            assert str(settings.data_dir / log) in finding.fix
        settings = settings_in(tmp_path, http_bind=url.removeprefix("http://"), temporal_address="127.0.0.1:9")
        findings = await examine(settings)
        assert [finding.what for finding in findings if "embedded" in finding.what and finding.level == "fail"] == [
            "the embedded Redis server does not answer"
        ]


async def test_a_demos_temporal_that_is_down_is_left_to_the_demo(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, temporal_address=f"127.0.0.1:{free_port()}")
    settings.data_dir.mkdir(mode=0o700)
    (settings.data_dir / "demo.env").write_text(f"export PLACET_TEMPORAL_ADDRESS={settings.temporal_address}\n")
    finding = await found(settings, "the embedded Temporal server does not answer")
    assert "starts it again by itself" in finding.fix
    other = settings_in(tmp_path, temporal_address=f"127.0.0.1:{free_port()}")
    assert "PLACET_TEMPORAL_ADDRESS" in (await found(other, "nothing answers at")).what


async def test_the_public_url(tmp_path: Path) -> None:
    assert (await found(settings_in(tmp_path), "PLACET_PUBLIC_URL")).level == "ok"
    settings = settings_in(tmp_path, public_url="http://placet.example")
    assert (await found(settings, "PLACET_PUBLIC_URL", "not https")).level == "fail"
    settings = settings_in(tmp_path, public_url="https://placet.example")
    assert (await found(settings, "PLACET_PUBLIC_URL")).level == "ok"


async def test_the_database(tmp_path: Path, postgres_database: str) -> None:
    settings = settings_in(tmp_path, database_url=postgres_database)
    finding = await found(settings, "behind this version by")
    assert (finding.level, finding.fix) == ("fail", "run `placet migrate`")
    await migrate(postgres_database)
    assert (await found(settings, "has this version's tables")).level == "ok"
    gone = "postgresql://planted:planted@127.0.0.1:9/placet"
    finding = await found(settings_in(tmp_path, database_url=gone), "PLACET_DATABASE_URL")
    assert finding.level == "fail"
    assert "planted" not in finding.what + finding.fix


async def test_redis(tmp_path: Path, valkey_url: str) -> None:
    assert (await found(settings_in(tmp_path, redis_url=valkey_url), "Valkey")).level == "ok"
    finding = await found(settings_in(tmp_path, redis_url="redis://:planted@127.0.0.1:9/0"), "PLACET_REDIS_URL")
    assert finding.level == "fail"
    assert "planted" not in finding.what + finding.fix
    async with Redis.from_url(valkey_url) as client:
        await client.config_set("maxmemory", "100mb")
        await client.config_set("maxmemory-policy", "volatile-lru")
        try:
            finding = await found(settings_in(tmp_path, redis_url=valkey_url), "drops keys")
            assert (finding.level, "noeviction" in finding.fix) == ("warn", True)
        finally:
            await client.config_set("maxmemory-policy", "noeviction")
            await client.config_set("maxmemory", "0")


@workflow.defn(name="Idle", sandboxed=False)
class Idle:
    @workflow.run
    async def run(self) -> None:
        return None


@activity.defn(name="idle")
async def idle() -> None:
    return None


async def test_temporal(tmp_path: Path, temporal_address: str) -> None:
    finding = await found(settings_in(tmp_path, temporal_address=f"127.0.0.1:{free_port()}"), "nothing answers at")
    assert (finding.level, "PLACET_TEMPORAL_ADDRESS" in finding.what) == ("fail", True)
    settings = settings_in(tmp_path, temporal_address=temporal_address, temporal_namespace="nowhere")
    assert (await found(settings, "PLACET_TEMPORAL_NAMESPACE: there is no namespace nowhere")).level == "fail"


@pytest.fixture
async def fresh_temporal(tmp_path: Path) -> AsyncIterator[str]:
    """The address of a server of this test's own: others leave schedules and pollers behind."""
    folder = tmp_path / "temporal"
    folder.mkdir()
    server = temporal_in(folder)
    await server.start()
    try:
        yield server.address
    finally:
        await server.stop()


async def test_what_polls_and_sweeps_on_temporal(tmp_path: Path, fresh_temporal: str) -> None:
    settings = settings_in(tmp_path, temporal_address=fresh_temporal)
    assert (await found(settings, "the schedule placet-sweep is missing")).level == "fail"
    assert (await found(settings, "no worker takes activities from the task queue placet-bots")).level == "fail"
    client = await Client.connect(fresh_temporal)
    action = ScheduleActionStartWorkflow("Idle", id="idle", task_queue="placet-doctor-test")
    once_a_year = ScheduleSpec(cron_expressions=["0 0 1 1 *"])
    await client.create_schedule("placet-sweep", Schedule(action, once_a_year))
    async with (
        Worker(client, task_queue="placet", workflows=[Idle], activities=[idle]),
        Worker(client, task_queue="placet-bots", activities=[idle]),
    ):
        for _ in range(100):
            findings = await examine(settings)
            if all(finding.level == "ok" for finding in findings):
                break
            await asyncio.sleep(0.05)
        assert [finding for finding in findings if finding.level != "ok"] == []
        assert any("the schedule placet-sweep is there" in finding.what for finding in findings)
        assert any(finding.what == "1 worker takes workflows from the task queue placet" for finding in findings)


async def test_the_payload_codec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "doctor_codec.py").write_text(
        "from temporalio.converter import PayloadCodec\n"
        "class Codec(PayloadCodec):\n"
        "    async def encode(self, payloads): return list(payloads)\n"
        "    async def decode(self, payloads): return list(payloads)\n"
    )
    finding = await found(settings_in(tmp_path, temporal_codec="doctor_codec:Codec"), "doctor_codec:Codec")
    assert finding.level == "ok"
    for wrong in ("doctor_codec:Nothing", "no_such_module:Codec"):
        assert (await found(settings_in(tmp_path, temporal_codec=wrong), "PLACET_TEMPORAL_CODEC")).level == "fail"


async def is_on() -> Sequence[Finding]:
    return []


async def is_off() -> None:
    return None


async def findings_for(folder: Path, text: str, on: Collection[str] = ("telegram",)) -> list[Finding]:
    settings = settings_in(folder)
    settings.data_dir.mkdir(mode=0o700)
    await migrate(settings.database)
    database = Database.open(settings.database)
    if text:
        await database.write(lambda ledger: ledger.replace_directory(read_directory(text)))
    await database.close()
    checks = {name: is_on if name in on else is_off for name in SWITCHES}
    return [finding for finding in await examine(settings, SWITCHES, checks) if finding.level != "ok"]


async def test_an_empty_directory(tmp_path: Path) -> None:
    (finding,) = await findings_for(tmp_path, "")
    assert (finding.level, "directory is empty" in finding.what) == ("warn", True)


@pytest.mark.parametrize(("unseen", "told"), [
    (1, "1 approval waits where nobody can see it"), (2, "2 approvals wait where nobody can see them"),
])  # fmt: skip
async def test_what_waits_unseen_is_counted_and_where_to_see_it_is_said(tmp_path: Path, unseen: int, told: str) -> None:
    settings = settings_in(tmp_path)
    settings.data_dir.mkdir(mode=0o700)
    await migrate(settings.database)
    database = Database.open(settings.database)
    rows = [an_approval(undeliverable="dana is linked on no platform") for _ in range(unseen)]
    for row in [*rows, an_approval(), an_approval(undeliverable="gone", status=Status.EXPIRED)]:
        await database.write(lambda ledger, row=row: ledger.insert(row))  # type: ignore[misc]
    await database.close()
    finding = await found(settings, "nobody can see")
    assert (finding.level, finding.what) == ("warn", told)
    assert "`placet approvals`" in finding.fix
    assert "`placet show ID`" in finding.fix


async def test_l1_a_directory_in_which_nobody_may_answer(tmp_path: Path) -> None:
    found = await findings_for(tmp_path, "people: {dana: {identities: {telegram: 1}}}")
    assert [(finding.level, finding.what) for finding in found] == [
        ("fail", "nobody holds approvals:answer, so every call waits until it expires")
    ]


async def test_people_whom_nobody_reaches(tmp_path: Path) -> None:
    text = """
people:
  dana: {identities: {slack: T01/U01}}
  ola: {identities: {telegram: 1002}}
  kim: {identities: {telegram: 1003}}
roles: {approver: [approvals:answer]}
members: {approver: [dana, ola]}
agents: {billing: {owner: dana}, support: {owner: kim}, mail: {owner: ola}}
routes:
  - {match: {agent: mail}, ask: [ola], at: [dm]}
  - {match: {agent: billing}, ask: [dana, kim], at: [dm]}
"""
    assert [(finding.level, finding.what, finding.fix) for finding in await findings_for(tmp_path, text)] == [
        ("warn", "dana is linked on no platform and cannot answer in chat", "placet link dana"),
        ("warn", "calls of billing that no route matches go to dana, who is linked on no platform", "placet link dana"),
        ("warn", "calls of support that no route matches go to kim, who does not hold approvals:answer",
         "give a role of kim approvals:answer"),
        ("warn", "route 2 asks nobody who is linked and may answer", "placet link those whom it asks"),
    ]  # fmt: skip


OFFICE = """
people:
  dana: {identities: {telegram: 1001, slack: T01/U01}}
  ola: {identities: {slack: T01/U02}}
  kim: {identities: {telegram: 1003, slack: T01/U03}}
roles: {approver: [approvals:answer], watcher: [approvals:view]}
members: {approver: [dana, ola, kim]}
agents: {billing: {owner: dana}}
routes:
  - {ask: [dana, ola], at: [dm, slack:C01], needed: 2, escalate: {after: 8h, ask: [ola], at: [slack:C02]}}
"""


async def test_a_quorum_and_an_escalation_that_nobody_linked_can_meet(tmp_path: Path) -> None:
    found = await findings_for(tmp_path, OFFICE)
    assert [(finding.level, finding.what, finding.fix) for finding in found] == [
        ("warn", "ola is linked on no platform and cannot answer in chat", "placet link ola"),
        ("warn", "route 1 needs 2 to allow, but of those it asks only dana is linked and may answer",
         "placet link those whom it asks, or lower needed"),
        ("warn", "the escalation of route 1 asks nobody who is linked and may answer",
         "placet link those whom it asks"),
        ("warn", "route 1 asks at slack:C01, but slack is off",
         "set PLACET_SLACK_BOT_TOKEN, or take the place out of placet.yaml"),
        ("warn", "route 1 asks at slack:C02, but slack is off",
         "set PLACET_SLACK_BOT_TOKEN, or take the place out of placet.yaml"),
    ]  # fmt: skip


async def test_a_directory_whose_platforms_are_on_is_well(tmp_path: Path) -> None:
    assert await findings_for(tmp_path, OFFICE, on=("telegram", "slack")) == []


async def test_a_process_without_any_platform_cannot_know_which_are_on(tmp_path: Path) -> None:
    assert await findings_for(tmp_path, OFFICE, on=()) == []


async def test_a_chat_with_a_language_on_a_platform_that_is_off(tmp_path: Path) -> None:
    chats = "chats: {discord:600: {language: de}}\n"
    (finding,) = await findings_for(tmp_path, OFFICE + chats, on=("telegram", "slack"))
    assert (finding.level, finding.what) == ("warn", "the chat discord:600 has a language, but discord is off")


async def test_who_is_in_a_group_may_answer_for_all_that_is_known(tmp_path: Path) -> None:
    text = """
people: {dana: {identities: {telegram: 1001}}, kim: {identities: {telegram: 1003}}}
roles: {oncall: {permissions: [approvals:answer], groups: [slack:T01/S01]}}
agents: {billing: {owner: dana}}
routes:
  - {ask: [role:oncall], at: ["telegram:-1001234"], needed: 2, escalate: {after: 8h, ask: [kim], at: [dm]}}
"""
    (finding,) = await findings_for(tmp_path, text)
    assert (finding.level, finding.what) == ("warn", "the role oncall is given by slack:T01/S01, but slack is off")


async def test_a_platforms_own_checks_are_told_and_cannot_hide_the_rest(tmp_path: Path) -> None:
    async def told() -> Sequence[Finding]:
        return [Finding("warn", "telegram: a webhook is set elsewhere", "delete it")]

    async def breaks() -> Sequence[Finding]:
        raise RuntimeError("planted")

    findings = await examine(settings_in(tmp_path), SWITCHES, {"telegram": told, "slack": breaks, "discord": is_off})
    assert Finding("ok", "discord is off: PLACET_DISCORD_TOKEN is not set") in findings
    assert Finding("warn", "telegram: a webhook is set elsewhere", "delete it") in findings
    (broken,) = (finding for finding in findings if "slack" in finding.what)
    assert broken.level == "fail"
    assert "planted" not in broken.what
    assert any("data folder" in finding.what for finding in findings)


async def doctor(*arguments: str, **env: str) -> tuple[int, str, str]:
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "adapters", "doctor", *arguments),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **env},
    )  # fmt: skip
    out, err = await started.communicate()
    assert started.returncode is not None
    return started.returncode, out.decode(), err.decode()


async def test_the_command_ends_with_1_when_a_check_fails(tmp_path: Path) -> None:
    well = {"PLACET_DATA_DIR": str(tmp_path / "data"), "PLACET_HTTP_BIND": f"127.0.0.1:{free_port()}"}
    code, out, err = await doctor(**well)
    assert (code, err) == (0, "")
    assert "ok    telegram is off: PLACET_TELEGRAM_TOKEN is not set\n" in out
    code, out, err = await doctor("--json", PLACET_PUBLIC_URL="http://placet.example", **well)
    assert code == 1
    assert err.count("\n") == 1
    assert [finding["level"] for finding in json.loads(out) if "PLACET_PUBLIC_URL" in finding["what"]] == ["fail"]


async def test_the_command_asks_telegram(tmp_path: Path) -> None:
    async with Sandbox() as sandbox:
        token = "7000000001:" + "A" * 30
        sandbox.add_bot(token, "placet_bot")
        given = {
            "PLACET_DATA_DIR": str(tmp_path / "data"), "PLACET_HTTP_BIND": f"127.0.0.1:{free_port()}",
            "PLACET_TELEGRAM_TOKEN": token, "PLACET_TELEGRAM_BASE_URL": sandbox.url,
        }  # fmt: skip
        code, out, _ = await doctor(**given)
        assert code == 0
        assert "ok    Telegram bot 7000000001 (@placet_bot) answers" in out
        sandbox.telegram.fail("*", status=401, description="Unauthorized", times=None)
        code, out, err = await doctor(**given)
        assert code == 1
        assert "fail  Telegram bot 7000000001: 127.0.0.1:" in out
        assert "fix: copy it from @BotFather" in out
        assert "AAAA" not in out + err


async def test_the_command_names_the_platform_whose_token_was_revoked(tmp_path: Path) -> None:
    async with Sandbox() as sandbox:
        telegram, slack, discord = "7000000001:" + "A" * 30, "xoxb-doctor-token-AAAAAAAA", token_of(8000000001)
        sandbox.add_bot(telegram, "placet_bot")
        sandbox.slack.add_team("T01", "Acme", token=slack, app_token="xapp-doctor-token-CCCCCCCC")
        sandbox.discord.add_bot(8000000001, "placet", name="Placet")
        given = {
            "PLACET_DATA_DIR": str(tmp_path / "data"), "PLACET_HTTP_BIND": f"127.0.0.1:{free_port()}",
            "PLACET_TELEGRAM_TOKEN": telegram, "PLACET_TELEGRAM_BASE_URL": sandbox.url,
            "PLACET_SLACK_BOT_TOKEN": slack, "PLACET_SLACK_APP_TOKEN": "xapp-doctor-token-CCCCCCCC",
            "PLACET_SLACK_BASE_URL": sandbox.slack_base_url,
            "PLACET_DISCORD_TOKEN": discord, "PLACET_DISCORD_BASE_URL": sandbox.discord_base_url,
            "PLACET_DISCORD_GATEWAY_URL": sandbox.discord_gateway_url,
        }  # fmt: skip
        code, out, _ = await doctor(**given)
        assert code == 0, out
        assert "ok    Slack bot token 1: the app in T01 answers" in out
        assert "ok    Discord bot 8000000001 (placet) answers" in out
        sandbox.slack.revoke("T01")
        sandbox.discord.fail("*", status=401, code=0, times=None)
        code, out, err = await doctor(**given)
        assert code == 1
        failed = [line for line in out.splitlines() if line.startswith("fail")]
        assert len(failed) == 2
        assert "Slack bot token 1: 127.0.0.1:" in failed[0]
        assert "does not accept it (token_revoked)" in failed[0]
        assert "Discord bot 8000000001: 127.0.0.1:" in failed[1]
        assert "does not accept its token" in failed[1]
        assert "ok    Telegram bot 7000000001 (@placet_bot) answers" in out
        for secret in (slack, discord, telegram):
            assert secret not in out + err


@pytest.mark.parametrize(
    ("name", "value"), [("PLACET_HTTP_BIND", "planted"), ("PLACET_TELEGRAM_TOKEN", "planted"), ("PLACET_REDIS", "x")]
)
async def test_a_bad_setting_is_a_finding(tmp_path: Path, name: str, value: str) -> None:
    code, out, _ = await doctor(**{"PLACET_DATA_DIR": str(tmp_path / "data"), name: value})
    assert code == 1
    assert f"fail  {name}: " in out
    assert "planted" not in out
