"""Whether a call asks, by the rules and the table of effects as they are now, read again only when they changed."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from core.approvals import Agent, Approval, Effect
from core.asking import Held, Unasked, decide_whether_to_ask, effect_to_judge
from core.asks import Presentation
from core.effects import Call, readings_of
from core.effects_file import tables_from
from core.effects_rows import Row, Tables
from core.ports import Ledger
from core.rules import Rule, RuleBook, Scope, covers, scopes_for

log = logging.getLogger("placet.rules")

# What a stored rule or table that cannot be read raises; a database that is away is another matter, and travels up.
FAULTS = (ValueError, TypeError, LookupError, ArithmeticError)


@dataclass(frozen=True, slots=True)
class _Book:
    version: int
    rules: RuleBook


class RuleBooks:
    """Keeps each agent's rules and the table of effects for as long as the agent's version stays the same."""

    def __init__(self) -> None:
        self._books: dict[str, _Book] = {}

    def of(self, ledger: Ledger, agent: Agent) -> RuleBook:
        book = self._books.get(agent.id)
        if book is None or book.version != agent.version:
            book = _Book(agent.version, RuleBook(ledger.rules(agent.id), _tables_of(ledger)))
            self._books[agent.id] = book
        return book.rules

    def decide(
        self,
        ledger: Ledger,
        agent: Agent,
        call: Call,
        effect: Effect,
        now: datetime,
        *,
        needed: int,
        barred: str | None,
    ) -> Held | Unasked:
        """The order of decision (design section 6); a fault in it holds the call."""
        try:
            rules = self.of(ledger, agent)
        except FAULTS as error:
            self._report(agent, error)
            return Held(type(error).__name__)
        return decide_whether_to_ask(call, effect, agent.mode, rules, now, needed=needed, barred=barred)

    def effect(self, ledger: Ledger, agent: Agent | None, call: Call, claimed: Effect | None = None) -> Effect:
        """How far a call reaches; MONEY, which no mode lets through, when that cannot be judged."""
        try:
            # Of an agent that nobody knows as well, a call is what the directory says of its tool.
            tables = self.of(ledger, agent).tables if agent is not None else _tables_of(ledger)
        except FAULTS as error:
            self._report(agent, error)
            return Effect.MONEY
        return effect_to_judge(call, claimed, tables)

    @staticmethod
    def _report(agent: Agent | None, error: Exception) -> None:
        log.error("rules cannot be read", extra={"agent": agent.id if agent else "", "error": type(error).__name__})

    def effect_of(self, ledger: Ledger, agent: Agent | None, approval: Approval, arguments: str) -> Effect:
        """How far a row's call would reach with other arguments."""
        return self.effect(ledger, agent, call_of(approval, agent, arguments))

    def named(
        self, ledger: Ledger, agent: Agent | None, approval: Approval, of: Callable[[Row], Iterable[str]]
    ) -> frozenset[str]:
        """The arguments that the table names for a row's tool, by key; none when that cannot be read."""
        try:
            tables = self.of(ledger, agent).tables if agent is not None else _tables_of(ledger)
            readings = readings_of(tables, approval.tool, approval.operation)
        except FAULTS as error:
            self._report(agent, error)
            return frozenset()
        return frozenset(name for each in readings for name in of(each.row))

    def scopes_for(self, ledger: Ledger, agent: Agent, approval: Approval) -> Sequence[Scope]:
        """The scopes that a card of this row may offer; none when that cannot be judged."""
        try:
            return scopes_for(call_of(approval, agent), approval.effect, self.of(ledger, agent).tables, approval.needed)
        except FAULTS as error:
            self._report(agent, error)
            return ()

    def covered(
        self, ledger: Ledger, agent: Agent, rule: Rule, rows: Sequence[Approval], now: datetime
    ) -> list[Approval]:
        """Which of these waiting rows a rule lets run; a fault in judging one leaves it waiting.

        No book is kept of what is read here: the rule may be of this very transaction, and rolled back with it.
        """
        found: list[Approval] = []
        if not rows:
            return found
        try:
            tables = _tables_of(ledger)
        except FAULTS as error:
            self._report(agent, error)
            return found
        for row in rows:
            try:
                found += [row] if covers(rule, call_of(row, agent), row.effect, tables, now) else []
            except FAULTS as error:
                self._report(agent, error)
        return found


def _tables_of(ledger: Ledger) -> Tables:
    """The table of effects, with what the directory says now."""
    return _tables(json.dumps(ledger.effects()))


# The calls of all agents are judged by the same table, until the directory says otherwise.
@lru_cache(maxsize=2)
def _tables(section: str) -> Tables:
    return tables_from(json.loads(section))


def call_of(approval: Approval, agent: Agent | None, arguments: str | None = None) -> Call:
    """A row's call, as the rules look at it; with other arguments, if such are given."""
    return Call(
        tool=approval.tool,
        operation=approval.operation,
        arguments=json.loads(approval.final_arguments if arguments is None else arguments),
        agent=approval.agent,
        digest=approval.digest,
        presentation=Presentation.model_validate_json(approval.presentation),
        unlisted_run=runs_unlisted(approval.tool, json.loads(approval.run) if approval.run else None, agent),
    )


def runs_unlisted(tool: str, run: Mapping[str, Any] | None, agent: Agent | None) -> bool:
    """Whether a call names an activity that the directory does not list for the agent's tool."""
    return run is not None and (agent is None or (tool, run["activity"], run["task_queue"]) not in agent.runs)
