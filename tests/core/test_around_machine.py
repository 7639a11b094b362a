"""What happens around a call, under random answers, edits, rules, pauses, resets, crashes and duplicates."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from adapters.migrate import migrate
from core.agents import Heard
from core.approvals import Actor, Approval, Outcome, Posted, Press, Reply, Runtime, Status, Verdict
from core.buttons import Verb
from core.people import Refusal
from core.rules import Rule, Scope, ScopeKind
from core.service import Claim, Taken
from tests.core.door import CHAT, NOTE, PEOPLE, RUN, WHO, Door, door
from tests.core.test_state_machine import limits
from tests.faulty import Faulty
from tests.services import run

T = TypeVar("T")

ENTITLED, OTHERS = ("dana", "ola", "eve"), ("pat",)
# A pair of keys takes two to turn; a note takes one.
ONE, TWO = "notes.share", "keys.turn"
DIRECTORY = (
    PEOPLE.replace(
        "runs: [{tool: notes.share,",
        "runs: [{tool: keys.turn, activity: send, task_queue: billing}, {tool: notes.share,",
    )
    + f"""routes:
  - {{match: {{tool: {TWO}}}, ask: [role:approver], at: ["telegram:{CHAT}"], needed: 2}}
  - {{match: {{}}, ask: [role:approver], at: ["telegram:{CHAT}"]}}
"""
)
UNDO = timedelta(seconds=5)
AROUND = (
    ["pause"] * 3
    + ["resume"] * 4
    + ["reset", "the_run_closes", "rule_for_the_tool"]
    + (["rule_removed", "ola_leaves_or_comes_back", "sweep"] * 2)
)
BETWEEN = ["", "", "edit", "ola_leaves_or_comes_back", "pause", "resume", "rule_for_the_tool"]
FAULTS = st.sampled_from(["", "", "", "before", "after"])


@cache
def migrated() -> bytes:
    """A new SQLite database, as the migrations leave it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "placet.db"
        run(migrate(f"sqlite:///{path}"))
        return path.read_bytes()


@dataclass
class Known:
    """What the test knows of one approval from the outside."""

    approval: Approval
    card: Posted
    contents: list[str]
    final: Status | None = None
    claims: list[str] = field(default_factory=list)
    again: int = 0
    back: bool = False
    outcome: Outcome = Outcome.NONE

    @property
    def id(self) -> str:
        return self.approval.id


