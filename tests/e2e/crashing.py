"""`placet serve` that kills itself, as `kill -9` would, at one named point of a press, a call or a post."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, NoReturn

from adapters.__main__ import run
from core.desk import Desk
from core.judging import Judge
from core.service import Approvals


def die(*_: Any, **__: Any) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


def before_the_commit() -> None:
    """After the gate admitted the press, and before anything of it is written."""
    Judge.press = die  # type: ignore[method-assign]


def before_the_nudge() -> None:
    """After the decision was committed, and before anybody is told."""
    Approvals._tell = die  # type: ignore[method-assign]


def after_the_claim() -> None:
    """After the claim was committed, and before the workflow heard of it."""
    take = Approvals.take

    async def taken(self: Approvals, approval_id: str, run: str) -> Any:
        found = await take(self, approval_id, run)
        if found is not None and found.claim is not None:
            die()
        return found

    Approvals.take = taken  # type: ignore[method-assign]


def before_the_outcome() -> None:
    """After the call has closed, and before its outcome is stored."""
    Approvals.record = die  # type: ignore[method-assign]


def before_the_message_id() -> None:
    """After the card was sent, and before its message id is stored."""
    Desk._save = die  # type: ignore[method-assign]


POINTS = {
    point.__name__: point
    for point in (before_the_commit, before_the_nudge, after_the_claim, before_the_outcome, before_the_message_id)
}

if __name__ == "__main__":
    POINTS[sys.argv[1]]()
    raise SystemExit(run(["serve"]))
