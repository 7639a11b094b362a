"""Wherever an approval stands or ends: its card, the sentence for the model, the event, the audit and the log."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from core.agents import Agents, Heard
from core.approvals import Approval, Card, Outcome, Posted, Runtime, Status
from core.asks import read_ask
from core.buttons import Verb
from core.cards import card_of
from core.people import Directory
from core.redaction import Redaction
from core.rules import Scope, ScopeKind
from core.service import Approvals, Claim, Opened, Origin
from core.wording import sentence_for
from tests.core.door import DIRECTORY, NOTE, RUN, Door, OpenGate, Silence, door

TURN, DRAFT, EXTERNAL = Runtime
PENDING, APPROVED, DECLINED, EXPIRED, CANCELLED = Status
NONE, SENDING, SENT, NOT_SENT, UNKNOWN = Outcome
OVER = (SENT, NOT_SENT, UNKNOWN)
AT = "Nov 30, 2026, 12:00 UTC"
ALLOWED = f"Allowed by Dana Reyes through Telegram, {AT}."
REFUSED = f"Declined by Dana Reyes through Telegram, {AT}. Nothing was run."
RULE = "every call of notes.share, until removed"
# While it waits, Dana may answer it in any way.
ANSWERS = "a d n e w"


class Told(Silence):
    """A feed that keeps what it was given, as other processes hear it."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, int]] = []

    async def publish(self, approval_id: str, revision: int) -> None:
        self.changes.append((approval_id, revision))


@dataclass
class Case:
    """One call on its way to its end."""

    here: Door
    runtime: Runtime
    asked: int = 0
    row: Approval = field(init=False)
    card: Posted = field(init=False)
    before: Card = field(init=False)

    async def ask(self, **more: Any) -> None:
        self.asked += 1
        ask = {"agent": "billing", "runtime": self.runtime.value, **NOTE, **more}
        if self.runtime is not EXTERNAL and "run" not in more:
            ask["run"] = RUN
        over: Any = "http" if self.runtime is EXTERNAL else "temporal"
        body = json.dumps({name: value for name, value in ask.items() if value is not None})
        origin = Origin(workflow_id=f"w{self.asked}", first_run_id="r")
        opened = await self.here.approvals.open(read_ask(body, over=over), origin)
        assert isinstance(opened, Opened)
        self.row = opened.approval
        self.card = await self.here.card(self.row)
        self.before = await self.drawn()

    async def drawn(self) -> Card:
        row = await self.here.row(self.row)
        around = await self.here.store.read(lambda ledger: self.here.approvals.surroundings(ledger, row))
        return card_of(row, around, self.here.clock.now(), redaction=Redaction(b"k" * 32))

    async def press(self, verb: str, **more: Any) -> None:
        told = await self.here.press(self.card, verb, **more)
        assert not told.refused, told.text

    async def wait(self, **time: int) -> None:
        self.here.clock.time += timedelta(**time)

    async def take(self) -> None:
        """Its workflow, or Placet's own for a draft, or the asker over HTTP, takes the answer and begins."""
        if self.runtime is EXTERNAL:
            assert isinstance(await self.here.approvals.claim(self.row.id, 1), Claim)
            return
        if self.runtime is DRAFT:
            await self.wait(seconds=6)
        assert await self.here.approvals.take(self.row.id, "run") is not None

    async def begin(self) -> None:
        await self.press(Verb.ALLOW)
        await self.take()

    async def ends(self, outcome: Outcome, error: str | None = None) -> None:
        token = (await self.here.row(self.row)).claim_token
        assert isinstance(await self.here.approvals.record(self.row.id, token or "", outcome, error), Approval)

    async def heard(self) -> None:
        """Nobody waits for a draft: its workflow takes the answer once it cannot be taken back."""
        if self.runtime is DRAFT:
            await self.take()


Way = Callable[[Case], Awaitable[object]]


@dataclass(frozen=True)
class Ending:
    """What is to be seen where a way leads. `audit` and `log` are what follows the opening."""

    runtime: Runtime
    status: Status
    outcome: Outcome
    name: str
    way: Way
    card: str
    sentence: str | None
    audit: str
    log: str
    buttons: str = ""
    ask: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.runtime} {self.name}"


