"""Drafts: nobody waits for them, they can be taken back, go out once, and whoever asked hears how they ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from temporalio import activity
from temporalio.client import (
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleSpec,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from core.approvals import Approval, Outcome, Runtime, Status, Verdict
from core.asks import Invalid, read_ask
from core.buttons import Verb
from core.changes import UNDO
from core.rules import Scope, ScopeKind
from tests.workflows.callers import Agent, Listener, Refunds, failing
from tests.workflows.world import World, a_caller, a_run, an_ask, serving, until
from workflows.activities import Bookkeeping
from workflows.payloads import Row

WAITING = "Waiting for a person. Nothing has run yet."
# What is left of an Undo or a Restore when the answer was given so long ago: less than any timer's shortest wait.
AGO = 4.5


async def a_draft(world: World, queue: str, **ask: Any) -> Approval:
    """The row of a draft that waits, asked over Temporal."""
    handle = await world.ask(an_ask(run=a_run(queue), runtime="draft", **ask))
    answer = await asyncio.wait_for(handle.result(), 60)
    assert (answer["status"], answer["outcome"], answer["text"]) == ("pending", "none", WAITING)
    row = await world.row(handle.id)
    await until(lambda: any(key == row.id for key, _, _ in world.desk.posted))
    return row


async def a_listener(world: World, queue: str, enough: int = 1) -> WorkflowHandle[Any, Any]:
    return await world.client.start_workflow("Listener", enough, id=f"listener-{uuid4()}", task_queue=queue)


async def test_a_draft_goes_out_once_after_its_undo_and_its_asker_hears_of_it(world: World) -> None:
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund], [Listener]) as queue:
        listener = await a_listener(world, queue)
        row = await a_draft(world, queue, notify={"workflow_id": listener.id})
        allowed = await world.decide(row)
        assert allowed.decided_at is not None
        assert allowed.grace_until == allowed.decided_at + UNDO
        answer = await asyncio.wait_for(world.own(row).result(), 60)
        heard = await asyncio.wait_for(listener.result(), 60)
    assert (answer["status"], answer["outcome"]) == ("approved", "sent")
    sent = await world.now(row)
    assert sent.claimed_at is not None
    assert UNDO <= sent.claimed_at - allowed.decided_at < UNDO + timedelta(seconds=1)
    assert heard == [{"approval_id": row.id, "status": "approved", "outcome": "sent", "text": answer["text"]}]
    assert len(refunds.calls) == 1


async def test_inside_its_undo_nothing_goes_out_and_after_it_nothing_is_taken_back(world: World) -> None:
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund]) as queue:
        row = await a_draft(world, queue)
        await world.decide_before(row, AGO)
        assert (await world.press(row, Verb.UNDO)).result == "undone"
        await asyncio.sleep(1.5)
        assert (await world.now(row)).status is Status.PENDING
        assert refunds.calls == []
        await world.decide_before(row, AGO)
        assert (await asyncio.wait_for(world.own(row).result(), 60))["outcome"] == "sent"
        assert (await world.press(row, Verb.UNDO)).result == "too_late_to_undo"
    assert len(refunds.calls) == 1


async def test_a_declined_draft_can_be_restored_and_allowed_after_all(world: World) -> None:
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund]) as queue:
        row = await a_draft(world, queue)
        await world.decide_before(row, AGO, Verdict.DECLINE)
        assert (await world.press(row, Verb.RESTORE)).result == "restored"
        await asyncio.sleep(1.5)
        assert (await world.own(row).describe()).status is WorkflowExecutionStatus.RUNNING
        await world.decide_before(row, AGO)
        assert (await asyncio.wait_for(world.own(row).result(), 60))["outcome"] == "sent"
    assert len(refunds.calls) == 1


async def test_a_draft_over_http_has_its_workflow_and_goes_out_once(world: World) -> None:
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund]) as queue:
        row = await world.ask_over_http(run=a_run(queue), runtime="draft")
        await until(lambda: world.desk.posted)
        await world.decide_before(row, AGO)
        assert (await asyncio.wait_for(world.own(row).result(), 60))["outcome"] == "sent"
    assert refunds.ids == [row.id]


async def test_ac08_what_a_schedule_starts_asks_in_a_draft_and_ends_without_waiting(world: World) -> None:
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund], [Agent]) as queue:
        ask = an_ask(run=a_run(queue), runtime="draft")
        action = ScheduleActionStartWorkflow("Agent", args=[[ask]], id=f"nightly-{uuid4()}", task_queue=queue)
        schedule = await world.client.create_schedule(
            f"nightly-{uuid4()}", Schedule(action, ScheduleSpec()), trigger_immediately=True
        )
        try:
            await until(lambda: world.desk.posted)
            (row,) = await world.store.read(lambda ledger: ledger.approvals())
            assert row.workflow_id is not None
            run = world.client.get_workflow_handle(row.workflow_id.removesuffix("-0"))
            (answer,) = await asyncio.wait_for(run.result(), 60)
        finally:
            await schedule.delete()
        assert (row.runtime, answer["status"], answer["text"]) == (Runtime.DRAFT, "pending", WAITING)
        await world.decide_before(row, AGO)
        await world.became(row, Outcome.SENT)
    assert len(refunds.calls) == 1


# Without asking


async def test_a_draft_that_may_run_unasked_runs_where_it_was_asked(world: World) -> None:
    await world.apply({"mode": "money_only"})
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund], [Listener]) as queue:
        listener = await a_listener(world, queue)
        notify = {"workflow_id": listener.id, "signal": "another"}
        handle = await world.ask(
            an_ask(tool="chat.post", effect=None, run=a_run(queue), runtime="draft", notify=notify)
        )
        answer = await asyncio.wait_for(handle.result(), 60)
        row = await world.row(handle.id)
        (heard,) = await asyncio.wait_for(listener.result(), 60)
    assert (answer["status"], answer["outcome"], answer["result"]) == ("auto", "sent", {"refund": "re_1"})
    assert (heard["by"], heard["status"], heard["outcome"]) == ("another", "auto", "sent")
    assert row.grace_until is None
    assert world.desk.posted == []
    assert len(refunds.calls) == 1


class Slow(Bookkeeping):
    """Claims nothing until it may, as while the worker is busy."""

    free = False

    @activity.defn(name="take")
    async def take(self, approval_id: str) -> Row:
        if not self.free:
            raise ApplicationError("busy")
        return await super().take(approval_id)


async def test_what_runs_where_it_was_asked_gets_no_second_workflow_however_long_it_takes(idle: World) -> None:
    await idle.apply({"mode": "money_only"})
    idle.books = slow = Slow(idle.approvals, idle.temporal.describe)
    refunds = Refunds()
    async with serving(idle), a_caller(idle.client, [refunds.refund]) as queue:
        handle = await idle.ask(an_ask(tool="chat.post", effect=None, run=a_run(queue), runtime="draft"))
        row = await idle.row(handle.id)
        assert await idle.approvals.ring_unconsumed(after=timedelta(0)) == 1
        with pytest.raises(RPCError, match="not found"):
            await idle.own(row).describe()
        slow.free = True
        assert (await asyncio.wait_for(handle.result(), 60))["outcome"] == "sent"
    assert len(refunds.calls) == 1


async def test_while_its_agent_is_paused_it_waits_in_a_workflow_of_its_own(world: World) -> None:
    await world.apply({"mode": "money_only"})
    await world.agents.pause("billing")
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund]) as queue:
        handle = await world.ask(an_ask(tool="chat.post", effect=None, run=a_run(queue), runtime="draft"))
        answer = await asyncio.wait_for(handle.result(), 60)
        assert (answer["status"], answer["outcome"]) == ("auto", "none")
        assert answer["text"].startswith("Allowed without asking: ")
        assert answer["text"].endswith(". It has not run yet.")
        row = await world.row(handle.id)
        await until(lambda: waits(world, row))
        assert refunds.calls == []
        await world.agents.resume("billing")
        assert (await asyncio.wait_for(world.own(row).result(), 60))["outcome"] == "sent"
    assert len(refunds.calls) == 1


async def waits(world: World, row: Approval) -> bool:
    """Whether Placet's own workflow of the row has come to its wait."""
    return "TIMER_STARTED" in await world.events(world.own(row))


