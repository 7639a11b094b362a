"""How fast it is decided whether a call asks, on one core, with a thousand standing rules."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from core.approvals import Agent
from core.effects import Call
from core.identifiers import new_id
from core.ports import Ledger
from core.rulebooks import RuleBooks
from core.rules import Rule, ScopeKind
from tests.bench.figures import Figure, percentile

RULES, CALLS = 1_000, 40_000
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class CountedLedger:
    """The part of a ledger that deciding reads; counts how often it does."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules, self.reads = rules, 0

    def rules(self, agent_id: str) -> Sequence[Rule]:
        self.reads += 1
        return self._rules

    def effects(self) -> Mapping[str, Any]:
        self.reads += 1
        return {}


def a_rule(number: int) -> Rule:
    kinds = (ScopeKind.RECIPIENT, ScopeKind.ARGUMENTS, ScopeKind.HOST, ScopeKind.OPERATION)
    kind = kinds[number % len(kinds)]
    value = {
        ScopeKind.RECIPIENT: json.dumps([f"person{number}@example.com"]),
        ScopeKind.ARGUMENTS: f"sha256:{number:064x}",
        ScopeKind.HOST: f"GET https://host{number}.example.com",
    }.get(kind, "")
    tool = ("mail.send", "shell", "http.request", f"tool{number}")[number % len(kinds)]
    return Rule(new_id(NOW), "billing", tool, "", kind, value, f"rule {number}", NOW, "dana")


def calls() -> list[Call]:
    """What agents do: mail, commands, requests, payments, reads; some covered by a rule and most not."""
    made = []
    for number in range(200):
        made += [
            Call("mail.send", "", {"to": f"person{number * 8}@example.com", "text": "Hello"}, "billing", "sha256:1"),
            Call("shell", "", {"command": f"make test-{number}"}, "billing", f"sha256:{number * 8 + 1:064x}"),
            Call("http.request", "", {"method": "GET", "url": f"https://host{number}.example.com/x"}, "billing", "d"),
            Call("stripe.refund", "create", {"charge": "ch_1", "amount": 4900}, "billing", "sha256:2"),
            Call("file.read", "", {"path": f"notes/{number}.md"}, "billing", "sha256:3"),
        ]
    return made


async def measure_deciding(folder: Path) -> list[Figure]:
    ledger = CountedLedger([a_rule(number) for number in range(RULES)])
    books, agent, wanted = RuleBooks(), Agent("billing", "dana"), calls()
    taken: list[float] = []

    def decide(call: Call) -> None:
        effect = books.effect(cast(Ledger, ledger), agent, call)
        books.decide(cast(Ledger, ledger), agent, call, effect, NOW, needed=1, barred=None)

    for call in wanted:
        decide(call)
    reads = ledger.reads
    # What one core does: of its own time, not of that in which it did other work.
    began = time.process_time()
    for number in range(CALLS):
        started = time.perf_counter()
        decide(wanted[number % len(wanted)])
        taken.append(time.perf_counter() - started)
    rate = CALLS / (time.process_time() - began)
    p99 = percentile(taken, 0.99) * 1000
    return [
        Figure(
            f"deciding whether a call asks, {RULES} rules", rate, "/s", bar=20_000, bar_is="value", higher=True,
            against="none: one core, calls that rules cover and calls that none does",
        ),
        Figure("deciding whether a call asks, p99", p99, "ms", bar=1, bar_is="value", against="none"),
        Figure(
            "database reads of those calls, the rules unchanged", ledger.reads - reads, "", bar=0, bar_is="value",
            against="none: the agent's version says that nothing changed",
        ),
    ]  # fmt: skip
