"""What the bots do for an approval beside its wait: its cards and its reminder."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from workflows import steps
from workflows.payloads import Place, Posting


class Notices:
    """Activities that run until they are done, or until the call begins.

    It lives apart from the workflow's own file, which every workflow in memory loads again for itself.
    """

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], Place | None] = {}

    def post(self, approval_id: str, places: Iterable[Place]) -> None:
        """Post a card to each place, save where one is under way; a place that has its card is left as it is."""
        under_way = set(self._tasks.values())
        for place in places:
            if place not in under_way:
                self._start("post", Posting(approval_id=approval_id, place=place), place)

    def remind(self, approval_id: str) -> None:
        self._start("remind", approval_id, None)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _start(self, activity: str, argument: object, place: Place | None) -> None:
        task = asyncio.create_task(steps.tell(activity, argument))
        self._tasks[task] = place
        task.add_done_callback(self._tasks.pop)
