"""The door, the desk and the real Telegram library on a real database and the sandbox; without Temporal and Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from pydantic import SecretStr

from adapters.database import Database
from adapters.directory_file import read_directory
from adapters.feed import RedisFeed
from adapters.metrics import Metrics
from adapters.migrate import migrate
from adapters.sandbox import Sandbox
from adapters.sandbox.telegram.records import Chat, Press
from adapters.sandbox.telegram.records import Message as Kept
from bots.telegram import Settings, Telegram
from core import approvals as types
from core.approvals import Approval, AuditLine
from core.commands import ChatCommands
from core.desk import Desk
from core.people import Directory
from core.ports import Hooks
from core.redaction import Redaction
from core.service import Approvals
from tests.core.door import OpenGate, opened
from tests.faulty import Faulty

T = TypeVar("T")

TOKEN, BOT = "7001:" + "AAEE" * 8 + "AAA", 7001
DANA, OLA, EVE, PAT, STRANGER = 1001, 1002, 1003, 1004, 1099
GROUP, SMALL, FORUM, TOPIC = -1001000000500, -4455, -1001000000600, 31
PEOPLE = {DANA: "Dana Reyes", OLA: "Ola Berg", EVE: "Eve Moss", PAT: "Pat Lund", STRANGER: "Sam Strange"}
# Dana and Ola are asked and may answer; Eve may answer but is not asked; Pat may look; Sam is nobody.
DIRECTORY = """
people:
  dana: {name: Dana Reyes, identities: {telegram: 1001}}
  ola: {name: Ola Berg, identities: {telegram: 1002}}
  eve: {name: Eve Moss, identities: {telegram: 1003}}
  pat: {name: Pat Lund, identities: {telegram: 1004}}
  kim: {name: Kim Sato}
roles:
  approver: [approvals:view, approvals:answer]
  viewer: [approvals:view]
members: {approver: [dana, ola, eve, kim], viewer: [pat]}
agents:
  billing: {owner: dana}
routes:
  - {match: {agent: billing}, ask: [dana, ola, kim], at: ["%s"]}
