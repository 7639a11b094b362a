"""Who is in a platform's group, remembered for a short while; who is not known to be in it is not in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from core.ports import Gone, Moved, Refused, Slow, Unavailable

log = logging.getLogger("placet.bots")

# A group is read again after KEPT_S, or AGAIN_S where that failed; what was read counts for STALE_S at most.
KEPT_S, AGAIN_S, STALE_S = 60.0, 5.0, 300.0
# A press waits so long for it.
PATIENCE_S = 1.0


@dataclass(slots=True)
class _Kept:
    members: frozenset[str] = frozenset()
    read_at: float = float("-inf")
    ask_at: float = float("-inf")
    asking: asyncio.Task[None] | None = None


class Groups:
    """The groups of an account by their ids; `read` asks the platform for the members of one."""

    def __init__(self, platform: str, read: Callable[[str, str], Awaitable[frozenset[str]]]) -> None:
        self._platform, self._read = platform, read
        self._kept: dict[tuple[str, str], _Kept] = {}

    async def members(self, account: str, group: str) -> frozenset[str]:
        """Who is in the group, as far as that is known; however many ask at once, the platform is asked once."""
        kept = self._kept.setdefault((account, group), _Kept())
        clock = asyncio.get_running_loop().time
        if kept.asking is None and clock() >= kept.ask_at:
            kept.asking = asyncio.get_running_loop().create_task(self._ask(account, group, kept))
        if kept.asking is not None:
            await asyncio.wait({kept.asking}, timeout=PATIENCE_S)
        return kept.members if clock() < kept.read_at + STALE_S else frozenset()

    async def _ask(self, account: str, group: str, kept: _Kept) -> None:
        clock = asyncio.get_running_loop().time
        try:
            kept.members, kept.read_at = await self._read(account, group), clock()
            kept.ask_at = kept.read_at + KEPT_S
        except (Gone, Moved, Refused, Slow, Unavailable) as error:
            kept.ask_at = clock() + AGAIN_S
            about = {"platform": self._platform, "account": account, "group": group}
            log.warning("group not read", extra=about | {"error": type(error).__name__, "why": str(error)})
        finally:
            kept.asking = None
