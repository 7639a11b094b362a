"""The steps of an approval's life: its bookkeeping, its cards, its call, each with its limits and its retries."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

from pydantic import BaseModel
from temporalio import workflow
from temporalio.common import RawValue, WorkflowIDReusePolicy
from temporalio.exceptions import ActivityError, ApplicationError, FailureError, WorkflowAlreadyStartedError

from core.approvals import Outcome
from workflows import retries
from workflows.payloads import APPROVAL_WORKFLOW, BOTS_QUEUE, Call, Ended, Fault, Opening, Row
from workflows.results import arguments_of, outcome_of, result_of

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
# A local activity out of attempts fails with its own last error, one out of time with an ActivityError.
AT_HAND_FAILED = (ActivityError, ApplicationError)
# What the workflow that a draft's ask names is told of its end.
HEARD = ("approval_id", "status", "outcome", "text")


async def open_row(ask: RawValue) -> Opening:
    """Check the ask and write its row, or find it again."""
    return read(Opening, await keep("open", ask, workflow.info().first_execution_run_id))


async def take(approval_id: str) -> Row:
    """Read the row, and claim an approved call, in this very workflow task: a reset to it claims again under another
    run id, in vain.

    When the database cannot be reached, an activity that costs neither history nor a slot waits for it.
    """
    pause = timedelta(0)
    while True:
        try:
            return read(Row, await locally("take", approval_id))
        except AT_HAND_FAILED as error:
            if final(error):
                raise
        if pause:
            await asyncio.sleep(pause.total_seconds())
        await patiently("reach", approval_id)
        pause = min(max(pause * 2, retries.SHORTEST_WAIT), retries.LONGEST_PAUSE)


async def record(approval_id: str, outcome: Outcome, error: str | None) -> Row:
    """Store what became of the call; the row as it stands then."""
    ended = Ended(approval_id=approval_id, run_id=workflow.info().run_id, outcome=outcome, error=error)
    return read(Row, await keep("record", ended))


async def withdraw(approval_id: str) -> Row | None:
    """Settle the row of a workflow that was cancelled; the row, where somebody is to be told of it."""
    answer = await keep("withdraw", approval_id)
    return read(Row, answer) if answer.payload.data else None


async def hand_over(approval_id: str) -> None:
    """Start the workflow that stands for a draft from now on, whatever becomes of the one that asked."""
    # Where it exists already, this run was reset or the sweep was faster: the row has its workflow.
    with suppress(WorkflowAlreadyStartedError):
        await workflow.start_child_workflow(
            APPROVAL_WORKFLOW,
            {"approval_id": approval_id},
            id=f"approval-{approval_id}",
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            cancellation_type=workflow.ChildWorkflowCancellationType.ABANDON,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
            priority=retries.ASKED,
        )


async def tell_asker(row: Row | None) -> None:
    """Signal the workflow that a draft's ask names; one that is gone needs to hear nothing."""
    if row is None or row.notify is None or row.answer is None:
        return
    heard = {name: getattr(row.answer, name) for name in HEARD}
    with suppress(FailureError):
        await workflow.get_external_workflow_handle(row.notify.workflow_id).signal(row.notify.signal, heard)


async def tell(activity: str, argument: object) -> None:
    """An activity of the bots, tried until it works or is cancelled."""
    with suppress(ActivityError):
        await workflow.execute_activity(
            activity,
            argument,
            task_queue=BOTS_QUEUE,
            result_type=RawValue,
            start_to_close_timeout=retries.POSTING_FOR,
            retry_policy=retries.POSTING,
            cancellation_type=workflow.ActivityCancellationType.TRY_CANCEL,
            priority=retries.ASKED,
        )


async def run_call(approval_id: str, call: Call, arguments: str) -> tuple[Outcome, str | None, str]:
    """Run the caller's activity, once: its outcome, its error, and the JSON text of its result."""
    try:
        result = await workflow.execute_activity(
            call.activity,
            arguments_of(arguments),
            activity_id=approval_id,
            task_queue=call.task_queue,
            result_type=RawValue,
            schedule_to_start_timeout=timedelta(seconds=call.schedule_to_start_s),
            start_to_close_timeout=timedelta(seconds=call.start_to_close_s),
            retry_policy=retries.ONCE,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            priority=retries.ANSWERED,
        )
    except ActivityError as failure:
        return *outcome_of(failure, call), "null"
    text, problem = result_of(result)
    return Outcome.SENT, problem, text


# Bookkeeping: within the workflow task while that works, then patiently outside it. The activities answer raw
# payloads, which are read here: what a converter needs to read them would be kept for every workflow in memory.


async def locally(activity: str, *args: object) -> RawValue:
    """A local activity: in the workflow task, five seconds at most."""
    answer: RawValue = await workflow.execute_local_activity(
        activity,
        args=args,
        result_type=RawValue,
        schedule_to_close_timeout=retries.AT_HAND_FOR,
        retry_policy=retries.AT_HAND,
    )
    return answer


async def patiently(activity: str, *args: object) -> RawValue:
    """An ordinary activity, retried until it works; however long that takes, it is three events."""
    answer: RawValue = await workflow.execute_activity(
        activity,
        args=args,
        result_type=RawValue,
        start_to_close_timeout=retries.BOOKKEEPING_FOR,
        retry_policy=retries.UNTIL_IT_WORKS,
        priority=retries.ASKED,
    )
    return answer


async def keep(activity: str, *args: object) -> RawValue:
    """Bookkeeping that is done however long the database is away."""
    try:
        return await locally(activity, *args)
    except AT_HAND_FAILED as error:
        if final(error):
            raise
    return await patiently(activity, *args)


def final(error: ActivityError | ApplicationError) -> bool:
    """Whether trying again is in vain."""
    cause = error.cause if isinstance(error, ActivityError) else error
    return isinstance(cause, ApplicationError) and cause.non_retryable


def read(model: type[M], answer: RawValue) -> M:
    return model.model_validate_json(answer.payload.data)


async def shielded(work: Coroutine[Any, Any, T]) -> T:
    """Finish `work` also when this workflow is cancelled meanwhile; the cancel is raised after it."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


def refused(fault: Fault) -> ApplicationError:
    return ApplicationError(f"{fault.field}: {fault.problem}", type="InvalidAsk", non_retryable=True)
