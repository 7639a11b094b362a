"""What takes long to read is read on a thread of its own, so that no press waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

# Characters that are read in a few milliseconds, however hostile they are.
AT_HAND = 10_000
# One thread: each more would take the interpreter from the loop once more, and make nothing faster.
_THREAD = ThreadPoolExecutor(1, "placet-beside")


async def beside(size: int, work: Callable[[], T]) -> T:
    """The answer of `work`, which has `size` characters to read: at once when they are few."""
    if size <= AT_HAND:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_THREAD, work)
