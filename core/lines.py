"""Messages that wait to be redrawn: a line for each place, so that a place where many wait holds back no other."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from core.approvals import Posted

Place = tuple[str, str, str]


class Lines:
    """One message of a place is drawn at a time, in the order in which they came, what a person pressed first.

    `draw` is given a message's id and the claim to take it under, raises nothing that can be expected, and says after
    how many seconds it is to be called for the same message again: 0 when that is done. Meanwhile the place `rest`s.
    """

    def __init__(
        self,
        draw: Callable[[str, str, str], Awaitable[float]],
        rest: Callable[[float], Awaitable[None]],
        start: Callable[[Coroutine[Any, Any, None]], Any],
    ) -> None:
        self._draw, self._rest, self._start = draw, rest, start
        self._lines: dict[Place, OrderedDict[str, None]] = {}

    def add(self, posted: Posted, *, first: bool) -> None:
        """Have a message drawn; one that is being drawn at this moment is looked at once more."""
        place = (posted.platform, posted.account, posted.chat)
        line = self._lines.get(place)
        if line is None:
            line = self._lines[place] = OrderedDict()
            self._start(self._serve(place, line))
        line[posted.id] = None
        if first:
            line.move_to_end(posted.id, last=False)

    async def _serve(self, place: Place, line: OrderedDict[str, None]) -> None:
        # One claim for all: a message whose place has to rest stays held under it.
        claim = secrets.token_urlsafe(12)
        try:
            while line:
                posted_id, _ = line.popitem(last=False)
                if after := await self._draw(place[0], posted_id, claim):
                    line[posted_id] = None
                    line.move_to_end(posted_id, last=False)
                    await self._rest(after)
        finally:
            del self._lines[place]
