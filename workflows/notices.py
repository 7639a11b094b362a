"""What the bots do for an approval beside its wait: its cards and its reminder."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from temporalio import workflow

from workflows import steps
from workflows.payloads import Place, Posting

# A workflow may have 2,000 activities under way on the server; its call needs one of them. Running approvals count on
# this very number: another one goes behind `workflow.patched`.
AT_ONCE = 500


class Notices:
    """Activities that run until they are done, or until the call begins.

    It lives apart from the workflow's own file, which every workflow in memory loads again for itself.
    """

    __slots__ = ("_tasks", "_waiting")

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], Place | None] = {}
        self._waiting: list[Posting] = []

    def post(self, approval_id: str, places: Iterable[Place]) -> None:
        """Post a card to each place, save where one is under way; a place that has its card is left as it is."""
        under_way = {*self._tasks.values(), *(posting.place for posting in self._waiting)}
        for place in places:
            if place in under_way:
                continue
            posting = Posting(approval_id=approval_id, place=place)
            # What began before there was a limit goes on without one.
            if len(self._tasks) >= AT_ONCE and workflow.patched("cards-by-and-by"):
                self._waiting.append(posting)
            else:
                self._start("post", posting, place)

    def remind(self, approval_id: str) -> None:
        self._start("remind", approval_id, None)

    def stop(self) -> None:
        self._waiting.clear()
        for task in self._tasks:
            task.cancel()

    def _start(self, activity: str, argument: object, place: Place | None) -> None:
        task = asyncio.create_task(steps.tell(activity, argument))
        self._tasks[task] = place
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if self._waiting and len(self._tasks) < AT_ONCE:
            posting = self._waiting.pop(0)
            self._start("post", posting, posting.place)
