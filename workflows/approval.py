"""The life of one approval: asked, shown, answered, and the call run at most once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RawValue, WorkflowIDReusePolicy
from temporalio.exceptions import ActivityError, WorkflowAlreadyStartedError

# One copy for all that wait: what is not passed through is loaded again for every workflow in memory.
with workflow.unsafe.imports_passed_through():
    import workflows.retries as retries
    from core.approvals import Outcome
    from workflows.payloads import (
        APPROVAL_WORKFLOW,
        BOTS_QUEUE,
        WHOLE,
        Call,
        Ended,
        Fault,
        Opening,
        Place,
        Posting,
        Row,
    )
    from workflows.results import answer_of, arguments_of, outcome_of, result_of
    from workflows.steps import final, keep, locally, patiently, read, refused, shielded


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
        opening = read(Opening, await keep("open", ask, workflow.info().first_execution_run_id))
        # What is handed over outlives the asker: a cancel of this run does not withdraw it.
        self._row = None if opening.handed_over else opening.row
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
            self._start("post", Posting(approval_id=row.id, place=place))
        pause = retries.SHORTEST_WAIT
        while row.pending:
            remind_at = None if self._reminding else row.remind_at
            deadline = min(remind_at or row.expires_at, row.expires_at)
            await self._wait(max(deadline - workflow.now(), pause))
            now, self._nudged = workflow.now(), False
            if remind_at is not None and remind_at <= now:
                self._reminding = True
                self._start("remind", row.id)
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
                self._row = read(Row, await locally("take", approval_id))
            except ActivityError as error:
                if final(error):
                    raise
            else:
                return self._row
            if pause:
                await asyncio.sleep(pause.total_seconds())
            await patiently("reach", approval_id)
            pause = min(max(pause * 2, retries.SHORTEST_WAIT), retries.LONGEST_PAUSE)

    def _start(self, activity: str, argument: object) -> None:
        """Run an activity of the bots beside the wait, until it is done or the call begins."""

        async def run() -> None:
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
            await keep("withdraw", row.id)
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
        ended = Ended(approval_id=row.id, run_id=workflow.info().run_id, outcome=outcome, error=error)
        return read(Row, await keep("record", ended))

    async def _leave(self) -> None:
        """This workflow was cancelled: settle the row, unless the call has begun, which settles it itself."""
        if self._row is None or self._called:
            return
        if self._row.call is not None:
            await self._record(self._row, Outcome.NOT_SENT, "the workflow was cancelled before the call began")
        else:
            await keep("withdraw", self._row.id)
