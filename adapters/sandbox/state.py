"""What every platform of the sandbox holds alike: a shelf, the time, and the news that something changed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from pydantic import BaseModel

from adapters.sandbox.change import Change
from adapters.sandbox.faults import Call, Faults
from adapters.sandbox.shelf import Shelf

T = TypeVar("T")
Record = TypeVar("Record", bound=BaseModel)


class Shown(Protocol):
    """A chat, as far as whoever looks at it is concerned."""

    def touch(self) -> None: ...


class State(Faults):
    """The state of one platform. `keep` puts records on the shelf; `announce` commits and wakes whoever waits."""

    def __init__(self, shelf: Shelf, change: Change) -> None:
        super().__init__()
        self._shelf, self._change = shelf, change
        self._skipped = 0.0

    def kept(self, kind: str, record: type[Record]) -> Iterator[Record]:
        """What the shelf has of a kind, oldest first."""
        for body in self._shelf.all(kind):
            yield record.model_validate_json(body)

    def kept_with_keys(self, kind: str, record: type[Record]) -> Iterator[tuple[str, Record]]:
        """What the shelf has of a kind whose bodies begin with a line that says where the record belongs."""
        for body in self._shelf.all(kind):
            key, _, rest = body.partition("\n")
            yield key, record.model_validate_json(rest)

    def now(self) -> float:
        """Unix seconds, moved on by what `skip` skipped."""
        return time.time() + self._skipped

    def skip(self, seconds: float) -> None:
        """Let time pass at once: what runs out runs out, what comes again comes again, rate limits recover."""
        self._skipped += seconds
        self.announce()

    def announce(self, *chats: Shown) -> None:
        """Commit what was kept, and wake bots, the page, and whoever awaits `until`."""
        self._shelf.commit()
        for chat in chats:
            chat.touch()
        self._change.announce()

    @property
    def next_change(self) -> asyncio.Event:
        """Set at the next change. Take it before looking, and nothing is missed."""
        return self._change.next

    async def until(self, check: Callable[[], T | None], timeout: float = 5) -> T:
        """Wait for `check` to be true, asking again after each change; a LookupError or ValueError means not yet."""
        try:
            async with asyncio.timeout(timeout):
                while True:
                    change = self.next_change
                    try:
                        if value := check():
                            return value
                    except (LookupError, ValueError):
                        pass
                    await change.wait()
        except TimeoutError:
            raise TimeoutError(f"it did not happen within {timeout:g} s") from None

    def record(self, call: Call) -> None:
        super().record(call)
        self.announce()
