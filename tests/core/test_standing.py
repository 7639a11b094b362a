"""Standing rules at the door, on the database: whose they are, what they settle, and whom they cannot stand in for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from core.approvals import Approval, Effect, Status
from core.effects import Call, Tables, effect_of, tables_from
from core.people import Refusal
from core.ports import Ledger
from core.rules import Rule, Scope, ScopeKind, scope_named, scopes_of
from tests.core.office import GROUP, Office, office

DIRECTORY = f"""
people:
  dana: {{name: Dana Reyes, identities: {{telegram: 1001}}}}
  ola: {{name: Ola Berg, identities: {{telegram: 1002}}}}
roles:
  approver: [approvals:view, approvals:answer, approvals:delegate]
  boss: [admin]
members: {{approver: [dana, ola], boss: [ola]}}
agents:
  billing: {{owner: dana}}
routes:
  - {{match: {{agent: billing}}, ask: [dana, ola], at: ["telegram:{GROUP}"]%s}}
"""
POST: dict[str, Any] = {"tool": "slack.post_message", "arguments": {"channel": "#ops", "text": "x"}}
REFUND: dict[str, Any] = {
    "tool": "stripe.refund", "operation": "create",
    "arguments": {"charge": "ch_1", "amount": 4900, "currency": "GBP"},
}  # fmt: skip
TABLES = tables_from(None)
TO_OPS = scope_named("recipient", "slack.post_message", "", "#ops", TABLES)


@pytest.fixture
async def here(sqlite_url: str) -> AsyncIterator[Office]:
    async with office(sqlite_url) as opened:
        yield opened


async def applied(here: Office, route: str = "") -> None:
    await here.apply(DIRECTORY % route)


async def ruled(here: Office, scope: Scope, by: str = "dana", **more: Any) -> Rule | Refusal:
    person = await here.store.read(lambda ledger: ledger.person(by))
    return await here.desk.agents.add_rule("billing", scope, person, **more)


async def asked(here: Office, body: dict[str, Any], **more: Any) -> Approval:
    return await here.ask(**body, **more)


async def test_a_rule_to_a_recipient_lets_other_texts_to_it_run_and_nothing_else(here: Office) -> None:
    await applied(here)
    rule = await ruled(here, TO_OPS)
    assert isinstance(rule, Rule)
    ran = await asked(here, {**POST, "arguments": {"channel": "#ops", "text": "another"}})
    assert (ran.status, ran.decided_by, ran.note) == (Status.APPROVED, "auto", rule.label)
    for arguments in (
        {"channel": "#all"},
        {"channel": ""},
        {},
        {"channel": ["#ops", "#all"]},
        {"channel": "#ops", "cc": "#all"},
    ):
        assert (await asked(here, {**POST, "arguments": arguments})).pending, arguments


async def test_a_rule_cannot_stand_in_for_the_person_whose_own_request_it_is(here: Office) -> None:
    await applied(here, ", four_eyes: true")
    waits = [await asked(here, POST, on_behalf_of=name) for name in ("dana", "ola", "nobody")]
    waits.append(await asked(here, POST))
    await ruled(here, TO_OPS, by="dana")
    settled = [(await here.row(each)).status for each in waits]
    assert settled == [Status.PENDING, Status.APPROVED, Status.PENDING, Status.PENDING]
    assert (await asked(here, POST, on_behalf_of="dana")).pending
    assert (await asked(here, POST, on_behalf_of="telegram:1001")).pending
    assert (await asked(here, POST, on_behalf_of="somebody")).pending
    assert (await asked(here, POST)).pending
    assert (await asked(here, POST, on_behalf_of="ola")).status is Status.APPROVED


async def test_a_rule_is_one_word_where_two_are_needed(here: Office) -> None:
    await applied(here)
    await ruled(here, TO_OPS)
    await applied(here, ", needed: 2")
    assert (await asked(here, POST)).pending


async def test_only_an_administrator_makes_a_rule_for_money_and_it_ends(here: Office) -> None:
    await applied(here)
    waits, too_much = (
        await asked(here, REFUND),
        await asked(here, {**REFUND, "arguments": {"amount": 5001, "currency": "GBP"}}),
    )
    assert waits.effect is Effect.MONEY
    scope, later = Scope(ScopeKind.OPERATION, "stripe.refund", "create"), here.clock.now() + timedelta(hours=1)
    refused = await ruled(here, scope, by="dana", expires_at=later, ceiling=("50.00", "GBP"))
    assert isinstance(refused, Refusal)
    assert isinstance(await ruled(here, scope, by="ola", ceiling=("50.00", "GBP")), Refusal)
    assert (await here.row(waits)).pending
    rule = await ruled(here, scope, by="ola", expires_at=later, ceiling=("50.00", "GBP"))
    assert isinstance(rule, Rule)
    assert "up to 50.00 GBP a call" in rule.label
    assert (await here.row(waits)).status is Status.APPROVED
    assert (await here.row(too_much)).pending
    assert (await asked(here, REFUND)).status is Status.APPROVED
    assert (await asked(here, {**REFUND, "arguments": {"amount": 100}})).pending
    assert (await asked(here, {**REFUND, "operation": "cancel"})).pending
    here.clock.ahead += timedelta(hours=1)
    assert (await asked(here, REFUND)).pending


async def test_a_rule_without_a_ceiling_never_covers_money(here: Office) -> None:
    await applied(here)
    call = Call(REFUND["tool"], REFUND["operation"], REFUND["arguments"], "billing")
    for scope in scopes_of(call, TABLES):
        await ruled(here, scope, by="ola")
    assert (await asked(here, REFUND)).pending
    # What the asker calls money is money, whatever the table says.
    await ruled(here, TO_OPS, by="ola")
    assert (await asked(here, POST)).status is Status.APPROVED
    assert (await asked(here, POST, effect="money")).pending


async def test_an_activity_that_is_not_listed_does_not_run_under_the_name_of_a_rule(here: Office) -> None:
    await applied(here)
    await ruled(here, TO_OPS)
    run = {"activity": "drop_everything", "task_queue": "elsewhere"}
    assert (await asked(here, POST, run=run)).pending
    read = await asked(here, {"tool": "read_file", "arguments": {"path": "x"}}, run=run)
    assert (read.pending, read.effect) == (True, Effect.SEND)


async def test_w4_a_long_tool_is_named_by_its_card_and_the_rule_by_its_whole_name(here: Office) -> None:
    await applied(here)
    tool = "mcp__github_enterprise__add_comment_to_pending_review"
    waits = await asked(here, {"tool": tool, "arguments": {"body": "x"}})

    def offers(ledger: Ledger) -> list[str]:
        return [label for _, label in here.approvals.judge.offers(ledger, waits, ledger.agent("billing"))]

    assert await here.store.read(offers) == [
        "this tool with exactly these arguments, until removed",
        "every call of this tool, until removed",
    ]
    rule = await ruled(here, Scope(ScopeKind.TOOL, tool, ""))
    assert isinstance(rule, Rule)
    assert rule.label == f"every call of {tool}, until removed"


async def test_agents_share_a_table_of_effects_and_each_hears_of_a_new_one(here: Office) -> None:
    two = DIRECTORY.replace("agents:\n", "agents:\n  support: {owner: ola}\n") % ""

    def tables(ledger: Ledger) -> list[Tables]:
        return [here.approvals.books.of(ledger, agent).tables for agent in ledger.agents()]

    await here.apply(two + "effects: {tools: {acme.export: money}}\n")
    before = await here.store.read(tables)
    assert before[0] is before[1]
    await here.apply(two + "effects: {tools: {acme.export: read}}\n")
    after = await here.store.read(tables)
    assert after[0] is after[1]
    export = Call("acme.export", "", {}, "billing", "")
    assert [effect_of(export, each[0]) for each in (before, after)] == [Effect.MONEY, Effect.READ]
