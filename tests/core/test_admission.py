"""What the gate says to each way in: a card's button, a button of a list of rules, and a guess at a link code."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count

import pytest

from adapters.gate import Limits, RedisGate
from core.approvals import Actor, Message, Press, Reply
from core.buttons import Verb, rule_token
from core.commands import ChatCommands
from core.desk import Desk
from core.redaction import Redaction
from core.rules import Rule, Scope, ScopeKind
from tests.core.door import CHAT, Door, Silence, door

DANA, STRANGER = Actor("telegram", "", "1001", "Dana Reyes"), Actor("telegram", "", "1099", "Sam Strange")
LIST = Message("telegram", "77", CHAT, "", "900")


class Counted(Silence):
    """A meter that keeps what became of each press."""

    def __init__(self) -> None:
        self.results: list[str] = []

    def press(self, platform: str, result: str, seconds: float) -> None:
        assert platform == "telegram"
        assert seconds >= 0
        self.results.append(result)


@dataclass
class Behind:
    """A door behind a gate that lets each person through once a minute."""

    door: Door
    meter: Counted
    numbers: count[int] = field(default_factory=count)

    async def on_card(self, key: str = "") -> Reply:
        _, card = await self.door.asked()
        assert card.message is not None
        return await self.door.approvals.press(
            Press(key or self.key(), DANA, card.message, Verb.DECLINE, card.token, 1)
        )

    async def on_list(self, key: str = "") -> Reply:
        rule = await self.door.agents.add_rule("billing", Scope(ScopeKind.TOOL, "notes.share", ""))
        assert isinstance(rule, Rule)
        pressed = Press(key or self.key(), DANA, LIST, Verb.REMOVE_RULE, rule_token(rule.id), 1)
        return await self.door.agents.press(pressed)

    async def guess(self) -> Reply:
        approvals = self.door.approvals
        desk = Desk(store=self.door.store, approvals=approvals, surfaces={}, clock=self.door.clock, meter=self.meter,
                    redaction=Redaction(b"k" * 32))  # fmt: skip
        return await ChatCommands(approvals, desk).link(STRANGER, "no such code")

    def key(self) -> str:
        return f"event-{next(self.numbers)}"


@pytest.fixture
async def behind(sqlite_url: str, valkey_url: str) -> AsyncIterator[Behind]:
    async with RedisGate(valkey_url, Limits(person_per_minute=1)) as gate, door(sqlite_url) as opened:
        opened.approvals.gate, opened.approvals.meter = gate, (meter := Counted())
        yield Behind(opened, meter)


Way = Callable[[Behind], Awaitable[Reply]]


@pytest.mark.parametrize(
    ("way", "first"), [(Behind.on_card, "declined"), (Behind.on_list, "rule_removed"), (Behind.guess, "bad_code")]
)
async def test_one_that_comes_too_fast_is_told_how_long_to_wait(behind: Behind, way: Way, first: str) -> None:
    assert (await way(behind)).result == first
    hasty = await way(behind)
    assert hasty.result == "too_fast"
    assert hasty.text.startswith("That was too many presses.")
    await behind.door.approvals.close()
    assert behind.meter.results.count("too_fast") == 1


@pytest.mark.parametrize("way", [Behind.on_card, Behind.on_list])
async def test_the_same_event_once_more_gets_the_first_answer(
    behind: Behind, way: Callable[[Behind, str], Awaitable[Reply]]
) -> None:
    first = await way(behind, "event")
    await behind.door.approvals.close()
    assert await way(behind, "event") == first
    await behind.door.approvals.close()
    assert behind.meter.results == [first.result, "repeated"]
