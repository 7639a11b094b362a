"""The five rules of design section 1, under random presses, replies, races, expiries, crashes and duplicates."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from adapters.database import Database
from adapters.migrate import migrate
from core.approvals import Actor, Approval, AuditLine, Kind, Message, Outcome, Posted, Press, Reply, Status, Verdict
from core.asks import read_ask
from core.buttons import new_token
from core.identifiers import new_id
from core.people import Directory, Refusal
from core.ports import Ledger
from core.service import Approvals, Opened, Origin, Taken
from tests.builders import DIRECTORY
from tests.core.door import CHAT, Hands, OpenGate, Silence
from tests.faulty import Faulty
from tests.services import PostgresServer, run

T = TypeVar("T")

ENTITLED = ("1001", "1002")
STRANGERS = ("1003", "1004", "9999")
ANSWERED = {"a": Status.APPROVED, "d": Status.DECLINED}


@dataclass
class Listening:
    """A bell that looks, when it is rung, at what the database says by then."""

    store: Database
    early: list[str] = field(default_factory=list)

    async def ring(self, approval: Approval) -> None:
        committed = await self.store.read(lambda ledger: ledger.approval(approval.id))
        if committed is None or committed.revision < approval.revision or committed.pending:
            self.early.append(approval.id)

    async def start(self, approval: Approval) -> None: ...


@dataclass
class Known:
    """What the test knows of one approval from the outside."""

    id: str
    arguments: str
    card: Posted
    allowed_by: set[str] = field(default_factory=set)
    final: Status | None = None
    outcome: Outcome = Outcome.NONE
    executions: list[str] = field(default_factory=list)


NewDatabase = Callable[[], AbstractContextManager[str]]


@contextmanager
def on_sqlite() -> Iterator[str]:
    """The URL of a new SQLite database."""
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{Path(folder) / 'placet.db'}"


def on_postgres(server: PostgresServer) -> NewDatabase:
    """A new database on a PostgreSQL server, each time."""

    @contextmanager
    def new_database() -> Iterator[str]:
        name = run(server.create_database())
        try:
            yield server.url(name)
        finally:
            run(server.drop_database(name))

    return new_database


class FiveRules(RuleBasedStateMachine):
    approvals_known = Bundle("approvals")
    sent = Bundle("sent")

    new_database: ClassVar[NewDatabase]

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.leave = ExitStack()
        self.clock = Hands()
        self.known: dict[str, Known] = {}
        self.number = 0
        self.run(self.start(self.leave.enter_context(type(self).new_database())))

    async def start(self, url: str) -> None:
        await migrate(url)
        self.database = Database.open(url)
        self.faulty = Faulty(self.database)
        self.bell = Listening(self.database)
        silence = Silence()
        self.door = Approvals(store=self.faulty, gate=OpenGate(), bell=self.bell, feed=silence, clock=self.clock,
                              meter=silence, directory=Directory())  # fmt: skip
        await self.database.write(lambda ledger: ledger.replace_directory(DIRECTORY))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def teardown(self) -> None:
        async def close() -> None:
            await self.door.close()
            await self.database.close()

        self.run(close())
        self.loop.close()
        self.leave.close()

    # What happens

    @rule(target=approvals_known, lifetime=st.integers(10, 2000), runs=st.sampled_from([True, True, True, False]),
          amount=st.integers(0, 10**6))  # fmt: skip
    def open(self, lifetime: int, runs: bool, amount: int) -> str:
        self.number += 1
        arguments = f'{{"amount": {amount},  "to": "Ada"}}'
        run = ', "run": {"activity": "refund", "task_queue": "billing"}' if runs else ""
        document = f'{{"agent": "billing", "tool": "refund", "arguments": {arguments}, "timeout_s": {lifetime}{run}}}'
        origin = Origin(workflow_id=f"w{self.number}", first_run_id="r0")
        asked = read_ask(document, over="temporal")
        opened = self.run(self.door.open(asked, origin))
        assert isinstance(opened, Opened)
        again = self.run(self.door.open(asked, origin))
        assert isinstance(again, Opened)
        assert again.approval.id == opened.approval.id
        assert not again.created
        approval = opened.approval
        assert approval.expires_at - approval.created_at == timedelta(seconds=lifetime)
        card = Posted(
            id=new_id(self.clock.now()), approval_id=approval.id, destination=f"telegram||{CHAT}|", kind=Kind.CARD,
            person="", token=new_token(), platform="telegram", account="77", chat=CHAT, thread="",
            message_id=str(1000 + self.number), shown_revision=1, shown_id=None, attached_revision=1,
            posted_at=self.clock.now(),
        )  # fmt: skip
        shown = f"Refund {amount}"

        def post(ledger: Ledger) -> None:
            ledger.reserve(replace(card, shown_id=ledger.show(shown, self.clock.now())), self.clock.now())

        self.run(self.database.write(post))
        self.known[approval.id] = Known(approval.id, arguments, card)
        return approval.id

    def a_press(self, approval_id: str, actor: str, verb: str, chat: str, revision: int) -> Press:
        self.number += 1
        card = self.known[approval_id].card
        message = Message("telegram", "77", chat, "", card.message_id or "")
        return Press(f"press-{self.number}", Actor("telegram", "", actor), message, verb, card.token, revision)

    @rule(
        target=sent, approval=approvals_known, actor=st.sampled_from(ENTITLED * 3 + STRANGERS),
        verb=st.sampled_from("aadnx"), chat=st.sampled_from([CHAT, CHAT, "-1"]),
        revision=st.sampled_from([1, 1, 1, 2]),
        fault=st.sampled_from(["", "", "", "", "before", "after"]),
    )  # fmt: skip
    def press(self, approval: str, actor: str, verb: str, chat: str, revision: int, fault: str) -> Press:
        press = self.a_press(approval, actor, verb, chat, revision)
        self.allow_if_it_could(press, approval)
        before = self.row(approval)
        with self.faulty.failing(fault):
            reply = self.run(self.door.press(press))
            assert reply.text
        good = actor in ENTITLED and verb in "ad" and chat == CHAT and revision == 1 and fault != "before"
        after = self.row(approval)
        if not good:
            assert after.status is before.status or after.status is Status.EXPIRED
        elif before.pending and after.status is not Status.EXPIRED:
            assert (after.status, after.decision_key) == (ANSWERED[verb], press.key)
        return press

    def allow_if_it_could(self, press: Press, approval_id: str) -> None:
        good = press.actor.id in ENTITLED and press.message.chat == CHAT and press.content_revision == 1
        if good and press.verb == "a":
            self.known[approval_id].allowed_by.add(press.key)

    @rule(press=sent)
    def the_same_press_again(self, press: Press) -> None:
        self.run(self.door.press(press))

    @rule(approval=approvals_known, actor=st.sampled_from(ENTITLED + STRANGERS),
          text=st.sampled_from(["yes", "ok!", "👍", "not before Friday", "  ", "x" * 5000]))  # fmt: skip
    def reply(self, approval: str, actor: str, text: str) -> None:
        self.number += 1
        before = self.row(approval)
        message = Message("telegram", "77", CHAT, "", self.known[approval].card.message_id or "")
        press = Press(f"text-{self.number}", Actor("telegram", "", actor), message, text=text)
        reply = self.run(self.door.press(press))
        after = self.row(approval)
        assert reply.text
        if actor in STRANGERS or text != "not before Friday":
            assert after.status is before.status or after.status is Status.EXPIRED
        elif before.pending and after.status is not Status.EXPIRED:
            assert (after.status, after.note, after.by_message) == (Status.DECLINED, text, True)

    @rule(approval=approvals_known, verbs=st.lists(st.sampled_from("ad"), min_size=2, max_size=4))
    def race(self, approval: str, verbs: list[str]) -> None:
        presses = [self.a_press(approval, ENTITLED[i % 2], verb, CHAT, 1) for i, verb in enumerate(verbs)]
        for press in presses:
            self.allow_if_it_could(press, approval)

        async def together() -> list[Reply]:
            return await asyncio.gather(*(self.door.press(press) for press in presses))

        was_pending = self.row(approval).pending
        replies = self.run(together())
        decided = self.row(approval)
        assert all(reply.text for reply in replies)
        if was_pending and decided.status is not Status.EXPIRED:
            assert decided.decision_key in {press.key for press in presses}

    @rule(approval=approvals_known, person=st.sampled_from(["dana", "ola", "pat", "eve", "nobody"]),
          verdict=st.sampled_from(Verdict), revision=st.sampled_from([1, 1, 2, None]))  # fmt: skip
    def decide(self, approval: str, person: str, verdict: Verdict, revision: int | None) -> None:
        self.number += 1
        key = f"http-{self.number}"
        if person in ("dana", "ola") and verdict is Verdict.ALLOW and revision == 1:
            self.known[approval].allowed_by.add(key)
        answer = self.run(
            self.door.decide(approval, person, verdict, content_revision=revision, note=None, key=key, via="http")
        )
        if person not in ("dana", "ola"):
            assert isinstance(answer, Refusal)

    @rule(seconds=st.integers(1, 400))
    def time_passes(self, seconds: int) -> None:
        self.clock.time += timedelta(seconds=seconds)

    @rule(approval=approvals_known)
    def allow_and_take_twice(self, approval: str) -> None:
        """The whole path of a call, and a second run of its workflow (a reset) that comes after the first."""
        press = self.a_press(approval, ENTITLED[0], "a", CHAT, 1)
        self.allow_if_it_could(press, approval)
        self.run(self.door.press(press))
        self.take_it(approval, "run-1", "")
        self.take_it(approval, "run-2", "")

    @rule(approval=approvals_known, run=st.sampled_from(["run-1", "run-1", "run-2"]),
          fault=st.sampled_from(["", "", "before", "after"]))  # fmt: skip
    def take(self, approval: str, run: str, fault: str) -> None:
        self.take_it(approval, run, fault)

    def take_it(self, approval: str, run: str, fault: str) -> None:
        known = self.known[approval]
        if run in known.executions:
            return
        taken = None
        with self.faulty.failing(fault):
            taken = self.run(self.door.take(approval, run))
            assert isinstance(taken, Taken)
        if taken is not None and taken.claim is not None:
            assert taken.claim.arguments == known.arguments
            assert taken.approval.status is Status.APPROVED
            known.executions.append(run)

    @rule(approval=approvals_known, outcome=st.sampled_from([Outcome.SENT, Outcome.NOT_SENT, Outcome.UNKNOWN]),
          right=st.booleans())  # fmt: skip
    def record(self, approval: str, outcome: Outcome, right: bool) -> None:
        token = self.row(approval).claim_token
        answer = self.run(self.door.record(approval, token or "none" if right else "wrong", outcome))
        if not right or token is None:
            assert isinstance(answer, Refusal)

    @rule(approval=approvals_known, claimed_too=st.booleans())
    def withdraw(self, approval: str, claimed_too: bool) -> None:
        self.run(self.door.withdraw(approval, by="asker", claimed_too=claimed_too))

    @rule()
    def sweep(self) -> None:
        async def sweep() -> None:
            await self.door.expire_due()
            await self.door.settle_overdue()
            await self.door.ring_unconsumed()

        self.run(sweep())
        assert not [row for row in self.rows() if row.pending and row.expires_at <= self.clock.time]

    # What must hold, whatever happened

    def row(self, approval_id: str) -> Approval:
        row = self.run(self.database.read(lambda ledger: ledger.approval(approval_id)))
        assert row is not None
        return row

    def rows(self) -> list[Approval]:
        return list(self.run(self.database.read(lambda ledger: ledger.approvals(limit=1000))))

    def audits(self) -> dict[str, list[AuditLine]]:
        def read(ledger: Ledger) -> dict[str, list[AuditLine]]:
            return {approval_id: list(ledger.audit_of(approval_id)) for approval_id in self.known}

        return self.run(self.database.read(read))

    @invariant()
    def the_row_is_the_record(self) -> None:
        """Rule 1: a final answer never changes, and the audit tells each change once."""
        audits = self.audits()
        for row in self.rows():
            known, lines = self.known[row.id], audits[row.id]
            if known.final is not None:
                assert row.status is known.final
            elif not row.pending:
                known.final = row.status
            answers = [line for line in lines if line.action in ("allow", "decline", "expired", "cancelled")]
            assert len(answers) == (0 if row.pending else 1)
            assert [line.revision for line in lines] == sorted({line.revision for line in lines})
            if row.status in (Status.APPROVED, Status.DECLINED):
                assert row.decided_at is not None
                assert row.decided_at < row.expires_at
                assert row.decided_by in ("dana", "ola")

    @invariant()
    def commit_then_tell(self) -> None:
        """Rule 2: when the bell rings, the decision is in the database."""

        async def quiet() -> None:
            await self.door.close()

        self.run(quiet())
        assert self.bell.early == []

    @invariant()
    def a_fault_never_approves(self) -> None:
        """Rule 3: what is approved was allowed by an entitled person's own press, for the content it showed."""
        for row in self.rows():
            if row.status is Status.APPROVED:
                assert row.decision_key in self.known[row.id].allowed_by

    @invariant()
    def what_was_shown_is_what_runs(self) -> None:
        """Rule 4: the bytes that may run are those that were asked and shown, and the audit holds the shown text."""
        audits = self.audits()
        for row in self.rows():
            assert row.final_arguments == self.known[row.id].arguments
            if row.status is Status.APPROVED and row.decided_via == "telegram":
                assert next(line for line in audits[row.id] if line.action == "allow").shown_id is not None

    @invariant()
    def a_side_effect_happens_at_most_once(self) -> None:
        """Rule 5: one run at most was ever given leave to run the call, and no outcome is lost again."""
        for row in self.rows():
            known = self.known[row.id]
            assert len(known.executions) <= 1
            if known.executions:
                assert row.outcome is not Outcome.NONE
                assert json.loads(row.run or "{}")["activity"] == "refund"
            if known.outcome in (Outcome.SENT, Outcome.NOT_SENT):
                assert row.outcome is known.outcome
            known.outcome = row.outcome


def limits(examples: int, steps: int) -> settings:
    return settings(max_examples=examples, stateful_step_count=steps, deadline=None,
                    suppress_health_check=list(HealthCheck), print_blob=True)  # fmt: skip


def check(new_database: NewDatabase, examples: int, steps: int) -> None:
    rules = type("FiveRulesHere", (FiveRules,), {"new_database": staticmethod(new_database)})
    run_state_machine_as_test(rules, settings=limits(examples, steps))


def test_the_five_rules_hold_on_sqlite() -> None:
    check(on_sqlite, 100, 30)


def test_the_five_rules_hold_on_postgresql(postgres_server: PostgresServer) -> None:
    check(on_postgres(postgres_server), 20, 30)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_the_five_rules_hold_for_long_on_sqlite() -> None:
    check(on_sqlite, 3000, 60)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_the_five_rules_hold_for_long_on_postgresql(postgres_server: PostgresServer) -> None:
    check(on_postgres(postgres_server), 1000, 60)
