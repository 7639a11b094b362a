"""What a call may come to, and that nothing a caller's worker does hangs or fails the child."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    RetryState,
    ServerError,
    TimeoutError,
    TimeoutType,
)

from core.approvals import Outcome, Status
from tests.workflows.callers import Refunds, failing, raw
from tests.workflows.world import World, a_caller, a_run, an_ask, until
from workflows.payloads import Call
from workflows.results import ERROR_LIMIT, RESULT_LIMIT, outcome_of, result_of

CALL = Call(activity="refund", task_queue="billing", start_to_close_s=600, schedule_to_start_s=60)


async def answer_to(world: World, refunds: Refunds, **run: Any) -> dict[str, Any]:
    """The answer of an allowed ask whose call does what `refunds` does."""
    async with a_caller(world.client, [refunds.refund]) as queue:
        handle = await world.ask(an_ask(run=a_run(queue, **run)))
        await world.decide(await world.row(handle.id))
        answer: dict[str, Any] = await asyncio.wait_for(handle.result(), 60)
        return answer


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (lambda: b"\x00\x01", "encoding is binary/plain"),
        (lambda: raw(b"?", "binary/encrypted"), "encoding is binary/encrypted"),
        (lambda: raw(b"{not json"), "cannot be read as JSON"),
        (lambda: raw(b'{"rate": NaN}'), "cannot be read as JSON"),
        (lambda: raw(b'"\xff"'), "cannot be read as JSON"),
        (lambda: raw(b"[" * 100_000 + b"]" * 100_000), "cannot be read as JSON"),
        (lambda: "x" * RESULT_LIMIT, "larger than 1536 KB"),
    ],
)
async def test_a_result_that_cannot_be_decoded_is_null_and_the_error_says_so(
    world: World, result: Callable[[], Any], says: str
) -> None:
    answer = await answer_to(world, Refunds(answer=result))
    assert (answer["status"], answer["outcome"], answer["result"]) == ("approved", "sent", None)
    assert says in answer["error"]


async def test_a_call_without_a_result_answers_null(world: World) -> None:
    answer = await answer_to(world, Refunds(answer=lambda: None))
    assert (answer["outcome"], answer["result"], answer["error"]) == ("sent", None, None)


async def test_a_call_that_says_it_was_not_sent_was_not(world: World) -> None:
    answer = await answer_to(world, Refunds(answer=failing("the bank is closed", "NotSent")))
    assert (answer["status"], answer["outcome"]) == ("approved", "not_sent")
    assert answer["error"] == "NotSent: the bank is closed"
    assert answer["text"].startswith("Approved by Dana Reyes, but it could not be started")


async def test_a_call_that_fails_is_unknown_and_is_not_tried_again(world: World) -> None:
    refunds = Refunds(answer=failing("no money left " + "x" * 5000, "BankError"))
    answer = await answer_to(world, refunds)
    assert (answer["status"], answer["outcome"]) == ("approved", "unknown")
    assert answer["error"].startswith("BankError: no money left")
    assert len(answer["error"]) == ERROR_LIMIT
    assert len(refunds.calls) == 1


async def test_a_failure_whose_details_cannot_be_decoded_hangs_nobody(world: World) -> None:
    answer = await answer_to(world, Refunds(answer=failing("broken", "BankError", raw(b"?", "binary/strange"))))
    assert (answer["outcome"], answer["error"]) == ("unknown", "BankError: broken")


async def test_a_call_that_does_not_end_in_time_is_unknown(world: World) -> None:
    answer = await answer_to(world, Refunds(waits=True), start_to_close_s=1)
    assert (answer["outcome"], answer["error"]) == ("unknown", "it did not end within 1 s")


async def test_a_call_that_no_worker_takes_up_is_not_sent(world: World) -> None:
    handle = await world.ask(an_ask(run=a_run("nobody-serves-this", schedule_to_start_s=1)))
    row = await world.row(handle.id)
    await world.decide(row)
    answer = await asyncio.wait_for(handle.result(), 60)
    assert (answer["outcome"], answer["error"]) == ("not_sent", "no worker took it up within 1 s")
    assert (await world.now(row)).outcome is Outcome.NOT_SENT


async def test_ac57_the_longest_names_of_an_activity_and_a_queue_are_taken(world: World) -> None:
    handle = await world.ask(an_ask(run=a_run("😀" * 200, activity="😀" * 200, schedule_to_start_s=1)))
    await world.decide(await world.row(handle.id))
    answer = await asyncio.wait_for(handle.result(), 60)
    assert (answer["outcome"], answer["error"]) == ("not_sent", "no worker took it up within 1 s")


async def test_ac57_the_longest_times_of_a_call_and_of_a_wait_are_taken(world: World) -> None:
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund]) as queue:
        run = a_run(queue, start_to_close_s=86_400, schedule_to_start_s=86_400)
        handle = await world.ask(an_ask(run=run, timeout_s=720 * 3600))
        await world.decide(await world.row(handle.id))
        assert (await asyncio.wait_for(handle.result(), 60))["outcome"] == "sent"


async def test_a_call_that_the_worker_has_not_registered_is_not_sent(world: World) -> None:
    answer = await answer_to(world, Refunds(), activity="refnud")
    assert answer["outcome"] == "not_sent"
    assert "Activity function refnud" in answer["error"]


def failed(cause: BaseException) -> ActivityError:
    error = ActivityError(
        "Activity task failed", scheduled_event_id=1, started_event_id=2, identity="", activity_type="refund",
        activity_id="1", retry_state=RetryState.MAXIMUM_ATTEMPTS_REACHED,
    )  # fmt: skip
    error.__cause__ = cause
    return error


NAMED = 'Activity function refund for workflow ask-1 is not registered on this worker, available activities: a, "b"'


@pytest.mark.parametrize(
    ("kind", "message", "outcome"),
    [
        ("NotFoundError", NAMED, Outcome.NOT_SENT),
        ("NotFoundError", "Activity function refund is not registered on this worker, available activities: ",
         Outcome.NOT_SENT),
        ("NotFoundError", 'Activity function refund is not registered on this Worker, available activities: ["a"]',
         Outcome.NOT_SENT),
        ("NotFoundError", "Activity refund for workflow w is not registered on this worker, available activities: a",
         Outcome.NOT_SENT),
        ("ActivityNotRegisteredError", "unable to find activityType=refund. Supported types: [a, b]", Outcome.NOT_SENT),
        ("java.lang.IllegalArgumentException",
         'Activity Type "refund" is not registered with a worker. Known types are: a', Outcome.NOT_SENT),
        ("NotFoundError", "no such charge", Outcome.UNKNOWN),
        ("NotFoundError", f"after the money was sent: {NAMED}", Outcome.UNKNOWN),
        ("NotFoundError", NAMED.replace("refund", "notify"), Outcome.UNKNOWN),
        ("BankError", NAMED, Outcome.UNKNOWN),
        ("ActivityNotRegisteredError", "unable to find activityType=notify. Supported types: []", Outcome.UNKNOWN),
        (None, "anything", Outcome.UNKNOWN),
    ],
)  # fmt: skip
def test_only_the_sdks_own_complete_word_means_not_registered(kind: str | None, message: str, outcome: Outcome) -> None:
    assert outcome_of(failed(ApplicationError(message, type=kind)), CALL)[0] is outcome


def timeout(kind: TimeoutType) -> TimeoutError:
    return TimeoutError("activity timeout", type=kind, last_heartbeat_details=[])


@pytest.mark.parametrize(
    ("cause", "outcome"),
    [
        (timeout(TimeoutType.SCHEDULE_TO_START), Outcome.NOT_SENT),
        (timeout(TimeoutType.START_TO_CLOSE), Outcome.UNKNOWN),
        (timeout(TimeoutType.HEARTBEAT), Outcome.UNKNOWN),
        (CancelledError("cancelled"), Outcome.UNKNOWN),
        (ServerError("lost"), Outcome.UNKNOWN),
    ],
)
def test_whatever_else_ends_a_call_leaves_it_unknown(cause: BaseException, outcome: Outcome) -> None:
    assert outcome_of(failed(cause), CALL)[0] is outcome


def test_a_result_is_handed_on_digit_for_digit() -> None:
    text = '{"a": 1.10, "b": 1e999, "c": "\\ud800", "a": 2}'
    assert result_of(raw(text.encode())) == (text, None)


# Cancelling


async def cancelled(handle: Any) -> None:
    await handle.cancel()
    with pytest.raises(WorkflowFailureError) as failure:
        await asyncio.wait_for(handle.result(), 60)
    assert isinstance(failure.value.cause, CancelledError)


async def test_cancelling_while_it_waits_withdraws_the_row(world: World) -> None:
    handle = await world.ask(an_ask())
    row = await world.row(handle.id)
    await until(lambda: world.desk.posted)
    await cancelled(handle)
    assert (await world.now(row)).status is Status.CANCELLED


async def test_cancelling_before_it_was_seen_leaves_no_row_pending(world: World) -> None:
    handle = await world.ask(an_ask())
    await cancelled(handle)
    rows = await world.store.read(lambda ledger: ledger.approvals())
    assert [row.status for row in rows if row.pending] == []


async def test_cancelling_after_allow_and_before_the_claim_means_not_sent(world: World) -> None:
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund]) as queue:
        handle = await world.ask(an_ask(run=a_run(queue)))
        row = await world.row(handle.id)
        await until(lambda: world.desk.posted)
        world.bell.muted = True
        await world.decide(row)
        await cancelled(handle)
    assert (await world.now(row)).outcome is Outcome.NOT_SENT
    assert refunds.calls == []


async def test_cancelling_while_the_call_runs_is_unknown_at_once_and_the_truth_when_it_ends(world: World) -> None:
    refunds = Refunds(waits=True)
    async with a_caller(world.client, [refunds.refund]) as queue:
        handle = await world.ask(an_ask(run=a_run(queue)))
        row = await world.row(handle.id)
        await world.decide(row)
        await refunds.started.wait()
        await handle.cancel()

        async def is_unknown() -> bool:
            return (await world.now(row)).outcome is Outcome.UNKNOWN

        await until(is_unknown)
        refunds.proceed.set()
        with pytest.raises(WorkflowFailureError):
            await asyncio.wait_for(handle.result(), 60)
    assert (await world.now(row)).outcome is Outcome.SENT
    assert len(refunds.calls) == 1


async def test_a_call_that_heeds_the_cancel_stays_unknown(world: World) -> None:
    refunds = Refunds(heartbeats=True)
    async with a_caller(world.client, [refunds.refund]) as queue:
        handle = await world.ask(an_ask(run=a_run(queue)))
        row = await world.row(handle.id)
        await world.decide(row)
        await refunds.started.wait()
        await cancelled(handle)
    assert (await world.now(row)).outcome is Outcome.UNKNOWN
    assert len(refunds.calls) == 1


async def test_a_worker_that_shuts_down_in_the_middle_of_a_call_leads_to_unknown_at_once(world: World) -> None:
    refunds = Refunds(waits=True)
    async with a_caller(world.client, [refunds.refund]) as queue:
        handle = await world.ask(an_ask(run=a_run(queue, start_to_close_s=86_400)))
        row = await world.row(handle.id)
        await world.decide(row)
        await refunds.started.wait()
    # The caller's worker has shut down in good order; another one takes its place.
    async with a_caller(world.client, [refunds.refund], queue=queue):
        answer = await asyncio.wait_for(handle.result(), 10)
    assert (answer["status"], answer["outcome"]) == ("approved", "unknown")
    assert answer["text"].startswith("Approved and started, but")
    assert (await world.now(row)).outcome is Outcome.UNKNOWN
    assert len(refunds.calls) == 1


# The database away


async def test_a_database_outage_costs_neither_history_nor_the_answer(world: World) -> None:
    refunds = Refunds()
    async with a_caller(world.client, [refunds.refund]) as queue:
        handle = await world.ask(an_ask(run=a_run(queue)))
        row = await world.row(handle.id)
        await until(lambda: world.desk.posted)
        await world.decide(row)
        world.store.down = True
        await until(lambda: waits_for_the_database(handle))
        events = len((await handle.fetch_history()).events)
        assert events < 30
        await asyncio.sleep(1)
        assert len((await handle.fetch_history()).events) == events
        world.store.down = False
        answer = await asyncio.wait_for(handle.result(), 60)
    assert answer["outcome"] == "sent"
    assert len(refunds.calls) == 1


async def waits_for_the_database(handle: Any) -> bool:
    """Whether the workflow has left the waiting to an activity that costs neither history nor a slot."""
    scheduled = [event.activity_task_scheduled_event_attributes for event in (await handle.fetch_history()).events]
    return any(each.activity_type.name in ("open", "reach", "record", "withdraw") for each in scheduled)


async def test_an_outcome_is_recorded_though_the_database_was_away_when_it_came(world: World) -> None:
    refunds = Refunds(waits=True)
    async with a_caller(world.client, [refunds.refund]) as queue:
        handle = await world.ask(an_ask(run=a_run(queue)))
        row = await world.row(handle.id)
        await world.decide(row)
        await refunds.started.wait()
        world.store.down = True
        refunds.proceed.set()
        await until(lambda: waits_for_the_database(handle))
        world.store.down = False
        assert (await asyncio.wait_for(handle.result(), 60))["outcome"] == "sent"
    assert (await world.now(row)).outcome is Outcome.SENT
