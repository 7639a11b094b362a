"""Synchronous work that waits for coroutines, on a greenlet that is used again and again."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest

from adapters.greenlets import Side, wait

WHO: ContextVar[str] = ContextVar("who", default="nobody")


async def doubled(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def failing() -> None:
    await asyncio.sleep(0)
    raise LookupError("not here")


async def test_work_waits_and_answers_again_and_again() -> None:
    side = Side()
    assert [await side.run(lambda n=n: wait(doubled(n)) + 1) for n in range(3)] == [1, 3, 5]  # type: ignore[misc]


async def test_what_fails_is_raised_in_the_work_and_out_of_it_and_the_greenlet_is_used_on() -> None:
    side = Side()
    met: list[str] = []

    def work() -> None:
        try:
            wait(failing())
        except LookupError as error:
            met.append(str(error))
            raise

    for _ in range(2):
        with pytest.raises(LookupError, match="not here"):
            await side.run(work)
    assert met == ["not here", "not here"]
    assert await side.run(lambda: 1) == 1


async def test_a_cancelled_wait_ends_the_work() -> None:
    side = Side()
    ended: list[bool] = []

    def work() -> None:
        try:
            wait(asyncio.Event().wait())
        finally:
            ended.append(True)

    running = asyncio.create_task(side.run(work))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended == [True]
    assert await side.run(lambda: 1) == 1


async def test_many_at_once_do_not_meet() -> None:
    def work(number: int) -> int:
        return sum(wait(doubled(number)) for _ in range(5))

    answers = await asyncio.gather(*(Side().run(lambda n=n: work(n)) for n in range(50)))  # type: ignore[misc]
    assert answers == [10 * number for number in range(50)]


async def test_each_work_sees_the_context_it_is_run_in() -> None:
    side = Side()

    async def asked_by(name: str) -> str:
        WHO.set(name)
        return await side.run(lambda: WHO.get())

    assert [await asyncio.create_task(asked_by(name)) for name in ("dana", "ola")] == ["dana", "ola"]
