"""Two who change the same at the same moment, on PostgreSQL: one goes first, and neither is forgotten or stuck."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from datetime import timedelta
from typing import Any

import pytest

from core.agents import Heard
from core.approvals import Approval, Outcome, Posted, Status, Verdict
from core.buttons import Verb
from core.people import Refusal
from core.rules import Scope, ScopeKind
from core.service import SENDING_GRACE
from tests.core.door import PEOPLE, RUN, Door, Slowly, Stopped, door

TOOL = Scope(ScopeKind.TOOL, "notes.share", "")
ESCALATED = PEOPLE + (
    'routes: [{match: {}, ask: [dana, ola], at: ["telegram:-100500"], escalate: {after: 1h, ask: [eve], at: [dm]}}]\n'
)


@pytest.fixture
async def here(postgres_database: str) -> AsyncIterator[Door]:
    async with door(postgres_database) as opened:
        yield opened


async def first_then(here: Door, first: Any, second: Awaitable[Any]) -> tuple[Any, Any]:
    """`first(door)` gets as far as its commit; `second` comes and has to wait; then the first commits."""
    line = Stopped(here.store)
    before = asyncio.create_task(first(here.through(line)))
    async with asyncio.timeout(10):
        await line.stopped.wait()
        after = asyncio.ensure_future(second)
        await asyncio.sleep(0.1)
        assert not after.done(), "it did not wait for the one that was there before it"
        line.go_on.set()
        return await before, await after


async def taken(here: Door, approval: Approval, run: str = "run") -> bool:
    found = await here.approvals.take(approval.id, run)
    assert found is not None
    return found.claim is not None


# Opening and rules


async def test_what_is_opened_while_a_rule_is_made_runs_by_it(here: Door) -> None:
    _, card = await here.asked()
    rule, opened = await first_then(here, lambda at: at.press(card, Verb.ALWAYS_ARGUMENTS), here.ask())
    assert rule.result == "approved"
    assert (opened.status, opened.decided_via) == (Status.APPROVED, "rule")


async def test_a_rule_that_is_made_while_a_call_is_opened_settles_it(here: Door) -> None:
    _, card = await here.asked()
    opened, rule = await first_then(here, lambda at: at.ask(), here.press(card, Verb.ALWAYS_ARGUMENTS))
    assert opened.pending
    assert rule.result == "approved"
    row = await here.row(opened)
    assert (row.status, row.decided_via) == (Status.APPROVED, "rule")


async def test_a_row_that_is_changed_while_a_rule_is_made_is_settled_all_the_same(here: Door) -> None:
    _, card = await here.asked()
    other = await here.ask()
    await first_then(
        here, lambda at: at.approvals.mark_undeliverable(other.id, "x"), here.press(card, Verb.ALWAYS_ARGUMENTS)
    )
    assert (await here.row(other)).status is Status.APPROVED


async def test_a_row_that_is_edited_while_a_rule_is_made_is_judged_by_its_new_content(here: Door) -> None:
    _, card = await here.asked()
    other, theirs = await here.asked()
    edit = {"fields": {"1": "Something else"}}
    await first_then(
        here, lambda at: at.press(theirs, Verb.EDIT, by="ola", **edit), here.press(card, Verb.ALWAYS_ARGUMENTS)
    )
    row = await here.row(other)
    assert (row.pending, row.content_revision) == (True, 2)


async def test_many_open_while_rules_come_and_go_and_none_waits_that_a_rule_covers(here: Door) -> None:
    doors = [here, here.through(here.store)]

    async def ruled() -> None:
        for _ in range(3):
            rule = await here.agents.add_rule("billing", TOOL)
            assert not isinstance(rule, Refusal)
            await asyncio.sleep(0.01)
            await here.agents.remove_rule(rule.id)
        await here.agents.add_rule("billing", TOOL)

    async def asks(at: Door) -> list[Approval]:
        return [await at.ask(arguments={"to": "ada@example.com", "text": str(n)}) for n in range(15)]

    ruling = asyncio.create_task(ruled())
    opened = await asyncio.gather(*(asks(at) for at in doors))
    await ruling
    rows = [await here.row(row) for rows in opened for row in rows]
    assert {row.status for row in rows} == {Status.APPROVED}


# Pausing, resetting


async def test_a_call_that_is_claimed_first_runs_and_the_pause_comes_after_it(here: Door) -> None:
    approval, card = await here.asked(run=RUN)
    await here.press(card, Verb.ALLOW)
    claimed, paused = await first_then(here, lambda at: taken(at, approval), here.agents.pause("billing"))
    assert claimed
    assert not isinstance(paused, Refusal)


async def test_a_pause_that_is_first_keeps_the_call_from_running(here: Door) -> None:
    approval, card = await here.asked(run=RUN)
    await here.press(card, Verb.ALLOW)
    _, claimed = await first_then(here, lambda at: at.agents.pause("billing"), taken(here, approval))
    assert not claimed
    assert (await here.row(approval)).outcome is Outcome.NONE
    _, claimed = await first_then(here, lambda at: at.agents.resume("billing"), taken(here, approval))
    assert claimed


async def test_a_reset_that_is_first_keeps_the_call_from_running(here: Door) -> None:
    approval, card = await here.asked(run=RUN)
    await here.press(card, Verb.ALLOW)
    _, claimed = await first_then(here, lambda at: at.agents.reset("billing"), taken(here, approval))
    assert not claimed
    assert (await here.row(approval)).outcome is Outcome.NOT_SENT


async def test_a_reset_forgets_no_row_that_is_changed_meanwhile(here: Door) -> None:
    await here.apply(PEOPLE + 'routes: [{match: {}, ask: [dana, ola], at: ["telegram:-100500"], needed: 2}]\n')
    approval, card = await here.asked()
    await first_then(here, lambda at: at.press(card, Verb.ALLOW), here.agents.reset("billing"))
    row = await here.row(approval)
    assert (row.status, row.decided_via) == (Status.CANCELLED, "reset")


async def test_a_call_that_is_opened_while_the_agent_is_reset_is_of_one_generation_or_cancelled(here: Door) -> None:
    opened, done = await first_then(here, lambda at: at.ask(), here.agents.reset("billing"))
    assert not isinstance(done, Refusal)
    assert (await here.row(opened)).status is Status.CANCELLED
    _, opened = await first_then(here, lambda at: at.agents.reset("billing"), here.ask())
    assert (opened.generation, opened.pending) == (3, True)


# Messages and runs


async def test_a_message_declines_the_row_that_is_changed_meanwhile(here: Door) -> None:
    approval, card = await here.asked(lane="chat", run_id="run")
    _, heard = await first_then(
        here, lambda at: at.press(card, Verb.EDIT, fields={"1": "Other"}),
        here.agents.hear("billing", "chat", "No", "m1"),
    )  # fmt: skip
    assert heard == Heard("declined", "run", (approval.id,), "now")


async def test_one_message_that_is_sent_twice_at_once_gets_one_answer(here: Door) -> None:
    approval = await here.ask(lane="chat", run_id="run")
    told = await asyncio.gather(*(here.agents.hear("billing", "chat", "No", "m1") for _ in range(5)))
    assert told == [Heard("declined", "run", (approval.id,), "now")] * 5
    assert (await here.actions(approval)).count("decline") == 1


async def test_a_run_that_closes_leaves_nothing_that_is_changed_meanwhile(here: Door) -> None:
    approval, card = await here.asked(run_id="run")
    await first_then(
        here, lambda at: at.press(card, Verb.EDIT, fields={"1": "Other"}), here.agents.close_run("billing", "run")
    )
    assert (await here.row(approval)).status is Status.CANCELLED


# Nobody waits for one who waits for him


async def test_always_at_the_moment_of_escalation_against_pausing_and_resetting(here: Door) -> None:
    await here.apply(ESCALATED)
    cards = [await here.asked() for _ in range(4)]
    here.clock.time += timedelta(hours=1, seconds=1)
    slow = here.through(Slowly(here.store))
    told = await asyncio.gather(
        slow.press(cards[0][1], Verb.ALWAYS_ARGUMENTS),
        slow.agents.pause("billing"),
        slow.press(cards[1][1], Verb.ALWAYS_ARGUMENTS, by="ola"),
        slow.agents.reset("billing"),
        slow.press(cards[2][1], Verb.DECLINE),
        slow.agents.resume("billing"),
        slow.agents.hear("billing", "chat", "No", "m1"),
    )
    assert len(told) == 7
    rows = [await here.row(approval) for approval, _ in cards]
    assert not any(row.pending for row in rows)


async def test_messages_and_closing_runs_against_pausing(here: Door) -> None:
    for number in range(6):
        await here.ask(lane="chat", run_id=f"r{number % 2}")
    slow = here.through(Slowly(here.store))
    await asyncio.gather(
        slow.agents.hear("billing", "chat", "No", "m1"), slow.agents.pause("billing"),
        slow.agents.close_run("billing", "r0"), slow.agents.resume("billing"),
        slow.agents.close_run("billing", "r1"), slow.agents.reset("billing"),
    )  # fmt: skip
    rows = await here.approvals.rows(agent="billing")
    assert {row.status for row in rows} <= {Status.DECLINED, Status.CANCELLED}


async def test_the_sweep_settles_drafts_while_their_workers_report(here: Door) -> None:
    drafts = [await a_sending_draft(here, str(n)) for n in range(4)]
    here.clock.time += timedelta(hours=2) + SENDING_GRACE
    slow = here.through(Slowly(here.store))
    await asyncio.gather(
        slow.approvals.settle_overdue(),
        *(slow.approvals.record(row.id, row.claim_token or "", Outcome.SENT) for row in reversed(drafts)),
        slow.approvals.settle_overdue(),
    )
    told = await here.agents.updates("billing", 0)
    assert {update.approval_id for update in told} == {row.id for row in drafts}
    # A late truth replaces what was unknown.
    assert {(await here.row(row)).outcome for row in drafts} == {Outcome.SENT}


async def a_sending_draft(here: Door, text: str) -> Approval:
    approval, card = await here.asked(runtime="draft", run=RUN, arguments={"to": "a@example.com", "text": text})
    await here.press(card, Verb.ALLOW)
    here.clock.time += timedelta(seconds=6)
    assert await taken(here, approval)
    return await here.row(approval)


async def test_external_calls_are_claimed_while_the_agent_is_paused_and_the_sweep_goes_by(here: Door) -> None:
    rows = [await external(here, str(n)) for n in range(4)]
    here.clock.time += timedelta(hours=2)
    slow = here.through(Slowly(here.store))
    await asyncio.gather(
        slow.approvals.settle_overdue(),
        *(slow.approvals.claim(row.id, 1) for row in reversed(rows)),
        slow.agents.pause("billing"),
        slow.agents.resume("billing"),
    )
    assert {(await here.row(row)).outcome for row in rows} <= {Outcome.NOT_SENT, Outcome.NONE}


async def external(here: Door, text: str) -> Approval:
    approval = await here.ask(arguments={"to": "a@example.com", "text": text})
    runtime = {"runtime": "external"}
    changed = await here.store.write(lambda ledger: ledger.change(approval, **runtime))
    assert changed is not None
    done = await here.approvals.decide(approval.id, "dana", Verdict.ALLOW, content_revision=1, note=None, key=text,
                                       via="http")  # fmt: skip
    assert isinstance(done, Approval)
    return done


# What an agent reads


async def test_what_an_agent_hears_is_numbered_in_the_order_of_the_commits(here: Door) -> None:
    rows = [await a_sending_draft(here, str(n)) for n in range(2)]

    def report(row: Approval) -> Any:
        return lambda at: at.approvals.record(row.id, row.claim_token or "", Outcome.SENT)

    await first_then(here, report(rows[1]), report(rows[0])(here))
    heard = await here.agents.updates("billing", 0)
    assert [update.approval_id for update in heard] == [rows[1].id, rows[0].id]
    assert await here.agents.updates("billing", heard[0].number) == heard[1:]


# Votes and edits


async def test_the_last_two_votes_at_once_are_both_counted(here: Door) -> None:
    await here.apply(PEOPLE + 'routes: [{match: {}, ask: [role:approver], at: ["telegram:-100500"], needed: 3}]\n')
    approval, card = await here.asked()
    await here.press(card, Verb.ALLOW)
    told = await first_then(
        here, lambda at: at.press(card, Verb.ALLOW, by="ola"), here.press(card, Verb.ALLOW, by="eve")
    )
    assert [reply.result for reply in told] == ["counted", "approved"]
    assert (await here.row(approval)).status is Status.APPROVED


async def test_of_two_editors_at_once_one_is_told_to_look_again(here: Door) -> None:
    approval, card = await here.asked()
    told = await first_then(
        here, lambda at: at.press(card, Verb.EDIT, fields={"1": "Dana's"}),
        here.press(card, Verb.EDIT, by="ola", fields={"1": "Ola's"}),
    )  # fmt: skip
    assert [reply.result for reply in told] == ["edited", "changed_look_again"]
    row = await here.row(approval)
    assert (row.content_revision, row.edited_by) == (2, "dana")
    assert "Dana's" in row.final_arguments


async def test_an_edit_and_an_allow_at_once_never_run_what_was_not_seen(here: Door) -> None:
    approval, card = await here.asked()
    _, allowed = await first_then(
        here, lambda at: at.press(card, Verb.EDIT, fields={"1": "Dana's"}), here.press(card, Verb.ALLOW, by="ola")
    )
    assert allowed.result == "changed_look_again"
    assert (await here.row(approval)).pending


async def test_an_undo_and_a_claim_at_once_send_once_or_wait(here: Door) -> None:
    for undo_first in (True, False):
        text = {"to": "a@example.com", "text": str(undo_first)}
        approval, card = await here.asked(runtime="draft", run=RUN, arguments=text)
        await here.press(card, Verb.ALLOW)
        here.clock.time += timedelta(seconds=6)

        def undo(at: Door, card: Posted = card) -> Any:
            return at.press(card, Verb.UNDO, by="ola")

        def claim(at: Door, approval: Approval = approval) -> Any:
            return taken(at, approval)

        if undo_first:
            undone, claimed = await first_then(here, undo, claim(here))
        else:
            claimed, undone = await first_then(here, claim, undo(here))
        assert claimed is not undo_first
        assert undone.result == ("undone" if undo_first else "too_late_to_undo")
        assert (await here.row(approval)).pending is undo_first
