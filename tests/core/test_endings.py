"""Wherever an approval stands or ends: its card, the sentence for the model, the event, the audit and the log."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from core.agents import Agents, Heard
from core.approvals import Actor, Approval, Card, Outcome, Posted, Press, Runtime, Status
from core.asks import read_ask
from core.buttons import Verb
from core.cards import card_of
from core.people import Directory
from core.redaction import Redaction
from core.rules import Scope, ScopeKind
from core.service import Approvals, Claim, Opened, Origin
from core.wording import sentence_for
from tests.core.door import DIRECTORY, NOTE, RUN, Door, OpenGate, Silence, door
from tests.core.three import CHANNEL, DANA, IDS, ROOM, TEAM, Shown, Three, directory, three

TURN, DRAFT, EXTERNAL = Runtime
PENDING, APPROVED, DECLINED, EXPIRED, CANCELLED = Status
NONE, SENDING, SENT, NOT_SENT, UNKNOWN = Outcome
OVER = (SENT, NOT_SENT, UNKNOWN)
RUNS = "{tool: refund, activity: send, task_queue: billing}"
AT = "Nov 30, 2026, 12:00 UTC"
ALLOWED = f"Allowed by Dana Reyes through Telegram, {AT}."
REFUSED = f"Declined by Dana Reyes through Telegram, {AT}. Nothing was run."
RULE = "every call of notes.share, until removed"
# While it waits, Dana may answer it in any way.
ANSWERS = "a d n e w"


class Told(Silence):
    """A feed and a meter that keep what they were given, as other processes and the operator hear it."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, int]] = []
        self.outcomes: list[str] = []

    async def publish(self, approval_id: str, revision: int) -> None:
        self.changes.append((approval_id, revision))

    def outcome(self, outcome: str) -> None:
        self.outcomes.append(outcome)


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


async def seen_again(case: Case) -> None:
    await unseen(case)
    await case.here.approvals.mark_undeliverable(case.row.id, None)


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
        made(PENDING, NONE, seen_again, "", WAITS if draft else None, "undeliverable deliverable",
             "undeliverable deliverable", ANSWERS),
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
        # Nobody is known whom this agent's calls could be shown to, and no rule can be made for it.
        made(TURN, PENDING, NONE, waits,
             "Cannot be delivered: the directory does not know this agent, so nobody is asked.", None,
             "undeliverable", "undeliverable", "a d n e", agent="stranger"),
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
    async with door(sqlite_url, DIRECTORY.replace("match: {}", "match: {agent: billing}")) as opened:
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
    assert told.outcomes == [line.action for line in lines if line.action in OVER]
    logged = [record for record in caplog.records if getattr(record, "approval", None) == row.id]
    assert logged[0].message == "opened"
    # A press that gives no answer to the request has a line of its own besides.
    assert " ".join(record.message for record in logged[1:] if record.message != "pressed") == ending.log


# On every platform


@pytest.fixture
async def everywhere(sqlite_url: str) -> AsyncIterator[Three]:
    async with three(sqlite_url) as opened:
        yield opened


def messages(of: Three) -> list[int]:
    """How many messages each chat has."""
    slack, discord = of.worlds["slack"].channels[CHANNEL], of.worlds["discord"].channel(ROOM)
    return [len(of.office.seen().messages), len(slack.history), len(discord.messages)]


async def test_s11_the_card_that_a_new_rule_settles_says_so_everywhere_and_in_the_audit(everywhere: Three) -> None:
    office = everywhere.office
    first, cards = await everywhere.asked(**NOTE)
    second, others = await everywhere.asked(**NOTE)
    another, waiting = await everywhere.asked(**NOTE | {"arguments": {"to": "bo@example.com", "text": "Hello"}})
    (posted,) = await office.store.read(
        lambda ledger: [row for row in ledger.posted_for(first.id) if row.platform == "slack"]
    )
    assert posted.message is not None
    actor = Actor("slack", TEAM, IDS["slack"][DANA])
    always = Press("p1", actor, posted.message, Verb.ALWAYS_ARGUMENTS, posted.token, 1)
    assert (await office.approvals.press(always)).result == "approved"
    (rule,) = await office.store.read(lambda ledger: ledger.rules("billing"))
    await everywhere.settled(cards, f"rom now on without asking: {rule.label}")
    await everywhere.settled(others, f": {rule.label}.")
    for platform, card in others.items():
        assert "Allowed without asking, " in everywhere.shown(platform, card).text
    line = (await office.audit(second))[-1]
    assert (line.action, line.surface, line.note, line.person) == ("auto", "rule", rule.label, None)
    assert (await office.row(another)).pending
    assert all("Allow" in everywhere.shown(platform, card).buttons for platform, card in waiting.items())


