"""What Prometheus reads."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

import adapters.metrics
from adapters.metrics import Metrics
from core.ports import Meter

NOW = datetime(2026, 3, 9, 12, 0, tzinfo=UTC)


class FixedClock:
    def now(self) -> datetime:
        return NOW


@dataclass
class Rows:
    """What waits in the database, or what happens when it is asked."""

    answer: tuple[int, datetime | None] | Exception = (0, None)

    async def __call__(self) -> tuple[int, datetime | None]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def metrics_over(rows: Rows) -> Metrics:
    return Metrics(version="1.2.3", clock=FixedClock(), waiting=rows)


async def read(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """Every sample, by its name and the values of its labels in the order of their names."""
    families = text_string_to_metric_families((await metrics.scrape()).decode())
    samples = [sample for family in families for sample in family.samples]
    return {(each.name, *(each.labels[name] for name in sorted(each.labels))): each.value for each in samples}


async def test_everything_an_operator_watches_is_counted() -> None:
    metrics = metrics_over(Rows((3, NOW - timedelta(minutes=5))))
    meter: Meter = metrics
    meter.press("telegram", "approved", 0.0007)
    meter.press("telegram", "too_late", 0.004)
    meter.decision("approved", "telegram")
    meter.nudge("sent")
    meter.nudge("failed")
    meter.redraw("telegram", "drawn")
    samples = await read(metrics)
    assert samples["placet_presses_total", "telegram", "approved"] == 1
    assert samples["placet_presses_total", "telegram", "too_late"] == 1
    assert samples["placet_press_seconds_bucket", "0.001", "telegram"] == 1
    assert samples["placet_press_seconds_bucket", "0.005", "telegram"] == 2
    assert samples["placet_decisions_total", "approved", "telegram"] == 1
    assert samples["placet_nudges_total", "sent"] == 1
    assert samples["placet_nudges_total", "failed"] == 1
    assert samples["placet_redraws_total", "telegram", "drawn"] == 1
    assert samples[("placet_waiting_approvals",)] == 3
    assert samples[("placet_oldest_waiting_seconds",)] == 300
    assert samples["placet_build_info", "1.2.3"] == 1


async def test_the_gate_tells_when_it_opens_and_shuts() -> None:
    metrics = metrics_over(Rows())
    for is_open, openings in ((False, 0), (True, 1), (False, 1), (True, 2)):
        metrics.gate(is_open)
        samples = await read(metrics)
        assert samples[("placet_gate_open",)] == is_open
        assert samples[("placet_gate_openings_total",)] == openings


async def test_without_the_database_the_last_figures_stay_and_it_says_so() -> None:
    rows = Rows((3, NOW - timedelta(minutes=5)))
    metrics = metrics_over(rows)
    assert (await read(metrics))[("placet_database_up",)] == 1
    rows.answer = ConnectionError("postgresql://placet:hunter2@db")
    samples = await read(metrics)
    assert samples[("placet_database_up",)] == 0
    assert samples[("placet_waiting_approvals",)] == 3
    assert samples[("placet_oldest_waiting_seconds",)] == 300
    rows.answer = (0, None)
    samples = await read(metrics)
    assert samples[("placet_database_up",)] == 1
    assert samples[("placet_oldest_waiting_seconds",)] == 0


async def test_a_database_that_does_not_answer_holds_no_scrape(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never() -> tuple[int, datetime | None]:
        await asyncio.sleep(3600)
        return 0, None

    metrics = Metrics(version="1", clock=FixedClock(), waiting=never)
    monkeypatch.setattr(adapters.metrics, "SCRAPE_S", 0.05)
    assert (await read(metrics))[("placet_database_up",)] == 0


async def test_what_nobody_can_see_and_what_is_down_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def two() -> int:
        return 2

    async def well() -> str | None:
        return None

    async def down() -> str | None:
        return "no answer"

    async def broken() -> str | None:
        raise RuntimeError("redis://user:hunter2@redis")

    async def never() -> str | None:
        await asyncio.sleep(3600)
        return None

    monkeypatch.setattr(adapters.metrics, "SCRAPE_S", 0.05)
    services = {"database": well, "temporal": down, "redis": broken, "telegram": never}
    metrics = Metrics(version="1", clock=FixedClock(), waiting=Rows((3, NOW)), undeliverable=two, services=services)
    samples = await read(metrics)
    assert samples[("placet_undeliverable_approvals",)] == 2
    up = {name: samples["placet_service_up", name] for name in services}
    assert up == {"database": 1, "temporal": 0, "redis": 0, "telegram": 0}
    services["temporal"] = well
    assert (await read(metrics))["placet_service_up", "temporal"] == 1


async def test_two_processes_of_one_test_count_apart() -> None:
    one, other = metrics_over(Rows()), metrics_over(Rows())
    one.nudge("sent")
    assert (await read(one))["placet_nudges_total", "sent"] == 1
    assert (await read(other))["placet_nudges_total", "sent"] == 0
