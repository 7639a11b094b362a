"""A sample agent: a Temporal workflow that uses tools one after another, each once a person allows it."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

Json = dict[str, Any]

QUEUE = "sample-agent"
AGENT = "sage"
ACTIVITIES = {"shell": "run_command", "mail.send": "send_message", "payments.refund": "refund"}


# The loop


@workflow.defn(name="SampleAgent")
class SampleAgent:
    """One turn: the agent thinks, uses a tool, hears what came of it, and thinks again, until it is done."""

    @workflow.run
    async def run(self, task: str) -> list[str]:
        heard: list[Json] = []
        while (step := await self.do("think", task, heard)) is not None:
            await self.do("show", "asked", step, {})
            answer = await self.use(step["call"], number=len(heard) + 1)
            await self.do("show", "answered", step, answer)
            heard.append(step | {"answer": answer})
        await self.do("show", "ended", {}, {})
        return [step["answer"]["text"] for step in heard]

    async def use(self, call: Json, number: int) -> Json:
        """Use a tool once a person allows it: Placet asks, waits for as long as that takes, and runs our activity.

        The wait holds no worker slot and survives restarts. What comes back has the tool's `result`, and in `text`
        one sentence for the model: done, declined (with the person's note), or why it did not happen.
        """
        turn = workflow.info()
        run = {"activity": ACTIVITIES[call["tool"]], "task_queue": turn.task_queue, "start_to_close_s": 60}
        answer: Json = await workflow.execute_child_workflow(
            "ApprovalWorkflow",
            call | {"agent": AGENT, "run_id": turn.workflow_id, "call_id": f"call-{number}", "run": run},
            id=f"{turn.workflow_id}-call-{number}",
            task_queue="placet",
            # When the turn ends early, what it waits for is withdrawn; and the turn waits for that to be done.
            parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
            cancellation_type=workflow.ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
            # An answer is final: asking again would ask another time.
            retry_policy=RetryPolicy(maximum_attempts=1),
        )
        return answer

    async def do(self, name: str, *arguments: Any) -> Any:
        """What needs nobody's leave: thinking, and showing what happens."""
        return await workflow.execute_activity(name, args=arguments, start_to_close_timeout=timedelta(seconds=60))


# The mind: yours is a model; this one goes by a list


# Each step as it is first thought of, and another way to take when a person's note asks for one.
STEPS: dict[str, list[Json]] = {
    "command": [
        {
            "tool": "shell",
            "operation": "run",
            "arguments": {"command": "find exports -name '*.csv' -delete"},
            "presentation": {"title": "Delete the old exports", "lines": [["Command", "/command", "code"]]},
            "effect": "send",
            "reasoning": "The exports hold Ada's old card number. They are not needed any more.",
        },
        {
            "tool": "shell",
            "operation": "run",
            "arguments": {"command": "find exports -name '*.csv' -print"},
            "presentation": {"title": "List the old exports", "lines": [["Command", "/command", "code"]]},
            "effect": "send",
            "reasoning": "A dry run: it lists what would be deleted, and deletes nothing.",
        },
    ],
    "message": [
        {
            "tool": "mail.send",
            "operation": "send",
            "arguments": {
                "to": "ada@example.com",
                "subject": "Your refund",
                "body": "Dear Ada, we charged you twice in March. The second charge is on its way back. Sorry!",
            },
            "presentation": {
                "title": "Write to a customer",
                "lines": [["To", "/to"], ["Subject", "/subject"], ["Text", "/body"]],
                "recipient": "/to",
                "editable": ["/subject", "/body"],
            },
            "effect": "send",
            "reasoning": "She asked twice where her money is.",
        },
        {
            "tool": "mail.send",
            "operation": "send",
            "arguments": {
                "to": "ada@example.com",
                "subject": "About your charges in March",
                "body": "Dear Ada, we are looking into your two charges of March and will write again by Friday.",
            },
            "presentation": {
                "title": "Write to a customer, in other words",
                "lines": [["To", "/to"], ["Subject", "/subject"], ["Text", "/body"]],
                "recipient": "/to",
                "editable": ["/subject", "/body"],
            },
            "effect": "send",
            "reasoning": "Other words, which promise nothing yet.",
        },
    ],
    "refund": [
        {
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
                "editable": ["/reason"],
            },
            "effect": "money",
            "reasoning": "The customer was charged twice.",
        },
        {
            "tool": "payments.refund",
            "operation": "create",
            "arguments": {"charge": "ch_204", "amount": 2450, "currency": "GBP", "reason": "goodwill"},
            "presentation": {
                "title": "Refund half of a charge",
                "lines": [["Amount", "/amount", "money:/currency"], ["Charge", "/charge"], ["Reason", "/reason"]],
                "editable": ["/reason"],
            },
            "effect": "money",
            "reasoning": "Half of it, until the second charge is found.",
        },
    ],
}
TASKS = {"case": ["command", "message", "refund"], "command": ["command"], "message": ["message"], "refund": ["refund"]}
LABELS = {
    "case": "Close Ada's case",
    "command": "Run a command",
    "message": "Write to a customer",
    "refund": "Refund a charge",
}


