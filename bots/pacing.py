"""How fast a bot may write: one pacer sees all traffic of a token, and nothing waits in a queue that could be lost."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from core.ports import Slow

T = TypeVar("T")

# Who has to wait longer than this is sent away with Slow, to come back by his own retry.
PATIENCE_S = 5.0
# He comes back while some still wait: he has his card to prepare anew, and meanwhile no turn passes unused.
EARLY_S = 2.0
CHATS_KEPT = 2000


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `limit` messages in any `seconds`."""

    limit: int
    seconds: float


class _Window:
    """The times of the last `limit` messages of a chat."""

    def __init__(self, rate: Rate, pace: float) -> None:
        self._times: deque[float] = deque(maxlen=rate.limit)
        self._seconds = rate.seconds * pace

    def free_at(self, now: float) -> float:
        full = len(self._times) == self._times.maxlen
        return max(now, self._times[0] + self._seconds) if full else now

    def half_taken(self, now: float) -> bool:
        return sum(at + self._seconds > now for at in self._times) * 2 > (self._times.maxlen or 0)

    def take(self, at: float) -> None:
        self._times.append(at)


class _Account:
    """The last `limit` messages of the whole account: when, and to which chat.

    A fifth of a window that is long in coming back is kept for chats that had little of it, less than half of what
    each would get if all had the same: else a chat where much changes keeps every other waiting.
    """

    def __init__(self, rate: Rate, pace: float) -> None:
        self._taken: list[tuple[float, str]] = []
        self._limit, self._seconds = rate.limit, rate.seconds * pace
        self._kept = rate.limit // 5 if rate.seconds > PATIENCE_S else 0

    def free_at(self, now: float, chat: str) -> float:
        if len(self._taken) < self._limit - self._kept:
            return now
        within = [taken for taken in self._taken if taken[0] + self._seconds > now]
        chats = Counter(name for _, name in within)
        little = 2 * chats[chat] * len(chats | Counter({chat: 1})) < self._limit
        limit = self._limit if little else self._limit - self._kept
        return now if len(within) < limit else max(now, within[-limit][0] + self._seconds)

    def take(self, at: float, chat: str) -> None:
        insort(self._taken, (at, chat))
        del self._taken[: -self._limit]


@dataclass(slots=True)
class _Chat:
    windows: list[_Window]
    blocked_until: float = 0.0
    used_at: float = field(default=0.0)


class Pacer:
    """The pace of one bot account. `pace` scales every wait: 1 is the platform's own pace, 0 never waits."""

    def __init__(self, overall: Rate, *, pace: float = 1.0) -> None:
        self._overall = _Account(overall, pace)
        self._pace = pace
        self._chats: dict[str, _Chat] = {}
        self._blocked_until = 0.0

    async def call(self, chat: str, rates: Sequence[Rate], make: Callable[[], Awaitable[T]]) -> T:
        """Make a call in its turn; a short wait that the platform asks for is waited once, a longer one raises Slow."""
        for last in (False, True):
            await self.turn(chat, rates)
            try:
                return await make()
            except Slow as slow:
                self.block(chat, rates, slow.after)
                if last or slow.after > PATIENCE_S:
                    raise
        raise AssertionError("unreachable")

    async def turn(self, chat: str, rates: Sequence[Rate]) -> None:
        """Wait until a message may go to the chat; raises Slow (seconds) when that is longer than PATIENCE_S."""
        place, now = self._place(chat, rates), self._now()
        blocked_until = max(place.blocked_until, self._blocked_until)
        at = max([blocked_until, *(window.free_at(now) for window in place.windows)])
        # What the account keeps it from is known already: then the chat's own turn is not used up.
        if (wait := max(at, self._overall.free_at(now, chat)) - now) > PATIENCE_S:
            raise Slow(max(wait - EARLY_S, blocked_until - now))
        # The chat's own wait comes first, so that a busy chat never holds a place in the token's window for later.
        self._take(place, max(at, now))
        await asyncio.sleep(at - now)
        now = self._now()
        at = self._overall.free_at(now, chat)
        if at - now > PATIENCE_S:
            raise Slow(at - now)
        self._overall.take(at, chat)
        await asyncio.sleep(at - now)
        if (left := max(place.blocked_until, self._blocked_until) - self._now()) > 0:
            raise Slow(left)

    def spend(self, chat: str, rates: Sequence[Rate]) -> None:
        """Count a message that never waits: an answer to a person."""
        now = self._now()
        self._take(self._place(chat, rates), now)
        self._overall.take(now, chat)

    def crowded(self, chat: str, rates: Sequence[Rate]) -> bool:
        """Whether more than half of what the chat may take is used up, under its slowest rate."""
        return self._place(chat, rates).windows[-1].half_taken(self._now())

    def block(self, chat: str, rates: Sequence[Rate], seconds: float) -> None:
        """The platform said to wait: the chat does, and the whole account once two chats were told so."""
        now = self._now()
        until = now + seconds * self._pace
        others = any(place.blocked_until > now for name, place in self._chats.items() if name != chat)
        self._place(chat, rates).blocked_until = until
        if others:
            self._blocked_until = max(self._blocked_until, until)

    def _place(self, chat: str, rates: Sequence[Rate]) -> _Chat:
        if chat not in self._chats and len(self._chats) >= CHATS_KEPT:
            oldest = sorted(self._chats, key=lambda name: self._chats[name].used_at)
            for name in oldest[: CHATS_KEPT // 2]:
                del self._chats[name]
        place = self._chats.setdefault(chat, _Chat([_Window(rate, self._pace) for rate in rates]))
        place.used_at = self._now()
        return place

    @staticmethod
    def _take(place: _Chat, at: float) -> None:
        for window in place.windows:
            window.take(at)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
