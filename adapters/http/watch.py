"""Wakes long polls and event streams: one ear on the feed per process, and the database for words that got lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from core.approvals import Approval, Outcome
from core.ports import Clock, Feed, Ledger, Unavailable
from core.service import Approvals

log = logging.getLogger("placet.http")

T = TypeVar("T")
NEWEST = 100
TRACKED = 500
REMEMBERED = 2000
AGAIN_S = 1.0


class Listener:
    """What one long poll or stream has not taken yet: the latest state of each row, oldest change first."""

    def __init__(self, wants: Callable[[Approval], bool]) -> None:
        self.wants = wants
        self.closed = False
        self._waiting: dict[str, Approval] = {}
        self._known: dict[str, int] = {}
        self._wake = asyncio.Event()

    def know(self, approval: Approval) -> bool:
        """Remember this revision; False when it, or a later one, was known already."""
        if self._known.get(approval.id, 0) >= approval.revision:
            return False
        self._known.pop(approval.id, None)
        self._known[approval.id] = approval.revision
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]
        return True

    def put(self, approval: Approval) -> None:
        if self.wants(approval) and self.know(approval):
            self._waiting[approval.id] = approval
            self._wake.set()

    def close(self) -> None:
        self.closed = True
        self._wake.set()

    async def take(self, seconds: float) -> Approval | None:
        """The next change; None when the time is over or the listener was closed."""
        if not self._waiting and not self.closed:
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
        return self._waiting.pop(next(iter(self._waiting))) if self._waiting else None


class Watch:
    """Hears every change once and brings the row, read once, to each listener that wants it."""

    def __init__(self, approvals: Approvals, feed: Feed, clock: Clock, poll_s: float) -> None:
        self._approvals, self._feed, self._clock, self._poll_s = approvals, feed, clock, poll_s
        self._polls: dict[str, set[Listener]] = {}
        self._streams: set[Listener] = set()
        self._tracked: dict[str, int] = {}
        self._closed = False
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def polls(self) -> int:
        """How many long polls wait now."""
        return sum(len(listeners) for listeners in self._polls.values())

    @property
    def streams(self) -> int:
        """How many streams are open now."""
        return len(self._streams)

    def start(self) -> None:
        """Begin to hear; the first listener does it too."""
        if not self._tasks and not self._closed:
            self._tasks = [asyncio.create_task(self._hear()), asyncio.create_task(self._catch_up())]

    async def close(self) -> None:
        """Let every long poll answer with what it has and every stream end, now and from now on."""
        self._closed = True
        for listener in [*self._streams, *(each for waiting in self._polls.values() for each in waiting)]:
            listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def until_answered(self, approval_id: str, seconds: float) -> Approval | None:
        """The row once it is no longer pending, or as it is after `seconds`; None when there is none."""
        clock = asyncio.get_running_loop()
        over = clock.time() + seconds
        with self._poll(approval_id) as listener:
            approval = await self._approvals.get(approval_id)
            while approval is not None and approval.pending and not listener.closed:
                left = over - clock.time()
                if left <= 0:
                    break
                expires = (approval.expires_at - self._clock.now()).total_seconds()
                changed = await listener.take(min(left, max(expires, 0.01)))
                approval = changed or await self._approvals.get(approval_id)
        return approval

    async def until_heard(
        self, read: Callable[[], Awaitable[Sequence[T]]], wants: Callable[[Approval], bool], seconds: float
    ) -> Sequence[T]:
        """What `read` answers as soon as there is something, or nothing after `seconds`; it is asked again whenever a
        row that is wanted changes, and now and then, since the word of a change may be lost."""
        clock = asyncio.get_running_loop()
        over = clock.time() + seconds
        with self.stream(wants) as listener:
            found = await read()
            while not found and not listener.closed and (left := over - clock.time()) > 0:
                await listener.take(min(left, self._poll_s))
                found = await read()
        return found

    @contextmanager
    def stream(self, wants: Callable[[Approval], bool]) -> Iterator[Listener]:
        """A listener to every change of the rows it wants, from now on."""
        listener = Listener(wants)
        self._streams.add(listener)
        self._begin(listener)
        try:
            yield listener
        finally:
            self._streams.discard(listener)

    def track(self, approval: Approval) -> None:
        """Ask the database after this row too, while it can still change and a stream is open."""
        self._tracked.pop(approval.id, None)
        if approval.pending or approval.outcome is Outcome.SENDING:
            self._tracked[approval.id] = approval.revision
            if len(self._tracked) > TRACKED:
                del self._tracked[next(iter(self._tracked))]

    @contextmanager
    def _poll(self, approval_id: str) -> Iterator[Listener]:
        listener = Listener(lambda approval: True)
        self._polls.setdefault(approval_id, set()).add(listener)
        self._begin(listener)
        try:
            yield listener
        finally:
            self._polls[approval_id].discard(listener)
            if not self._polls[approval_id]:
                del self._polls[approval_id]

    def _begin(self, listener: Listener) -> None:
        self.start()
        if self._closed:
            listener.close()

    def _bring(self, approval: Approval) -> None:
        for listener in self._polls.get(approval.id, ()):
            listener.put(approval)
        if self._streams:
            self.track(approval)
            for listener in self._streams:
                listener.put(approval)

    async def _hear(self) -> None:
        while True:
            try:
                async for approval_id, _ in self._feed.subscribe():
                    await self._heard(approval_id)
            except Exception as error:
                # Nobody may be left waiting because one change could not be brought; the next look brings it.
                log.error("change not brought", exc_info=error)
            await asyncio.sleep(AGAIN_S)

    async def _heard(self, approval_id: str) -> None:
        if not self._streams and approval_id not in self._polls:
            return
        with suppress(Unavailable):
            approval = await self._approvals.get(approval_id)
            if approval is not None:
                self._bring(approval)

    async def _catch_up(self) -> None:
        """A word of the feed may be lost; the row is the record, so it is asked while somebody waits."""
        while True:
            await asyncio.sleep(self._poll_s)
            if not self._polls and not self._streams:
                self._tracked.clear()
                continue
            try:
                for approval in await self._approvals.store.read(self._current):
                    self._bring(approval)
            except Unavailable:
                log.warning("waiting rows unread")
            except Exception as error:
                log.error("waiting rows unread", exc_info=error)

    def _current(self, ledger: Ledger) -> list[Approval]:
        rows = {row.id: row for row in ledger.approvals(limit=NEWEST)} if self._streams else {}
        wanted = [*self._polls, *self._tracked] if self._streams else [*self._polls]
        for approval_id in wanted:
            if approval_id not in rows and (row := ledger.approval(approval_id)) is not None:
                rows[approval_id] = row
        # Oldest first, so that a stream tells changes in the order of their rows.
        return sorted(rows.values(), key=lambda row: row.id)