async def test_s10_a_rule_that_was_made_before_the_card_went_out_settles_the_row_without_one(world: World) -> None:
    await world.agents.add_rule("billing", Scope(ScopeKind.TOOL, "chat.post", ""))
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund]) as queue:
        await world.apply({"runs": [{"tool": "chat.post", "activity": "refund", "task_queue": queue}]})
        handle = await world.ask(an_ask(tool="chat.post", operation=None, effect=None, run=a_run(queue)))
        answer = await asyncio.wait_for(handle.result(), 60)
    assert (answer["status"], answer["outcome"], answer["decided_by"]) == ("auto", "sent", "auto")
    assert world.desk.posted == []
    assert len(refunds.calls) == 1


# Once more


@pytest.mark.parametrize("lost", [False, True])
async def test_send_again_runs_it_once_more_in_a_new_run_also_when_the_word_is_lost(world: World, lost: bool) -> None:
    answers: list[Callable[[], Any]] = [failing("the bank is closed", "NotSent"), lambda: {"refund": "re_2"}]
    refunds = Refunds(answer=lambda: answers.pop(0)())
    async with a_caller(world.client, [refunds.refund], [Listener]) as queue:
        listener = await a_listener(world, queue, enough=2)
        row = await a_draft(world, queue, notify={"workflow_id": listener.id})
        await world.decide_before(row, AGO)
        assert (await asyncio.wait_for(world.own(row).result(), 60))["outcome"] == "not_sent"
        first = (await world.own(row).describe()).run_id
        world.bell.muted = lost
        assert (await world.press(row, Verb.AGAIN)).result == "again_sure"
        assert (await world.press(row, Verb.AGAIN_SURE)).result == "sent_again"
        if lost:
            await world.approvals.close()
            world.bell.muted = False
            world.clock.set = world.clock.now() + timedelta(seconds=6)
            assert (await world.sweep())["rung"] == 1
        await world.became(row, Outcome.SENT)
        heard = await asyncio.wait_for(listener.result(), 60)
    again = await world.own(row).describe()
    assert again.run_id != first
    assert [update["outcome"] for update in heard] == ["not_sent", "sent"]
    assert len(refunds.calls) == 2