# The ways


async def waits(case: Case) -> None: ...


async def unseen(case: Case) -> None:
    await case.here.approvals.mark_undeliverable(case.row.id, "the chat is gone")


async def paused(case: Case) -> None:
    await case.here.agents.pause("billing")


async def taken_back(case: Case) -> None:
    await case.press(Verb.ALLOW)
    await case.press(Verb.UNDO)


async def restored(case: Case) -> None:
    await case.press(Verb.DECLINE)
    await case.press(Verb.RESTORE)


async def allowed(case: Case) -> None:
    await case.press(Verb.ALLOW)


async def allowed_while_paused(case: Case) -> None:
    await case.here.agents.pause("billing")
    await case.press(Verb.ALLOW)


async def covered_by_a_new_rule(case: Case) -> None:
    await case.here.agents.add_rule("billing", Scope(ScopeKind.TOOL, "notes.share", ""))


async def covered_and_ran(case: Case) -> None:
    await covered_by_a_new_rule(case)
    await case.take()
    await case.ends(SENT)


async def ran_unasked(case: Case) -> None:
    await case.take()
    await case.ends(SENT)


async def begun(case: Case) -> None:
    await case.begin()


async def ran(case: Case) -> None:
    await case.begin()
    await case.ends(SENT)


async def not_started(case: Case) -> None:
    await case.begin()
    await case.ends(NOT_SENT, "no worker")


async def failed(case: Case) -> None:
    await case.begin()
    await case.ends(UNKNOWN, "ValueError: no")


async def broke_off(case: Case) -> None:
    await case.begin()
    if case.runtime is EXTERNAL:
        await case.wait(minutes=31)
        await case.here.approvals.settle_overdue()
    else:
        await case.here.approvals.withdraw(case.row.id, by="workflow", claimed_too=True)


async def truth_came_late(case: Case) -> None:
    await broke_off(case)
    await case.ends(SENT)


async def sent_again(case: Case) -> None:
    await failed(case)
    told = await case.here.press(case.card, Verb.AGAIN)
    (sure,) = told.menu
    await case.press(sure.verb, revision=sure.number)


async def put_aside(case: Case) -> None:
    await failed(case)
    await case.press(Verb.DISMISS)


async def allowed_and_reset(case: Case) -> None:
    await case.press(Verb.ALLOW)
    await case.here.agents.reset("billing")
    await case.heard()


async def never_claimed(case: Case) -> None:
    await case.press(Verb.ALLOW)
    await case.wait(hours=1)
    await case.here.approvals.settle_overdue()


async def declined(case: Case) -> None:
    await case.press(Verb.DECLINE)


async def declined_and_heard(case: Case) -> None:
    await case.press(Verb.DECLINE)
    await case.heard()


async def declined_with_a_note(case: Case) -> None:
    await case.here.press(case.card, "", text="Ask Ada first")
    await case.heard()


async def answered_with_a_reply(case: Case) -> None:
    await case.here.reply(case.card, "Ask Ada first")
    await case.heard()


async def answered_in_the_lane(case: Case) -> None:
    told = await case.here.agents.hear("billing", "chat", "Ask Ada first", "m1")
    assert told == Heard("declined", "run-7", (case.row.id,), "now")


async def declined_while_paused(case: Case) -> None:
    await case.here.agents.pause("billing")
    await case.press(Verb.DECLINE)


async def time_ran_out(case: Case) -> None:
    await case.wait(minutes=1)
    await case.here.approvals.expire_due()
    await case.heard()


async def withdrawn(case: Case) -> None:
    await case.here.approvals.withdraw(case.row.id, by="agent:billing")


async def reset(case: Case) -> None:
    await case.here.agents.reset("billing")
    if case.runtime is DRAFT:
        # Its card stands until somebody answers.
        assert (await case.here.row(case.row)).pending
        await case.press(Verb.ALLOW)


async def run_closed(case: Case) -> None:
    await case.here.agents.close_run("billing", "run-7")


