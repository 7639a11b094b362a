"""A right that one process holds at a time, kept as a row that runs out."""

from __future__ import annotations

import logging
import secrets
from contextlib import suppress
from datetime import timedelta

from core.ports import Clock, Store, Unavailable

log = logging.getLogger("placet.leases")

LASTS = timedelta(seconds=60)


class StoredLease:
    """Implements `core.ports.Lease` over the leases table (design section 4, last paragraph)."""

    def __init__(self, store: Store, clock: Clock, name: str) -> None:
        self.store, self.clock, self.name = store, clock, name
        self._holder = secrets.token_urlsafe(12)
        self._held = False

    async def held(self) -> bool:
        """Take or renew the lease; raises Unavailable when the database cannot be reached."""
        now = self.clock.now()
        held = await self.store.write(lambda ledger: ledger.take_lease(self.name, self._holder, now, now + LASTS))
        if held != self._held:
            log.info("lease taken" if held else "lease lost", extra={"lease": self.name})
        self._held = held
        return held

    async def drop(self) -> None:
        """Give it back, so that the next process need not wait for it to run out."""
        if self._held:
            with suppress(Unavailable):
                await self.store.write(lambda ledger: ledger.drop_lease(self.name, self._holder))
            self._held = False
