"""Programs beside Placet: what is measured through Placet, and the same without it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.common import RetryPolicy

STARTED: dict[str, float] = {}
BARE = "bare"
SHORT = timedelta(seconds=30)
ONCE = RetryPolicy(maximum_attempts=1)


@activity.defn(name="stamp")
async def stamp(arguments: dict[str, str]) -> None:
    """When this started, under the key that it was given."""
    STARTED[arguments["key"]] = time.perf_counter()


@activity.defn(name="look")
async def look(key: str) -> str:
    """A local activity that reads nothing."""
    return key


@workflow.defn
class BareChild:
    """Waits for a signal; with a queue it then looks and runs an activity there: the floor under an approval."""

    def __init__(self) -> None:
        self._nudged = False

    @workflow.signal
    def nudge(self) -> None:
        self._nudged = True

    @workflow.run
    async def run(self, document: dict[str, Any], queue: str | None) -> str:
        await workflow.wait_condition(lambda: self._nudged)
        if queue is not None:
            key = document["arguments"]["key"]
            await workflow.execute_local_activity(look, key, schedule_to_close_timeout=SHORT, retry_policy=ONCE)
            await workflow.execute_activity(
                stamp,
                {"key": key},
                task_queue=queue,
                start_to_close_timeout=SHORT,
                schedule_to_start_timeout=SHORT,
                retry_policy=ONCE,
            )
        return workflow.info().workflow_id


@workflow.defn
class Parent:
    """Starts a child, and takes its next step, a local activity, when that has answered."""

    @workflow.run
    async def run(self, ask: dict[str, Any], bare: bool) -> None:
        child = f"child-{workflow.info().workflow_id}"
        if bare:
            await workflow.execute_child_workflow(BareChild.run, args=[ask, None], id=child, task_queue=BARE)
        else:
            await workflow.execute_child_workflow("ApprovalWorkflow", ask, id=child, task_queue="placet")
        key = ask["arguments"]
        await workflow.execute_local_activity(stamp, key, schedule_to_close_timeout=SHORT, retry_policy=ONCE)


WORKFLOWS: list[type] = [BareChild, Parent]
ACTIVITIES: list[Callable[..., Any]] = [stamp, look]
