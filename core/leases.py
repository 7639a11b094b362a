"""A right that one process holds at a time, kept as a row that runs out."""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import suppress
from datetime import datetime, timedelta

from core.ports import Clock, Store, Unavailable

log = logging.getLogger("placet.leases")

# A process that was killed keeps others waiting for the first; a press waits that long without being lost.
LASTS = timedelta(seconds=15)
RENEWED_EVERY = timedelta(seconds=4)


class StoredLease:
    """Implements `core.ports.Lease` over the leases table (design section 4, last paragraph)."""

    def __init__(self, store: Store, clock: Clock, name: str) -> None:
        self.store, self.clock, self.name = store, clock, name
        self._holder = secrets.token_urlsafe(12)
        self._until: datetime | None = None
        self._renewing: asyncio.Task[None] | None = None

    async def held(self) -> bool:
        """Take the lease, which then renews itself; raises Unavailable when the database cannot be reached."""
        if self._until is not None and self.clock.now() < self._until:
            return True
        return await self._take()

    async def _take(self) -> bool:
        now = self.clock.now()
        held = await self.store.write(lambda ledger: ledger.take_lease(self.name, self._holder, now, now + LASTS))
        if held != (self._until is not None):
            log.info("lease taken" if held else "lease lost", extra={"lease": self.name})
        self._until = now + LASTS if held else None
        if held and (self._renewing is None or self._renewing.done()):
            self._renewing = asyncio.get_running_loop().create_task(self._renew())
        return held

    async def _renew(self) -> None:
        while self._until is not None:
            await asyncio.sleep(RENEWED_EVERY.total_seconds())
            with suppress(Unavailable):
                await self._take()

    async def drop(self) -> None:
        """Give it back, so that the next process need not wait for it to run out."""
        if self._renewing is not None:
            self._renewing.cancel()
            with suppress(asyncio.CancelledError):
                await self._renewing
        if self._until is not None:
            self._until = None
            with suppress(Unavailable):
                await self.store.write(lambda ledger: ledger.drop_lease(self.name, self._holder))
