"""The caller's own program: a workflow that asks for a refund, and imports nothing of Placet."""

from __future__ import annotations

from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.workflow import ChildWorkflowCancellationType, ParentClosePolicy


@workflow.defn
class Refunds:
    """Asks, waits for the answer, and returns it."""

    @workflow.run
    async def run(self, ask: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = await workflow.execute_child_workflow(
            "ApprovalWorkflow",
            ask,
            id=f"{workflow.info().workflow_id}-approval",
            task_queue="placet",
            cancellation_type=ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
            parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
            retry_policy=RetryPolicy(maximum_attempts=1),
        )
        return answer
