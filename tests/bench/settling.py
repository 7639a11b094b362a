"""How soon a press shows on every card of an approval, on three platforms at their own pace."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from adapters.sandbox import Sandbox
from adapters.sandbox.discord import markdown
from core.approvals import Approval, Destination
from tests.bench.chats import CHATS, Room, a_room, furnish, listening, pressed, settled, urls_of
from tests.bench.figures import Figure, percentile

# Each round presses on another platform; the rounds with the crowd behind them have places of their own.
CROWD, ROUNDS, PLATFORMS, BAR_S = 200, 6, 3, 2.0


async def measure_settling(folder: Path, redis_url: str) -> list[Figure]:
    """One approval with a card on each of three platforms, pressed on one; alone, then while a crowd is redrawn."""
    async with Sandbox() as sandbox:
        places = furnish(sandbox, CHATS)
        url = f"sqlite:///{folder / 'settling.db'}"
        async with a_room(url, redis_url, urls_of(sandbox), 1) as room, listening(room, sandbox):
            threes = enumerate(in_threes(places[: 2 * ROUNDS]))
            asked = await room.ask({f"everywhere-{number}": three for number, three in threes})
            crowd = await room.open(places[2 * ROUNDS :], CROWD)
            await asyncio.gather(
                *(room.post(approval, place) for approval, three in asked for place in three),
                *(room.post(approval, place) for approval, place in crowd),
            )
            alone = [await seconds(room, sandbox, n, *each) for n, each in enumerate(asked[:ROUNDS])]
            for approval, _ in crowd:
                await room.decline(approval)
            # Long enough to take all that the platforms give at once.
            await asyncio.sleep(2)
            behind = [await seconds(room, sandbox, n, *each) for n, each in enumerate(asked[ROUNDS:])]
            left = CROWD + PLATFORMS * len(asked) - settled(sandbox)
    assert left > 0, "the crowd was redrawn before the last press"
    return [
        Figure("commit to the last of three cards, the slowest", max(alone), "s", bar=BAR_S, bar_is="value",
               against=f"none: {ROUNDS} presses, in turn on each platform, until all three cards show the answer"),
        Figure(f"the same with {CROWD} cards to redraw in other chats", max(behind), "s", bar=BAR_S, bar_is="value",
               against=f"none: at the platforms' own pace, {left} still to redraw after the last press"),
        Figure("the same, the median", percentile(behind, 0.5), "s"),
    ]  # fmt: skip


def in_threes(places: Sequence[Destination]) -> Iterator[Sequence[Destination]]:
    """A chat on each platform, as often as each platform is pressed on."""
    for first in range(0, len(places), PLATFORMS):
        for _ in range(PLATFORMS):
            yield places[first : first + PLATFORMS]


async def seconds(room: Room, sandbox: Sandbox, number: int, approval: Approval, three: Sequence[Destination]) -> float:
    """From the decision's own time, just before its commit, until the sandbox holds the answer on all three cards."""
    cards = [(place, await room.card(approval, place)) for place in three]
    pressing = asyncio.create_task(pressed(sandbox, *cards[number % PLATFORMS]))
    async with asyncio.timeout(90):
        while not all("Declined by" in shown(sandbox, *card) for card in cards):
            await asyncio.sleep(0.005)
    ended = datetime.now(UTC)
    await pressing
    row = await room.door.store.read(lambda ledger: ledger.approval(approval.id))
    assert row is not None
    assert row.decided_at is not None
    return (ended - row.decided_at).total_seconds()


def shown(sandbox: Sandbox, place: Destination, message: str) -> str:
    """What a card shows."""
    match place.platform:
        case "telegram":
            return sandbox.telegram.chat(int(place.chat)).message(int(message)).text
        case "slack":
            return sandbox.slack.channels[place.chat].message(message).shown
        case _:
            return markdown.shown(sandbox.discord.channel(int(place.chat)).message(int(message)))[0]
