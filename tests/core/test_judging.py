"""What the door judges when something is wrong: broken rules, edits that reach further, and events that come again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from adapters.directory_file import read_directory
from core.approvals import Approval, Effect, Mode, Outcome, Posted, Runtime, Status, Verdict
from core.asks import read_ask
from core.buttons import Verb
from core.identifiers import new_id
from core.people import Refusal
from core.ports import Unavailable
from core.rules import Rule, Scope, ScopeKind
from core.service import Opened, Origin
from tests.core.door import CHAT, DIRECTORY, PEOPLE, RUN, Door, door
from tests.faulty import Faulty

TOOL = Scope(ScopeKind.TOOL, "notes.share", "")
DRAFT: dict[str, Any] = {"runtime": "draft", "run": RUN}
SQL: dict[str, Any] = {
    "tool": "sql.query", "arguments": {"query": "SELECT name FROM customers"},
    "presentation": {"editable": ["/query"], "lines": [["Query", "/query"]]}, "effect": "send",
}  # fmt: skip


@pytest.fixture
async def here(sqlite_url: str) -> AsyncIterator[Door]:
    async with door(sqlite_url) as opened:
        yield opened


async def take(here: Door, approval: Approval, run: str = "run") -> bool:
    taken = await here.approvals.take(approval.id, run)
    assert taken is not None
    return taken.claim is not None


# Faults


@pytest.mark.parametrize("effects", [{"tools": {"notes.share": "harmless"}}, {"tools": 1}, {"unknown": {}}, [1]])
async def test_a_table_of_effects_that_cannot_be_read_holds_every_call_and_offers_no_rule(
    here: Door, effects: Any
) -> None:
    """As another version of Placet, or a hand in the database, may leave it."""
    broken = read_directory(DIRECTORY) | {"effects": effects}
    await here.store.write(lambda ledger: ledger.replace_directory(broken))
    approval, card = await here.asked(effect="write")
    assert (approval.pending, approval.effect) == (True, Effect.MONEY)
    around = await here.store.read(lambda ledger: here.approvals.surroundings(ledger, approval))
    assert not around.always
    for verb in (Verb.ALWAYS, Verb.ALWAYS_ARGUMENTS):
        assert (await here.press(card, verb)).result == "always_not_here"
    made = await here.agents.add_rule("billing", TOOL)
    assert isinstance(made, Rule)
    assert (await here.row(approval)).pending
    assert (await here.press(card, Verb.ALLOW)).result == "approved"


async def test_a_rule_that_was_rolled_back_lets_nothing_run(here: Door) -> None:
    """Its transaction looked at the waiting rows by the new rule and then failed; nothing of it may be kept."""
    await here.ask()
    line = Faulty(here.store)
    broken = here.through(line)
    line.faults = ["before"]
    with pytest.raises(Unavailable):
        await broken.agents.add_rule("billing", TOOL)
    # Another rule takes the version that the first would have had.
    other = await here.agents.add_rule("billing", Scope(ScopeKind.TOOL, "other", ""))
    assert isinstance(other, Rule)
    assert (await broken.ask()).pending


async def test_an_agent_that_comes_back_has_none_of_its_old_rules(here: Door) -> None:
    await here.agents.add_rule("billing", TOOL)
    assert (await here.ask()).status is Status.APPROVED
    without = DIRECTORY.replace("agents:\n  billing: {owner: dana", "agents:\n  mail: {owner: dana")
    await here.apply(without)
    for _ in range(4):
        await here.apply(DIRECTORY)
        assert (await here.ask()).pending


# The whole order, as calls are opened

# One tool of each effect, that its agent's activity is listed for.
OF_EFFECT: dict[Effect, dict[str, Any]] = {
    Effect.READ: {"tool": "acme.lookup", "arguments": {"name": "Ada"}},
    Effect.WRITE: {"tool": "acme.remember", "arguments": {"text": "x"}},
    Effect.SEND: {"tool": "acme.tell", "arguments": {"to": "ada@example.com"}},
    Effect.MONEY: {"tool": "acme.refund", "arguments": {"amount": 4900, "currency": "GBP"}},
}
TOOLS = [call["tool"] for call in OF_EFFECT.values()]
AGENTS = PEOPLE.replace(
    "runs: [", "runs: [" + "".join(f"{{tool: {tool}, activity: send, task_queue: billing}}, " for tool in TOOLS)
)
ORDER = (
    AGENTS
    + f"""routes: [{{match: {{}}, ask: [dana, ola], at: ["telegram:{CHAT}"]}}]
