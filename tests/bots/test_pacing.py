"""How fast a bot may write, and that a chat where much happens leaves something for the others."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from bots.pacing import EARLY_S, PATIENCE_S, Pacer, Rate
from core.ports import Slow

MINUTE = Rate(50, 60)
# A window of a minute then comes back after 0.6 s.
PACE = 0.01


async def turns(pacer: Pacer, chat: str, rate: Rate, number: int) -> int:
    """How many of so many turns come at once."""
    at_once = 0
    for _ in range(number):
        with suppress(TimeoutError, Slow):
            await asyncio.wait_for(pacer.turn(chat, [rate]), 0.05)
            at_once += 1
    return at_once


async def test_one_chat_leaves_a_fifth_of_the_accounts_minute_to_the_others() -> None:
    pacer = Pacer(MINUTE, pace=1)
    assert await turns(pacer, "busy", MINUTE, 60) == 40
    assert await turns(pacer, "quiet", MINUTE, 5) == 5
    assert await turns(pacer, "other", MINUTE, 5) == 5
    # No more than the platform takes, whoever asks.
    assert await turns(pacer, "last", MINUTE, 5) == 0


async def test_many_busy_chats_leave_it_too() -> None:
    pacer = Pacer(MINUTE, pace=1)
    in_turn = [f"busy {number}" for _ in range(8) for number in range(10)]
    assert sum([await turns(pacer, chat, MINUTE, 1) for chat in in_turn]) == 40
    assert await turns(pacer, "quiet", MINUTE, 2) == 2


async def test_whoever_has_to_wait_is_told_how_long_and_loses_no_turn() -> None:
    pacer, slow = Pacer(MINUTE, pace=1), Rate(2, 60)
    await turns(pacer, "busy", MINUTE, 40)
    await turns(pacer, "others", MINUTE, 10)
    for _ in range(3):
        with pytest.raises(Slow) as told:
            await pacer.turn("quiet", [slow])
        assert PATIENCE_S - EARLY_S < told.value.after <= 60 - EARLY_S
    assert not pacer.crowded("quiet", [slow])


async def test_what_was_kept_comes_back_after_the_window() -> None:
    pacer, began = Pacer(MINUTE, pace=PACE), asyncio.get_running_loop().time()
    for _ in range(41):
        await pacer.turn("busy", [MINUTE])
    assert asyncio.get_running_loop().time() - began >= MINUTE.seconds * PACE


async def test_what_comes_back_within_the_second_is_kept_for_nobody() -> None:
    pacer, second = Pacer(Rate(30, 1), pace=1), Rate(100, 1)
    assert await turns(pacer, "busy", second, 30) == 30


async def test_whoever_was_sent_away_comes_back_before_the_last_who_wait_have_gone() -> None:
    pacer, chat = Pacer(MINUTE, pace=1), [Rate(1, 1)]
    waiting = [asyncio.create_task(pacer.turn("chat", chat)) for _ in range(10)]
    await asyncio.sleep(0)
    sent_away = [task.exception() for task in waiting if task.done() and task.exception()]
    assert len(sent_away) == 4
    assert all(isinstance(slow, Slow) and 3 <= slow.after < 5 for slow in sent_away)
    for task in waiting:
        task.cancel()


async def test_what_the_platform_asks_to_wait_is_waited_whole() -> None:
    pacer = Pacer(MINUTE, pace=1)
    pacer.block("chat", [MINUTE], 33)
    with pytest.raises(Slow) as told:
        await pacer.turn("chat", [MINUTE])
    assert told.value.after > 32
