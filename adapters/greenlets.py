"""Lets synchronous work wait for coroutines: it runs on a greenlet, beside the coroutine that awaits for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from greenlet import GreenletExit, getcurrent, greenlet  # type: ignore[import-untyped]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Done:
    answer: Any = None
    error: BaseException | None = None


class Side:
    """One greenlet, kept from work to work; a new one for each, as SQLAlchemy's, cost a press a twentieth."""

    def __init__(self) -> None:
        self._greenlet = greenlet(_work_on)

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` answers or raises. One at a time, and always from the same thread."""
        here = getcurrent()
        self._greenlet.parent = here
        self._greenlet.gr_context = here.gr_context
        said = self._greenlet.switch(work)
        while not isinstance(said, _Done):
            try:
                answer = await said
            except BaseException as error:
                said = self._greenlet.throw(error)
            else:
                said = self._greenlet.switch(answer)
        if said.error is not None:
            raise said.error
        answered: T = said.answer
        return answered


def wait(awaitable: Awaitable[T]) -> T:
    """Called by the work: what the awaitable answers or raises."""
    answer: T = _beside(awaitable)
    return answer


def _work_on(work: Callable[[], Any]) -> None:
    while True:
        try:
            done = _Done(work())
        except GreenletExit:
            raise
        except BaseException as error:
            done = _Done(error=error)
        work = _beside(done)


def _beside(said: Any) -> Any:
    parent = getcurrent().parent
    assert parent is not None
    return parent.switch(said)