# The endings

WAITS = "Waiting for a person. Nothing has run yet."
YES = "Approved by Dana Reyes"
NO = "Declined by Dana Reyes. Nothing was run."
PARTLY = "Approved and started, but it failed: ValueError: no. It may have partly happened. Do not repeat it unasked."
LOST = "Approved and started, but it broke off. It may or may not have happened. Do not repeat it unasked."
PAUSED = "billing is paused: an answer takes effect when the agent resumes."
ON_RESUME = "It takes effect when the agent resumes; billing is paused."
UNASKED: dict[str, Any] = {"tool": "file.read", "arguments": {"path": "a.txt"}, "presentation": {}, "run": None}
MINUTE: dict[str, Any] = {"timeout_s": 60}
WITHDRAWN = f"Withdrawn {AT}. Nothing was run.", "The request was withdrawn. Nothing was run."
EXPIRED_AT = "Expired Nov 30, 2026, 12:01 UTC: nobody decided in time. Nothing was run."


def endings_of(runtime: Runtime) -> list[Ending]:
    """Every ending that calls of any runtime come to, in this runtime's words."""
    draft, external = runtime is DRAFT, runtime is EXTERNAL
    begins = {TURN: " It has not run yet.", DRAFT: " It is sent in a moment; until then it can be undone.",
              EXTERNAL: " Its asker runs it."}[runtime]  # fmt: skip
    yet = "" if external else " It has not run yet."
    unasked = " Its asker runs it." if external else " It has not run yet."
    done = "Sent." if draft else "Done."
    unstarted = "Could not be sent: {}. Nothing was run." if draft else "It could not be started: {}. Nothing was run."
    broken = "May have happened: it broke off." if draft else "It broke off. It may or may not have happened."
    partly = ("May have happened, at least in part: ValueError: no." if draft
              else "It failed: ValueError: no. It may have partly happened.")  # fmt: skip
    after = f"{Verb.AGAIN} {Verb.DISMISS}" if draft else ""
    restore = Verb.RESTORE if draft else ""
    begun_audit, begun_log = "allow claimed", "approved sending"

    def made(status: Status, outcome: Outcome, way: Way, card: str, sentence: str | None, audit: str, log: str,
             buttons: str = "", **ask: Any) -> Ending:  # fmt: skip
        return Ending(runtime, status, outcome, way.__name__, way, card, sentence, audit, log, buttons, ask)

    return [
        made(PENDING, NONE, waits, "", WAITS if draft else None, "", "", ANSWERS),
        made(PENDING, NONE, unseen, "Cannot be delivered: the chat is gone.", WAITS if draft else None,
             "undeliverable", "undeliverable", ANSWERS),
        made(PENDING, NONE, paused, PAUSED, WAITS if draft else None, "", "", ANSWERS),
        made(APPROVED, NONE, allowed, ALLOWED + begins, f"{YES}.{yet}", "allow", "approved",
             Verb.UNDO if draft else ""),
        made(APPROVED, NONE, allowed_while_paused, f"{ALLOWED} {ON_RESUME}", f"{YES}.{yet}", "allow", "approved",
             Verb.UNDO if draft else ""),
        made(APPROVED, NONE, covered_by_a_new_rule, f"Allowed without asking, {AT}: {RULE}.{unasked}",
             f"Allowed without asking: {RULE}.{yet}", "auto", "approved"),
        made(APPROVED, SENT, covered_and_ran, f"Ran without asking, {AT}: {RULE}. {done}",
             f"Done without asking: {RULE}.", "auto claimed sent", "approved sending sent"),
        made(APPROVED, SENDING, begun, f"{ALLOWED} Running now.",
             f"{YES} and started. How it ended is not known yet.", begun_audit, begun_log),
        made(APPROVED, SENT, ran, f"{ALLOWED} {done}", f"{YES} and done.", f"{begun_audit} sent", f"{begun_log} sent"),
        made(APPROVED, NOT_SENT, not_started, f"{ALLOWED} {unstarted.format('no worker')}",
             f"{YES}, but it could not be started: no worker. Nothing was run.",
             f"{begun_audit} not_sent", f"{begun_log} not_sent", after),
        made(APPROVED, NOT_SENT, allowed_and_reset,
             f"{ALLOWED} {unstarted.format('the agent was reset before it was run')}",
             f"{YES}, but it could not be started: the agent was reset before it was run. Nothing was run.",
             "allow not_sent", "approved not_sent", after),
        made(APPROVED, UNKNOWN, failed, f"{ALLOWED} {partly}", PARTLY,
             f"{begun_audit} unknown", f"{begun_log} unknown", after),
        made(APPROVED, UNKNOWN, broke_off, f"{ALLOWED} {broken}", LOST,
             f"{begun_audit} unknown", f"{begun_log} unknown", after),
        made(APPROVED, SENT, truth_came_late, f"{ALLOWED} {done}", f"{YES} and done.",
             f"{begun_audit} unknown sent", f"{begun_log} unknown sent"),
        made(DECLINED, NONE, declined, REFUSED, f"{NO} Do not look for another way to the same result.",
             "decline", "declined", restore),
        made(DECLINED, NONE, declined_and_heard, REFUSED, f"{NO} Do not look for another way to the same result.",
             "decline", "declined"),
        made(DECLINED, NONE, declined_with_a_note, f"{REFUSED}\nNote: Ask Ada first", f"{NO} Note: Ask Ada first",
             "decline", "declined"),
        made(DECLINED, NONE, answered_with_a_reply, f"{REFUSED}\nDana Reyes replied: Ask Ada first",
             "Dana Reyes answered with a message instead of deciding. Nothing was run. Message: Ask Ada first",
             "decline", "declined"),
        made(DECLINED, NONE, declined_while_paused, f"{REFUSED}\n{ON_RESUME}",
             f"{NO} Do not look for another way to the same result.", "decline", "declined", restore),
        made(EXPIRED, NONE, time_ran_out, EXPIRED_AT, "Nobody decided in time. Nothing was run.",
             "expired", "expired", **MINUTE),
        made(CANCELLED, NONE, withdrawn, *WITHDRAWN, "cancelled", "cancelled"),
        made(CANCELLED, NONE, reset, *WITHDRAWN, "cancelled", "cancelled"),
    ]  # fmt: skip


