"""The door alone, on a real database: cards are rows of the messages table, and nobody draws them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, TypeVar

from adapters.database import Database
from adapters.directory_file import read_directory
from adapters.greenlets import wait
from adapters.migrate import migrate
from core.agents import Agents
from core.approvals import Actor, Approval, Kind, Message, Posted, Press, Reply
from core.asks import read_ask
from core.buttons import new_token
from core.identifiers import new_id
from core.people import Directory
from core.ports import Admission, Ledger, Store
from core.service import Approvals, Opened, Origin

T = TypeVar("T")

CHAT = "-100500"
# What somebody may allow for good: a note to one recipient.
NOTE: dict[str, Any] = {
    "tool": "notes.share",
    "arguments": {"to": "ada@example.com", "text": "Hello"},
    "presentation": {"editable": ["/text"], "lines": [["Text", "/text"]]},
}
RUN = {"activity": "send", "task_queue": "billing"}
PEOPLE = """
people:
  dana: {name: Dana Reyes, identities: {telegram: 1001, slack: T01/U01, discord: 4201}}
  ola: {name: Ola Berg, identities: {telegram: 1002, slack: T01/U02, discord: 4202}}
  eve: {name: Eve Moss, identities: {telegram: 1003}}
  pat: {name: Pat Lund, identities: {telegram: 1004, slack: T01/U04, discord: 4204}}
roles:
  approver: [approvals:view, approvals:answer]
  ruler: [approvals:delegate]
  viewer: [approvals:view]
members: {approver: [dana, ola, eve], ruler: [dana, ola], viewer: [pat]}
agents:
  billing: {owner: dana, runs: [{tool: notes.share, activity: send, task_queue: billing}]}
"""
DIRECTORY = PEOPLE + f'routes: [{{match: {{}}, ask: [dana, ola], at: ["telegram:{CHAT}"]}}]\n'
WHO = {"dana": "1001", "ola": "1002", "eve": "1003", "pat": "1004"}


class Hands:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.time = datetime(2026, 11, 30, 12, tzinfo=UTC)

    def now(self) -> datetime:
        self.time += timedelta(microseconds=1)
        return self.time


class OpenGate:
    """A gate whose Redis is down: it lets everything through, and the database has to be right alone."""

    async def admit(self, press: Press) -> Admission:
        return Admission()

    async def settle(self, press: Press, reply: Reply) -> None: ...


class Silence:
    """A bell, a feed and a meter that nobody listens to."""

    async def ring(self, approval: Approval) -> None: ...

    async def start(self, approval: Approval) -> None: ...

    async def publish(self, approval_id: str, revision: int) -> None: ...

    def subscribe(self) -> Any:
        raise NotImplementedError

    def press(self, platform: str, result: str, seconds: float) -> None: ...

    def decision(self, verdict: str, via: str) -> None: ...

    def redraw(self, platform: str, result: str) -> None: ...

    def outcome(self, outcome: str) -> None: ...

    def nudge(self, result: str) -> None: ...


class Slowly:
    """A PostgreSQL store on which others get their turn after each statement that changes something."""

    def __init__(self, store: Store, pause_s: float = 0.02) -> None:
        self.store, self.pause_s = store, pause_s

    async def write(self, work: Callable[[Ledger], T]) -> T:
        return await self.store.write(lambda ledger: work(_SlowLedger(ledger, self.pause_s)))

    async def read(self, work: Callable[[Ledger], T]) -> T:
        return await self.store.read(work)


class _SlowLedger:
    CHANGES = frozenset(("change", "touch_open", "add_update", "add_rule", "set_paused", "raise_generation", "insert"))

    def __init__(self, ledger: Ledger, pause_s: float) -> None:
        self._ledger, self._pause_s = ledger, pause_s

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._ledger, name)
        if name not in self.CHANGES:
            return found

        def slow(*given: Any, **named: Any) -> Any:
            answer = found(*given, **named)
            wait(asyncio.sleep(self._pause_s))
            return answer

        return slow


class Stopped:
    """A PostgreSQL store whose next transaction stops before its commit, with all that it holds, until it may go on."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.stopped, self.go_on = asyncio.Event(), asyncio.Event()

    async def write(self, work: Callable[[Ledger], T]) -> T:
        def stops(ledger: Ledger) -> T:
            answer = work(ledger)
            if not self.stopped.is_set():
                self.stopped.set()
                wait(self.go_on.wait())
            return answer

        return await self.store.write(stops)

    async def read(self, work: Callable[[Ledger], T]) -> T:
        return await self.store.read(work)


