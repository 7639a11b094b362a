"""How the Bot API refuses: in Telegram's words, and by its rate limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field


class ApiError(Exception):
    """A refusal in Telegram's words: the HTTP status, the description and the response parameters."""

    def __init__(self, status: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.status = status
        self.description = description
        self.parameters = parameters


@dataclass(slots=True)
class _Bucket:
    level: float
    at: float


@dataclass(slots=True)
class Pace:
    """Telegram's limits per bot: 30 calls a second in all, about 1 a second per chat in bursts of 5, 20 a minute per
    group. `scale` multiplies them; infinity lifts them.
    """

    now: Callable[[], float]
    scale: float = 1
    _buckets: dict[tuple[object, ...], _Bucket] = field(default_factory=dict)

    def admit(self, bot: int, chat: str) -> int:
        """0 when the call may go on, else the whole seconds to wait."""
        if math.isinf(self.scale):
            return 0
        limits: list[tuple[tuple[object, ...], float, float]] = [((bot,), 30, 30), ((bot, chat), 5, 1)]
        if chat.startswith("-"):
            limits.append(((bot, chat, "minute"), 20, 20 / 60))
        now = self.now()
        buckets = []
        wait = 0.0
        for key, size, rate in limits:
            bucket = self._buckets.setdefault(key, _Bucket(size * self.scale, now))
            bucket.level = min(size * self.scale, bucket.level + (now - bucket.at) * rate * self.scale)
            bucket.at = now
            buckets.append(bucket)
            wait = max(wait, (1 - bucket.level) / (rate * self.scale))
        if wait > 0:
            return math.ceil(wait)
        for bucket in buckets:
            bucket.level -= 1
        return 0
