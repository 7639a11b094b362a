"""A platform that takes a bot's token back is named, and the others go on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from adapters.sandbox.discord import token_of
from core.approvals import Status
from tests.e2e.stack import BOT, TOKEN, Servers, eventually, stack

TEAM, DISCORD_BOT = "T01", 8000000001
SLACK_TOKEN, SLACK_APP_TOKEN = "xoxb-e2e-token-AAAAAAAA", "xapp-e2e-token-CCCCCCCC"


async def test_readyz_names_the_platforms_whose_tokens_were_revoked_and_the_other_goes_on(
    tmp_path: Path, sqlite_url: str, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stack(tmp_path, sqlite_url, servers) as whole:
        sandbox = whole.seen.sandbox
        sandbox.slack.add_team(TEAM, "Acme", token=SLACK_TOKEN, app_token=SLACK_APP_TOKEN)
        sandbox.discord.add_bot(DISCORD_BOT, "placet", token="another")
        sandbox.slack.revoke(TEAM)
        for name, value in {
            "PLACET_SLACK_BOT_TOKEN": SLACK_TOKEN,
            "PLACET_SLACK_APP_TOKEN": SLACK_APP_TOKEN,
            "PLACET_SLACK_BASE_URL": sandbox.slack_base_url,
            "PLACET_DISCORD_TOKEN": token_of(DISCORD_BOT),
            "PLACET_DISCORD_BASE_URL": sandbox.discord_base_url,
            "PLACET_DISCORD_GATEWAY_URL": sandbox.discord_gateway_url,
        }.items():
            monkeypatch.setenv(name, value)
        async with whole.app() as app, httpx.AsyncClient(trust_env=False) as client:
            asked = await whole.caller.ask()
            await whole.seen.press(await whole.seen.card(), "Allow")
            await whole.decided(Status.APPROVED)
            assert (await asyncio.wait_for(asked.result(), 60))["outcome"] == "sent"

            async def found() -> dict[str, str] | None:
                ready = await client.get(f"{app.settings.http_url}/readyz")
                assert ready.status_code == 200
                checks: dict[str, str] = ready.json()["checks"]
                return checks if checks["telegram"] == "ok" else None

            checks = await eventually(found)
            assert "Slack bot token 1: 127.0.0.1:" in checks["slack"]
            assert "does not accept it (token_revoked)" in checks["slack"]
            assert f"Discord bot {DISCORD_BOT}: 127.0.0.1:" in checks["discord"]
            assert "does not accept its token" in checks["discord"]
            told = str(checks)
            for secret in (SLACK_TOKEN, SLACK_APP_TOKEN, token_of(DISCORD_BOT), TOKEN.removeprefix(f"{BOT}:")):
                assert secret not in told
