"""How the Web API refuses: in Slack's words, and by its rate limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field


class ApiError(Exception):
    """A refusal in Slack's words; `status` is the HTTP status, `details` the messages of response_metadata."""

    def __init__(self, error: str, *details: str, status: int = 200, retry_after: int | None = None) -> None:
        super().__init__(error)
        self.error, self.details, self.status, self.retry_after = error, details, status, retry_after


# Calls a minute per method and workspace (tiers 2, 3 and 4); what is not named is not limited here.
TIERS = {
    "chat.update": 50, "conversations.history": 50, "conversations.replies": 50, "conversations.open": 50,
    "conversations.info": 50, "views.open": 100, "users.info": 100, "files.getuploadurlexternal": 100,
    "files.completeuploadexternal": 100, "chat.postephemeral": 100,
}  # fmt: skip
BURST = 3


@dataclass(slots=True)
class Pace:
    """Slack's limits: chat.postMessage one a second per channel in bursts of three, and the tiers per workspace.

    `scale` multiplies them; infinity lifts them.
    """

    now: Callable[[], float]
    scale: float = 1
    _levels: dict[tuple[str, ...], tuple[float, float]] = field(default_factory=dict)

    def admit(self, team: str, method: str, chat: str) -> int:
        """0 when the call may go on, else the whole seconds to wait."""
        name = method.lower()
        if math.isinf(self.scale):
            return 0
        if name == "chat.postmessage":
            return self._take((team, name, chat), BURST * self.scale, self.scale)
        if (tier := TIERS.get(name)) is not None:
            return self._take((team, name), tier * self.scale, tier / 60 * self.scale)
        return 0

    def _take(self, key: tuple[str, ...], size: float, rate: float) -> int:
        now = self.now()
        level, at = self._levels.get(key, (size, now))
        level = min(size, level + (now - at) * rate)
        wait = (1 - level) / rate
        self._levels[key] = (level if wait > 0 else level - 1, now)
        return math.ceil(wait) if wait > 0 else 0
