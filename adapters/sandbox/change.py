"""Wakes whoever waits for something in the sandbox to change."""

from __future__ import annotations

import asyncio


class Change:
    """Waiters hold the present event; an announcement sets it and puts a fresh one in its place."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def announce(self) -> None:
        event, self._event = self._event, asyncio.Event()
        event.set()

    @property
    def next(self) -> asyncio.Event:
        """Set at the next announcement. Take it before looking, and nothing is missed."""
        return self._event
