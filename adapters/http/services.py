"""What the HTTP API stands on, given to it by the process that runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field

from adapters.metrics import Metrics
from adapters.settings import PLATFORMS
from core.people import Directory
from core.ports import Clock, Feed, Store
from core.redaction import Redaction
from core.service import Approvals

Check = Callable[[], Awaitable[str | None]]
"""What is wrong with one service now, in words that carry no secret; None when it answers."""

Webhook = Callable[[str, Mapping[str, str], bytes], Awaitable[int | tuple[int, str]]]
"""Takes an update of a platform (account, headers in lower case, body); answers the HTTP status, or it and a text."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes, times in seconds. `poll_s`: how often the database makes up for a lost word of the feed.

    Of an ask more is read than is taken, so that its refusal can name what makes it large.
    """

    ask: int = 2 * 1024 * 1024
    edit: int = 512 * 1024
    body: int = 64 * 1024
    directory: int = 1024 * 1024
    webhook: int = 1024 * 1024
    wait_s: float = 60.0
    keep_alive_s: float = 15.0
    poll_s: float = 2.0
    check_s: float = 3.0


@dataclass(frozen=True, slots=True)
class Services:
    """`approvals` is None in a process that serves health, metrics and webhooks only.

    `checks` are asked by /readyz under their names; it answers 503 when one of `needed` fails. `platforms` are those
    that a directory may name.
    """

    approvals: Approvals | None
    store: Store
    feed: Feed
    directory: Directory
    clock: Clock
    metrics: Metrics
    admin_token: str
    redaction: Redaction
    checks: Mapping[str, Check] = field(default_factory=dict)
    needed: frozenset[str] = frozenset({"database"})
    webhooks: Mapping[str, Webhook] = field(default_factory=dict)
    platforms: Collection[str] = PLATFORMS
    limits: Limits = Limits()
