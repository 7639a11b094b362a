"""What is set for an agent, and what happens around its calls: mode, rules, pausing, resetting, runs and lanes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

from core import changes
from core.approvals import (
    Agent,
    Approval,
    Button,
    Mode,
    Outcome,
    Person,
    Press,
    Reply,
    Runtime,
    Status,
    Tone,
    Update,
    Verdict,
)
from core.buttons import Verb, rule_token
from core.changes import EXTERNAL_VALID, Answer
from core.identifiers import new_id
from core.judging import NOTE_LIMIT, not_linked, storable
from core.people import Refusal
from core.ports import Ledger
from core.rules import BadRule, Rule, Scope, ceiling_of, label_of_rule, listed_label
from core.service import Approvals
from core.wording import is_affirmative, moment_text, say

log = logging.getLogger("placet.agents")

T = TypeVar("T")
RULES_LISTED = 5
# A run that nobody has said to be over is taken to be under way for so long after its last call or answer.
RUN_WINDOW = timedelta(hours=24)
UPDATES_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Heard:
    """What became of a message in a lane.

    `result`: `declined` (with the run, the rows and the delivery: `now`, or `queued` while the agent is paused),
    `run_in_progress`, or `no_run`.
    """

    result: str
    run_id: str | None = None
    approval_ids: tuple[str, ...] = ()
    delivery: str | None = None


@dataclass(frozen=True, slots=True)
class RunState:
    """Whether a run waits, and since when its own time limit counts: the end of its last wait, or its first call. None
    for a run without calls."""

    waiting: bool
    closed: bool
    counts_from: datetime | None


class Agents:
    """Sets what is set for agents. `person` None is an administrator's token; refusals name what is wrong."""

    def __init__(self, approvals: Approvals) -> None:
        self.approvals, self.store, self.clock = approvals, approvals.store, approvals.clock
        self.directory, self.judge = approvals.directory, approvals.judge

    # Modes

    async def agent(self, agent_id: str) -> Agent | Refusal:
        return await self.store.read(lambda ledger: ledger.agent(agent_id)) or _unknown(agent_id)

    async def set_mode(self, agent_id: str, mode: Mode, person: Person | None = None) -> Agent | Refusal:
        """The mode from the next call on."""

        def work(ledger: Ledger, agent: Agent) -> Agent:
            ledger.set_mode(agent_id, mode)
            return replace(agent, mode=mode)

        done = await self._set(agent_id, person, work)
        if isinstance(done, Agent):
            self._note("mode set", agent_id, person, mode=mode.value)
        return done

    # Pausing

    async def pause(self, agent_id: str, person: Person | None = None) -> Agent | Refusal:
        """From now on nothing that was allowed runs; waiting cards stay, and can be answered. Pausing twice is no
        error."""

        def work(ledger: Ledger, agent: Agent) -> tuple[Agent, Sequence[tuple[str, int]] | None]:
            now = self.clock.now()
            if not ledger.set_paused(agent_id, now, _by(person)):
                return agent, None
            return replace(agent, paused_at=now), ledger.touch_open(agent_id)

        done = await self._set(agent_id, person, work)
        if isinstance(done, Refusal):
            return done
        agent, touched = done
        if touched is not None:
            self.approvals.tell_touched(touched)
            self._note("paused", agent_id, person)
        return agent

    async def resume(self, agent_id: str, person: Person | None = None) -> Agent | Refusal:
        """What was decided meanwhile takes effect, once; what an asker could not claim is valid anew."""

        def work(ledger: Ledger, agent: Agent) -> tuple[Agent, Sequence[tuple[str, int]] | None]:
            if not ledger.set_paused(agent_id, None, None):
                return agent, None
            until = self.clock.now() + EXTERNAL_VALID
            for row in ledger.open_rows(agent_id, hold=True):
                if row.runtime is Runtime.EXTERNAL and row.status is Status.APPROVED:
                    ledger.change(row, valid_until=until)
            return replace(agent, paused_at=None), ledger.touch_open(agent_id)

        done = await self._set(agent_id, person, work)
        if isinstance(done, Refusal):
            return done
        agent, touched = done
        self.approvals.ring_soon()
        if touched is not None:
            self.approvals.tell_touched(touched)
            self._note("resumed", agent_id, person)
        return agent

    async def reset(self, agent_id: str, person: Person | None = None) -> Agent | Refusal:
        """A new generation: what turns and askers of the old one wait for is cancelled, and nothing of it runs.

        Rules, mode and pause stay, and drafts until somebody answers them.
        """

        def work(ledger: Ledger, agent: Agent) -> tuple[Agent, list[Approval], Sequence[tuple[str, int]]]:
            generation = ledger.raise_generation(agent_id) or agent.generation
            now = self.clock.now()
            rows = [row for row in ledger.open_rows(agent_id, hold=True) if row.runtime is not Runtime.DRAFT]
            ended = [self.judge.end_generation(ledger, row, now) for row in rows]
            settled = [row for row in ended if row is not None]
            return replace(agent, generation=generation), settled, ledger.touch_open(agent_id)

        done = await self._set(agent_id, person, work)
        if isinstance(done, Refusal):
            return done
        agent, settled, touched = done
        self.approvals.tell_all(settled)
        self.approvals.tell_touched(touched)
        self.approvals.ring_soon()
        self._note("reset", agent_id, person, generation=agent.generation)
        return agent

    # Rules

    async def rules(self, agent_id: str, person: Person | None = None) -> Sequence[Rule] | Refusal:
        """The standing rules of an agent, the eldest first."""

        def read(ledger: Ledger) -> Sequence[Rule] | Refusal:
            agent = ledger.agent(agent_id)
            if agent is None:
                return _unknown(agent_id)
            if person is not None and not self.directory.may_rule(agent, person):
                return _rules_not_yours(agent_id)
            return ledger.rules(agent_id)

        return await self.store.read(read)

    async def add_rule(
        self, agent_id: str, scope: Scope, person: Person | None = None, *, expires_at: datetime | None = None,
        ceiling: tuple[str, str] | None = None,
    ) -> Rule | Refusal:  # fmt: skip
        """A rule that nobody was asked on a card for. One for money, with a ceiling (amount, currency), only an
        administrator makes, and it must expire (design section 6)."""
        now = self.clock.now()
        if expires_at is not None and expires_at <= now:
            return Refusal("bad_rule", say("rule_expired_already"))
        if ceiling is not None:
            if expires_at is None:
                return Refusal("bad_rule", say("rule_money_expires"))
            try:
                ceiling = ceiling_of(*ceiling)
            except BadRule as bad:
                return Refusal("bad_rule", str(bad))

        def work(ledger: Ledger) -> tuple[Rule, Sequence[Approval]] | Refusal:
            agent = ledger.agent(agent_id, "update")
            if agent is None:
                return _unknown(agent_id)
            if person is not None and not self.directory.may_delegate(person, money=ceiling is not None):
                return Refusal("not_yours", say("rule_not_yours" if ceiling is None else "rule_money_not_yours"))
            rule = Rule(
                id=new_id(now), agent=agent_id, tool=scope.tool, operation=scope.operation, scope_kind=scope.kind,
                scope_value=scope.value, label="", created_at=now, created_by=_by(person),
                expires_at=expires_at,
                ceiling_amount=ceiling[0] if ceiling is not None else None,
                ceiling_currency=ceiling[1] if ceiling is not None else None,
            )  # fmt: skip
            saved = ledger.add_rule(replace(rule, label=label_of_rule(rule)))
            if saved is None:
                return Refusal("bad_rule", say("rule_money_stands"))
            return saved, self.judge.settle(ledger, saved, agent, now)

        done = await self.store.write(work)
        if isinstance(done, Refusal):
            return done
        rule, settled = done
        self.approvals.tell_all(settled)
        self._note("rule made", agent_id, person, rule=rule.id)
        return rule

    async def remove_rule(self, rule_id: str, person: Person | None = None, *, token: str = "") -> Rule | Refusal:
        """From the next call on the agent asks again. The rule is named by its id, or by its button's token."""

        def work(ledger: Ledger) -> Rule | Refusal:
            rule = ledger.rule(rule_id, token=token)
            agent = None if rule is None else ledger.agent(rule.agent)
            if rule is None or agent is None:
                return Refusal("not_found", say("rule_gone"))
            if person is not None and not self.directory.may_rule(agent, person):
                return _rules_not_yours(agent.id)
            ledger.drop_rule(rule.id)
            return rule

        done = await self.store.write(work)
        if isinstance(done, Rule):
            self._note("rule removed", done.agent, person, rule=done.id)
        return done

    async def press(self, press: Press) -> Reply:
        """A button of a list of rules: take a rule back, or show the page that begins with it."""
        started = time.perf_counter()
        admission = await self.approvals.admitted(press)
        if isinstance(admission, Reply):
            return admission
        locale = self.approvals.spoken.to(press.actor, press.message)
        person, rule = await self.store.read(
            lambda ledger: (self.directory.person_at(ledger, press.actor), ledger.rule(token=press.token))
        )
        if person is None:
            reply = not_linked(press.actor, locale)
        elif rule is None:
            reply = Reply(say("rule_gone", locale=locale), Tone.ALERT, result="rule_gone")
        elif press.verb == Verb.RULES_PAGE:
            reply = await self.listed(rule.agent, person, locale, first=rule.id)
        else:
            removed = await self.remove_rule(rule.id, person)
            if isinstance(removed, Refusal):
                reply = refused(removed, rule.agent, locale, not_yours="rules_not_yours")
            else:
                text = say("rule_removed", locale=locale, label=label_of_rule(removed, locale), agent=removed.agent)
                reply = Reply(text, Tone.GOOD, result="rule_removed")
        self.approvals.meter.press(press.actor.platform, reply.result, time.perf_counter() - started)
        await self.approvals.gate.settle(press, reply)
        return reply

    async def listed(self, agent_id: str, person: Person, locale: str, *, first: str = "") -> Reply:
        """A page of an agent's rules, with buttons that take them back."""
        rules = await self.rules(agent_id, person)
        if isinstance(rules, Refusal):
            return refused(rules, agent_id, locale, not_yours="rules_not_yours")
        money = say("rules_money", locale=locale)
        if not rules:
            none = say("rules_none", locale=locale, agent=agent_id)
            return Reply(f"{none}\n{money}", Tone.QUIET, result="rules")
        start = next((number for number, rule in enumerate(rules) if rule.id == first), 0)
        page, rest = rules[start : start + RULES_LISTED], rules[start + RULES_LISTED :]
        names = await self.store.read(
            lambda ledger: {who: found.name for who in {r.created_by for r in page} if (found := ledger.person(who))}
        )
        lines = [say("rules_head", locale=locale, agent=agent_id)]
        menu = []
        for number, rule in enumerate(page, start + 1):
            key = "rules_item" if rule.expires_at is None else "rules_item_until"
            until = {} if rule.expires_at is None else {"until": moment_text(rule.expires_at, locale=locale)}
            who, since = names.get(rule.created_by, rule.created_by), moment_text(rule.created_at, locale=locale)
            what = label_of_rule(rule, locale)
            line = say(key, locale=locale, number=number, label=what, who=who, since=since, **until)
            lines.append(listed_label(line, rule.scope_kind, rule.scope_value, locale))
            label = say("button_remove_rule", locale=locale, number=number)
            menu.append(Button(Verb.REMOVE_RULE, label, "danger", token=rule_token(rule.id), number=1))
        if rest:
            label = say("button_more_rules", locale=locale)
            menu.append(Button(Verb.RULES_PAGE, label, token=rule_token(rest[0].id), number=1))
        return Reply("\n".join([*lines, money]), Tone.QUIET, result="rules", menu=tuple(menu))

    # Runs and lanes

    async def hear(
        self, agent_id: str, lane: str, text: str, client_message_id: str, person: Person | None = None, *,
        via: str = "http",
    ) -> Heard | Refusal:  # fmt: skip
        """A plain message where an agent's turn waits: it declines what the turn asked, the text being the note.

        The same `client_message_id` gets the same answer for as long as the rows exist. A message that only says yes
        decides nothing. `person` None: the agent's own program passes on what somebody typed to it.
        """
        if not storable(text).strip():
            return Refusal("note_empty", say("note_empty"))
        if len(text) > NOTE_LIMIT:
            return Refusal("note_too_long", say("note_too_long", limit=NOTE_LIMIT))
        key = f"message:{client_message_id}"

        def work(ledger: Ledger) -> tuple[Heard | Refusal, list[Approval]]:
            # One message after the other: the same one, sent twice at once, is to get the same answer.
            agent = ledger.agent(agent_id, "update")
            if agent is None:
                return _unknown(agent_id), []
            delivery = "now" if agent.paused_at is None else "queued"
            before = ledger.declined_by(agent_id, lane, key)
            if before:
                return _declined(before, delivery), []
            now = self.clock.now()
            waiting, changed = [], []
            for row in ledger.open_rows(agent_id, lane=lane, hold=True):
                if row.runtime is not Runtime.TURN or not row.pending:
                    continue
                if (advanced := changes.advance(ledger, row, now)) is not None:
                    changed.append(advanced)
                if (current := advanced or row).pending:
                    waiting.append(current)
            if waiting and is_affirmative(text):
                return Refusal("press_allow_instead", say("press_allow_instead")), changed
            if person is not None:
                for row in waiting:
                    if (why := self.directory.may_answer(ledger, row, person)) is not None:
                        return self.judge.refusal(ledger, row, why), changed
            said = Answer(person or Person("", ""), Verdict.DECLINE, key, via, None, storable(text).strip(), True)
            declined = [changes.answer(ledger, row, said, now) for row in waiting]
            settled = [row for row in declined if row is not None]
            if settled:
                return _declined(settled, delivery), changed + settled
            return Heard("run_in_progress" if self._under_way(ledger, agent, lane, now) else "no_run"), changed

        heard, changed = await self.store.write(work)
        self.approvals.tell_all(changed)
        return heard

    @staticmethod
    def _under_way(ledger: Ledger, agent: Agent, lane: str, now: datetime) -> bool:
        last = ledger.last_of_lane(agent.id, lane)
        if last is None or last.run_id is None or ledger.run_closed(agent.id, last.run_id):
            return False
        return _waits(last, agent) or now - (_end_of_wait(last) or last.created_at) < RUN_WINDOW

    async def close_run(self, agent_id: str, run_id: str) -> Sequence[str] | Refusal:
        """A run is over: what its turns wait for is cancelled, and what was allowed and has not begun is not sent.
        Drafts stay. The ids of what was settled."""

        def work(ledger: Ledger) -> list[Approval] | Refusal:
            if ledger.agent(agent_id, "share") is None:
                return _unknown(agent_id)
            now, settled = self.clock.now(), []
            ledger.close_run(agent_id, run_id, now)
            for row in ledger.open_rows(agent_id, run_id=run_id, hold=True):
                if row.runtime is not Runtime.TURN:
                    continue
                if row.pending:
                    settled.append(changes.cancel(ledger, self.directory, row, "run closed", now))
                elif row.run is not None:
                    why = say("asker_left")
                    settled.append(changes.end(ledger, self.directory, row, Outcome.NOT_SENT, why, now))
            return [row for row in settled if row is not None]

        settled = await self.store.write(work)
        if isinstance(settled, Refusal):
            return settled
        self.approvals.tell_all(settled)
        log.info("run closed", extra={"agent": agent_id, "settled": len(settled)})
        return [row.id for row in settled]

    async def run(self, agent_id: str, run_id: str) -> RunState:
        """Whether a run waits for a person, or for its agent to go on: time that it waits is not time that it takes."""

        def read(ledger: Ledger) -> RunState:
            agent, closed = ledger.agent(agent_id), ledger.run_closed(agent_id, run_id)
            rows = ledger.rows_of_run(agent_id, run_id)
            ends = [end for row in rows if (end := _end_of_wait(row)) is not None]
            first = rows[0].created_at if rows else None
            waiting = any(_waits(row, agent) for row in rows) and not closed
            return RunState(waiting, closed, max(ends) if ends else first)

        return await self.store.read(read)

    async def updates(self, agent_id: str, since: int, limit: int = UPDATES_AT_ONCE) -> Sequence[Update]:
        """What became of an agent's drafts, after the number `since`."""
        return await self.store.read(lambda ledger: ledger.updates(agent_id, since, limit))

    # Inside

    async def _set(self, agent_id: str, person: Person | None, work: Callable[[Ledger, Agent], T]) -> T | Refusal:
        def checked(ledger: Ledger) -> T | Refusal:
            agent = ledger.agent(agent_id)
            if agent is None:
                return _unknown(agent_id)
            if person is not None and not self.directory.may_set(agent, person):
                return _not_yours(agent_id)
            return work(ledger, agent)

        return await self.store.write(checked)

    @staticmethod
    def _note(event: str, agent_id: str, person: Person | None, **more: object) -> None:
        log.info(event, extra={"agent": agent_id, "by": _by(person), **more})