class Around(RuleBasedStateMachine):
    rows_known, sent = Bundle("rows"), Bundle("sent")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.leave = ExitStack()
        path = Path(self.leave.enter_context(tempfile.TemporaryDirectory())) / "placet.db"
        path.write_bytes(migrated())
        self.opened = door(f"sqlite:///{path}", DIRECTORY)
        self.sure = self.run(self.opened.__aenter__())
        self.faulty = Faulty(self.sure.store)
        self.here: Door = self.sure.through(self.faulty)
        self.known: dict[str, Known] = {}
        self.standing: dict[str, Rule] = {}
        self.effects: set[tuple[str, str]] = set()
        self.paused, self.generation, self.members = False, 1, set(ENTITLED)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def teardown(self) -> None:
        try:
            self.nothing_decided_is_forgotten()
        finally:
            self.run(self.here.approvals.close())
            self.run(self.opened.__aexit__(None, None, None))
            self.loop.close()
            self.leave.close()

    # What happens

    @initialize(
        target=rows_known, runtimes=st.lists(st.sampled_from(["turn", "draft", "draft"]), min_size=2, max_size=3)
    )
    def some_wait(self, runtimes: list[str]) -> Any:
        rows = [self.open_one(runtime, TWO if n == 1 else ONE, "a", True, None) for n, runtime in enumerate(runtimes)]
        return multiple(*rows)

    @rule(target=rows_known, runtime=st.sampled_from(["turn", "draft", "draft"]), tool=st.sampled_from([ONE, ONE, TWO]),
          text=st.sampled_from(["a", "b"]), runs=st.booleans(), lane=st.sampled_from(["chat", None]))  # fmt: skip
    def open(self, runtime: str, tool: str, text: str, runs: bool, lane: str | None) -> str:
        return self.open_one(runtime, tool, text, runs, lane)

    def open_one(self, runtime: str, tool: str, text: str, runs: bool, lane: str | None) -> str:
        more: dict[str, Any] = {"run": RUN} if runs or runtime == "draft" else {}
        more |= {"lane": lane, "run_id": "run"} if lane else {}
        arguments = NOTE["arguments"] | {"text": text}
        approval = self.run(self.sure.ask(runtime=runtime, tool=tool, arguments=arguments, timeout_s=3600, **more))
        covered = tool == ONE and any(each.tool == ONE for each in self.standing.values())
        assert (approval.status is Status.APPROVED) is covered
        assert approval.generation == self.generation
        card = self.run(self.sure.card(approval))
        self.known[approval.id] = Known(approval, card, [approval.final_arguments])
        return approval.id

    @rule(target=sent, row=rows_known, by=st.sampled_from(ENTITLED * 2 + OTHERS), verb=st.sampled_from("aaaadduursyx"),
          behind=st.sampled_from([0, 0, 0, 1]), fault=FAULTS)  # fmt: skip
    def press(self, row: str, by: str, verb: str, behind: int, fault: str) -> tuple[str, Press]:
        return self.press_one(row, by, verb, behind, fault)

    def press_one(self, row: str, by: str, verb: str, behind: int, fault: str) -> tuple[str, Press]:
        known, before = self.known[row], self.row(row)
        revision = max(1, before.content_revision - behind)
        if verb == Verb.AGAIN_SURE:
            menu = self.run(self.sure.press(known.card, Verb.AGAIN, by=by)).menu
            revision = menu[0].number if menu else 1
        key = f"k{next(self.sure.numbers)}"
        press = self.a_press(known, by, verb, revision, key)
        self.pressed(known, press, before, by, fault)
        return row, press

    def a_press(self, known: Known, by: str, verb: str, revision: int, key: str) -> Press:
        assert known.card.message is not None
        return Press(key, Actor("telegram", "", WHO[by]), known.card.message, verb, known.card.token, revision)

    def pressed(self, known: Known, press: Press, before: Approval, by: str, fault: str) -> Reply | None:
        reply = None
        with self.faulty.failing(fault):
            reply = self.run(self.here.approvals.press(press))
            assert reply.text
        after = self.row(known.id)
        unseen = press.verb in "ad" and press.content_revision != before.content_revision
        if by not in self.members or unseen:
            assert self.same_answer(before, after), (by, unseen)
            assert not after.pending or after.revision == before.revision, (by, unseen)
        self.follow(known, before, after, press)
        return reply

    @rule(target=sent, row=rows_known, by=st.lists(st.sampled_from(ENTITLED), min_size=1, max_size=3, unique=True),
          between=st.sampled_from(BETWEEN), back=st.sampled_from(["", "u", "u", "r"]),
          seconds=st.sampled_from([0, 3, 6]), twice=st.booleans(),
          outcome=st.sampled_from([None, Outcome.SENT, Outcome.NOT_SENT, Outcome.UNKNOWN]), fault=FAULTS)  # fmt: skip
    def a_call_goes_its_way(
        self,
        row: str,
        by: list[str],
        between: str,
        back: str,
        seconds: int,
        twice: bool,
        outcome: Outcome | None,
        fault: str,
    ) -> tuple[str, Press]:
        """Allowed (or declined) by some, perhaps taken back and answered anew, and taken up a while later."""
        presses = []
        for number, each in enumerate(by):
            presses.append(self.press_now(row, each, "d" if back == "r" else "a", ""))
            if number == 0 and between == "edit":
                self.edit_it(row, by[-1], f"edited {next(self.sure.numbers)}", 0)
                presses.append(self.press_one(row, each, "a", 1, "")[1])
            elif number == 0 and between:
                self.happens(between, "")
        if back:
            presses.append(self.press_now(row, by[0], back, fault))
            if twice:
                presses.append(self.press_now(row, by[-1], "a", ""))
                presses.append(self.press_now(row, by[0], "u", ""))
        self.time_passes(seconds or 1)
        self.take_it(self.known[row], f"run-{self.known[row].again}", fault if not back else "")
        if outcome is not None:
            self.record(row, outcome)
            if outcome is not Outcome.SENT:
                presses.append(self.press_now(row, by[-1], Verb.AGAIN_SURE, ""))
        for press in presses:
            self.once_more(row, press)
        return row, presses[-1]

    def press_now(self, row: str, by: str, verb: str, fault: str) -> Press:
        return self.press_one(row, by, verb, 0, fault)[1]

    @rule(sent=sent)
    def the_same_press_again(self, sent: tuple[str, Press]) -> None:
        self.once_more(*sent)

    def once_more(self, row: str, press: Press) -> None:
        """Delivered once more, long after, an event that had its effect has none; one that was lost has it now."""
        known, before = self.known[row], self.row(row)
        had = (row, press.key) in self.effects
        self.run(self.sure.approvals.press(press))
        after = self.row(row)
        if had:
            assert self.same_answer(before, after), (press, before, after)
        self.follow(known, before, after, press)

    def follow(self, known: Known, before: Approval, after: Approval, press: Press | None = None) -> None:
        """Keep in mind what an answer was given or taken back by."""
        if press is not None and not self.same_answer(before, after) and after.status is not Status.EXPIRED:
            self.effects.add((known.id, press.key))
        if press is not None and press.verb in (Verb.UNDO, Verb.RESTORE) and not before.pending and after.pending:
            known.final, known.back = None, True
        if press is not None and press.verb == Verb.AGAIN_SURE and before.outcome is not after.outcome:
            assert before.outcome in (Outcome.NOT_SENT, Outcome.UNKNOWN)
            assert after.outcome is Outcome.NONE
            known.again += 1
            known.outcome = Outcome.NONE
        if before.pending and after.status is Status.APPROVED and after.decided_by != "auto":
            votes = self.run(self.sure.store.read(lambda ledger: ledger.votes_of(known.id)))
            allowed = {v.person for v in votes if v.content_revision == after.content_revision and v.verdict == "allow"}
            assert len(allowed & self.members) >= after.needed, (allowed, after.needed)

    @staticmethod
    def same_answer(before: Approval, after: Approval) -> bool:
        if after.status is Status.EXPIRED and before.pending:
            return True
        if after.decided_via == "reset" or "reset" in (after.outcome_note or ""):
            return True
        return (before.status, before.decided_at, before.outcome, before.content_revision, before.claim_token) == (
            after.status, after.decided_at, after.outcome, after.content_revision, after.claim_token,
        )  # fmt: skip

    @rule(row=rows_known, by=st.sampled_from(ENTITLED + OTHERS), text=st.sampled_from(["c", "d", ""]),
          behind=st.sampled_from([0, 0, 1]))  # fmt: skip
    def edit(self, row: str, by: str, text: str, behind: int) -> None:
        self.edit_it(row, by, text, behind)

    def edit_it(self, row: str, by: str, text: str, behind: int) -> None:
        known, before = self.known[row], self.row(row)
        revision = max(1, before.content_revision - behind)
        reply = self.run(self.sure.press(known.card, Verb.EDIT, by=by, revision=revision, fields={"1": text}))
        after = self.row(row)
        if after.content_revision != before.content_revision:
            assert by in self.members
            assert before.pending
            assert revision == before.content_revision
            assert (reply.result, after.content_revision) == ("edited", before.content_revision + 1)
            known.contents.append(after.final_arguments)
            # What does not fit on the card, or all that is new on it, has been shown by now.
            self.run(
                self.sure.store.write(
                    lambda ledger: ledger.mark(known.card.id, attached_revision=after.content_revision)
                )
            )
        assert known.contents[after.content_revision - 1] == after.final_arguments

    @rule(row=rows_known, text=st.sampled_from(["yes", "not before Friday"]), by=st.sampled_from(ENTITLED + OTHERS))
    def reply(self, row: str, text: str, by: str) -> None:
        known, before = self.known[row], self.row(row)
        self.run(self.sure.reply(known.card, text, by))
        after = self.row(row)
        if text == "yes" or by not in self.members:
            assert self.same_answer(before, after)
        self.follow(known, before, after)

    @rule(row=rows_known, by=st.sampled_from(ENTITLED + OTHERS), verdict=st.sampled_from(Verdict))
    def decide(self, row: str, by: str, verdict: Verdict) -> None:
        known, before = self.known[row], self.row(row)
        key = f"http-{next(self.sure.numbers)}"
        revision = before.content_revision

        def again() -> Approval | Refusal:
            return self.run(self.sure.approvals.decide(known.id, by, verdict, content_revision=revision, note=None,
                                                       key=key, via="http"))  # fmt: skip

        told = again()
        if by not in self.members:
            assert isinstance(told, Refusal)
        self.follow(known, before, self.row(row))
        here = self.row(row)
        again()
        assert self.same_answer(here, self.row(row))

    @rule(row=rows_known, by=st.sampled_from(["dana", "ola", "eve"]))
    def always(self, row: str, by: str) -> None:
        known, before = self.known[row], self.row(row)
        reply = self.run(self.sure.press(known.card, Verb.ALWAYS_ARGUMENTS, by=by, revision=before.content_revision))
        rules = self.run(self.sure.store.read(lambda ledger: ledger.rules("billing")))
        if by == "eve" or before.tool == TWO:
            assert reply.result != "always_saved"
        self.standing = {each.id: each for each in rules}
        self.drop_narrow_rules()
        self.follow(known, before, self.row(row))

    def drop_narrow_rules(self) -> None:
        """A rule for exactly these arguments has settled what it covers; gone again, `open` needs to know one kind."""
        for each in list(self.standing.values()):
            if each.scope_kind is ScopeKind.ARGUMENTS:
                self.run(self.sure.agents.remove_rule(each.id))
                del self.standing[each.id]

    def rule_for_the_tool(self) -> None:
        made = self.run(self.sure.agents.add_rule("billing", Scope(ScopeKind.TOOL, ONE, "")))
        assert isinstance(made, Rule)
        self.standing[made.id] = made
        for row in self.rows():
            fresh = row.generation == self.generation and row.expires_at > self.sure.clock.time
            assert not (row.pending and row.tool == ONE and fresh), "a call waits that a rule covers"

    def rule_removed(self) -> None:
        if not self.standing:
            return
        rule_id, _ = self.standing.popitem()
        assert isinstance(self.run(self.sure.agents.remove_rule(rule_id)), Rule)

    def ola_leaves_or_comes_back(self) -> None:
        self.members ^= {"ola"}
        there = DIRECTORY if "ola" in self.members else DIRECTORY.replace("[dana, ola, eve]", "[dana, eve]")
        self.run(self.sure.apply(there))

    @rule(what=st.sampled_from(AROUND), fault=FAULTS)
    def around(self, what: str, fault: str) -> None:
        self.happens(what, fault)

    def happens(self, what: str, fault: str) -> None:
        if what in ("pause", "resume", "reset"):
            getattr(self, what)(fault)
        else:
            getattr(self, what)()

    def pause(self, fault: str) -> None:
        self.set(self.here.agents.pause("billing"), fault)

    def resume(self, fault: str) -> None:
        self.set(self.here.agents.resume("billing"), fault)

    def reset(self, fault: str) -> None:
        self.set(self.here.agents.reset("billing"), fault)
        if fault != "before":
            assert not [
                row for row in self.rows()
                if row.runtime is Runtime.TURN and row.pending and row.generation < self.generation
            ]  # fmt: skip

    def set(self, work: Coroutine[Any, Any, Any], fault: str) -> None:
        with self.faulty.failing(fault):
            self.run(work)
        agent = self.run(self.sure.store.read(lambda ledger: ledger.agent("billing")))
        assert agent is not None
        self.paused, self.generation = agent.paused_at is not None, agent.generation

    @rule(text=st.sampled_from(["ok", "Rather ask Ada"]), number=st.integers(1, 3))
    def a_message_in_the_lane(self, text: str, number: int) -> None:
        key = f"m{number}-{text}"
        first = self.run(self.sure.agents.hear("billing", "chat", text, key))
        if text == "ok":
            assert isinstance(first, Refusal | Heard)
            assert isinstance(first, Refusal) or first.result != "declined"
        elif isinstance(first, Heard) and first.result == "declined":
            again = self.run(self.sure.agents.hear("billing", "chat", text, key))
            assert again == first
            assert not self.run(self.sure.store.read(lambda ledger: [
                row for row in ledger.open_rows("billing", lane="chat") if row.pending and row.runtime is Runtime.TURN
            ])) or len(first.approval_ids)  # fmt: skip

    def the_run_closes(self) -> None:
        self.run(self.sure.agents.close_run("billing", "run"))
        assert not [row for row in self.rows() if row.run_id == "run" and row.runtime is Runtime.TURN and row.pending]

    @rule(seconds=st.sampled_from([1, 1, 3, 6, 6, 6, 30, 2000]))
    def a_while(self, seconds: int) -> None:
        self.time_passes(seconds)

    def time_passes(self, seconds: int) -> None:
        self.sure.clock.time += timedelta(seconds=seconds)

    @rule(row=rows_known, who=st.sampled_from(["", "", "reset"]), fault=FAULTS)
    def take(self, row: str, who: str, fault: str) -> None:
        self.take_it(self.known[row], who or f"run-{self.known[row].again}", fault)

    def take_it(self, known: Known, run: str, fault: str = "") -> None:
        before = self.row(known.id)
        taken = None
        with self.faulty.failing(fault):
            taken = self.run(self.here.approvals.take(known.id, run))
            assert isinstance(taken, Taken)
        if taken is not None and taken.claim is not None:
            self.claimed(known, taken.claim, before)

    def claimed(self, known: Known, claim: Claim, before: Approval) -> None:
        if claim.token in known.claims:
            # Its first answer was lost on the way: the same leave once more.
            return
        row = self.row(known.id)
        known.claims.append(claim.token)
        if before.outcome is Outcome.NONE:
            assert not self.paused, "it runs while its agent is paused"
            assert before.generation == self.generation, "it runs for a generation that has ended"
        assert row.status is Status.APPROVED
        assert row.claimed_at is not None
        assert row.decided_at is not None
        if row.runtime is Runtime.DRAFT and row.decided_by != "auto" and not known.again:
            assert row.claimed_at >= row.decided_at + UNDO, "it is sent inside its Undo window"
        assert claim.arguments == known.contents[row.content_revision - 1] == known.contents[-1]

    @rule(row=rows_known, outcome=st.sampled_from([Outcome.SENT, Outcome.NOT_SENT, Outcome.UNKNOWN]))
    def report(self, row: str, outcome: Outcome) -> None:
        self.record(row, outcome)

    def record(self, row: str, outcome: Outcome) -> None:
        known = self.known[row]
        for token in known.claims or ["none"]:
            told = self.run(self.sure.approvals.record(row, token, outcome))
            if token != self.row(row).claim_token:
                assert isinstance(told, Refusal)

    @rule(row=rows_known)
    def withdraw(self, row: str) -> None:
        before = self.row(row)
        self.run(self.sure.approvals.withdraw(row, by="asker"))
        if not before.pending:
            assert self.row(row).status is before.status

    def sweep(self) -> None:
        async def sweep() -> None:
            await self.sure.approvals.expire_due()
            await self.sure.approvals.settle_overdue()
            await self.sure.approvals.ring_unconsumed()

        self.run(sweep())

    # What must hold, whatever happened

    def row(self, approval_id: str) -> Approval:
        row = self.run(self.sure.store.read(lambda ledger: ledger.approval(approval_id)))
        assert row is not None
        return row

    def rows(self) -> list[Approval]:
        return list(self.run(self.sure.store.read(lambda ledger: ledger.approvals(limit=1000))))

    @invariant()
    def an_answer_stands_until_it_is_taken_back(self) -> None:
        for row in self.rows():
            known = self.known[row.id]
            if known.final is not None:
                assert row.status is known.final
            elif not row.pending:
                known.final = row.status
            if row.runtime is Runtime.TURN:
                assert row.grace_until is None
                assert row.restore_until is None
                assert not known.back

    @invariant()
    def it_is_sent_once_for_each_time_that_somebody_said_so(self) -> None:
        for row in self.rows():
            known = self.known[row.id]
            assert len(known.claims) <= (1 + known.again if row.runtime is Runtime.DRAFT else 1)
            if known.outcome in (Outcome.SENT,) and known.outcome is not row.outcome:
                raise AssertionError("what was sent is sent no more")
            known.outcome = row.outcome

    @invariant()
    def what_waits_is_found(self) -> None:
        """Whoever is to be woken after resuming is found by the sweep."""
        if self.paused:
            return

        def read(ledger: Any) -> set[str]:
            later = self.sure.clock.time + timedelta(days=1)
            return {row.id for row in ledger.unconsumed(later, 1000)}

        found = self.run(self.sure.store.read(read))
        for row in self.rows():
            waits = not row.pending and row.consumed_at is None and row.claim_token is None
            assert not waits or row.id in found

    def nothing_decided_is_forgotten(self) -> None:
        """In the end the agent goes on, every run wakes, and what was allowed is sent, save what a reset ended."""
        self.run(self.sure.agents.resume("billing"))
        self.paused = False
        self.sure.clock.time += timedelta(seconds=10)
        for known in self.known.values():
            before = self.row(known.id)
            self.take_it(known, f"run-{known.again}")
            row = self.row(known.id)
            if row.pending:
                continue
            assert row.consumed_at is not None or row.claimed_at is not None
            if row.status is Status.APPROVED and row.run is not None and before.outcome is Outcome.NONE:
                over = before.generation < self.generation
                assert row.outcome is (Outcome.NOT_SENT if over else Outcome.SENDING)
            told = self.run(self.sure.agents.updates("billing", 0, 1000))
            if row.runtime is Runtime.DRAFT and row.outcome is not Outcome.SENDING:
                assert any(update.approval_id == row.id and update.status == row.status for update in told)


def test_what_happens_around_a_call() -> None:
    run_state_machine_as_test(Around, settings=limits(200, 40))


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_what_happens_around_a_call_for_long() -> None:
    run_state_machine_as_test(Around, settings=limits(4000, 60))