"""


class TurnedClock:
    """The real time, and whatever a test turned it on by."""

    def __init__(self) -> None:
        self.ahead = timedelta(0)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@dataclass
class Rung:
    ids: list[str] = field(default_factory=list)

    async def ring(self, approval: Approval) -> None:
        self.ids.append(approval.id)

    async def start(self, approval: Approval) -> None: ...


class Free:
    async def held(self) -> bool:
        return True

    async def drop(self) -> None: ...


@dataclass
class Office:
    """What a test holds, and what people see and do in the chats.

    The door and the desk reach the store through `line`; a test may break it.
    """

    sandbox: Sandbox
    store: Database
    line: Faulty
    clock: TurnedClock
    bell: Rung
    approvals: Approvals
    desk: Desk
    chat: int
    asked: int = 0

    @property
    def world(self) -> Any:
        return self.sandbox.telegram

    async def ask(self, **fields: Any) -> Approval:
        """A refund that waits now; fields are added to the ask, or replace in it."""
        self.asked += 1
        ask = {"agent": "billing", "tool": "refund", "arguments": {"charge": "ch_1", "amount": 4900}} | fields
        return await opened(self.approvals, self.asked, ask)

    async def post(self, approval: Approval) -> list[str]:
        """Post its card to each place of its route; what became of each."""
        places = await self.approvals.places(approval.id)
        return [await self.desk.post(approval.id, place.destination, place.person) for place in places]

    async def card(self, **fields: Any) -> tuple[Approval, Kept]:
        """Ask and post; the row, and its card in the chat."""
        approval = await self.ask(**fields)
        assert await self.post(approval) == ["posted"]
        return await self.row(approval), self.cards()[-1]

    def seen(self) -> Chat:
        found: Chat = self.world.chat(self.chat)
        return found

    def cards(self) -> list[Kept]:
        return [message for message in self.seen().messages if message.sender == BOT and "refund" in message.text]

    def files(self) -> list[str]:
        documents = [message.document for message in self.seen().messages if message.document]
        return [self.world.content(document).decode() for document in documents]

    def press(self, card: Kept, label: str = "", *, by: int = DANA, data: str | None = None, chat: int = 0) -> Press:
        pressed: Press = self.world.press(by, chat or self.chat, card.id, label=label or None, data=data)
        return pressed

    async def told(self, press: Press) -> str:
        """What the presser is told."""
        return str((await self.world.answer(press)).text)

    def say(self, text: str, *, to: Kept, by: int = DANA) -> Kept:
        said: Kept = self.world.say(by, self.chat, text, reply_to=to.id)
        return said

    async def answered(self, said: Kept) -> Kept:
        """What a typed text was answered."""
        found: Kept = await self.until(
            lambda: next((each for each in self.seen().messages if each.reply_to == said.id), None)
        )
        return found

    async def prompt(self) -> Kept:
        """The message that asks for a note, once it is stored that a reply to it is one."""
        found: Kept = await self.until(lambda: next((each for each in self.seen().messages if each.force_reply), None))
        message = types.Message("telegram", str(BOT), str(self.chat), str(found.thread or ""), str(found.id))
        async with asyncio.timeout(10):
            while await self.store.read(lambda ledger: ledger.posted_at(message)) is None:
                await asyncio.sleep(0.01)
        return found

    async def settled(self, card: Kept, words: str, chat: int = 0) -> Kept:
        """The card, once it has no buttons and says these words."""
        within = self.world.chat(chat or self.chat)

        def found() -> Kept | None:
            message: Kept = within.message(card.id)
            return message if not message.labels and words in message.text else None

        settled: Kept = await self.until(found)
        return settled

    async def until(self, check: Callable[[], T | None]) -> Any:
        return await self.world.until(check, 20)

    async def confirmed(self) -> None:
        """Wait until Telegram holds no update any more."""
        await self.until(lambda: not self.world.pending(self.world.bots[BOT]) or None)

    async def row(self, approval: Approval) -> Approval:
        row = await self.store.read(lambda ledger: ledger.approval(approval.id))
        assert row is not None
        return row

    async def audit(self, approval: Approval) -> list[AuditLine]:
        return list(await self.store.read(lambda ledger: ledger.audit_of(approval.id)))

    async def apply(self, directory: str) -> None:
        wanted = read_directory(directory)
        await self.store.write(lambda ledger: ledger.replace_directory(wanted))

    def edits(self, card: Kept) -> int:
        """How often the card was redrawn."""
        calls = self.world.calls_of("editMessageText")
        return sum(str(call.params.get("message_id")) == str(card.id) and call.status == 200 for call in calls)


@asynccontextmanager
async def office(
    url: str, *, chat: int = GROUP, place: str = "", sandbox: Sandbox | None = None, second: str = ""
) -> AsyncIterator[Office]:
    """An office whose one route leads to `chat`, or to `place` as the directory writes it.

    With the `sandbox` and the `url` of one that is closed it is that one, started again. `second` is the token of
    another bot.
    """
    async with AsyncExitStack() as stack:
        if sandbox is None:
            sandbox = await stack.enter_async_context(Sandbox(rate_scale=float("inf")))
        tokens = (TOKEN, second) if second else (TOKEN,)
        names = ("placet_test_bot", "second_bot")
        bots = [sandbox.add_bot(token, name) for token, name in zip(tokens, names, strict=False)]
        people = [sandbox.add_person(number, name) for number, name in PEOPLE.items()]
        sandbox.add_group(GROUP, "Approvals", [*people, *bots], admins=[DANA])
        sandbox.add_group(SMALL, "Small", [*people, *bots])
        sandbox.add_group(FORUM, "Operations", [*people, *bots], forum=True, topics={TOPIC: "Refunds"})
        await migrate(url)
        store = Database.open(url)
        stack.push_async_callback(store.close)
        line = Faulty(store)
        clock, bell, surfaces = TurnedClock(), Rung(), dict[str, Any]()
        feed = RedisFeed("redis://127.0.0.1:1")
        stack.push_async_callback(feed.aclose)
        metrics = Metrics(version="0", clock=clock, waiting=lambda: store.read(lambda ledger: ledger.waiting()))
        approvals = Approvals(store=line, gate=OpenGate(), bell=bell, feed=feed, clock=clock, meter=metrics,
                              directory=Directory())  # fmt: skip
        stack.push_async_callback(approvals.close)
        desk = Desk(store=line, approvals=approvals, surfaces=surfaces, clock=clock, meter=metrics,
                    redaction=Redaction(b"k" * 32))  # fmt: skip
        settings = Settings(telegram_token=tuple(map(SecretStr, tokens)), telegram_base_url=sandbox.url)
        hooks = Hooks((commands := ChatCommands(approvals, desk)), desk, lambda name: Free(), commands.groups,
                      approvals.spoken.to)  # fmt: skip
        surface = surfaces["telegram"] = Telegram(settings, hooks, pace=0)
        stack.push_async_callback(surface.close)
        stack.push_async_callback(desk.close)
        made = Office(sandbox, store, line, clock, bell, approvals, desk, chat)
        await made.apply(DIRECTORY % (place or f"telegram:{chat}"))
        for work in (desk.watch(feed), desk.listen(surface)):
            stack.push_async_callback(ended, asyncio.create_task(work))
        yield made


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
