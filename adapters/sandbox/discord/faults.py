"""How the REST API refuses: in Discord's words, and by its rate limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

# Codes and words of the API's errors.
MESSAGES = {
    0: "401: Unauthorized",
    10003: "Unknown Channel",
    10004: "Unknown Guild",
    10008: "Unknown Message",
    10013: "Unknown User",
    10015: "Unknown Webhook",
    10062: "Unknown interaction",
    30046: "Maximum number of edits to messages older than 1 hour reached. Try again later",
    40060: "Interaction has already been acknowledged.",
    50001: "Missing Access",
    50005: "Cannot edit a message authored by another user",
    50006: "Cannot send an empty message",
    50007: "Cannot send messages to this user",
    50008: "Cannot send messages in a non-text channel",
    50013: "Missing Permissions",
    50027: "Invalid Webhook Token",
    50035: "Invalid Form Body",
    50083: "Thread is archived",
    50278: "Cannot send messages to this user due to having no mutual guilds",
}


class ApiError(Exception):
    """A refusal in Discord's words: the HTTP status, the error code, and for 50035 where the form is wrong."""

    def __init__(self, status: int, code: int, *, message: str = "", errors: Json | None = None) -> None:
        super().__init__(message or MESSAGES.get(code, "Error"))
        self.status, self.code, self.errors = status, code, errors

    @property
    def body(self) -> Json:
        body: Json = {"message": str(self), "code": self.code}
        return body | ({"errors": self.errors} if self.errors else {})


class TooFast(Exception):
    """A rate limit was hit: wait `after` seconds. `code` is 30046 for late edits.

    Discord's own answers carry the header Via (`via`); those of the wall in front of it do not.
    """

    def __init__(self, after: float, *, everywhere: bool = False, code: int = 0, via: bool = True) -> None:
        super().__init__(MESSAGES[code] if code else "You are being rate limited.")
        self.after, self.everywhere, self.code, self.via = after, everywhere, code, via

    @property
    def body(self) -> Json:
        body: Json = {"message": str(self), "retry_after": round(self.after, 3), "global": self.everywhere}
        return body | ({"code": self.code} if self.code else {})


def form_error(path: str, code: str, message: str) -> ApiError:
    """50035 about one field; `path` such as `embeds.0.description`."""
    errors: Json = {"_errors": [{"code": code, "message": message}]}
    for part in reversed(path.split(".")):
        errors = {part: errors}
    return ApiError(400, 50035, errors=errors)


@dataclass(slots=True)
class Bucket:
    """One window of a rate limit; `limit` calls from `opened` on for `seconds`."""

    limit: int
    seconds: float
    opened: float = 0
    used: int = 0

    def take(self, now: float) -> float:
        """0 when a call may go on, else the seconds to wait."""
        if now - self.opened >= self.seconds:
            self.opened, self.used = now, 0
        if self.used >= self.limit:
            return self.opened + self.seconds - now
        self.used += 1
        return 0

    def headers(self, name: str, now: float) -> dict[str, str]:
        after = max(0.0, self.opened + self.seconds - now)
        return {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(self.limit - self.used),
            "X-RateLimit-Reset": f"{now + after:.3f}",
            "X-RateLimit-Reset-After": f"{after:.3f}",
            "X-RateLimit-Bucket": name,
        }


@dataclass(slots=True)
class Pace:
    """Discord's limits: 50 calls a second per bot, about 5 per 5 s for each route and channel, and 3 edits per 6 s of
    a channel's messages that are older than an hour. `scale` multiplies them; infinity lifts them.
    """

    now: Callable[[], float]
    scale: float = 1
    _buckets: dict[tuple[object, ...], Bucket] = field(default_factory=dict)

    def admit(self, bot: int, method: str, channel: int) -> dict[str, str]:
        """The headers of the route's bucket. Raises TooFast."""
        if math.isinf(self.scale):
            return {}
        now = self.now()
        if not method.startswith("respond") and (wait := self._bucket((bot,), 50, 1).take(now)):
            raise TooFast(wait, everywhere=True)
        bucket = self._bucket((bot, method, channel), 5, 5)
        if wait := bucket.take(now):
            raise TooFast(wait)
        return bucket.headers(f"{method.lower()}-bucket", now)

    def admit_late_edit(self, bot: int, channel: int) -> None:
        """Raises TooFast with 30046."""
        if math.isinf(self.scale):
            return
        if wait := self._bucket((bot, "late", channel), 3, 6).take(self.now()):
            raise TooFast(wait, code=30046)

    def _bucket(self, key: tuple[object, ...], limit: int, seconds: float) -> Bucket:
        if key not in self._buckets:
            self._buckets[key] = Bucket(max(1, int(limit * self.scale)), seconds)
        return self._buckets[key]