async def test_what_is_sent_again_while_its_first_call_is_still_under_way_runs_after_that(world: World) -> None:
    refunds = Refunds(waits=True)
    async with a_caller(world.client, [refunds.refund]) as queue:
        row = await a_draft(world, queue)
        await world.decide_before(row, AGO)
        await refunds.started.wait()
        first = (await world.own(row).describe()).run_id
        world.clock.set = world.clock.now() + timedelta(minutes=32)
        assert (await world.sweep())["settled"] == 1
        assert (await world.press(row, Verb.AGAIN)).result == "again_may_repeat"
        assert (await world.press(row, Verb.AGAIN_SURE)).result == "sent_again"
        await world.approvals.close()
        refunds.proceed.set()
        await asyncio.wait_for(world.client.get_workflow_handle(f"approval-{row.id}", run_id=first).result(), 60)
        assert len(refunds.calls) == 1
        world.clock.set += timedelta(seconds=6)
        assert (await world.sweep())["rung"] == 1
        await world.became(row, Outcome.SENT)
    assert len(refunds.calls) == 2


async def test_a_run_that_is_not_needed_ends_and_runs_nothing(world: World) -> None:
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund]) as queue:
        row = await a_draft(world, queue)
        await world.decide_before(row, AGO)
        await world.own(row).result()
        first = (await world.own(row).describe()).run_id
        await world.bell.start(row)
        answer = await asyncio.wait_for(world.own(row).result(), 60)
        assert (await world.own(row).describe()).run_id != first
    assert (answer["status"], answer["outcome"]) == ("approved", "sent")
    assert len(refunds.calls) == 1
    assert [line.action for line in await world.audit(row)] == ["opened", "allow", "claimed", "sent"]


# Who hears of it


async def test_an_asker_hears_of_every_end_of_a_draft(world: World) -> None:
    async with a_caller(world.client, [Refunds().refund], [Listener]) as queue:
        listener = await a_listener(world, queue, enough=4)
        declined, expired, withdrawn, cancelled = [
            await a_draft(world, queue, notify={"workflow_id": listener.id}, arguments={"number": number},
                          timeout_s=60)
            for number in range(4)
        ]  # fmt: skip
        await world.decide_before(declined, AGO, Verdict.DECLINE)
        await world.own(declined).result()
        await world.approvals.withdraw(withdrawn.id, by="agent:billing")
        await world.own(withdrawn).result()
        await world.own(cancelled).cancel()
        with pytest.raises(WorkflowFailureError):
            await world.own(cancelled).result()
        world.clock.set = expired.expires_at
        assert await world.approvals.expire_due() == 1
        heard = {update["approval_id"]: update for update in await asyncio.wait_for(listener.result(), 60)}
    assert {row: (update["status"], update["text"]) for row, update in heard.items()} == {
        declined.id: (
            "declined",
            "Declined by Dana Reyes. Nothing was run. Do not look for another way to the same result.",
        ),
        expired.id: ("expired", "Nobody decided in time. Nothing was run."),
        withdrawn.id: ("cancelled", "The request was withdrawn. Nothing was run."),
        cancelled.id: ("cancelled", "The request was withdrawn. Nothing was run."),
    }
    assert {update["outcome"] for update in heard.values()} == {"none"}


