"""Every way from one state of a row to another, as the code takes them: what the diagram in the documents is held to.

Run as a program it prints the diagram.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from adapters.database import Database
from adapters.migrate import migrate
from core.agents import Agents
from core.approvals import Actor, Approval, AuditLine, Kind, Message, Mode, Outcome, Posted, Press, Reply
from core.asks import read_ask
from core.buttons import Verb, new_token
from core.identifiers import new_id
from core.people import Directory
from core.service import Approvals, Opened, Origin
from tests.builders import DIRECTORY
from tests.core.door import OpenGate, Silence

T = TypeVar("T")
Edge = tuple[str, str, str]
RUN = {"activity": "refund", "task_queue": "billing"}


def state_of(approval: Approval) -> str:
    return approval.outcome.value if approval.outcome is not Outcome.NONE else approval.status.value


class Watched:
    """A ledger that notes each change of a row's state, by the action that the audit gives it."""

    def __init__(self, ledger: Any, edges: set[Edge]) -> None:
        self._ledger, self._edges = ledger, edges
        self._moved: tuple[str, str] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def insert(self, approval: Approval) -> bool:
        self._moved = ("[*]", state_of(approval))
        return bool(self._ledger.insert(approval))

    def change(self, approval: Approval, **columns: Any) -> Approval | None:
        changed: Approval | None = self._ledger.change(approval, **columns)
        if changed is not None:
            self._moved = (state_of(approval), state_of(changed))
        return changed

    def audit(self, line: AuditLine) -> None:
        self._ledger.audit(line)
        if self._moved is not None and self._moved[0] != self._moved[1]:
            self._edges.add((self._moved[0], line.action, self._moved[1]))
        self._moved = None


class Place:
    """The door on a database of its own, with a clock that a scenario turns."""

    def __init__(self, store: Database) -> None:
        self.store, self.edges, self.ahead, self.number = store, set[Edge](), timedelta(0), 0
        silence = Silence()
        self.approvals = Approvals(store=self, gate=OpenGate(), bell=silence, feed=silence, clock=self, meter=silence,
                                   directory=Directory())  # fmt: skip
        self.agents = Agents(self.approvals)

    async def write(self, work: Callable[[Any], T]) -> T:
        return await self.store.write(lambda ledger: work(Watched(ledger, self.edges)))

    async def read(self, work: Callable[[Any], T]) -> T:
        return await self.store.read(work)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    async def ask(self, runtime: str = "turn", **fields: Any) -> tuple[Approval, Posted]:
        self.number += 1
        ask = {"agent": "billing", "tool": "notify", "arguments": {"n": self.number}, **fields}
        if runtime != "external":
            ask |= {"run": RUN, "runtime": runtime}
        over: Any = "http" if runtime == "external" else "temporal"
        opened = await self.approvals.open(read_ask(json.dumps(ask), over=over), Origin(f"w{self.number}", "r"))
        assert isinstance(opened, Opened)
        card = Posted(
            new_id(self.now()), opened.approval.id, "telegram||-100500|", Kind.CARD, "", new_token(), "telegram",
            "7001", "-100500", "", str(self.number), 1, None, 1, self.now(),
        )  # fmt: skip
        await self.store.write(lambda ledger: ledger.reserve(card, self.now()))
        return opened.approval, card

    async def press(self, card: Posted, verb: str) -> Reply:
        self.number += 1
        where = Message("telegram", "7001", "-100500", "", card.message_id or "")
        press = Press(f"k{self.number}", Actor("telegram", "", "1001"), where, verb, card.token, 1)
        return await self.approvals.press(press)

    async def claimed(self, runtime: str = "turn") -> tuple[Approval, Posted, str]:
        approval, card = await self.ask(runtime)
        await self.press(card, Verb.ALLOW)
        self.ahead += timedelta(seconds=6)
        taken = await self.approvals.take(approval.id, "run")
        assert taken is not None
        assert taken.claim is not None
        return approval, card, taken.claim.token


async def walk(place: Place) -> None:
    """Take every way once."""
    approvals, agents = place.approvals, place.agents
    for verb in (Verb.DECLINE, Verb.ALLOW):
        _, card = await place.ask()
        await place.press(card, verb)
    for verb, back in ((Verb.ALLOW, Verb.UNDO), (Verb.DECLINE, Verb.RESTORE)):
        _, card = await place.ask("draft")
        await place.press(card, verb)
        await place.press(card, back)
    await place.ask(timeout_s=10)
    place.ahead += timedelta(seconds=11)
    await approvals.expire_due()
    gone, _ = await place.ask()
    await approvals.withdraw(gone.id, by="workflow", claimed_too=True)
    left, card = await place.ask()
    await place.press(card, Verb.ALLOW)
    await approvals.withdraw(left.id, by="workflow", claimed_too=True)
    for outcome in (Outcome.SENT, Outcome.NOT_SENT, Outcome.UNKNOWN):
        row, _, token = await place.claimed()
        await approvals.record(row.id, token, outcome)
    for truth in (Outcome.SENT, Outcome.NOT_SENT):
        row, _, token = await place.claimed()
        await approvals.withdraw(row.id, by="workflow", claimed_too=True)
        await approvals.record(row.id, token, truth)
    for outcome in (Outcome.NOT_SENT, Outcome.UNKNOWN):
        row, card, token = await place.claimed("draft")
        await approvals.record(row.id, token, outcome)
        await place.press(card, Verb.AGAIN_SURE)
    covered, _ = await place.ask()
    scopes = await place.store.read(
        lambda ledger: approvals.books.scopes_for(ledger, _known(ledger.agent("billing")), covered)
    )
    await agents.add_rule("billing", scopes[0])
    await place.ask()
    await agents.reset("billing")
    await agents.set_mode("billing", Mode.MONEY_ONLY)
    await place.ask()


def _known(value: T | None) -> T:
    assert value is not None
    return value


async def edges() -> set[Edge]:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'states.db'}"
        await migrate(url)
        store = Database.open(url)
        try:
            await store.write(lambda ledger: ledger.replace_directory(DIRECTORY))
            place = Place(store)
            await walk(place)
            await place.approvals.close()
            return place.edges
        finally:
            await store.close()


def diagram(found: set[Edge]) -> str:
    """One arrow between two states, its words the actions that take it."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for before, action, after in sorted(found):
        arrows.setdefault((before, after), []).append(action)
    lines = [f"    {before} --> {after}: {', '.join(actions)}" for (before, after), actions in sorted(arrows.items())]
    return "\n".join(["stateDiagram-v2", *lines])


if __name__ == "__main__":
    print(diagram(asyncio.run(edges())))