async def test_ac05_a_message_in_the_lane_is_the_reply_on_every_card_and_nothing_else(everywhere: Three) -> None:
    office, agents = everywhere.office, everywhere.office.desk.agents
    dana = await office.store.read(lambda ledger: ledger.person("dana"))
    for number, (person, who) in enumerate(((None, "Somebody"), (dana, "Dana Reyes"))):
        approval, cards = await everywhere.asked(lane=f"chat-{number}", run_id=f"run-{number}")
        before = messages(everywhere)
        heard = await agents.hear("billing", f"chat-{number}", "Use the other account", "m1", person)
        assert heard == Heard("declined", f"run-{number}", (approval.id,), "now")
        await everywhere.settled(cards, f"{who} replied: Use the other account")
        # The card is the reply: no message besides it, no row of the message's own, and the same run goes on.
        assert messages(everywhere) == before
        assert len(await office.approvals.rows(agent="billing")) == number + 1
        assert await agents.hear("billing", f"chat-{number}", "And then?", "m2", person) == Heard("run_in_progress")
        office.clock.ahead += timedelta(hours=23)
        assert await agents.hear("billing", f"chat-{number}", "And then?", "m3", person) == Heard("run_in_progress")


async def test_cards_of_a_paused_agent_say_when_an_answer_takes_effect_until_it_resumes(everywhere: Three) -> None:
    office, words = everywhere.office, "takes effect when the agent resumes"
    await office.apply(directory().replace("billing: {owner: dana}", f"billing: {{owner: dana, runs: [{RUNS}]}}"))
    _, waiting = await everywhere.asked()
    turn, allowed_cards = await everywhere.asked(run=RUN)
    _, declined_cards = await everywhere.asked(run=RUN)
    draft, draft_cards = await everywhere.asked(run=RUN, runtime="draft")
    all_cards = waiting, allowed_cards, declined_cards, draft_cards
    await office.desk.agents.pause("billing")
    for cards in all_cards:
        await everywhere.until_shown(cards, lambda shown: words in shown.text and "Allow" in shown.buttons)
    assert words.removesuffix(" the agent resumes") in await everywhere.told("slack", allowed_cards["slack"], "Allow")
    assert "when it resumes" in await everywhere.told("discord", declined_cards["discord"], "Decline")
    assert "resumes" in await everywhere.told("telegram", draft_cards["telegram"], "Allow")
    await everywhere.settled(allowed_cards, f"It {words}")
    await everywhere.settled(declined_cards, f"It {words}")
    await everywhere.until_shown(draft_cards, lambda shown: f"It {words}" in shown.text and shown.buttons == ("Undo",))
    office.clock.ahead += timedelta(seconds=6)
    for row in (turn, draft):
        taken = await office.approvals.take(row.id, "run")
        assert taken is not None
        assert taken.claim is None
    await office.desk.agents.resume("billing")
    for cards in all_cards:
        await everywhere.until_shown(cards, lambda shown: words not in shown.text)
    await everywhere.until_shown(waiting, lambda shown: "Allow" in shown.buttons)
    for row, cards, after in ((turn, allowed_cards, "Done."), (draft, draft_cards, "Sent.")):
        taken = await office.approvals.take(row.id, "run")
        assert taken is not None
        assert taken.claim is not None
        assert isinstance(await office.approvals.record(row.id, taken.claim.token, SENT), Approval)
        await everywhere.settled(cards, after)


async def test_the_card_of_a_draft_offers_to_send_again_after_a_word_or_to_put_it_aside(everywhere: Three) -> None:
    office = everywhere.office
    await office.apply(directory().replace("billing: {owner: dana}", f"billing: {{owner: dana, runs: [{RUNS}]}}"))
    platforms: dict[str, Outcome] = {"telegram": UNKNOWN, "slack": NOT_SENT, "discord": UNKNOWN}
    for platform, outcome in platforms.items():
        draft, cards = await everywhere.asked(run=RUN, runtime="draft")
        await everywhere.told(platform, cards[platform], "Allow")
        await ended(everywhere, draft, outcome)
        words = "May have happened, at least in part:" if outcome is UNKNOWN else "Could not be sent:"
        offered = partial(offers, f"{words} the line was cut.")
        await everywhere.until_shown(cards, offered)
        # Nothing is sent for the first press: it is asked once more, and told where it may happen twice.
        await everywhere.press(platform, cards[platform], "Send again…")()
        menu = await everywhere.menu(platform, cards[platform])
        shown = everywhere.shown(platform, menu)
        assert ("twice" in shown.text, shown.buttons) == (outcome is UNKNOWN, ("Send it again",))
        assert (await office.row(draft)).outcome is outcome
        await everywhere.told(platform, menu, "Send it again")
        await everywhere.settled(cards, "It has not run yet.")
        await ended(everywhere, draft, outcome)
        await everywhere.until_shown(cards, offered)
        assert "Put aside" in await everywhere.told(platform, cards[platform], "Dismiss")
        await everywhere.settled(cards, "the line was cut.")
        told = await office.desk.agents.updates("billing", 0)
        assert [(one.outcome, "the line was cut" in one.text) for one in told if one.approval_id == draft.id] == [
            (outcome, True), (outcome, True),
        ]  # fmt: skip


async def ended(of: Three, draft: Approval, outcome: Outcome) -> None:
    """Placet has begun to send it, and it came to this."""
    of.office.clock.ahead += timedelta(seconds=6)
    taken = await of.office.approvals.take(draft.id, "run")
    assert taken is not None
    assert taken.claim is not None
    await of.office.approvals.record(draft.id, taken.claim.token, outcome, "the line was cut")


def offers(words: str, shown: Shown) -> bool:
    return words in shown.text and shown.buttons == ("Send again…", "Dismiss")