async def lost_from_sight(world: World, refunds: Refunds) -> tuple[Approval, list[dict[str, Any]]]:
    """A draft whose workflow is cancelled while its call runs, and what its asker hears until the call has ended."""
    async with a_caller(world.client, [refunds.refund], [Listener]) as queue:
        listener = await a_listener(world, queue, enough=2)
        row = await a_draft(world, queue, notify={"workflow_id": listener.id})
        await world.decide_before(row, AGO)
        await refunds.started.wait()
        await world.own(row).cancel()
        await world.became(row, Outcome.UNKNOWN)
        refunds.proceed.set()
        return row, await asyncio.wait_for(listener.result(), 60)


async def test_an_asker_hears_that_a_call_was_lost_from_sight_and_then_the_truth(world: World) -> None:
    refunds = Refunds(waits=True)
    _, heard = await lost_from_sight(world, refunds)
    assert [update["outcome"] for update in heard] == ["unknown", "sent"]
    assert len(refunds.calls) == 1


async def test_an_asker_hears_of_a_call_whose_own_workflow_was_ended_with_it(world: World) -> None:
    refunds = Refunds(waits=True)
    async with a_caller(world.client, [refunds.refund], [Listener]) as queue:
        listener = await a_listener(world, queue)
        row = await a_draft(world, queue, notify={"workflow_id": listener.id})
        await world.decide_before(row, AGO)
        await refunds.started.wait()
        await world.own(row).terminate()
        world.clock.set = world.clock.now() + timedelta(minutes=32)
        assert (await world.sweep())["settled"] == 1
        (heard,) = await asyncio.wait_for(listener.result(), 60)
        refunds.proceed.set()
    assert (heard["approval_id"], heard["outcome"]) == (row.id, "unknown")
    assert len(refunds.calls) == 1


@pytest.mark.parametrize("closed", [False, True])
async def test_an_asker_that_is_gone_hears_nothing_and_harms_nothing(world: World, closed: bool) -> None:
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund], [Listener]) as queue:
        listener = "nobody"
        if closed:
            handle = await a_listener(world, queue, enough=0)
            await handle.result()
            listener = handle.id
        row = await a_draft(world, queue, notify={"workflow_id": listener})
        await world.decide_before(row, AGO)
        assert (await asyncio.wait_for(world.own(row).result(), 60))["outcome"] == "sent"
    assert (await world.now(row)).outcome is Outcome.SENT


async def test_ac57_a_draft_of_20000_characters_and_a_name_of_1000_bytes_are_taken(world: World) -> None:
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund]) as queue:
        row = await a_draft(
            world, queue, arguments={"text": "é" * 20_000}, notify={"workflow_id": "é" * 500, "signal": "s" * 200}
        )
        await world.decide_before(row, AGO)
        assert (await asyncio.wait_for(world.own(row).result(), 60))["outcome"] == "sent"
    assert json.loads(refunds.calls[0]) == {"text": "é" * 20_000}


@pytest.mark.parametrize("workflow_id", ["é" * 501, "", "a\nb"])
def test_a_name_that_temporal_would_not_take_is_refused(workflow_id: str) -> None:
    ask = an_ask(run=a_run("billing"), runtime="draft", notify={"workflow_id": workflow_id})
    with pytest.raises(Invalid, match=r"notify\.workflow_id"):
        read_ask(json.dumps(ask), over="temporal")


def test_over_http_an_asker_sends_no_signal_but_the_usual_one() -> None:
    notify = {"workflow_id": "payroll", "signal": "approve"}
    ask = json.dumps(an_ask(run=a_run("billing"), runtime="draft", notify=notify))
    assert read_ask(ask, over="temporal").ask.notify is not None
    with pytest.raises(Invalid, match=r"notify\.signal"):
        read_ask(ask, over="http")
