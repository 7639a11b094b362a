"""A store whose connection a test breaks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from core.ports import Ledger, Store, Unavailable

T = TypeVar("T")


class Faulty:
    """A store that cannot be reached while `down`, and that fails its next writes as `faults` says, one each.

    "before" the commit, or "after" it and before the answer; "" is a write that goes well.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.down = False
        self.faults: list[str] = []
        self.refused = 0

    @contextmanager
    def failing(self, fault: str) -> Iterator[None]:
        """The next write fails as `fault` says, which ends the block; without a fault nothing may be unavailable."""
        self.faults = [fault]
        try:
            yield
        except Unavailable:
            assert fault
        finally:
            self.faults = []

    async def write(self, work: Callable[[Ledger], T]) -> T:
        self._reach()
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "before":

            def broken(ledger: Ledger) -> T:
                work(ledger)
                raise self._unavailable("the connection was lost before the commit")

            return await self.store.write(broken)
        answer = await self.store.write(work)
        if fault == "after":
            raise self._unavailable("the connection was lost after the commit")
        return answer

    async def read(self, work: Callable[[Ledger], T]) -> T:
        self._reach()
        return await self.store.read(work)

    async def broke(self, times: int = 1) -> None:
        """Wait until it has failed so often."""
        async with asyncio.timeout(10):
            while self.refused < times:
                await asyncio.sleep(0.01)

    def _reach(self) -> None:
        if self.down:
            raise self._unavailable("the database is down")

    def _unavailable(self, why: str) -> Unavailable:
        self.refused += 1
        return Unavailable(why)
