"""The life of one approval: asked, waited for, decided, run once, answered."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from temporalio import activity
from temporalio.client import WorkflowExecutionStatus, WorkflowHandle
from temporalio.common import RawValue
from temporalio.service import RPCError

from core.approvals import Outcome, Status, Verdict
from core.asks import read_ask
from core.people import Refusal
from core.ports import Slow
from core.service import Claim, Opened, Origin
from tests.workflows.callers import Agent, Refunds, raw
from tests.workflows.world import DIRECTORY, World, a_caller, a_run, an_ask, history_of, serving, until
from workflows import notices
from workflows.activities import Bookkeeping
from workflows.approval import ApprovalWorkflow
from workflows.notices import AT_ONCE
from workflows.payloads import Opening


async def test_allow_runs_the_call_once_with_the_very_text_and_hands_its_result_on(world: World) -> None:
    arguments = '{"charge":"ch_1",   "amount": 4900.10, "é":"\\u00e9", "nested": {"b": 1, "a": [ ]}}'
    answered = b'{"refund": "re_1", "digits": 0.12345678901234567890,  "big": 12345678901234567890123}'
    refunds = Refunds(answer=lambda: raw(answered))
    async with a_caller(world.client, [refunds.refund]) as queue:
        ask = json.dumps(an_ask(arguments=None, run=a_run(queue)))[:-1] + f', "arguments": {arguments}}}'
        handle = await world.client.start_workflow(
            "ApprovalWorkflow", raw(ask.encode()), id=f"ask-{uuid4()}", task_queue="placet", result_type=RawValue
        )
        row = await world.row(handle.id)
        await world.decide(row)
        text = (await handle.result()).payload.data.decode()
    assert refunds.calls == [arguments.encode()]
    assert refunds.ids == [row.id]
    assert answered.decode() in text
    assert arguments in text
    answer = json.loads(text)
    assert list(answer) == [
        "approval_id", "status", "outcome", "result", "error", "arguments", "decided_by", "decided_at", "note",
        "by_message", "text",
    ]  # fmt: skip
    assert answer | {"result": 0, "arguments": 0, "decided_at": 0} == {
        "approval_id": row.id, "status": "approved", "outcome": "sent", "result": 0, "error": None, "arguments": 0,
        "decided_by": "dana", "decided_at": 0, "note": None, "by_message": False,
        "text": "Approved by Dana Reyes and done.",
    }  # fmt: skip
    sent = await world.now(row)
    assert sent.outcome is Outcome.SENT
    assert sent.claim_token is not None
    assert sent.claim_token not in await history_of(handle)
    assert [line.action for line in await world.audit(row)] == ["opened", "allow", "claimed", "sent"]


async def test_ac57_the_largest_arguments_and_result_fit(world: World) -> None:
    arguments = {"text": '"' * 120_000}
    refunds = Refunds(answer=lambda: raw(f'"{"é" * 700_000}"'.encode()))
    async with a_caller(world.client, [refunds.refund]) as queue:
        handle = await world.ask(an_ask(arguments=arguments, run=a_run(queue)))
        await world.decide(await world.row(handle.id))
        answer = await asyncio.wait_for(handle.result(), 60)
    assert (answer["outcome"], answer["error"]) == ("sent", None)
    assert answer["arguments"] == arguments
    assert len(answer["result"]) == 700_000


async def test_ac57_more_people_than_a_workflow_may_have_activities_are_asked_by_and_by(idle: World) -> None:
    people = {f"p{number}": {"name": "Pat", "identities": {"telegram": str(number)}} for number in range(1, 2101)}
    directory = DIRECTORY | {
        "people": DIRECTORY["people"] | people,
        "members": {"approver": ["dana", *people]},
        "routes": [DIRECTORY["routes"][0] | {"at": ["dm"]}],
    }
    await idle.store.write(lambda ledger: ledger.replace_directory(directory))
    # While no process of the bots runs, none of the posts comes to its end.
    worker = idle.temporal.worker("placet", workflows=[ApprovalWorkflow], activities=idle.books.activities)
    running = asyncio.create_task(worker.run())
    try:
        handle = await idle.ask(an_ask())
        row = await idle.row(handle.id)

        async def has_posts() -> bool:
            return "ACTIVITY_TASK_SCHEDULED" in await idle.events(handle)

        await until(has_posts)
        assert len((await handle.describe()).raw_description.pending_activities) == AT_ONCE
        await idle.decide(row, Verdict.DECLINE)
        assert (await asyncio.wait_for(handle.result(), 30))["status"] == "declined"
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_every_place_is_posted_to_however_many_there_are(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "AT_ONCE", 2)
    places = [f"telegram:-100{number}" for number in range(7)]
    await world.apply(at=places)
    world.desk.faults = [Slow(0.2), Slow(0.2), Slow(0.2)]
    handle = await world.ask(an_ask())
    await until(lambda: len(world.desk.posted) == 7)
    assert {place.chat for _, place, _ in world.desk.posted} == {place.removeprefix("telegram:") for place in places}
    await world.decide(await world.row(handle.id), Verdict.DECLINE)
    assert (await asyncio.wait_for(handle.result(), 60))["status"] == "declined"


async def test_decline_runs_nothing_and_gives_the_note(world: World) -> None:
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund]) as queue:
        handle = await world.ask(an_ask(run=a_run(queue)))
        row = await world.row(handle.id)
        await world.decide(row, Verdict.DECLINE, note="Ask her first")
        answer = await handle.result()
    assert (answer["status"], answer["outcome"], answer["note"]) == ("declined", "none", "Ask her first")
    assert answer["text"] == "Declined by Dana Reyes. Nothing was run. Note: Ask her first"
    assert answer["arguments"] == {"charge": "ch_1", "amount": 4900, "currency": "GBP"}
    assert refunds.calls == []
    assert (await world.now(row)).consumed_at is not None


async def test_without_run_it_only_waits_for_the_answer(world: World) -> None:
    handle = await world.ask(an_ask())
    await world.decide(await world.row(handle.id))
    answer = await handle.result()
    assert (answer["status"], answer["outcome"], answer["result"]) == ("approved", "none", None)


async def test_the_card_goes_to_each_place_of_the_route(world: World) -> None:
    handle = await world.ask(an_ask())
    row = await world.row(handle.id)
    await until(lambda: world.desk.posted)
    assert [(key, place.key) for key, place, _ in world.desk.posted] == [(row.id, "telegram||-1001|31")]


async def test_r4_three_asks_at_once_are_three_rows_and_three_cards(world: World) -> None:
    async with a_caller(world.client, [], [Agent]) as queue:
        asks = [an_ask(arguments={"number": number}) for number in range(3)]
        agent = await world.client.start_workflow("Agent", asks, id=f"agent-{uuid4()}", task_queue=queue)
        rows = [await world.row(f"{agent.id}-{number}") for number in range(3)]
        await until(lambda: len(world.desk.posted) == 3)
        for row in rows:
            await world.decide(row)
        answers = await agent.result()
    assert len({row.id for row in rows}) == 3
    assert {key for key, _, _ in world.desk.posted} == {row.id for row in rows}
    assert [answer["arguments"]["number"] for answer in answers] == [0, 1, 2]


class Hasty(Bookkeeping):
    """Decides the row while the workflow has not yet learnt that it exists."""

    world: World
    stale = True

    @activity.defn(name="open")
    async def open(self, ask: RawValue, first_run_id: str) -> Opening:
        opening = await super().open(ask, first_run_id)
        assert opening.row is not None
        row = await self.approvals.get(opening.row.id)
        assert row is not None
        await self.world.decide(row)
        await self.approvals.close()
        return opening if self.stale else await super().open(ask, first_run_id)


async def a_hasty_decision(idle: World, *, stale: bool) -> WorkflowHandle[Any, Any]:
    """The workflow of a row that was decided before it learnt of it; `stale`: it is told that the row is pending."""
    hasty = Hasty(idle.approvals, idle.temporal.describe)
    hasty.world, hasty.stale = idle, stale
    idle.books = hasty
    refunds = Refunds()
    async with serving(idle), a_caller(idle.client, [refunds.refund]) as queue:
        handle = await idle.ask(an_ask(run=a_run(queue)))
        assert (await asyncio.wait_for(handle.result(), 60))["outcome"] == "sent"
    assert len(refunds.calls) == 1
    return handle


async def test_r5_a_row_decided_before_the_wait_is_answered_at_once(idle: World) -> None:
    handle = await a_hasty_decision(idle, stale=False)
    assert "TIMER_STARTED" not in await idle.events(handle)
    assert idle.desk.posted == []


async def test_r6_a_decision_in_the_first_moment_is_not_missed(idle: World) -> None:
    handle = await a_hasty_decision(idle, stale=True)
    assert "TIMER_FIRED" not in await idle.events(handle)


async def test_r7_the_same_workflow_with_the_same_arguments_asks_again(world: World) -> None:
    first = await world.ask(an_ask(), id=f"again-{uuid4()}")
    one = await world.row(first.id)
    await until(lambda: world.desk.posted)
    await world.decide(one)
    await first.result()
    second = await world.ask(an_ask(), id=first.id)
    await until(lambda: len(world.desk.posted) == 2)
    two = await world.row(second.id, Status.PENDING)
    assert one.id != two.id
    assert one.digest == two.digest
    await world.decide(two, Verdict.DECLINE)
    assert (await second.result())["status"] == "declined"


async def test_s8_without_a_timeout_there_is_the_default_one(world: World) -> None:
    row = await world.row((await world.ask(an_ask())).id)
    assert row.expires_at - row.created_at == timedelta(hours=168)
    assert row.remind_at == row.expires_at - timedelta(hours=24)


async def test_s5_the_rows_own_clock_judges_expiry_whatever_a_timer_thinks(world: World) -> None:
    handle = await world.ask(an_ask(timeout_s=60))
    row = await world.row(handle.id)
    world.clock.set = row.created_at + timedelta(seconds=61)
    refused = await world.approvals.decide(
        row.id, "dana", Verdict.ALLOW, content_revision=1, note=None, key="late", via="cli"
    )
    assert isinstance(refused, Refusal)
    assert refused.code == "expired"
    answer = await asyncio.wait_for(handle.result(), 60)
    assert (answer["status"], answer["text"]) == ("expired", "Nobody decided in time. Nothing was run.")
    assert "TIMER_FIRED" not in await world.events(handle)


async def test_s9_expiry_a_refusal_and_a_withdrawal_are_told_apart(world: World) -> None:
    expired, declined, withdrawn = [await world.ask(an_ask(timeout_s=60)) for _ in range(3)]
    rows = [await world.row(handle.id) for handle in (expired, declined, withdrawn)]
    await world.decide(rows[1], Verdict.DECLINE)
    await world.approvals.withdraw(rows[2].id, by="agent:billing")
    answers = [await asyncio.wait_for(handle.result(), 60) for handle in (declined, withdrawn)]
    world.clock.set = rows[0].expires_at
    await world.sweep()
    answers.insert(0, await asyncio.wait_for(expired.result(), 60))
    assert [(answer["status"], answer["decided_by"], answer["text"]) for answer in answers] == [
        ("expired", None, "Nobody decided in time. Nothing was run."),
        ("declined", "dana",
         "Declined by Dana Reyes. Nothing was run. Do not look for another way to the same result."),
        ("cancelled", None, "The request was withdrawn. Nothing was run."),
    ]  # fmt: skip


async def test_several_must_allow_before_the_call_runs(world: World) -> None:
    await world.apply(ask=["role:approver", "role:lead"], needed=2)
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund]) as queue:
        handle = await world.ask(an_ask(run=a_run(queue)))
        row = await world.row(handle.id)
        assert (await world.decide(row)).pending
        await asyncio.sleep(0.3)
        assert refunds.calls == []
        await world.decide(row, by="ola")
        answer = await asyncio.wait_for(handle.result(), 60)
    assert (answer["outcome"], answer["decided_by"]) == ("sent", "ola")
    assert len(refunds.calls) == 1


async def test_when_nobody_answers_more_people_are_asked_and_may_answer(world: World) -> None:
    later = {"after_s": 1, "ask": ["role:lead"], "at": ["telegram:-1002"]}
    await world.apply(escalate=later, remind_s=8)
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund]) as queue:
        handle = await world.ask(an_ask(run=a_run(queue), timeout_s=10))
        row = await world.row(handle.id)
        await until(lambda: len(world.desk.posted) == 2)
        assert [(place.key, key) for key, place, _ in world.desk.posted] == [
            ("telegram||-1001|31", row.id), ("telegram||-1002|", row.id),
        ]  # fmt: skip
        # The reminder comes when it would have come.
        await until(lambda: world.desk.reminded)
        await world.decide(await world.now(row), by="ola")
        answer = await asyncio.wait_for(handle.result(), 60)
    assert (answer["outcome"], answer["decided_by"]) == ("sent", "ola")
    assert [line.action for line in await world.audit(row)] == [
        "opened", "escalated", "reminded", "allow", "claimed", "sent",
    ]  # fmt: skip
    assert len(world.desk.posted) == 2


async def test_a_lost_nudge_is_made_up_for_by_the_sweep(world: World) -> None:
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund]) as queue:
        handle = await world.ask(an_ask(run=a_run(queue)))
        row = await world.row(handle.id)
        world.bell.muted = True
        await world.decide(row)
        await world.approvals.close()
        world.bell.muted = False
        await world.sweep()
        await asyncio.sleep(0.5)
        assert refunds.calls == []  # decided less than 5 s ago: the nudge may still be on its way
        world.clock.set = world.clock.now() + timedelta(seconds=6)
        assert (await world.sweep())["rung"] == 1
        assert (await asyncio.wait_for(handle.result(), 60))["outcome"] == "sent"
    assert len(refunds.calls) == 1


async def test_placets_worker_is_down_while_it_is_decided(idle: World) -> None:
    refunds = Refunds()
    async with a_caller(idle.client, [refunds.refund]) as queue:
        async with serving(idle):
            handle = await idle.ask(an_ask(run=a_run(queue)))
            row = await idle.row(handle.id)
        await idle.decide(row)
        await idle.approvals.close()
        assert refunds.calls == []
        async with serving(idle):
            assert (await asyncio.wait_for(handle.result(), 20))["outcome"] == "sent"
    assert len(refunds.calls) == 1


async def test_a_nudge_is_harmless_however_often_and_with_whatever_data(world: World) -> None:
    handle = await world.ask(an_ask())
    row = await world.row(handle.id)
    for data in ([], ["a word"], [{"verdict": "allow"}, 2]):
        await handle.signal("nudge", args=data)
    await handle.signal("approve", {"approval_id": row.id})
    await asyncio.sleep(0.5)
    assert (await world.now(row)).pending
    await world.decide(row, Verdict.DECLINE)
    assert (await asyncio.wait_for(handle.result(), 60))["status"] == "declined"


async def test_a_workflow_that_left_the_cache_goes_on_where_it_was(
    idle: World, caplog: pytest.LogCaptureFixture
) -> None:
    refunds = Refunds()
    async with serving(idle, cache=2), a_caller(idle.client, [refunds.refund]) as queue:
        handles = [await idle.ask(an_ask(run=a_run(queue))) for _ in range(6)]
        rows = [await idle.row(handle.id) for handle in handles]
        await until(lambda: len(idle.desk.posted) == 6)
        await asyncio.sleep(0.5)
        assert {(await idle.now(row)).status for row in rows} == {Status.PENDING}
        for row in rows:
            await idle.decide(row)
        answers = [await asyncio.wait_for(handle.result(), 60) for handle in handles]
    assert {answer["outcome"] for answer in answers} == {"sent"}
    assert len(refunds.calls) == 6
    assert [record.message for record in caplog.records if record.name.startswith("temporalio")] == []


# Posting


async def test_a_card_is_posted_after_the_platforms_own_delay(world: World) -> None:
    world.desk.faults = [Slow(0.3), ValueError("https://api/bot123:SECRET/sendMessage failed")]
    handle = await world.ask(an_ask())
    await until(lambda: world.desk.posted)
    await world.decide(await world.row(handle.id))
    await handle.result()
    history = await history_of(handle)
    assert "approval_id" in history
    assert "SECRET" not in history


async def test_the_row_is_decided_though_no_card_could_be_posted(world: World) -> None:
    world.desk.stuck = True
    refunds = Refunds(waits=True)
    async with a_caller(world.client, [refunds.refund]) as queue:
        handle = await world.ask(an_ask(run=a_run(queue)))
        await world.decide(await world.row(handle.id))
        await refunds.started.wait()
        # Posting ends with the claim, so that nothing wakes the workflow until the call closes.
        await asyncio.sleep(1)
        before = len((await handle.fetch_history()).events)
        await asyncio.sleep(1)
        assert len((await handle.fetch_history()).events) == before
        refunds.proceed.set()
        assert (await handle.result())["outcome"] == "sent"


# Rows of their own workflow


async def test_a_draft_returns_at_once_and_lives_on_in_a_workflow_of_its_own(world: World) -> None:
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund]) as queue:
        handle = await world.ask(an_ask(run=a_run(queue), runtime="draft"))
        answer = await handle.result()
        row = await world.row(handle.id)
        assert (answer["status"], answer["result"], answer["approval_id"]) == ("pending", None, row.id)
        assert answer["text"] == "Waiting for a person. Nothing has run yet."
        own = world.client.get_workflow_handle(f"approval-{row.id}")
        await until(lambda: world.desk.posted)
        await world.decide_before(row, 4.5)
        assert (await asyncio.wait_for(own.result(), 60))["outcome"] == "sent"
    assert len(refunds.calls) == 1
    assert "TIMER_STARTED" not in await world.events(handle)


async def test_a_draft_that_was_allowed_before_its_workflow_could_start(idle: World) -> None:
    refunds = Refunds()
    async with a_caller(idle.client, [refunds.refund]) as queue:
        idle.bell.muted = True
        asked = read_ask(json.dumps(an_ask(run=a_run(queue), runtime="draft")), over="http")
        opened = await idle.approvals.open(asked, Origin(asked_by="agent:billing", idempotency_key="k"))
        assert isinstance(opened, Opened)
        await idle.decide(opened.approval)
        await idle.approvals.close()
        idle.bell.muted = False
        async with serving(idle):
            idle.clock.set = idle.clock.now() + timedelta(seconds=6)
            await idle.sweep()
            own = idle.client.get_workflow_handle(f"approval-{opened.approval.id}")
            assert (await asyncio.wait_for(own.result(), 60))["outcome"] == "sent"
    assert len(refunds.calls) == 1


async def test_an_external_row_is_shown_and_its_workflow_ends_with_the_answer(world: World) -> None:
    asked = read_ask(json.dumps(an_ask()), over="http")
    opened = await world.approvals.open(asked, Origin(asked_by="agent:billing", idempotency_key="k"))
    assert isinstance(opened, Opened)
    await until(lambda: world.desk.posted)
    await world.decide(opened.approval)
    own = world.client.get_workflow_handle(f"approval-{opened.approval.id}")
    assert (await asyncio.wait_for(own.result(), 60))["status"] == "approved"
    row = await world.now(opened.approval)
    assert (row.status, row.outcome, row.consumed_at) == (Status.APPROVED, Outcome.NONE, None)


async def test_what_is_written_about_an_external_call_stays_out_of_temporal(idle: World) -> None:
    asked = read_ask(json.dumps(an_ask()), over="http")
    opened = await idle.approvals.open(asked, Origin(asked_by="agent:billing", idempotency_key="k"))
    assert isinstance(opened, Opened)
    await idle.decide(opened.approval)
    claim = await idle.approvals.claim(opened.approval.id, 1)
    assert isinstance(claim, Claim)
    await idle.approvals.record(opened.approval.id, claim.token, Outcome.UNKNOWN, "the asker's own words")
    own = idle.client.get_workflow_handle(f"approval-{opened.approval.id}")

    async def started() -> bool:
        # One start is given a second, which a loaded machine may not keep to; the sweep's job is done here.
        await idle.bell.start(opened.approval)
        with suppress(RPCError):
            return bool((await own.describe()).run_id)
        return False

    await until(started)
    async with serving(idle):
        assert (await asyncio.wait_for(own.result(), 60))["outcome"] == "unknown"
    history = await history_of(own)
    assert "unknown" in history
    assert "own words" not in history


async def test_starting_a_rows_workflow_twice_changes_nothing(world: World) -> None:
    asked = read_ask(json.dumps(an_ask()), over="http")
    opened = await world.approvals.open(asked, Origin(asked_by="agent:billing", idempotency_key="k"))
    assert isinstance(opened, Opened)
    await until(lambda: world.desk.posted)
    own = world.client.get_workflow_handle(f"approval-{opened.approval.id}")
    first = (await own.describe()).run_id
    await world.bell.bell.start(opened.approval)
    assert (await own.describe()).run_id == first
    await world.decide(opened.approval)
    await own.result()
    await world.bell.bell.start(opened.approval)
    assert (await own.describe()).run_id == first
    assert (await own.describe()).status is WorkflowExecutionStatus.COMPLETED
    assert len(world.desk.posted) == 1
