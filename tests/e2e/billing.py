"""A program that asks: a workflow and a worker of its own, which know Temporal and nothing of Placet."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.worker import Worker
from temporalio.workflow import ChildWorkflowCancellationType, ParentClosePolicy

QUEUE = "billing"
ARGUMENTS = {"charge": "ch_31415926", "amount": 271828, "currency": "GBP", "reason": "billed twice in Gdansk"}
ASK = {
    "agent": "billing",
    "tool": "stripe.refund",
    "operation": "create",
    "arguments": ARGUMENTS,
    "presentation": {
        "title": "Refund a duplicate charge",
        "lines": [["Amount", "/amount", "money:/currency"], ["Charge", "/charge"], ["Reason", "/reason"]],
    },
    "effect": "money",
    "run": {"activity": "refund", "task_queue": QUEUE, "start_to_close_s": 120},
}


@workflow.defn(name="Billing")
class Billing:
    """Asks for a refund and returns the answer."""

    @workflow.run
    async def run(self) -> dict[str, Any]:
        answer: dict[str, Any] = await workflow.execute_child_workflow(
            "ApprovalWorkflow",
            ASK,
            id=f"{workflow.info().workflow_id}-refund",
            task_queue="placet",
            cancellation_type=ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
            parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
            execution_timeout=timedelta(days=8),
            retry_policy=RetryPolicy(maximum_attempts=1),
        )
        return answer


class Refunds:
    """The caller's own activity: notes what it was called with, and returns only when it is told to."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.may_end = asyncio.Event()

    @activity.defn(name="refund")
    async def refund(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self.calls.append(arguments)
        await self.may_end.wait()
        return {"refund": "re_1"}

    def worker(self, client: Client) -> Worker:
        return Worker(client, task_queue=QUEUE, workflows=[Billing], activities=[self.refund])
