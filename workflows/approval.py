"""The life of one approval: asked, shown, answered, and the call run at most once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import RawValue, WorkflowIDReusePolicy
from temporalio.exceptions import ActivityError, ApplicationError, WorkflowAlreadyStartedError

with workflow.unsafe.imports_passed_through():
    from core.approvals import Outcome
    from workflows import retries
    from workflows.activities import WHOLE, Bookkeeping, Posts
    from workflows.payloads import APPROVAL_WORKFLOW, BOTS_QUEUE, Call, Ended, Fault, Opening, Place, Posting, Row
    from workflows.results import answer_of, arguments_of, outcome_of, result_of

T = TypeVar("T")


# Dynamic, because only then does the SDK hand over any number of arguments of any encoding, unread: an argument that
# cannot be taken must fail the workflow at once, not its task for ever.
@workflow.defn(dynamic=True)
class ApprovalWorkflow:
    """Waits for the answer to one ask, runs the caller's activity after Allow, and answers the caller.

    Input: the ask of design section 5 as a JSON object, or `{"approval_id": "<id>"}` in the workflow `approval-<id>`
    of a row that exists. Fails with `InvalidAsk`, which names the field, and otherwise only when it is cancelled.
    """

    def __init__(self) -> None:
        self._nudged = False
        self._row: Row | None = None
        self._reminding = False
        self._called = False
        self._beside: list[asyncio.Task[None]] = []

    @workflow.signal
    def nudge(self) -> None:
        """Something happened to the row: read it again."""
        self._nudged = True

    @workflow.run
    async def run(self, args: Sequence[RawValue]) -> RawValue:
        if workflow.info().workflow_type != APPROVAL_WORKFLOW:
            raise RuntimeError(f"no workflow of this type is served here; Placet's is {APPROVAL_WORKFLOW}")
        if len(args) != 1:
            raise refused(Fault(field=WHOLE, problem=f"one argument is needed, a JSON object; there are {len(args)}"))
        try:
            return await self._live(args[0])
        except asyncio.CancelledError:
            await self._leave()
            raise

    async def _live(self, ask: RawValue) -> RawValue:
        opening = await shielded(self._open(ask))
        if opening.fault is not None:
            raise refused(opening.fault)
        row = opening.row
        assert row is not None
        if opening.handed_over:
            await self._hand_over(row)
            return answer_of(row, None)
        row = await self._answered(row, opening.places)
        if row.call is None or row.arguments is None:
            return answer_of(row, row.arguments)
        return await self._run(row, row.call, row.arguments)

    async def _open(self, ask: RawValue) -> Opening:
        self._nudged = False
        opening = await keep(Bookkeeping.open, ask, workflow.info().first_execution_run_id)
        self._row = opening.row
        return opening

    async def _hand_over(self, row: Row) -> None:
        # Where it exists already, this run was reset or the sweep was faster: the row has its workflow.
        with suppress(WorkflowAlreadyStartedError):
            await workflow.start_child_workflow(
                APPROVAL_WORKFLOW,
                {"approval_id": row.id},
                id=f"approval-{row.id}",
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                cancellation_type=workflow.ChildWorkflowCancellationType.ABANDON,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
                priority=retries.ASKED,
            )

    # Waiting

    async def _answered(self, row: Row, places: Sequence[Place]) -> Row:
        """Wait until the row is final, its cards being posted meanwhile; where it has a call, this run claims it."""
        if not row.pending:
            return await shielded(self._take(row.id))
        for place in places:
            self._start(Posts.post, Posting(approval_id=row.id, place=place))
        pause = retries.SHORTEST_WAIT
        while row.pending:
            remind_at = None if self._reminding else row.remind_at
            deadline = min(remind_at or row.expires_at, row.expires_at)
            await self._wait(max(deadline - workflow.now(), pause))
            now, self._nudged = workflow.now(), False
            if remind_at is not None and remind_at <= now:
                self._reminding = True
                self._start(Posts.remind, row.id)
            # The database's clock judges. While it is behind the server's, ask again ever more slowly.
            pause = min(pause * 2, retries.LONGEST_PAUSE) if row.expires_at <= now else retries.SHORTEST_WAIT
            row = await shielded(self._take(row.id))
        return row

    async def _wait(self, at_most: timedelta) -> None:
        if not self._nudged:
            with suppress(asyncio.TimeoutError):
                await workflow.wait_condition(lambda: self._nudged, timeout=at_most)

    async def _take(self, approval_id: str) -> Row:
        """Read and claim in this very workflow task: a reset to it claims again under another run id, in vain.

        When the database cannot be reached, an activity that costs neither history nor a slot waits for it.
        """
        pause = timedelta(0)
        while True:
            try:
                row = await locally(Bookkeeping.take, approval_id)
            except ActivityError as error:
                if isinstance(error.cause, ApplicationError) and error.cause.non_retryable:
                    raise
            else:
                self._row = row
                return row
            if pause:
                await asyncio.sleep(pause.total_seconds())
            await patiently(Bookkeeping.reach, approval_id)
            pause = min(max(pause * 2, retries.SHORTEST_WAIT), retries.LONGEST_PAUSE)

    def _start(self, method: Callable[[Posts, Any], Coroutine[Any, Any, Any]], argument: object) -> None:
        """Run an activity of the bots beside the wait, until it is done or the call begins."""

        async def run() -> None:
            with suppress(ActivityError):
                await workflow.execute_activity_method(
                    method,
                    argument,
                    task_queue=BOTS_QUEUE,
                    start_to_close_timeout=retries.POSTING_FOR,
                    retry_policy=retries.POSTING,
                    cancellation_type=workflow.ActivityCancellationType.TRY_CANCEL,
                    priority=retries.ASKED,
                )

        task = asyncio.create_task(run())
        self._beside.append(task)
        task.add_done_callback(self._beside.remove)

    # Running the call

    async def _run(self, row: Row, call: Call, arguments: str) -> RawValue:
        """Run the caller's activity, once, and record what came of it; nothing else wakes this workflow meanwhile."""
        for task in self._beside:
            task.cancel()
        running = asyncio.create_task(self._closed(row, call, arguments))
        self._called = True
        try:
            outcome, error, result = await asyncio.shield(running)
        except asyncio.CancelledError:
            # Unknown at once; when the call has closed after all, the truth takes its place.
            running.cancel()
            await keep(Bookkeeping.withdraw, row.id)
            outcome, error, _ = await running
            await self._record(row, outcome, error)
            raise
        recorded = await shielded(self._record(row, outcome, error))
        return answer_of(recorded, arguments, result)

    async def _closed(self, row: Row, call: Call, arguments: str) -> tuple[Outcome, str | None, str]:
        """The outcome of the call, its error, and the JSON text of its result."""
        try:
            result = await workflow.execute_activity(
                call.activity,
                arguments_of(arguments),
                activity_id=row.id,
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

    async def _record(self, row: Row, outcome: Outcome, error: str | None) -> Row:
        run_id = workflow.info().run_id
        return await keep(Bookkeeping.record, Ended(approval_id=row.id, run_id=run_id, outcome=outcome, error=error))

    async def _leave(self) -> None:
        """This workflow was cancelled: settle the row, unless the call has begun, which settles it itself."""
        if self._row is None or self._called:
            return
        if self._row.call is not None:
            await self._record(self._row, Outcome.NOT_SENT, "the workflow was cancelled before the call began")
        else:
            await keep(Bookkeeping.withdraw, self._row.id)


def refused(fault: Fault) -> ApplicationError:
    return ApplicationError(f"{fault.field}: {fault.problem}", type="InvalidAsk", non_retryable=True)


async def locally(method: Callable[..., Coroutine[Any, Any, T]], *args: object) -> T:
    """A local activity: in the workflow task, five seconds at most."""
    return await workflow.execute_local_activity_method(
        method, args=args, schedule_to_close_timeout=retries.AT_HAND_FOR, retry_policy=retries.AT_HAND
    )


async def patiently(method: Callable[..., Coroutine[Any, Any, T]], *args: object) -> T:
    """An ordinary activity, retried until it works; however long that takes, it is three events."""
    return await workflow.execute_activity_method(
        method,
        args=args,
        start_to_close_timeout=retries.BOOKKEEPING_FOR,
        retry_policy=retries.UNTIL_IT_WORKS,
        priority=retries.ASKED,
    )


async def keep(method: Callable[..., Coroutine[Any, Any, T]], *args: object) -> T:
    """Bookkeeping that is done however long the database is away."""
    try:
        return await locally(method, *args)
    except ActivityError as error:
        if isinstance(error.cause, ApplicationError) and error.cause.non_retryable:
            raise
    return await patiently(method, *args)


async def shielded(work: Coroutine[Any, Any, T]) -> T:
    """Finish `work` also when this workflow is cancelled meanwhile; the cancel is raised after it."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
