"""Gates a call from Python with plain temporalio: `python gate_from_python.py CHARGE AMOUNT`, with Placet running."""

import asyncio
import json
import os
import sys
from typing import Any
from uuid import uuid4

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker


@activity.defn
async def refund(charge: dict[str, Any]) -> dict[str, Any]:
    """The call that a person has to allow. Placet runs it, once, with exactly the arguments that were approved."""
    return {"refund": f"re_{charge['charge']}"}


@workflow.defn
class RefundCustomer:
    """Asks a person before it refunds: the child workflow is Placet's, the activity and its task queue are ours."""

    @workflow.run
    async def run(self, charge: str, amount: int) -> dict[str, Any]:
        answer: dict[str, Any] = await workflow.execute_child_workflow(
            "ApprovalWorkflow",
            {
                "agent": "billing",
                "tool": "stripe.refund",
                "arguments": {"charge": charge, "amount": amount, "currency": "GBP"},
                "presentation": {
                    "title": "Refund a duplicate charge",
                    "lines": [["Amount", "/amount", "money:/currency"], ["Charge", "/charge"]],
                },
                "effect": "money",
                "reasoning": "The customer was charged twice.",
                "run": {"activity": "refund", "task_queue": workflow.info().task_queue, "start_to_close_s": 60},
            },
            id=f"{workflow.info().workflow_id}-approval",
            task_queue="placet",
            parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
            cancellation_type=workflow.ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
        return answer


async def main(charge: str = "ch_1", amount: str = "4900") -> None:
    client = await Client.connect(os.environ.get("TEMPORAL_ADDRESS", "localhost:7233"))
    queue = os.environ.get("TASK_QUEUE", "billing")
    async with Worker(client, task_queue=queue, workflows=[RefundCustomer], activities=[refund]):
        answer = await client.execute_workflow(
            RefundCustomer.run, args=[charge, int(amount)], id=f"refund-{uuid4()}", task_queue=queue
        )
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
    # The Temporal SDK may crash while the interpreter winds down, after all is done: nothing is left to that.
    sys.stdout.flush()
    os._exit(0)
