"""Edits, drafts, standing rules, pausing and lanes at the one door, on the databases."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from core.agents import Heard
from core.approvals import Actor, Agent, Approval, Kind, Message, Mode, Outcome, Posted, Press, Reply, Status
from core.asks import read_ask
from core.buttons import Verb
from core.commands import ChatCommands
from core.people import Refusal
from core.rules import Rule, Scope, ScopeKind
from core.service import Claim, Opened, Origin
from core.wording import say
from tests.core.office import BOT, GROUP, Office, office

RULING = f"""
people:
  dana: {{name: Dana Reyes, identities: {{telegram: 1001}}}}
  ola: {{name: Ola Berg, identities: {{telegram: 1002}}}}
roles:
  approver: [approvals:view, approvals:answer]
  ruler: [approvals:delegate]
members: {{approver: [dana, ola], ruler: [dana]}}
agents:
  billing: {{owner: dana}}
routes:
  - {{match: {{agent: billing}}, ask: [dana, ola], at: ["telegram:{GROUP}"]}}
"""
NOTE = {
    "tool": "notes.share",
    "arguments": {"to": "ada@example.com", "text": "Hello  Ada", "count": 2.50, "secret": {"token": "abc123"}},
    "presentation": {"editable": ["/text", "/count"], "lines": [["Text", "/text"]]},
}


@pytest.fixture
async def here(sqlite_url: str) -> AsyncIterator[Office]:
    async with office(sqlite_url) as opened:
        await opened.apply(RULING)
        yield opened


numbers = itertools.count(1)


async def posted(here: Office, approval: Approval) -> Posted:
    assert await here.post(approval) == ["posted"]
    (row,) = await here.store.read(lambda ledger: ledger.posted_for(approval.id))
    return row


async def press(here: Office, card: Posted, verb: str, *, by: int = 1001, key: str = "", **more: Any) -> Reply:
    """What the presser is told, of a press on a card as it stands."""
    approval = await here.store.read(lambda ledger: ledger.approval(card.approval_id))
    assert approval is not None
    assert card.message is not None
    made = Press(key or f"k{next(numbers)}", Actor("telegram", "", str(by)), card.message, verb=verb, token=card.token,
                 content_revision=approval.content_revision)  # fmt: skip
    return await here.approvals.press(replace(made, **more))


async def draft(here: Office, **fields: Any) -> Approval:
    run = {"activity": "send", "task_queue": "billing"}
    return await here.ask(runtime="draft", run=run, **fields)


# Edits


async def test_an_edit_changes_what_runs_and_nothing_else(here: Office) -> None:
    text = '{"to":"ada@example.com",  "text":"Hello  Ada","count":2.50,"n":10}'
    ask = json.dumps({"agent": "billing", **NOTE, "arguments": "X"}).replace('"X"', text)
    opened = await here.approvals.open(read_ask(ask, over="temporal"), Origin(workflow_id="w", first_run_id="r"))
    assert isinstance(opened, Opened)
    card = await posted(here, opened.approval)
    form = (await press(here, card, Verb.EDIT)).form
    assert form is not None
    assert [(field.label, field.value) for field in form.fields] == [("Text", "Hello  Ada"), ("count", "2.5")]
    done = await press(here, card, Verb.EDIT, fields={"1": "Hello Ada\nBye", "2": "2.5"})
    assert done.result == "edited"
    row = await here.row(opened.approval)
    assert row.final_arguments == text.replace("Hello  Ada", "Hello Ada\\nBye")
    assert (row.content_revision, row.edited_by, row.pending) == (2, "dana", True)
    assert row.digest != opened.approval.digest
    stale = await press(here, card, Verb.ALLOW, content_revision=1)
    assert "changed" in stale.text.lower()
    assert stale.result == "changed_look_again"
    late = await press(here, card, Verb.EDIT, fields={"1": "x"}, content_revision=1)
    assert late.result == "changed_look_again"


async def test_an_edit_clears_the_votes(here: Office) -> None:
    await here.apply(RULING.replace("ask: [dana, ola],", "ask: [dana, ola], needed: 2,"))
    card = await posted(here, await here.ask(**NOTE))
    assert (await press(here, card, Verb.ALLOW)).result == "counted"
    reply = await press(here, card, Verb.EDIT, by=1002, fields={"1": "Other"})
    assert (reply.result, "earlier votes no longer count" in reply.text) == ("edited", True)

    async def shown() -> Posted | None:
        return await here.store.read(lambda ledger: ledger.posted(card.id))

    async with asyncio.timeout(10):
        while (row := await shown()) is None or row.attached_revision != 2:
            await asyncio.sleep(0.02)
    assert "Changed by Ola Berg" in here.seen().message(int(card.message_id or 0)).text
    assert (await press(here, card, Verb.ALLOW, by=1002)).result == "counted"
    assert (await press(here, card, Verb.ALLOW, by=1001)).result == "approved"


async def test_where_one_vote_is_enough_an_edit_is_told_without_votes(here: Office) -> None:
    card = await posted(here, await here.ask(**NOTE))
    reply = await press(here, card, Verb.EDIT, fields={"1": "Other"})
    assert (reply.result, reply.text) == ("edited", "Changed. Look at the new text, then allow it or not.")


@pytest.mark.parametrize(
    ("fields", "result"),
    [
        ({"2": "many"}, "edit_not_a_number"),
        ({"2": "NaN"}, "edit_unfit"),
        ({"2": "0.1000000000000000055511"}, "edit_unfit"),
        ({"9": "x"}, "edit_unread"),
        ({"1": "Hello  Ada "}, "edit_unchanged"),
        ({"1": "x" * 20_001}, "edit_too_long"),
    ],
)
async def test_an_edit_that_cannot_be_taken_names_the_field_and_changes_nothing(
    here: Office, fields: dict[str, str], result: str
) -> None:
    card = await posted(here, await here.ask(**NOTE))
    assert (await press(here, card, Verb.EDIT, fields=fields)).result == result
    row = await here.store.read(lambda ledger: ledger.approval(card.approval_id))
    assert row is not None
    assert row.content_revision == 1


async def test_no_form_holds_a_secret(here: Office) -> None:
    hidden = {**NOTE, "presentation": {"editable": ["/secret/token"]}}
    card = await posted(here, await here.ask(**hidden))
    assert (await press(here, card, Verb.EDIT)).result == "edit_nothing"


async def test_over_http_an_edit_names_pointers_and_keeps_kinds(here: Office) -> None:
    approval = await here.ask(**NOTE)
    edit = here.approvals.edit
    bad = await edit(approval.id, "dana", {"/to": "x"}, content_revision=1, via="http")
    assert isinstance(bad, Refusal)
    assert bad.code == "bad_edit"
    assert "/to" in bad.text
    kind = await edit(approval.id, "dana", {"/count": "3"}, content_revision=1, via="http")
    assert isinstance(kind, Refusal)
    assert kind.code == "bad_edit"
    done = await edit(approval.id, "dana", {"/count": 3}, content_revision=1, via="http")
    assert isinstance(done, Approval)
    assert json.loads(done.final_arguments)["count"] == 3
    again = await edit(approval.id, "dana", {"/count": 4}, content_revision=1, via="http")
    assert isinstance(again, Refusal)
    assert again.code == "changed"


# Drafts


async def test_undo_takes_a_draft_back_and_it_is_sent_once_in_the_end(here: Office) -> None:
    approval = await draft(here)
    card = await posted(here, approval)
    assert (await press(here, card, Verb.ALLOW, key="first")).result == "approved"
    taken = await here.approvals.take(approval.id, "run")
    assert taken is not None
    assert taken.claim is None
    assert taken.until is not None
    assert taken.until - here.clock.now() <= timedelta(seconds=5)
    assert (await press(here, card, Verb.UNDO, by=1002)).result == "undone"
    assert (await here.row(approval)).pending
    assert (await press(here, card, Verb.ALLOW, key="first")).result == "taken_back"
    assert (await here.row(approval)).pending
    await press(here, card, Verb.ALLOW)
    here.clock.ahead += timedelta(seconds=6)
    taken = await here.approvals.take(approval.id, "run")
    assert taken is not None
    assert taken.claim is not None
    assert (await press(here, card, Verb.UNDO)).result == "too_late_to_undo"


async def test_who_takes_a_draft_back_has_allowed_it_no_more(here: Office) -> None:
    await here.apply(RULING.replace("ask: [dana, ola],", "ask: [dana, ola], needed: 2,"))
    approval = await draft(here)
    card = await posted(here, approval)
    assert (await press(here, card, Verb.ALLOW)).result == "counted"
    assert (await press(here, card, Verb.ALLOW, by=1002)).result == "approved"
    assert (await press(here, card, Verb.UNDO)).result == "undone"
    assert (await press(here, card, Verb.ALLOW, by=1002)).result == "counted"
    assert (await here.row(approval)).pending
    assert (await press(here, card, Verb.ALLOW)).result == "approved"
    # Nor has the one whose Allow decided it.
    assert (await press(here, card, Verb.UNDO, by=1002)).result == "undone"
    votes = await here.store.read(lambda ledger: ledger.votes_of(approval.id))
    assert votes == []


async def test_restore_brings_a_declined_draft_back_until_the_agent_has_its_answer(here: Office) -> None:
    approval = await draft(here)
    card = await posted(here, approval)
    await press(here, card, Verb.DECLINE)
    taken = await here.approvals.take(approval.id, "run")
    assert taken is not None
    assert taken.until is not None
    assert (await press(here, card, Verb.RESTORE)).result == "restored"
    await press(here, card, Verb.DECLINE)
    here.clock.ahead += timedelta(seconds=6)
    taken = await here.approvals.take(approval.id, "run")
    assert taken is not None
    assert taken.until is None
    assert taken.approval.consumed_at is not None
    assert (await press(here, card, Verb.RESTORE)).result == "too_late_to_restore"
    (update,) = await here.desk.agents.updates("billing", 0)
    assert (update.status, update.approval_id) == ("declined", approval.id)


async def test_a_draft_that_may_have_gone_out_is_sent_again_only_after_a_word(here: Office) -> None:
    approval = await draft(here)
    card = await posted(here, approval)
    await press(here, card, Verb.ALLOW)
    here.clock.ahead += timedelta(seconds=6)
    taken = await here.approvals.take(approval.id, "one")
    assert taken is not None
    assert taken.claim is not None
    await here.approvals.record(approval.id, taken.claim.token, Outcome.UNKNOWN, "it broke")
    asks = await press(here, card, Verb.AGAIN)
    assert [button.verb for button in asks.menu] == [Verb.AGAIN_SURE]
    assert "twice" in asks.text
    assert (await press(here, card, Verb.AGAIN_SURE, key="sure")).result == "sent_again"
    taken = await here.approvals.take(approval.id, "two")
    assert taken is not None
    assert taken.claim is not None
    await here.approvals.record(approval.id, taken.claim.token, Outcome.NOT_SENT, "no worker")
    assert (await press(here, card, Verb.AGAIN_SURE, key="sure")).result == "sent_again"
    assert (await here.row(approval)).outcome is Outcome.NOT_SENT
    assert (await press(here, card, Verb.DISMISS)).result == "dismissed"
    assert (await press(here, card, Verb.AGAIN)).result == "nothing_to_follow_up"
    assert [update.outcome for update in await here.desk.agents.updates("billing", 0)] == ["unknown", "not_sent"]


# Rules


async def test_s11_a_rule_settles_what_waits_and_what_comes(here: Office) -> None:
    one, two = await here.ask(**NOTE), await here.ask(**NOTE)
    other = await here.ask(**{**NOTE, "arguments": {**NOTE["arguments"], "text": "Other"}})  # type: ignore[dict-item]
    card = await posted(here, one)
    menu = (await press(here, card, Verb.ALWAYS)).menu
    assert Verb.ALWAYS_ARGUMENTS in [button.verb for button in menu]
    label = next(button.label for button in menu if button.verb == Verb.ALWAYS_ARGUMENTS)
    reply = await press(here, card, Verb.ALWAYS_ARGUMENTS)
    assert label in reply.text
    rows = [await here.row(each) for each in (one, two, other)]
    assert [row.status for row in rows] == [Status.APPROVED, Status.APPROVED, Status.PENDING]
    assert (rows[1].decided_by, rows[1].decided_via, rows[1].note) == ("auto", "rule", label)
    assert (await here.ask(**NOTE)).status is Status.APPROVED
    (rule,) = await here.store.read(lambda ledger: ledger.rules("billing"))
    removed = await here.desk.agents.remove_rule(rule.id)
    assert not isinstance(removed, Refusal)
    assert (await here.ask(**NOTE)).pending


async def test_w1_a_rule_on_a_command_covers_that_command_alone(here: Office) -> None:
    card = await posted(here, await here.ask(tool="shell", arguments={"command": "python3 safe.py"}))
    assert [button.verb for button in (await press(here, card, Verb.ALWAYS)).menu] == [Verb.ALWAYS_ARGUMENTS]
    assert (await press(here, card, Verb.ALWAYS_TOOL)).result == "always_not_here"
    assert (await press(here, card, Verb.ALWAYS_ARGUMENTS)).result == "approved"
    assert (await here.ask(tool="shell", arguments={"command": "python3 safe.py"})).status is Status.APPROVED
    assert (await here.ask(tool="shell", arguments={"command": "python3 evil.py"})).pending


async def test_ac11_no_money_card_ever_offers_a_rule(here: Office) -> None:
    card = await posted(here, await here.ask(tool="stripe.refund", effect="money"))
    assert (await press(here, card, Verb.ALWAYS)).result == "always_not_here"
    assert (await press(here, card, Verb.ALWAYS_ARGUMENTS)).result == "always_not_here"
    assert not await here.store.read(lambda ledger: ledger.rules("billing"))


async def test_a_rule_for_money_is_not_undone_by_one_without_a_ceiling(here: Office) -> None:
    approval = await here.ask(**NOTE)
    agents, until = here.desk.agents, here.clock.now() + timedelta(days=1)
    scopes = await here.store.read(
        lambda ledger: here.approvals.books.scopes_for(ledger, Agent("billing", "dana"), approval)
    )
    made = await agents.add_rule("billing", scopes[0], expires_at=until, ceiling=("50", "GBP"))
    assert isinstance(made, Rule)
    plain = await agents.add_rule("billing", scopes[0])
    assert isinstance(plain, Refusal)
    assert plain.code == "bad_rule"
    card = await posted(here, approval)
    assert (await press(here, card, Verb.ALWAYS_ARGUMENTS)).result == "approved"
    assert await here.store.read(lambda ledger: ledger.rules("billing")) == [made]


async def test_only_who_may_rule_makes_rules(here: Office) -> None:
    card = await posted(here, await here.ask(**NOTE))
    refused = await press(here, card, Verb.ALWAYS_ARGUMENTS, by=1002)
    assert refused.result == "always_not_yours"
    assert "(approvals:delegate)" in refused.text
    assert "ask an administrator" in refused.text
    assert not await here.store.read(lambda ledger: ledger.rules("billing"))


async def test_an_old_offer_is_told_what_runs_unasked_by_now(here: Office, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "placet.approvals")
    await here.apply(RULING.replace("ruler: [dana]", "ruler: [dana, ola]"))
    ended, late = await here.ask(**NOTE), await here.ask(**NOTE)
    card, other = await posted(here, ended), await posted(here, late)
    label = (await press(here, card, Verb.ALWAYS)).menu[0].label
    await press(here, card, Verb.ALWAYS_ARGUMENTS)
    told = await press(here, card, Verb.ALWAYS_ARGUMENTS, by=1002)
    assert told.text.startswith("Already decided: allowed by Dana Reyes, ")
    assert told.text.endswith(f"\nFrom now on without asking: {label}.")
    unasked = await press(here, other, Verb.ALWAYS_ARGUMENTS, by=1002)
    assert unasked.text.endswith(f": {label}.")
    assert (told.result, unasked.result) == ("already_decided", "already_decided")
    declined = await here.ask(tool="notes.tell")
    card = await posted(here, declined)
    # Somebody's own words are no rule.
    assert (await press(here, card, "", text="From now on without asking: all of it.")).result == "declined"
    told = await press(here, card, Verb.ALLOW, by=1002)
    assert (told.result, "From now on" in told.text) == ("already_decided", False)
    waits = await posted(here, await here.ask(tool="notes.tell"))
    here.clock.ahead = timedelta(days=8)
    assert (await press(here, waits, Verb.ALLOW)).result == "too_late"
    await here.approvals.close()
    results = [line.__dict__.get("result") for line in caplog.records if line.message == "pressed"]
    assert results[-4:] == ["already_decided", "already_decided", "already_decided", "too_late"]


async def test_who_may_look_is_told_whose_agent_it_is_and_others_not_that_there_is_one(here: Office) -> None:
    only = (
        "  ola: {name: Ola Berg, identities: {telegram: 1002}}\n  pat: {name: Pat Lund, identities: {telegram: 1004}}\n"
    )
    await here.apply(RULING.replace("  ola: {name: Ola Berg, identities: {telegram: 1002}}\n", only))
    commands = ChatCommands(here.approvals, here.desk)
    dana, ola, pat = (Actor("telegram", "", str(each)) for each in (1001, 1002, 1004))
    owners = "Only the owner of billing or an administrator may do that."
    for done in (
        await commands.mode(ola, "billing", "outside"),
        await commands.pause(ola, "billing"),
        await commands.resume(ola, "billing"),
    ):
        assert (done.text, done.result, done.refused) == (owners, "not_yours", True)
    assert (await commands.rules(ola, "billing")).text == say("rules_not_yours", agent="billing")
    none = "There is no agent {} that you may do that for."
    assert (await commands.pause(pat, "billing")).text == none.format("billing")
    for who in (dana, ola, pat):
        assert (await commands.pause(who, "sage")).text == none.format("sage")


async def test_rules_are_taken_back_page_by_page(here: Office) -> None:
    digests = []
    for number in range(7):
        approval = await here.ask(**{**NOTE, "arguments": {**NOTE["arguments"], "text": str(number)}})  # type: ignore[dict-item]
        await press(here, await posted(here, approval), Verb.ALWAYS_ARGUMENTS)
        digests.append(approval.digest[:19])
    dana = await here.store.read(lambda ledger: ledger.person("dana"))
    assert dana is not None
    page = await here.desk.agents.listed("billing", dana, "en")
    assert [button.verb for button in page.menu] == [Verb.REMOVE_RULE] * 5 + [Verb.RULES_PAGE]
    # Which arguments, as the card shows their digest: nothing else tells these rules apart.
    listed = page.text.splitlines()[1:-1]
    assert [line for line, digest in zip(listed, digests[:5], strict=True) if not line.endswith(f"({digest})")] == []

    async def menu(button: Any, by: int = 1001) -> Reply:
        message = Message("telegram", "7001", str(GROUP), "", "9")
        actor, key = Actor("telegram", "", str(by)), f"m{next(numbers)}"
        return await here.desk.take(Press(key, actor, message, button.verb, button.token, button.number))

    more = await menu(page.menu[-1])
    assert len(more.menu) == 2
    refused = await menu(more.menu[0], by=1002)
    assert refused.result == "not_yours"
    assert refused.text.endswith("or whoever may make standing rules may do that.")
    assert (await menu(more.menu[0])).result == "rule_removed"
    assert (await menu(more.menu[0])).result == "rule_gone"
    assert len(await here.store.read(lambda ledger: ledger.rules("billing"))) == 6


# Pausing, resetting


async def test_nothing_runs_while_paused_and_nothing_decided_is_lost(here: Office) -> None:
    run = {"activity": "send", "task_queue": "billing"}
    approval = await here.ask(run=run)
    card = await posted(here, approval)
    await here.desk.agents.pause("billing")
    assert "resumes" in (await press(here, card, Verb.ALLOW)).text
    taken = await here.approvals.take(approval.id, "run")
    assert taken is not None
    assert taken.claim is None
    assert taken.until is not None
    assert await here.approvals.ring_unconsumed(after=timedelta(0)) == 0
    here.desk.start_redraw(approval.id)
    words, message = "takes effect when the agent resumes", int(card.message_id or 0)
    await here.until(lambda: words in here.seen().message(message).text or None)
    await here.desk.agents.resume("billing")
    taken = await here.approvals.take(approval.id, "run")
    assert taken is not None
    assert taken.claim is not None


async def test_a_reset_cancels_turns_and_a_draft_is_told_of_it(here: Office) -> None:
    turn, late = await here.ask(), await draft(here)
    card = await posted(here, late)
    done = await here.desk.agents.reset("billing")
    assert not isinstance(done, Refusal)
    assert done.generation == 2
    assert (await here.row(turn)).status is Status.CANCELLED
    assert (await press(here, card, Verb.ALLOW)).result == "generation_over"
    assert (await here.row(late)).status is Status.CANCELLED
    (update,) = await here.desk.agents.updates("billing", 0)
    assert update.status == "cancelled"
    assert (await here.ask()).generation == 2


async def test_the_mode_says_what_is_asked_for(here: Office) -> None:
    write = {"tool": "file.write", "arguments": {"path": "a", "text": "b"}, "effect": "write"}
    assert (await here.ask(**write)).effect.value == "write"
    assert (await here.ask(**write)).decided_via == "mode"
    await here.desk.agents.set_mode("billing", Mode.EVERYTHING)
    assert (await here.ask(**write)).pending
    await here.desk.agents.set_mode("billing", Mode.MONEY_ONLY)
    assert (await here.ask(**NOTE)).decided_by == "auto"


@pytest.mark.parametrize(
    ("tool", "arguments", "asks"),
    [
        ("http.request", {"method": "GET", "url": "https://example.com"}, True),
        ("fetch", {"url": "https://example.com"}, True),
        ("python", {"code": "print(1)"}, True),
        ("javascript", {"code": "1"}, True),
        ("typescript_executor", {"code": "1"}, True),
        ("web_search", {"query": "weather"}, False),
        ("memory.search", {"query": "weather"}, False),
    ],
)
async def test_ac13_fetching_and_code_ask_and_a_search_does_not(
    here: Office, tool: str, arguments: dict[str, Any], asks: bool
) -> None:
    assert (await here.ask(tool=tool, arguments=arguments)).pending is asks


# Lanes and runs


async def test_ac05_a_plain_message_declines_what_the_lane_waits_for(here: Office) -> None:
    hear = here.desk.agents.hear
    assert await hear("billing", "chat", "hello", "m0") == Heard("no_run")
    rows = [await here.ask(lane="chat", run_id="run", **fields) for fields in ({}, NOTE)]
    aside = await draft(here, lane="chat", run_id="run")
    refusal = await hear("billing", "chat", "ok", "m1")
    assert isinstance(refusal, Refusal)
    assert refusal.code == "press_allow_instead"
    ids = tuple(row.id for row in rows)
    told = await hear("billing", "chat", "Rather ask Ada first", "m1")
    assert told == Heard("declined", "run", ids, "now")
    assert await hear("billing", "chat", "Rather ask Ada first", "m1") == told
    for row in rows:
        now = await here.row(row)
        assert (now.status, now.note, now.by_message, now.decided_by) == (
            Status.DECLINED,
            "Rather ask Ada first",
            True,
            None,
        )
    assert (await here.row(aside)).pending
    assert await hear("billing", "chat", "and now", "m2") == Heard("run_in_progress")
    await here.desk.agents.close_run("billing", "run")
    assert await hear("billing", "chat", "and now", "m2") == Heard("no_run")
    assert await hear("billing", "chat", "Rather ask Ada first", "m1") == told


async def test_ac09_a_run_that_waits_says_so_and_counts_from_the_last_answer(here: Office) -> None:
    approval = await here.ask(run_id="long")
    state = await here.desk.agents.run("billing", "long")
    assert state.waiting
    assert state.counts_from == approval.created_at
    here.clock.ahead += timedelta(hours=30)
    card = await posted(here, approval)
    await press(here, card, Verb.ALLOW)
    state = await here.desk.agents.run("billing", "long")
    assert not state.waiting
    assert state.counts_from == (await here.row(approval)).decided_at
    left = await draft(here, run_id="long")
    waits = await here.ask(run_id="long")
    assert await here.desk.agents.close_run("billing", "long") == [waits.id]
    assert (await here.row(left)).pending
    assert (await here.row(waits)).status is Status.CANCELLED


async def test_ac09_of_calls_that_wait_side_by_side_the_one_that_was_answered_last_counts(here: Office) -> None:
    agents = here.desk.agents
    first = await here.ask(lane="chat", run_id="long")
    second = await here.ask(lane="chat", run_id="long", **NOTE)
    await press(here, await posted(here, second), Verb.ALLOW)
    here.clock.ahead += timedelta(hours=30)
    await press(here, await posted(here, first), Verb.ALLOW)
    here.clock.ahead += timedelta(hours=1)
    assert (await agents.run("billing", "long")).counts_from == (await here.row(first)).decided_at
    # Whoever writes now writes to the run that is there: no second one is begun.
    assert await agents.hear("billing", "chat", "and now", "m1") == Heard("run_in_progress")
    here.clock.ahead += timedelta(hours=24)
    assert await agents.hear("billing", "chat", "and now", "m1") == Heard("no_run")


@pytest.mark.parametrize("how", ["rule", "expiry", "withdrawal"])
async def test_ac09_however_a_wait_ends_the_runs_time_counts_from_there(here: Office, how: str) -> None:
    agents = here.desk.agents
    approval = await here.ask(run_id="long", timeout_s=40 * 3600, **NOTE)
    here.clock.ahead += timedelta(hours=30)
    match how:
        case "rule":
            await agents.add_rule("billing", Scope(ScopeKind.TOOL, "notes.share", ""))
        case "expiry":
            here.clock.ahead += timedelta(hours=11)
            await here.approvals.expire_due()
        case _:
            await here.approvals.withdraw(approval.id, by="agent:billing")
    state = await agents.run("billing", "long")
    assert not state.waiting
    assert state.counts_from == (await here.row(approval)).decided_at
    assert state.counts_from is not None
    assert state.counts_from >= approval.created_at + timedelta(hours=30)


async def test_ac09_a_run_whose_answer_waits_for_its_paused_agent_waits_too(here: Office) -> None:
    run, agents = {"activity": "send", "task_queue": "billing"}, here.desk.agents
    turn = await here.ask(run=run, lane="chat", run_id="long")
    aside = await draft(here, lane="chat", run_id="long", **NOTE)
    card = await posted(here, turn)
    await agents.pause("billing")
    await press(here, card, Verb.ALLOW)
    here.clock.ahead += timedelta(hours=60)
    assert (await agents.run("billing", "long")).waiting
    assert await agents.hear("billing", "chat", "and now", "m1") == Heard("run_in_progress")
    await agents.resume("billing")
    taken = await here.approvals.take(turn.id, "run")
    assert taken is not None
    assert taken.claim is not None
    state = await agents.run("billing", "long")
    # The draft waits still, and nobody for it.
    assert (await here.row(aside)).pending
    assert (state.waiting, state.counts_from) == (False, (await here.row(turn)).consumed_at)


async def test_ac09_a_run_that_may_not_claim_before_its_agent_goes_on_waits_until_then(here: Office) -> None:
    async def asked(run_id: str) -> Approval:
        ask = read_ask(json.dumps({"agent": "billing", **NOTE, "run_id": run_id}), over="http")
        found = await here.approvals.open(ask, Origin(asked_by="agent:billing"))
        assert isinstance(found, Opened)
        return found.approval

    agents = here.desk.agents
    allowed, declined = await asked("long"), await asked("other")
    cards = [await posted(here, row) for row in (allowed, declined)]
    await agents.pause("billing")
    for card, verb in zip(cards, (Verb.ALLOW, Verb.DECLINE), strict=True):
        await press(here, card, verb)
    here.clock.ahead += timedelta(hours=60)
    assert isinstance(claim := await here.approvals.claim(allowed.id, 1), Refusal)
    assert claim.code == "paused"
    assert (await agents.run("billing", "long")).waiting
    # A decline is heard at once.
    assert not (await agents.run("billing", "other")).waiting
    before = here.clock.now()
    await agents.resume("billing")
    state = await agents.run("billing", "long")
    assert not state.waiting
    assert state.counts_from is not None
    assert before <= state.counts_from <= here.clock.now()
    assert isinstance(await here.approvals.claim(allowed.id, 1), Claim)
    assert (await agents.run("billing", "long")).counts_from == state.counts_from


@pytest.mark.parametrize(("hours", "reminded"), [(24, False), (25, True), (168, True)])
async def test_k042_a_reminder_is_due_a_day_before_the_end_of_what_lasts_longer(
    here: Office, hours: int, reminded: bool
) -> None:
    approval = await here.ask(timeout_s=hours * 3600)
    assert approval.remind_at == (approval.expires_at - timedelta(hours=24) if reminded else None)


async def test_k013_the_list_of_rules_says_what_always_asks(here: Office) -> None:
    dana = await here.store.read(lambda ledger: ledger.person("dana"))
    assert dana is not None
    always = "Spending and deleting always ask, unless an administrator made a rule for it."
    assert (await here.desk.agents.listed("billing", dana, "en")).text == (
        f"billing has no standing rules: it asks for whatever its mode asks for.\n{always}"
    )
    await here.desk.agents.add_rule("billing", Scope(ScopeKind.TOOL, "notes.share", ""))
    head, rule, foot = (await here.desk.agents.listed("billing", dana, "en")).text.splitlines()
    assert (head, foot) == ("billing may do this without asking:", always)
    assert "every call of notes.share" in rule


async def test_a092_the_address_of_a_call_is_where_the_directory_says_it_stands(here: Office) -> None:
    await here.apply(RULING + "effects:\n  tools: {acme.crawl: send}\n  url_fields: {acme.crawl: [start]}\n")
    arguments = {f"option{n}": n for n in range(6)} | {"start": ["https://one.example/a", "https://two.example"]}
    card = await posted(here, await here.ask(tool="acme.crawl", arguments=arguments))
    text = here.seen().message(int(card.message_id or 0)).text
    assert "Address: https://one.example/a" in text
    assert "Address: https://two.example" in text


async def test_whom_a_call_reaches_is_whom_the_table_says_not_whom_its_agent_points_at(here: Office) -> None:
    aside = {f"option{n}": n for n in range(6)} | {"note": "bob@example.com"}

    async def shown(more: dict[str, Any], recipient: str | None) -> str:
        approval = await here.ask(tool="send_email", arguments=aside | more, presentation={"recipient": recipient})
        assert await here.post(approval) == ["posted"]
        rows = await here.store.read(lambda ledger: ledger.posted_for(approval.id, Kind.CARD))
        return str(here.seen().message(int(rows[0].message_id or 0)).text)

    text = await shown({"to": "eve@example.com", "bcc": ["all@example.com"]}, "/note")
    assert "Recipient (agent's words): bob@example.com" in text
    assert "Recipient: eve@example.com" in text
    assert 'Recipient: ["all@example.com"]' in text
    text = await shown({"to": "eve@example.com"}, "/to")
    assert text.count("eve@example.com") == 1
    assert "Recipient: eve@example.com" in text
    assert "Recipient: eve@example.com" in await shown({"to": "eve@example.com"}, None)


async def test_in_private_a_plain_message_answers_the_only_card_that_waits(here: Office) -> None:
    await here.apply(RULING.replace(f'at: ["telegram:{GROUP}"]', "at: [dm]").replace("ask: [dana, ola]", "ask: [dana]"))
    chat = Message("telegram", "", "1001", "", "")

    async def say(text: str) -> Reply:
        row = await here.store.read(lambda ledger: ledger.posted_for(one.id))
        where = replace(chat, account=row[0].account)
        return await here.approvals.press(Press(f"p{next(numbers)}", Actor("telegram", "", "1001"), where, text=text))

    here.world.say(1001, 1001, "/start")
    one = await here.ask()
    await here.post(one)
    assert (await say("yes")).result == "press_allow_instead"
    two = await here.ask()
    await here.post(two)
    assert (await say("Rather not")).result == "which_one"
    await here.approvals.withdraw(two.id, by="test")
    assert (await say("Rather not")).result == "declined"
    row = await here.row(one)
    assert (row.note, row.by_message) == ("Rather not", True)
    assert (await say("Hello")).result == "reply_to_card"


async def test_in_private_somebody_unknown_is_told_how_to_link_whatever_waits(
    here: Office, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "placet.approvals")
    await here.apply(RULING.replace(f'at: ["telegram:{GROUP}"]', 'at: ["telegram:1099"]'))
    here.world.say(1099, 1099, "/start")
    chat, answers = Message("telegram", str(BOT), "1099", "", ""), []
    for number in range(3):
        said = Press(f"s{number}", Actor("telegram", "", "1099"), chat, text="Hello")
        answers.append(await here.approvals.press(said))
        assert await here.post(await here.ask()) == ["posted"]
    for each in answers:
        assert each.text.startswith("This Telegram account is linked to nobody here.")
        assert "/start CODE" in each.text
    for platform, name in (("slack", "Slack"), ("discord", "Discord")):
        said = Press(platform, Actor(platform, "T1", "U1"), Message(platform, "T1", "D1", "", ""), text="Hello")
        text = (await here.approvals.press(said)).text
        assert text.startswith(f"This {name} account is linked to nobody here.")
        assert "/placet link CODE" in text
    await here.approvals.close()
    lines = [line.__dict__ for line in caplog.records if line.message == "pressed"]
    assert {line["result"] for line in lines} == {"not_linked"}
    # A message that is about no card names none.
    assert [bool(line.get("approval")) for line in lines] == [False, True, False, False, False]
    assert ["approval" in line for line in lines] == [False, True, False, False, False]