effects:
  tools: {{acme.lookup: read, acme.remember: write, acme.tell: send, acme.refund: money}}
  amounts: {{acme.refund: [amount, currency]}}
"""
)
# Design section 6, written out: what each mode asks for where no rule counts, and what the rules change in that.
MODES: dict[Mode, dict[Effect, str]] = {
    Mode.OUTSIDE: {Effect.READ: "runs", Effect.WRITE: "runs", Effect.SEND: "held", Effect.MONEY: "held"},
    Mode.EVERYTHING: {Effect.READ: "runs", Effect.WRITE: "held", Effect.SEND: "held", Effect.MONEY: "held"},
    Mode.MONEY_ONLY: {Effect.READ: "runs", Effect.WRITE: "runs", Effect.SEND: "runs", Effect.MONEY: "held"},
}
ANY_BUT_MONEY, MONEY_ALONE = {Effect.WRITE: "rule", Effect.SEND: "rule"}, {Effect.MONEY: "rule"}
RULES: dict[str, dict[Effect, str]] = {
    "none": {},
    "of another tool": {},
    "of another agent": {},
    "expired": {},
    "matching": ANY_BUT_MONEY,
    "matching, its maker has left": ANY_BUT_MONEY,
    "matching, the agent is paused": ANY_BUT_MONEY,
    "for money": MONEY_ALONE,
    "for less money": {},
    "for money, expired": {},
    "for money, its maker has left": MONEY_ALONE,
    "for money, the agent is paused": MONEY_ALONE,
}
WAYS: dict[str, tuple[Any, dict[str, Any]]] = {
    "a turn": ("temporal", {"runtime": "turn", "run": RUN}),
    "a turn that only waits": ("temporal", {"runtime": "turn"}),
    "a draft over Temporal": ("temporal", {"runtime": "draft", "run": RUN}),
    "a draft over HTTP": ("http", {"runtime": "draft", "run": RUN}),
    "an ask over HTTP": ("http", {"runtime": "external"}),
}


def rules_of(kind: str, now: datetime) -> list[Rule]:
    ends = now if "expired" in kind else now + timedelta(days=1)
    money = "money" in kind
    ceiling = ("48.99" if "less" in kind else "49.00", "GBP") if money else (None, None)
    tools = [] if kind == "none" else ["acme.other"] if "another tool" in kind else TOOLS[3:] if money else TOOLS
    return [
        Rule(new_id(now), "support" if "another agent" in kind else "billing", tool, "", ScopeKind.TOOL, "",
             f"the rule for {tool}", now, "eve" if "left" in kind else "dana", ends, *ceiling)
        for tool in tools
    ]  # fmt: skip


def test_the_order_is_looked_at_whole() -> None:
    assert {mode: {*effects} for mode, effects in MODES.items()} == {mode: {*Effect} for mode in Mode}
    assert {fields["runtime"] for _, fields in WAYS.values()} == {*Runtime}


@pytest.mark.parametrize("kind", RULES)
async def test_the_whole_order_of_every_effect_mode_rule_and_runtime(here: Door, kind: str) -> None:
    directory = ORDER.replace("agents:\n", "agents:\n  support: {owner: dana}\n")
    await here.apply(directory)
    for rule in rules_of(kind, here.clock.now()):
        await here.store.write(lambda ledger, rule=rule: ledger.add_rule(rule))  # type: ignore[misc]
    if "left" in kind:
        await here.apply(directory.replace("  eve: {name: Eve Moss, identities: {telegram: 1003}}\n", "")
                         .replace(", eve]", "]"))  # fmt: skip
    if "paused" in kind:
        await here.agents.pause("billing")
    for mode, without_rules in MODES.items():
        await here.agents.set_mode("billing", mode)
        for effect, wanted in (without_rules | RULES[kind]).items():
            for way, (over, fields) in WAYS.items():
                body = json.dumps({"agent": "billing", **OF_EFFECT[effect], **fields})
                origin = Origin(workflow_id=f"w{next(here.numbers)}", first_run_id="r")
                opened = await here.approvals.open(read_ask(body, over=over), origin)
                assert isinstance(opened, Opened)
                row, case = opened.approval, (mode, effect, way)
                assert row.effect is effect, case
                told = {"runs": (Status.APPROVED, "auto", "mode"), "rule": (Status.APPROVED, "auto", "rule"),
                        "held": (Status.PENDING, None, None)}[wanted]  # fmt: skip
                assert (row.status, row.decided_by, row.decided_via) == told, case
                if wanted == "rule":
                    assert row.note == f"the rule for {row.tool}", case
                if wanted != "held" and "run" in fields:
                    # A rule lets nothing begin that its agent's pause holds back.
                    assert await take(here, row) is ("paused" not in kind), case


# Edits


async def test_an_edit_that_reaches_further_raises_the_effect_and_ends_the_offer_of_a_rule(here: Door) -> None:
    approval, card = await here.asked(**SQL)
    assert approval.effect is Effect.SEND
    assert (await here.press(card, Verb.EDIT, fields={"1": "DROP TABLE customers"})).result == "edited"
    row = await here.row(approval)
    assert row.effect is Effect.MONEY
    around = await here.store.read(lambda ledger: here.approvals.surroundings(ledger, row))
    assert not around.always
    # And an edit back does not lower it.
    assert (await here.press(card, Verb.EDIT, revision=2, fields={"1": "SELECT 1"})).result == "edited"
    assert (await here.row(approval)).effect is Effect.MONEY


async def test_no_edit_takes_a_call_past_those_who_are_asked_for_its_like(here: Door) -> None:
    await here.apply(
        PEOPLE
        + f"""routes:
  - {{match: {{effect: money}}, ask: [role:approver], at: ["telegram:{CHAT}"], needed: 2}}
  - {{match: {{}}, ask: [dana, ola], at: ["telegram:{CHAT}"]}}
