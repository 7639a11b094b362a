"""What one approval goes through: opened, shown, answered, and its call run at most once.

It lives apart from the workflow's own file, which every workflow in memory loads again for itself.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from temporalio import workflow
from temporalio.common import RawValue

from core.approvals import Outcome
from workflows import retries, steps
from workflows.notices import Notices
from workflows.payloads import WHOLE, Call, Fault, Row
from workflows.results import answer_of


class Life:
    """One run's part in it; derived from the row each time it wakes."""

    __slots__ = ("_called", "_claimed", "_id", "_notices", "_nudged", "_reminded")

    def __init__(self) -> None:
        self._nudged = False
        # The row that this run stands for, once it is known.
        self._id: str | None = None
        self._reminded = False
        self._claimed = False
        self._called = False
        self._notices = Notices()

    def nudge(self) -> None:
        """Something happened to the row: read it again."""
        self._nudged = True

    async def run(self, ask: RawValue) -> RawValue:
        """From the ask to the caller's answer."""
        try:
            return await self._live(ask)
        except asyncio.CancelledError:
            await self._leave()
            raise

    async def _live(self, ask: RawValue) -> RawValue:
        row = await steps.shielded(self._open(ask))
        pause = retries.SHORTEST_WAIT
        while row.pending and self._id is not None:
            remind_at = None if self._reminded else row.remind_at
            deadline = min(remind_at or row.expires_at, row.expires_at)
            if not self._nudged:
                with suppress(asyncio.TimeoutError):
                    at_most = max(deadline - workflow.now(), pause)
                    await workflow.wait_condition(lambda: self._nudged, timeout=at_most)
            now, self._nudged = workflow.now(), False
            if remind_at is not None and remind_at <= now:
                self._reminded = True
                self._notices.remind(row.id)
            # The database's clock judges. While it is behind the server's, ask again ever more slowly.
            pause = min(pause * 2, retries.LONGEST_PAUSE) if row.expires_at <= now else retries.SHORTEST_WAIT
            row = await steps.shielded(self._take(row.id))
        if row.call is not None and row.arguments is not None:
            return await self._call(row.id, row.call, row.arguments)
        return await self._end(row, row.arguments)

    async def _open(self, ask: RawValue) -> Row:
        """The row: pending, with its cards on their way; or final, and claimed where it has a call to make."""
        self._nudged = False
        opening = await steps.open_row(ask)
        if opening.row is None:
            raise steps.refused(opening.fault or Fault(field=WHOLE, problem="cannot be taken"))
        row, waits = opening.row, opening.handed_over
        if not waits:
            self._id = row.id
            if row.pending:
                self._notices.post(row.id, opening.places)
                return row
            row = await self._take(row.id)
            # Nobody waits for a draft, also where nobody has to be asked and only its agent has to go on.
            waits = row.pending and opening.draft
        if waits:
            # It has a workflow of its own from here on: a cancel of this one does not withdraw it.
            self._id = None
            await steps.hand_over(row.id)
        return row

    async def _take(self, approval_id: str) -> Row:
        row = await steps.take(approval_id)
        self._claimed = row.call is not None
        self._notices.post(approval_id, row.places)
        return row

    async def _call(self, approval_id: str, call: Call, arguments: str) -> RawValue:
        """Run the caller's activity and record what came of it; nothing else wakes this workflow meanwhile."""
        self._notices.stop()
        running = asyncio.create_task(steps.run_call(approval_id, call, arguments))
        self._called = True
        try:
            outcome, error, result = await asyncio.shield(running)
        except asyncio.CancelledError:
            # Unknown at once; when the call has closed after all, the truth takes its place.
            running.cancel()
            await steps.tell_asker(await steps.withdraw(approval_id))
            outcome, error, _ = await running
            await steps.tell_asker(await steps.record(approval_id, outcome, error))
            raise
        return await self._end(await steps.shielded(steps.record(approval_id, outcome, error)), arguments, result)

    async def _end(self, row: Row, arguments: str | None, result: str = "null") -> RawValue:
        """It is settled: whoever a draft's ask names hears of it, and the caller has the answer."""
        self._id = None
        await steps.shielded(steps.tell_asker(row))
        return answer_of(row, arguments, result)

    async def _leave(self) -> None:
        """This workflow was cancelled: settle its row, unless the call has begun, which settles it itself."""
        if self._id is None or self._called:
            return
        if self._claimed:
            why = "the workflow was cancelled before the call began"
            await steps.tell_asker(await steps.record(self._id, Outcome.NOT_SENT, why))
        else:
            await steps.tell_asker(await steps.withdraw(self._id))
