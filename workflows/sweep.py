"""The round that does again what a crash or a lost word left undone."""

from __future__ import annotations

import asyncio

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    import workflows.retries as retries
    from workflows.activities import Bookkeeping, Posts
    from workflows.payloads import BOTS_QUEUE, Round


@workflow.defn(name="SweepWorkflow")
class SweepWorkflow:
    """One round, from the schedule `placet-sweep`; a step that fails is named and stops no other."""

    @workflow.run
    async def run(self) -> Round:
        drawing = asyncio.create_task(self._redraw())
        try:
            done = await workflow.execute_activity_method(
                Bookkeeping.sweep,
                start_to_close_timeout=retries.ROUND_FOR,
                schedule_to_start_timeout=retries.ROUND_PICKED_UP_IN,
                retry_policy=retries.ONCE,
                priority=retries.HOUSEKEEPING,
            )
        except ActivityError:
            done = Round(failed=("rows",))
        redrawn = await drawing
        if redrawn is None:
            return done.model_copy(update={"failed": (*done.failed, "redrawn")})
        return done.model_copy(update={"redrawn": redrawn})

    async def _redraw(self) -> int | None:
        # While no process of the bots runs, the round goes on without it.
        try:
            return await workflow.execute_activity_method(
                Posts.redraw,
                task_queue=BOTS_QUEUE,
                start_to_close_timeout=retries.ROUND_FOR,
                schedule_to_start_timeout=retries.ROUND_PICKED_UP_IN,
                retry_policy=retries.ONCE,
                priority=retries.HOUSEKEEPING,
            )
        except ActivityError:
            return None
