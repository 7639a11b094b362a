"""How much of Telegram's published limits the desk uses when many cards change at once."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from pathlib import Path

from core.approvals import Approval, Destination, Verdict
from core.desk import Desk
from core.ports import Ledger as Rows
from core.redaction import Redaction
from tests.bench.figures import Figure
from tests.bench.presses import a_door
from tests.bots.telegram_bench import Setting, telegram
from tests.builders import an_approval

CARDS, SCALE = 210, 2
# What Telegram publishes for one bot: 30 messages a second over all chats. In private chats nothing else binds here.
PUBLISHED = 30
FIRST_CHAT = 500_000


async def measure_redraws(folder: Path, redis_url: str) -> list[Figure]:
    """Cards in as many private chats, all decided, then redrawn at once.

    The sandbox's limits and the bot's own pace are both multiplied, so that the figure also shows that the desk is
    faster than Telegram; that the first 30 may go at once is taken off.
    """
    async with (
        a_door(f"sqlite:///{folder / 'redraws.db'}", redis_url) as door,
        telegram(pace=1 / SCALE, rate_scale=SCALE) as setting,
    ):
        approvals = door.approvals
        desk = Desk(store=door.store, approvals=approvals, surfaces={"telegram": setting.surface},
                    clock=approvals.clock, meter=approvals.meter, redaction=Redaction(b"bench" * 8))  # fmt: skip
        asked = [a_chat(setting, FIRST_CHAT + number, desk) for number in range(CARDS)]

        def insert(ledger: Rows) -> None:
            for approval, _ in asked:
                ledger.insert(approval)

        await door.store.write(insert)
        posted = await asyncio.gather(*(desk.post(approval.id, place, "") for approval, place in asked))
        assert set(posted) == {"posted"}, posted
        for approval, _ in asked:
            await approvals.decide(approval.id, "dana", Verdict.DECLINE, content_revision=None, note=None,
                                   key=approval.id, via="cli")  # fmt: skip
        await asyncio.sleep(1)
        began = time.perf_counter()
        for approval, _ in asked:
            desk.start_redraw(approval.id)
        await setting.world.until(lambda: all_settled(setting) or None, 60)
        took = time.perf_counter() - began
        limited = sum(call.status == 429 for call in setting.world.calls)
        await desk.close()
    floor = PUBLISHED * SCALE
    return [
        Figure(
            f"cards redrawn per second, Telegram, {SCALE} times its limits", (CARDS - PUBLISHED) / took, "/s",
            floor=floor, higher=True,
            against=f"the published {PUBLISHED} a second for a bot, times {SCALE}; {limited} calls told to slow down",
        )
    ]  # fmt: skip


def a_chat(setting: Setting, person: int, desk: Desk) -> tuple[Approval, Destination]:
    """A person who has opened a chat with the bot, and an approval to be asked there."""
    setting.sandbox.add_person(person, f"Person {person}")
    setting.world.start(person)
    now = desk.clock.now()
    approval = an_approval(
        created_at=now, expires_at=now + timedelta(days=7), workflow_id=f"refund-{person}", first_run_id="1",
        route={"ask": ["role:approver"], "at": [f"telegram:{person}"]},
    )  # fmt: skip
    return approval, Destination("telegram", "", str(person))


def all_settled(setting: Setting) -> bool:
    """Whether no card in a private chat has buttons any more."""
    chats = (setting.world.chat(FIRST_CHAT + number) for number in range(CARDS))
    return not any(message.labels for chat in chats for message in chat.messages)