"""
    )
    approval, card = await here.asked(**SQL)
    told = await here.press(card, Verb.EDIT, fields={"1": "DELETE FROM customers"})
    assert told.result == "edit_reaches_further"
    over_http = await here.approvals.edit(
        approval.id, "dana", {"/query": "DELETE FROM customers"}, content_revision=1, via="http"
    )
    assert isinstance(over_http, Refusal)
    assert over_http.code == "bad_edit"
    row = await here.row(approval)
    assert (row.content_revision, row.effect, row.revision) == (1, Effect.SEND, approval.revision)
    assert (await here.press(card, Verb.EDIT, fields={"1": "SELECT 1"})).result == "edited"


async def test_allow_waits_until_the_edited_text_is_attached_and_the_old_buttons_say_look_again(here: Door) -> None:
    approval = await here.ask()
    card = await here.card(approval)
    assert (await here.press(card, Verb.EDIT, fields={"1": "Other"})).result == "edited"
    for verb in (Verb.ALLOW, Verb.DECLINE, Verb.ALWAYS, Verb.NOTE):
        assert (await here.press(card, verb, revision=1)).result == "changed_look_again"
    assert (await here.press(card, Verb.ALLOW, revision=2)).result == "still_attaching"
    await here.store.write(lambda ledger: ledger.mark(card.id, attached_revision=2))
    assert (await here.press(card, Verb.ALLOW, revision=2)).result == "approved"


# Undo, Restore, Send again, once more


async def test_an_event_that_was_undone_twice_over_answers_nothing_when_it_comes_again(here: Door) -> None:
    approval, card = await here.asked(**DRAFT)
    for number, by in ((1, "dana"), (2, "ola")):
        assert (await here.press(card, Verb.ALLOW, by=by, key=f"allow-{number}")).result == "approved"
        assert (await here.press(card, Verb.UNDO, by="ola", key=f"undo-{number}")).result == "undone"
    for number, by in ((1, "dana"), (2, "ola")):
        assert (await here.press(card, Verb.ALLOW, by=by, key=f"allow-{number}")).result == "taken_back"
    assert (await here.row(approval)).pending
    assert (await here.press(card, Verb.ALLOW)).result == "approved"
    for number in (1, 2):
        assert (await here.press(card, Verb.UNDO, by="ola", key=f"undo-{number}")).result == "undone"
    row = await here.row(approval)
    assert (row.status, row.decided_by) == (Status.APPROVED, "dana")


async def test_over_http_a_key_whose_answer_was_undone_is_refused(here: Door) -> None:
    approval, card = await here.asked(**DRAFT)

    async def allow(key: str) -> Approval | Refusal:
        return await here.approvals.decide(approval.id, "dana", Verdict.ALLOW, content_revision=1, note=None, key=key,
                                           via="http")  # fmt: skip

    for key in ("one", "two"):
        assert isinstance(await allow(key), Approval)
        await here.press(card, Verb.UNDO)
    for key in ("one", "two"):
        assert isinstance(await allow(key), Refusal)
    assert (await here.row(approval)).pending


async def test_a_late_undo_comes_to_nothing_and_a_stranger_undoes_nothing(here: Door) -> None:
    approval, card = await here.asked(**DRAFT)
    await here.press(card, Verb.ALLOW)
    for by in ("pat", "eve"):
        assert (await here.press(card, Verb.UNDO, by=by)).refused
    here.clock.time += timedelta(seconds=6)
    assert await take(here, approval)
    assert (await here.press(card, Verb.UNDO)).result == "too_late_to_undo"
    assert (await here.press(card, Verb.RESTORE)).result == "nothing_to_take_back"
    assert (await here.row(approval)).outcome is Outcome.SENDING


async def unsent(here: Door, outcome: Outcome, run: str = "one") -> tuple[Approval, Posted]:
    approval, card = await here.asked(**DRAFT)
    await here.press(card, Verb.ALLOW)
    here.clock.time += timedelta(seconds=6)
    assert await take(here, approval, run)
    token = (await here.row(approval)).claim_token
    await here.approvals.record(approval.id, token or "", outcome, "it broke")
    return approval, card


async def test_send_again_that_comes_again_sends_nothing_more(here: Door) -> None:
    approval, card = await unsent(here, Outcome.UNKNOWN)
    for number in (1, 2):
        (sure,) = (await here.press(card, Verb.AGAIN)).menu
        told = await here.press(card, Verb.AGAIN_SURE, key=f"again-{number}", revision=sure.number)
        assert told.result == "sent_again"
        assert await take(here, approval, f"run-{number}")
        token = (await here.row(approval)).claim_token
        await here.approvals.record(approval.id, token or "", Outcome.UNKNOWN)
    before = await here.row(approval)
    for number in (1, 2):
        assert (await here.press(card, Verb.AGAIN_SURE, key=f"again-{number}")).result == "sent_again"
    assert await here.row(approval) == before


async def test_after_a_reset_nothing_is_sent_again_and_it_can_be_put_aside(here: Door) -> None:
    for outcome in (Outcome.UNKNOWN, Outcome.NOT_SENT):
        approval, card = await unsent(here, outcome)
        await here.agents.reset("billing")
        for verb in (Verb.AGAIN, Verb.AGAIN_SURE):
            assert (await here.press(card, verb)).result == "generation_over"
        assert (await here.row(approval)).outcome is outcome
        assert (await here.press(card, Verb.DISMISS)).result == "dismissed"


async def test_after_a_reset_whoever_asks_is_told_who_decided_what(here: Door) -> None:
    approval, card = await here.asked()
    waits, late = await here.asked()
    await here.press(card, Verb.DECLINE)
    await here.agents.reset("billing")
    told = await here.press(card, Verb.ALLOW, by="ola")
    assert told.text.startswith("Already decided: declined by Dana Reyes")
    assert (await here.press(late, Verb.ALLOW)).result == "generation_over"
    assert (await here.row(waits)).decided_via == "reset"
    refused = await here.approvals.decide(approval.id, "ola", Verdict.ALLOW, content_revision=1, note=None, key="k",
                                          via="http")  # fmt: skip
    assert isinstance(refused, Refusal)
    assert refused.code == "already_decided"


# Pausing


async def test_a_pause_draws_nothing_anew_that_is_over(here: Door) -> None:
    over, card = await here.asked()
    await here.press(card, Verb.ALLOW)
    assert not await take(here, over)
    before = await here.row(over)
    assert before.consumed_at is not None
    await here.agents.pause("billing")
    await here.agents.resume("billing")
    assert await here.row(over) == before


async def test_a_decline_while_paused_is_drawn_anew_when_the_agent_goes_on(here: Door) -> None:
    approval, card = await here.asked()
    await here.agents.pause("billing")
    await here.press(card, Verb.DECLINE)
    before = await here.row(approval)
    await here.agents.resume("billing")
    assert (await here.row(approval)).revision == before.revision + 1
