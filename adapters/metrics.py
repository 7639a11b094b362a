"""Prometheus metrics of one process: what an operator watches, with labels that never carry an id."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from core.ports import Clock

log = logging.getLogger("placet.adapters")

SCRAPE_S = 2.0
PRESS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
HTTP_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})

Waiting = Callable[[], Awaitable[tuple[int, datetime | None]]]
Undeliverable = Callable[[], Awaitable[int]]
Service = Callable[[], Awaitable[str | None]]


class Metrics:
    """core.ports.Meter over a registry of its own.

    `waiting` reads how many rows are pending and when the oldest was created, `undeliverable` how many of them nobody
    can see; `services` are the checks of /readyz, by name, each None when all is well. All are asked at each scrape,
    for at most 2 s. Without an answer of the database the last figures stay and `placet_database_up` is 0.
    """

    def __init__(
        self,
        *,
        version: str,
        clock: Clock,
        waiting: Waiting | None = None,
        undeliverable: Undeliverable | None = None,
        services: Mapping[str, Service] | None = None,
    ) -> None:
        self.registry = registry = CollectorRegistry()
        self._clock, self._waiting, self._undeliverable = clock, waiting, undeliverable
        self._services = {} if services is None else services
        ProcessCollector(registry=registry)
        build = Gauge("placet_build_info", "Always 1; the version is a label.", ["version"], registry=registry)
        build.labels(version).set(1)
        self._presses = Counter(
            "placet_presses", "Presses and replies from a platform, by what came of them.", ["platform", "result"],
            registry=registry,
        )  # fmt: skip
        self._press_seconds = Histogram(
            "placet_press_seconds", "Time from a press to the reply for its presser.", ["platform"],
            buckets=PRESS_BUCKETS, registry=registry,
        )  # fmt: skip
        # Found anew by their labels, these two cost more than the counting.
        self._presses_by, self._press_seconds_by = cache(self._presses.labels), cache(self._press_seconds.labels)
        self._decisions = Counter(
            "placet_decisions", "Approvals that became final, by how and where.", ["verdict", "via"], registry=registry
        )
        self._outcomes = Counter(
            "placet_outcomes", "Calls that were allowed, by what became of them.", ["outcome"], registry=registry
        )
        for outcome in ("sent", "not_sent", "unknown"):
            self._outcomes.labels(outcome)
        self._nudges = Counter(
            "placet_nudges", "Nudges to waiting workflows, by result.", ["result"], registry=registry
        )
        for result in ("sent", "gone", "failed"):
            self._nudges.labels(result)
        self._redraws = Counter(
            "placet_redraws", "Cards redrawn, by result.", ["platform", "result"], registry=registry
        )
        self._pending = Gauge("placet_waiting_approvals", "Approvals that wait for an answer.", registry=registry)
        self._oldest = Gauge(
            "placet_oldest_waiting_seconds",
            "Age of the oldest approval that waits; 0 when none does.",
            registry=registry,
        )
        self._unseen = Gauge(
            "placet_undeliverable_approvals", "Approvals that wait and whose card could not be shown to anybody.",
            registry=registry,
        )  # fmt: skip
        self._service_up = Gauge(
            "placet_service_up", "1 when a service that the process stands on was well at this scrape, else 0.",
            ["service"], registry=registry,
        )  # fmt: skip
        self._database_up = Gauge(
            "placet_database_up", "1 when the database answered at this scrape, else 0.", registry=registry
        )
        self._gate_open = Gauge(
            "placet_gate_open", "1 while Redis is away and presses pass unlimited, else 0.", registry=registry
        )
        self._gate_openings = Counter("placet_gate_openings", "How often the gate opened.", registry=registry)
        self._requests = Counter(
            "placet_http_requests", "HTTP requests by route.", ["method", "route", "status"], registry=registry
        )
        self._request_seconds = Histogram(
            "placet_http_request_seconds", "Time to the start of the response, long polls included.",
            ["method", "route"], buckets=HTTP_BUCKETS, registry=registry,
        )  # fmt: skip

    def press(self, platform: str, result: str, seconds: float) -> None:
        self._presses_by(platform, result).inc()
        self._press_seconds_by(platform).observe(seconds)

    def decision(self, verdict: str, via: str) -> None:
        self._decisions.labels(verdict, via).inc()

    def redraw(self, platform: str, result: str) -> None:
        self._redraws.labels(platform, result).inc()

    def outcome(self, outcome: str) -> None:
        self._outcomes.labels(outcome).inc()

    def nudge(self, result: str) -> None:
        self._nudges.labels(result).inc()

    def gate(self, is_open: bool) -> None:
        """The gate opened (everything passes) or shut again."""
        self._gate_open.set(is_open)
        if is_open:
            self._gate_openings.inc()

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """`route` is the template of the path, never the path."""
        method = method if method in METHODS else "other"
        self._requests.labels(method, route, str(status)).inc()
        self._request_seconds.labels(method, route).observe(seconds)

    async def scrape(self) -> bytes:
        """Everything in Prometheus's text format, the waiting approvals and the services as they are now."""
        await asyncio.gather(self._count(), *(self._look(name, check) for name, check in self._services.items()))
        return generate_latest(self.registry)

    async def _count(self) -> None:
        if self._waiting is None:
            return
        try:
            async with asyncio.timeout(SCRAPE_S):
                count, oldest = await self._waiting()
                unseen = await self._undeliverable() if self._undeliverable is not None else 0
        except Exception as error:
            # A scrape must not fail because the database does: the gauge says so.
            log.warning("waiting approvals unread", extra={"error": type(error).__name__})
            self._database_up.set(0)
        else:
            self._database_up.set(1)
            self._pending.set(count)
            self._unseen.set(unseen)
            age = (self._clock.now() - oldest).total_seconds() if oldest else 0.0
            self._oldest.set(max(0.0, age))

    async def _look(self, name: str, check: Service) -> None:
        well = False
        try:
            async with asyncio.timeout(SCRAPE_S):
                well = await check() is None
        except Exception as error:
            log.warning("check failed", extra={"service": name, "error": type(error).__name__})
        self._service_up.labels(name).set(well)