@dataclass
class Door:
    """What a test holds."""

    store: Store
    clock: Hands
    approvals: Approvals
    agents: Agents
    numbers: count[int]

    def through(self, store: Store) -> Door:
        """The same door as another process has it, over another line to the database."""
        silence = Silence()
        approvals = Approvals(store=store, gate=OpenGate(), bell=silence, feed=silence, clock=self.clock,
                              meter=silence, directory=Directory())  # fmt: skip
        return replace(self, store=store, approvals=approvals, agents=Agents(approvals))

    async def apply(self, directory: str) -> None:
        wanted = read_directory(directory)
        await self.store.write(lambda ledger: ledger.replace_directory(wanted))

    async def ask(self, **fields: Any) -> Approval:
        """A note that waits now; fields are added to the ask, or replace in it."""
        return await opened(self.approvals, next(self.numbers), {"agent": "billing", **NOTE, **fields})

    async def card(self, approval: Approval, *, attached: int = 1) -> Posted:
        """Its card, as if it had been posted."""
        now = self.clock.now()
        row = Posted(
            id=new_id(now), approval_id=approval.id, destination=f"telegram||{CHAT}|", kind=Kind.CARD, person="",
            token=new_token(), platform="telegram", account="77", chat=CHAT, thread="",
            message_id=str(next(self.numbers)), shown_revision=1, shown_id=None, attached_revision=attached,
            posted_at=now,
        )  # fmt: skip
        await self.store.write(lambda ledger: ledger.reserve(row, now))
        return row

    async def asked(self, **fields: Any) -> tuple[Approval, Posted]:
        approval = await self.ask(**fields)
        return approval, await self.card(approval)

    async def press(self, card: Posted, verb: str, *, by: str = "dana", key: str = "", revision: int = 1,
                    **more: Any) -> Reply:  # fmt: skip
        assert card.message is not None
        made = Press(key or f"k{next(self.numbers)}", Actor("telegram", "", WHO[by]), card.message, verb, card.token,
                     revision)  # fmt: skip
        return await self.approvals.press(replace(made, **more))

    async def reply(self, card: Posted, text: str, by: str = "dana") -> Reply:
        assert card.message is not None
        where = Message("telegram", "77", CHAT, "", card.message_id or "")
        return await self.approvals.press(
            Press(f"t{next(self.numbers)}", Actor("telegram", "", WHO[by]), where, text=text)
        )

    async def row(self, approval: Approval) -> Approval:
        row = await self.store.read(lambda ledger: ledger.approval(approval.id))
        assert row is not None
        return row

    async def actions(self, approval: Approval) -> list[str]:
        lines = await self.store.read(lambda ledger: ledger.audit_of(approval.id))
        return [line.action for line in lines]


async def opened(approvals: Approvals, number: int, ask: Mapping[str, Any]) -> Approval:
    """The row of what the workflow of that number asks."""
    origin = Origin(workflow_id=f"w{number}", first_run_id="r")
    answer = await approvals.open(read_ask(json.dumps(ask), over="temporal"), origin)
    assert isinstance(answer, Opened)
    return answer.approval


@asynccontextmanager
async def door(url: str, directory: str = DIRECTORY) -> AsyncIterator[Door]:
    await migrate(url)
    store = Database.open(url)
    silence, clock = Silence(), Hands()
    approvals = Approvals(store=store, gate=OpenGate(), bell=silence, feed=silence, clock=clock, meter=silence,
                          directory=Directory())  # fmt: skip
    made = Door(store, clock, approvals, Agents(approvals), count(1))
    await made.apply(directory)
    yield made
    await approvals.close()
    await store.close()