def endings_of_one() -> list[Ending]:
    """The endings that only calls of one runtime come to."""
    it_only_reads = "it only looks things up"

    def made(runtime: Runtime, status: Status, outcome: Outcome, way: Way, card: str, sentence: str | None, audit: str,
             log: str, buttons: str = "", **ask: Any) -> Ending:  # fmt: skip
        return Ending(runtime, status, outcome, way.__name__, way, card, sentence, audit, log, buttons, ask)

    return [
        # Nothing is run for an ask without a run.
        made(TURN, APPROVED, NONE, allowed, ALLOWED, f"{YES}.", "allow", "approved", run=None),
        made(TURN, APPROVED, NONE, waits, f"Allowed without asking, {AT}: {it_only_reads}.",
             f"Allowed without asking: {it_only_reads}.", "auto", "approved", **UNASKED),
        made(TURN, DECLINED, NONE, answered_in_the_lane,
             f"Declined by somebody through HTTP, {AT}. Nothing was run.\nSomebody replied: Ask Ada first",
             "A person answered with a message instead of deciding. Nothing was run. Message: Ask Ada first",
             "decline", "declined", lane="chat", run_id="run-7"),
        made(TURN, CANCELLED, NONE, run_closed, *WITHDRAWN, "cancelled", "cancelled", run_id="run-7"),
        made(DRAFT, PENDING, NONE, taken_back, "", WAITS, "allow undo", "approved changed", ANSWERS),
        made(DRAFT, PENDING, NONE, restored, "", WAITS, "decline restore", "declined changed", ANSWERS),
        made(DRAFT, APPROVED, NONE, sent_again, f"{ALLOWED} It has not run yet.", f"{YES}. It has not run yet.",
             "allow claimed unknown again", "approved sending unknown approved"),
        made(DRAFT, APPROVED, UNKNOWN, put_aside, f"{ALLOWED} May have happened, at least in part: ValueError: no.",
             PARTLY, "allow claimed unknown dismissed", "approved sending unknown changed"),
        made(EXTERNAL, APPROVED, NOT_SENT, never_claimed,
             f"{ALLOWED} It could not be started: nobody claimed it in time. Nothing was run.",
             f"{YES}, but it could not be started: nobody claimed it in time. Nothing was run.",
             "allow not_sent", "approved not_sent"),
    ]  # fmt: skip