def refused(refusal: Refusal, agent_id: str, locale: str, *, not_yours: str = "agent_not_yours") -> Reply:
    """A refusal in the words of a chat."""
    key = {"unknown_agent": "agent_unknown", "not_yours": not_yours, "not_found": "rule_gone"}[refusal.code]
    return Reply(say(key, locale=locale, agent=agent_id), Tone.ALERT, refused=True, result=refusal.code)


def _waits(row: Approval, agent: Agent | None) -> bool:
    """Whether whoever asked has nothing to go on with yet: no answer, or one that waits for its paused agent."""
    if row.pending:
        return True
    # Whoever runs it himself may not claim it before, and hears of any other answer at once.
    held = row.status is Status.APPROVED or (row.status is not Status.CANCELLED and row.runtime is Runtime.TURN)
    paused = agent is not None and agent.paused_at is not None and row.runtime is not Runtime.DRAFT
    return paused and held and row.consumed_at is None and row.outcome is Outcome.NONE


def _end_of_wait(row: Approval) -> datetime | None:
    """When whoever asked had the answer, and could use it; None while there is none, and where it ran unasked."""
    if row.unasked:
        return None
    if row.valid_until is not None:
        # From then on it can be claimed: since the answer, or since its agent goes on.
        return row.valid_until - EXTERNAL_VALID
    return (row.consumed_at if row.runtime is Runtime.TURN else None) or row.decided_at


def _by(person: Person | None) -> str:
    return person.id if person is not None else "admin"


def _unknown(agent_id: str) -> Refusal:
    return Refusal("unknown_agent", say("agent_unknown", agent=agent_id))


def _not_yours(agent_id: str) -> Refusal:
    return Refusal("not_yours", say("agent_not_yours", agent=agent_id))


def _rules_not_yours(agent_id: str) -> Refusal:
    return Refusal("not_yours", say("rules_not_yours", agent=agent_id))


def _declined(rows: Sequence[Approval], delivery: str) -> Heard:
    return Heard("declined", rows[-1].run_id, tuple(row.id for row in rows), delivery)
