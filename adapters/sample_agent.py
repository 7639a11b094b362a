"""The demo's sample agent: a program of its own that asks for three different things and shows what came back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.worker import Worker
from temporalio.workflow import ChildWorkflowCancellationType, ParentClosePolicy

QUEUE = "sample-agent"
AGENT = "sage"
ASKS: dict[str, dict[str, Any]] = {
    "message": {
        "agent": AGENT,
        "tool": "mail.send",
        "operation": "send",
        "arguments": {
            "to": "ada@example.com",
            "subject": "Your refund",
            "body": "Dear Ada, we charged you twice in March. The second charge is on its way back to you. Sorry!",
        },
        "presentation": {
            "title": "Write to a customer",
            "lines": [["To", "/to"], ["Subject", "/subject"], ["Text", "/body"]],
            "recipient": "/to",
        },
        "effect": "send",
        "reasoning": "She asked twice where her money is.",
        "run": {"activity": "send_message", "task_queue": QUEUE, "start_to_close_s": 30},
    },
    "command": {
        "agent": AGENT,
        "tool": "shell",
        "operation": "run",
        "arguments": {"command": "uname -s && date -u +%Y-%m-%d && df -h . | tail -1"},
        "presentation": {"lines": [["Command", "/command", "code"]]},
        "effect": "send",
        "reasoning": "I want to see whether there is room for the export.",
        "run": {"activity": "run_command", "task_queue": QUEUE, "start_to_close_s": 30},
    },
    "refund": {
        "agent": AGENT,
        "tool": "payments.refund",
        "operation": "create",
        "arguments": {"charge": "ch_204", "amount": 4900, "currency": "GBP", "reason": "duplicate"},
        "presentation": {
            "title": "Refund a duplicate charge",
            "lines": [
                ["Amount", "/amount", "money:/currency"],
                ["Charge", "/charge"],
                ["Reason", "/reason"],
                ["Customer", "Ada Lovelace"],
            ],
        },
        "effect": "money",
        "reasoning": "The customer was charged twice.",
        "run": {"activity": "refund", "task_queue": QUEUE, "start_to_close_s": 30},
    },
}
LABELS = {"message": "Write to a customer", "command": "Run a command", "refund": "Refund a charge"}


def request_of(kind: str) -> dict[str, Any]:
    """What is asked for a kind of call: a payload for `ApprovalWorkflow`."""
    return ASKS[kind]


Report = Callable[[str, str, str, dict[str, Any]], Awaitable[None]]


@workflow.defn(name="SampleAgent")
class SampleAgent:
    """Asks for one thing, waits for the answer and reports it; it imports nothing of Placet."""

    @workflow.run
    async def run(self, kind: str) -> dict[str, Any]:
        ask = request_of(kind) | {"run_id": workflow.info().workflow_id}
        await self._report(kind, "asked", {})
        answer: dict[str, Any] = await workflow.execute_child_workflow(
            "ApprovalWorkflow",
            ask,
            id=f"approval-of-{workflow.info().workflow_id}",
            task_queue="placet",
            cancellation_type=ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
            parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
            retry_policy=RetryPolicy(maximum_attempts=1),
        )
        await self._report(kind, "answered", answer)
        return answer

    async def _report(self, kind: str, event: str, answer: dict[str, Any]) -> None:
        await workflow.execute_activity(
            "report",
            args=[workflow.info().workflow_id, kind, event, answer],
            start_to_close_timeout=timedelta(seconds=10),
            retry_policy=RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=10)),
        )


class SampleTools:
    """What the sample agent can do once it is allowed: write to an outbox, run a command, book a refund."""

    def __init__(self, folder: Path, report: Report) -> None:
        """`folder` takes the outbox and the ledger; `report(workflow id, kind, event, answer)` shows progress."""
        self.folder, self._report = folder, report

    @activity.defn(name="send_message")
    async def send_message(self, arguments: dict[str, Any]) -> dict[str, Any]:
        number = self._append("outbox.jsonl", arguments)
        return {"message_id": f"msg_{number}", "to": arguments["to"]}

    @activity.defn(name="run_command")
    async def run_command(self, arguments: dict[str, Any]) -> dict[str, Any]:
        process = await asyncio.create_subprocess_shell(
            arguments["command"], stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=self.folder
        )
        output, _ = await process.communicate()
        return {"exit_code": process.returncode, "output": output.decode(errors="replace")[:2000]}

    @activity.defn(name="refund")
    async def refund(self, arguments: dict[str, Any]) -> dict[str, Any]:
        number = self._append("refunds.jsonl", arguments)
        return {"refund": f"re_{number}", "amount": arguments["amount"], "currency": arguments["currency"]}

    @activity.defn(name="report")
    async def report(self, workflow_id: str, kind: str, event: str, answer: dict[str, Any]) -> None:
        await self._report(workflow_id, kind, event, answer)

    def _append(self, name: str, entry: dict[str, Any]) -> int:
        path = self.folder / name
        before = path.read_text().count("\n") if path.exists() else 0
        with path.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        return before + 1

    def worker(self, client: Client) -> Worker:
        activities: list[Callable[..., Any]] = [self.send_message, self.run_command, self.refund, self.report]
        return Worker(client, task_queue=QUEUE, workflows=[SampleAgent], activities=activities)