ENDINGS = [*(ending for runtime in Runtime for ending in endings_of(runtime)), *endings_of_one()]


@pytest.fixture
async def told() -> Told:
    return Told()


@pytest.fixture
async def here(sqlite_url: str, told: Told) -> AsyncIterator[Door]:
    async with door(sqlite_url, DIRECTORY) as opened:
        approvals = Approvals(store=opened.store, gate=OpenGate(), bell=told, feed=told, clock=opened.clock,
                              meter=told, directory=Directory())  # fmt: skip
        yield replace(opened, approvals=approvals, agents=Agents(approvals))
        await approvals.close()


def test_every_state_that_a_row_can_have_is_looked_at() -> None:
    """A new status, outcome or runtime needs its card, its sentence, its audit line and its line in the log."""
    states = {(runtime, status, NONE) for runtime in Runtime for status in Status}
    states |= {(runtime, APPROVED, outcome) for runtime in Runtime for outcome in Outcome}
    assert {(ending.runtime, ending.status, ending.outcome) for ending in ENDINGS} == states


@pytest.mark.parametrize("ending", ENDINGS, ids=str)
async def test_every_state_has_its_card_its_sentence_its_event_its_audit_line_and_its_log_line(
    here: Door, told: Told, ending: Ending, caplog: pytest.LogCaptureFixture
) -> None:
    case = Case(here, ending.runtime)
    with caplog.at_level(logging.INFO, "placet.approvals"):
        await case.ask(**ending.ask)
        await ending.way(case)
        await here.approvals.close()
    row = await here.row(case.row)
    assert (row.status, row.outcome) == (ending.status, ending.outcome)

    # The card: what was asked stays, and what became of it is said.
    card, before = await case.drawn(), case.before
    assert card.status == ending.card
    assert " ".join(button.verb for button in card.buttons) == ending.buttons
    assert (card.expiry != "") is row.pending
    bare: dict[str, Any] = {"status": "", "tone": card.tone, "buttons": (), "expiry": "", "revision": 0, "editable": ()}
    assert replace(card, **bare) == replace(before, **bare)

    # The sentence, which whoever asked for a draft hears once there is nothing more to come.
    names = await here.store.read(lambda ledger: here.approvals.directory.names(ledger, row))
    assert sentence_for(row, names) == ending.sentence
    heard = await here.agents.updates("billing", 0)
    restorable = row.status in (DECLINED, EXPIRED) and row.consumed_at is None
    if ending.runtime is not DRAFT:
        assert heard == []
    elif row.status is not PENDING and not restorable and (row.status is not APPROVED or row.outcome in OVER):
        assert (heard[-1].status, heard[-1].outcome, heard[-1].text) == (row.status, row.outcome, ending.sentence)
    else:
        assert all(update.text != ending.sentence for update in heard)

    lines = await here.store.read(lambda ledger: ledger.audit_of(row.id))
    assert " ".join(line.action for line in lines[1:]) == ending.audit
    assert (lines[0].action, lines[0].surface) == ("opened", ending.runtime)
    assert {(line.person, line.surface) for line in lines if line.action in ("allow", "decline")} <= {
        ("dana", "telegram"), (None, "http"),
    }  # fmt: skip
    assert (row.id, lines[-1].revision) in told.changes
    logged = [record for record in caplog.records if getattr(record, "approval", None) == row.id]
    assert logged[0].message == "opened"
    # A press that gives no answer to the request has a line of its own besides.
    assert " ".join(record.message for record in logged[1:] if record.message != "pressed") == ending.log
