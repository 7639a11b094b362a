"""What a whole Placet tells Prometheus of a press, a call, a card, and of what is away; and that no id is in it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from adapters.app import App
from core.approvals import Status
from tests.e2e.stack import BOT, DANA, GROUP, OLA, PAT, eventually, servers_in, stack


async def read(app: App) -> tuple[dict[tuple[str, ...], float], str]:
    """Every sample by its name and its labels' values, in the order of their names; and the text they were in."""
    async with httpx.AsyncClient(trust_env=False) as client:
        text = (await client.get(f"{app.settings.http_url}/metrics")).text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(each.name, *(each.labels[name] for name in sorted(each.labels))): each.value for each in samples}, text


async def test_what_an_operator_watches_is_counted_where_it_happens(tmp_path: Path, sqlite_url: str) -> None:
    async with servers_in(tmp_path) as own, stack(tmp_path, sqlite_url, own) as whole, whole.app() as app:
        asked = await whole.caller.ask()
        card = await whole.seen.card()
        await whole.seen.press(card, "Allow", by=PAT)
        await whole.seen.press(card, "Allow")
        await asyncio.wait_for(asked.result(), 60)
        await whole.seen.settled(card, "Done.")
        ids = [(await whole.row()).id, asked.id]
        await whole.caller.ask()
        waiting = await whole.seen.card(number=2)

        async def counted() -> dict[tuple[str, ...], float] | None:
            samples, text = await read(app)
            assert not [word for word in (*ids, *map(str, (BOT, DANA, OLA, PAT, GROUP))) if word in text]
            return samples if samples.get(("placet_redraws_total", "telegram", "drawn")) else None

        samples = await eventually(counted)
        assert samples["placet_presses_total", "telegram", "approved"] == 1
        assert samples["placet_presses_total", "telegram", "not_entitled"] == 1
        assert samples["placet_press_seconds_count", "telegram"] == 2
        assert samples["placet_decisions_total", "approved", "telegram"] == 1
        assert samples["placet_outcomes_total", "sent"] == 1
        assert samples["placet_nudges_total", "sent"] >= 1
        assert samples["placet_nudges_total", "failed"] == 0
        assert samples[("placet_waiting_approvals",)] == 1
        assert 0 < samples[("placet_oldest_waiting_seconds",)] < 60
        assert samples[("placet_undeliverable_approvals",)] == 0
        assert samples[("placet_gate_open",)] == 0
        assert {samples["placet_service_up", name] for name in ("database", "redis", "temporal", "telegram")} == {1}

        await asyncio.gather(whole.temporal.stop(), whole.valkey.stop())
        await whole.seen.press(waiting, "Decline")
        await whole.decided(Status.DECLINED)

        async def told() -> dict[tuple[str, ...], float] | None:
            samples, _ = await read(app)
            return samples if samples["placet_nudges_total", "failed"] else None

        samples = await eventually(told)
        assert samples["placet_presses_total", "telegram", "declined"] == 1
        assert samples["placet_decisions_total", "declined", "telegram"] == 1
        assert samples[("placet_gate_open",)] == 1
        assert samples[("placet_waiting_approvals",)] == 0
        assert (samples["placet_service_up", "redis"], samples["placet_service_up", "temporal"]) == (0, 0)