def next_step(task: str, heard: list[Json]) -> Json | None:
    """The next step: another way after a decline that says what to do instead, else the next of the list.

    A decline without a note is the end of that step; so is whatever else came back. None when all is done.
    """
    last = heard[-1] if heard else None
    note = last["answer"].get("note") if last and last["answer"]["status"] == "declined" else None
    if last is not None and note and last["way"] + 1 < len(STEPS[last["name"]]):
        call = STEPS[last["name"]][last["way"] + 1]
        reasoning = f"You wrote: {note}\n{call['reasoning']}"
        return {"name": last["name"], "way": last["way"] + 1, "call": call | {"reasoning": reasoning}}
    done = {step["name"] for step in heard}
    name = next((name for name in TASKS[task] if name not in done), None)
    return None if name is None else {"name": name, "way": 0, "call": STEPS[name][0]}


# The tools, and the worker that has them

Show = Callable[[str, str, Json, Json], Awaitable[None]]


class SampleTools:
    """What the agent does by itself, and what it may do once it is allowed."""

    def __init__(self, folder: Path, show: Show) -> None:
        """`folder` takes the outbox, the refunds and the exports; `show(workflow id, event, step, answer)` tells."""
        self.folder, self._show = folder, show

    @activity.defn(name="think")
    async def think(self, task: str, heard: list[Json]) -> Json | None:
        if task not in TASKS:
            # Nobody mends this while it waits: to try again would be to try for ever.
            raise ApplicationError(f"no such task; there are {', '.join(TASKS)}", non_retryable=True)
        return next_step(task, heard)

    @activity.defn(name="show")
    async def show(self, event: str, step: Json, answer: Json) -> None:
        await self._show(str(activity.info().workflow_id), event, step, answer)

    @activity.defn(name="run_command")
    async def run_command(self, arguments: Json) -> Json:
        self._make_exports()
        process = await asyncio.create_subprocess_shell(
            arguments["command"], stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=self.folder
        )
        output, _ = await process.communicate()
        return {"exit_code": process.returncode, "output": output.decode(errors="replace")[:2000]}

    @activity.defn(name="send_message")
    async def send_message(self, arguments: Json) -> Json:
        number = self._append("outbox.jsonl", arguments)
        return {"message_id": f"msg_{number}", "to": arguments["to"]}

    @activity.defn(name="refund")
    async def refund(self, arguments: Json) -> Json:
        number = self._append("refunds.jsonl", arguments)
        return {"refund": f"re_{number}", "amount": arguments["amount"], "currency": arguments["currency"]}

    def _make_exports(self) -> None:
        """Something for the command to find."""
        exports = self.folder / "exports"
        exports.mkdir(exist_ok=True)
        for month in ("march", "april"):
            (exports / f"{month}.csv").touch()

    def _append(self, name: str, entry: Json) -> int:
        path = self.folder / name
        before = path.read_text().count("\n") if path.exists() else 0
        with path.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        return before + 1

    def worker(self, client: Client, queue: str = QUEUE) -> Worker:
        activities: list[Callable[..., Any]] = [
            self.think, self.show, self.run_command, self.send_message, self.refund,
        ]  # fmt: skip
        return Worker(client, task_queue=queue, workflows=[SampleAgent], activities=activities)


async def main(task: str, folder: Path) -> None:
    """Run one turn beside a Placet that is running, and print what happens, a line of JSON each."""

    async def show(workflow_id: str, event: str, step: Json, answer: Json) -> None:
        if event == "ended":
            return
        told = {"answer": answer} if answer else {"arguments": step["call"]["arguments"]}
        print(json.dumps({"event": event, "step": step["name"], **told}), flush=True)  # noqa: T201

    client = await Client.connect(os.environ.get("TEMPORAL_ADDRESS", "localhost:7233"))
    queue = os.environ.get("TASK_QUEUE", QUEUE)
    async with SampleTools(folder, show).worker(client, queue):
        texts = await client.execute_workflow(SampleAgent.run, task, id=f"turn-{uuid4()}", task_queue=queue)
    print(json.dumps({"event": "done", "texts": texts}), flush=True)  # noqa: T201


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m adapters.sample_agent",
        description="Let the sample agent take one turn beside a Placet that is running.",
        epilog="TEMPORAL_ADDRESS (localhost:7233) and TASK_QUEUE (sample-agent) are taken from the environment.",
    )
    parser.add_argument("task", nargs="?", default="case", choices=list(TASKS), help="what to do (default: case)")
    parser.add_argument("folder", nargs="?", default=".", type=Path, help="takes what its tools write (default: .)")
    return parser.parse_args()


if __name__ == "__main__":
    given = arguments()
    asyncio.run(main(given.task, given.folder))
    # The Temporal SDK may crash while the interpreter winds down, after all is done: nothing is left to that.
    sys.stdout.flush()
    os._exit(0)
