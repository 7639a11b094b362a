"""The one door: everything that may happen to an approval happens here, committed before it is told."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from core import changes
from core.approvals import (
    AUTO,
    Agent,
    Approval,
    AuditLine,
    Kind,
    Outcome,
    Person,
    Press,
    Reply,
    Runtime,
    Status,
    Tone,
    Verdict,
)
from core.asking import Unasked
from core.asks import (
    LIFETIME_DEFAULT_S,
    LIFETIME_MAX_S,
    LIFETIME_MIN_S,
    Asked,
    notify_text,
    presentation_text,
    run_text,
)
from core.beside import beside
from core.canonical import digest_of
from core.cards import Surroundings
from core.changes import EXTERNAL_VALID, Answer
from core.editing import Unchanged, Wrong, edited_at
from core.effects import Call
from core.identifiers import new_id
from core.judging import NOTE_LIMIT, Judge, Judged, storable
from core.languages import Spoken
from core.people import Directory, Place, Refusal, route_text
from core.ports import Admission, Bell, Clock, Feed, Gate, Ledger, Meter, Repeated, Store, Unavailable
from core.rulebooks import RuleBooks, runs_unlisted
from core.wording import say

log = logging.getLogger("placet.approvals")

REMIND_BEFORE = timedelta(hours=24)
SENDING_GRACE = timedelta(minutes=30)
NUDGE_AFTER = timedelta(seconds=5)
# When a run that waits for an agent to go on looks again by itself; the nudge at resuming is what it waits for.
LOOK_AGAIN = timedelta(hours=24)
AT_ONCE = 200
# How long the end of a process waits for what it still tells.
CLOSING_S = 5.0


@dataclass(frozen=True, slots=True)
class Origin:
    """Who asked, and the key under which asking again is the same ask (design section 5, step 1, and section 9)."""

    workflow_id: str | None = None
    first_run_id: str | None = None
    asked_by: str | None = None
    idempotency_key: str | None = None
    idempotency_hash: str | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    approval: Approval
    created: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """Leave to run the call once: the token to record the outcome with, and the arguments that were approved."""

    approval: Approval
    token: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Taken:
    """The row as a waiting run finds it.

    `claim` is set when this run may run the call now, and only then. `until` is set while there is nothing for it to
    do: when to look again, unless it is nudged before.
    """

    approval: Approval
    claim: Claim | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Unanswerable:
    """Why somebody's answer is not taken, and the row as trying it found and left it, if that changed it."""

    refusal: Refusal
    changed: Approval | None = None


# What somebody does to a row that they may answer: the row after it, why not, or None when another was faster.
_Judging = Callable[[Ledger, Approval, Person, datetime], Approval | Refusal | None]


class Approvals:
    """Opens, judges and settles approvals over the ports it is given."""

    def __init__(
        self, *, store: Store, gate: Gate, bell: Bell, feed: Feed, clock: Clock, meter: Meter, directory: Directory
    ) -> None:
        self.store, self.gate, self.bell, self.feed = store, gate, bell, feed
        self.clock, self.meter, self.directory = clock, meter, directory
        self.spoken = Spoken(directory.default_language)
        self.books = RuleBooks()
        self.judge = Judge(directory, clock, self.books, self.spoken)
        self._telling: set[asyncio.Task[object]] = set()

    # Opening

    async def open(self, asked: Asked, origin: Origin) -> Opened | Refusal:
        """Write the row of an ask, or find the one that the same origin wrote before.

        Refusal `idempotency_conflict` when the key was used for another body.
        """
        # A large call takes long to digest, which no press may wait for.
        content = asked.ask.tool, asked.ask.operation, run_text(asked.ask), asked.arguments_text
        digest = await beside(len(asked.arguments_text), partial(digest_of, *content))
        opened = await self.store.write(lambda ledger: self._open(ledger, asked, origin, digest))
        if isinstance(opened, Opened) and opened.created:
            approval = opened.approval
            log.info(
                "opened",
                extra={
                    "approval": approval.id,
                    "agent": approval.agent,
                    "tool": approval.tool,
                    "effect": approval.effect.value,
                    "runtime": approval.runtime.value,
                },
            )
            if approval.undeliverable is not None:
                log.warning("undeliverable", extra={"approval": approval.id, "reason": approval.undeliverable})
            if approval.pending:
                self._later(self.feed.publish(approval.id, approval.revision))
            else:
                # What runs unasked is told as what somebody allowed is.
                self._tell(approval, ring=False)
            if approval.workflow_id is None:
                self._later(self.bell.start(approval))
        return opened

    def _open(self, ledger: Ledger, asked: Asked, origin: Origin, digest: str) -> Opened | Refusal:
        if (before := self._asked_before(ledger, origin)) is not None:
            if before.idempotency_hash != origin.idempotency_hash:
                return Refusal("idempotency_conflict", say("idempotency_conflict"))
            return Opened(before, created=False)
        ask, now = asked.ask, self.clock.now()
        agent = ledger.agent(ask.agent, "share")
        unlisted = runs_unlisted(ask.tool, None if ask.run is None else ask.run.model_dump(), agent)
        call = Call(tool=ask.tool, operation=ask.operation, arguments=ask.arguments, agent=ask.agent, digest=digest,
                    presentation=ask.presentation, unlisted_run=unlisted)  # fmt: skip
        effect = self.books.effect(ledger, agent, call, ask.effect)
        route = self.directory.route(ledger, agent, call.agent, effect, call.tool)
        lifetime = min((s for s in (ask.timeout_s, route.timeout_s) if s is not None), default=LIFETIME_DEFAULT_S)
        expires_at = now + timedelta(seconds=max(LIFETIME_MIN_S, min(lifetime, LIFETIME_MAX_S)))
        approval = Approval(
            id=new_id(now), agent=ask.agent, tool=ask.tool, operation=ask.operation, effect=effect,
            runtime=asked.runtime, status=Status.PENDING, outcome=Outcome.NONE, revision=1, content_revision=1,
            arguments=asked.arguments_text, final_arguments=asked.arguments_text,
            presentation=presentation_text(ask), route=route_text(route),
            digest=digest, needed=route.needed,
            created_at=now, expires_at=expires_at, run=run_text(ask), reasoning=ask.reasoning, context=ask.context,
            on_behalf_of=ask.on_behalf_of, call_id=ask.call_id, run_id=ask.run_id, lane=ask.lane,
            generation=agent.generation if agent is not None else 1,
            workflow_id=origin.workflow_id, first_run_id=origin.first_run_id, asked_by=origin.asked_by,
            idempotency_key=origin.idempotency_key, idempotency_hash=origin.idempotency_hash,
            notify=notify_text(ask),
        )  # fmt: skip
        barred = self.directory.barred(ledger, approval)
        unasked = (
            None
            if agent is None
            else self.books.decide(ledger, agent, call, effect, now, needed=route.needed, barred=barred)
        )
        if isinstance(unasked, Unasked):
            approval = replace(
                approval, status=Status.APPROVED, decided_at=now, decided_by=AUTO, note=unasked.reason,
                decided_via="rule" if unasked.rule is not None else "mode",
                valid_until=now + EXTERNAL_VALID if asked.runtime is Runtime.EXTERNAL else None,
            )  # fmt: skip
        else:
            escalate_at = None if route.escalate is None else now + timedelta(seconds=route.escalate.after_s)
            approval = replace(
                approval, remind_at=_remind_at(now, expires_at, route.remind_s), escalate_at=escalate_at,
                undeliverable=self._unreachable(ledger, agent, approval, barred),
            )  # fmt: skip
        if not ledger.insert(approval):
            # Another transaction opened the same ask a moment before.
            found = self._asked_before(ledger, origin)
            if found is None:
                raise Unavailable("an approval of the same origin is being written; ask again")
            if found.idempotency_hash != origin.idempotency_hash:
                return Refusal("idempotency_conflict", say("idempotency_conflict"))
            return Opened(found, created=False)
        ledger.audit(AuditLine(approval.id, now, "opened", 1, identity=origin.asked_by, surface=asked.runtime.value))
        if not approval.pending:
            ledger.audit(AuditLine(approval.id, now, AUTO, 1, surface=approval.decided_via, note=approval.note))
        elif approval.undeliverable is not None:
            ledger.audit(AuditLine(approval.id, now, "undeliverable", 1, note=approval.undeliverable))
        return Opened(approval, created=True)

    @staticmethod
    def _asked_before(ledger: Ledger, origin: Origin) -> Approval | None:
        if origin.workflow_id and origin.first_run_id:
            return ledger.approval_of_run(origin.workflow_id, origin.first_run_id)
        if origin.asked_by and origin.idempotency_key:
            return ledger.approval_of_key(origin.asked_by, origin.idempotency_key)
        return None

    def _unreachable(self, ledger: Ledger, agent: Agent | None, approval: Approval, barred: str | None) -> str | None:
        if barred == "":
            return say("undeliverable_whose" if approval.on_behalf_of else "undeliverable_unnamed")
        if self.directory.places_asked(ledger, approval):
            return None
        return say("undeliverable_nobody") if agent is not None else say("undeliverable_unknown_agent")

    # Reading

    async def get(self, approval_id: str) -> Approval | None:
        """The row as it stands now, expiry applied."""
        approval = await self.store.read(lambda ledger: ledger.approval(approval_id))
        if approval is None or not changes.due(approval, self.clock.now()):
            return approval
        return await self._advance(approval_id)

    async def rows(
        self, *, status: Status | None = None, agent: str | None = None, limit: int = 100
    ) -> Sequence[Approval]:
        """Rows newest first, expiry applied, so that no list offers an answer that is too late."""
        while await self.expire_due(AT_ONCE) == AT_ONCE:
            pass
        return await self.store.read(lambda ledger: ledger.approvals(status=status, agent=agent, limit=limit))

    async def places(self, approval_id: str, *, missing: bool = False) -> Sequence[Place]:
        """Where the cards of this approval go, from its own snapshot of the route; or only where none stands yet."""

        def find(ledger: Ledger) -> Sequence[Place]:
            approval = ledger.approval(approval_id)
            places = self.directory.places(ledger, approval) if approval else ()
            if not missing:
                return places
            posted = {
                (row.destination, row.person) for row in ledger.posted_for(approval_id, Kind.CARD) if row.message_id
            }
            return [place for place in places if (place.destination.key, place.person) not in posted]

        return await self.store.read(find)

    def surroundings(
        self, ledger: Ledger, approval: Approval, allowing: Collection[str] | None = None, *, buttons: bool = True
    ) -> Surroundings:
        """What a card says of an approval that its row does not: people's names, votes, whether its agent is paused.

        `allowing`: the ids of those whose Allow counts, where they are known already. `buttons`: whether its buttons
        are shown.
        """
        agent = ledger.agent(approval.agent)
        allowed: tuple[str, ...] = ()
        if approval.needed > 1:
            ids = changes.allowing(ledger, self.directory, approval) if allowing is None else allowing
            allowed = tuple(person.name for person in map(ledger.person, sorted(ids)) if person is not None)
        return Surroundings(
            people=self.directory.names(ledger, approval),
            unlisted_run=runs_unlisted(approval.tool, json.loads(approval.run) if approval.run else None, agent),
            allowed=allowed,
            url_fields=self.books.named(ledger, agent, approval, lambda row: row.url_fields),
            recipients=self.books.named(ledger, agent, approval, lambda row: row.recipients),
            paused=agent is not None and agent.paused_at is not None,
            always=buttons and approval.pending and bool(self.judge.offers(ledger, approval, agent)),
        )

    # Deciding

    async def press(self, press: Press) -> Reply:
        """Judge a press or a reply from a chat; what comes back is for the presser alone.

        Raises Unavailable when the database cannot be reached: nothing was decided and the press may come again.
        """
        started = time.perf_counter()
        admission = await self.admitted(press)
        if isinstance(admission, Reply):
            return admission
        try:
            judged = await self.store.write(lambda ledger: self.judge.press(ledger, press))
        except Repeated:
            # One event of a platform decides one approval; this one has decided another.
            text = say("unknown_card", locale=self.spoken.to(press.actor, press.message))
            judged = Judged(Reply(text, Tone.ALERT, refused=True, result="unknown_card"))
        except Unavailable:
            self.meter.press(press.actor.platform, "unavailable", time.perf_counter() - started)
            raise
        if judged.reply.refused and admission.chat_empty:
            text = say("refused_short", locale=self.spoken.to(press.actor, press.message))
            judged = replace(judged, reply=replace(judged.reply, text=text))
        self._later(self._after(press, judged, time.perf_counter() - started))
        return judged.reply

    async def admitted(self, press: Press) -> Admission | Reply:
        """What the gate says of a press that it lets through; of another, what its presser is told."""
        started = time.perf_counter()
        admission = await self.gate.admit(press)
        if admission.answer is not None:
            result, reply = "repeated", admission.answer
        elif admission.wait_s:
            # Looked up nowhere: whoever presses too fast costs no query.
            result, locale = "too_fast", self.spoken.to(press.actor, press.message)
            reply = Reply(say("too_fast", locale=locale, seconds=admission.wait_s), Tone.ALERT, result=result)
        else:
            return admission
        self.meter.press(press.actor.platform, result, time.perf_counter() - started)
        return reply

    async def _after(self, press: Press, judged: Judged, seconds: float) -> None:
        """What follows a press off its path: telling, counting, logging, and keeping the reply for its repeats."""
        reply, changed = judged.reply, judged.changed
        self.meter.press(press.actor.platform, reply.result, seconds)
        more: dict[str, Any] = {"identity": press.actor.id, "ms": round(seconds * 1000, 1)}
        if changed is not None and changed.decision_key == press.key:
            # A press that decides has one line, the decision's.
            self._tell(changed, publish=False, **more)
            await self.feed.publish(changed.id, changed.revision)
        else:
            if changed is not None:
                self._tell(changed, settled=changed.dismissed_at is None, result=reply.result)
            elif judged.unheard is not None:
                self._later(self.bell.ring(judged.unheard))
            # A message in a private chat may be about no card.
            about = {"approval": reply.approval_id} if reply.approval_id else {}
            log.info("pressed", extra={**about, "platform": press.actor.platform, "result": reply.result, **more})
        if judged.rule and changed is not None:
            log.info("rule made", extra={"agent": changed.agent, "by": changed.decided_by, "rule": judged.rule})
        for row in judged.settled:
            self._tell(row, rule=judged.rule)
        if judged.again and changed is not None:
            await self.bell.start(changed)
        await self.gate.settle(press, reply)

    async def decide(
        self, approval_id: str, person_id: str, verdict: Verdict, *, content_revision: int | None, note: str | None,
        key: str, via: str, shown: str | None = None, by_message: bool = False,
    ) -> Approval | Refusal:  # fmt: skip
        """A decision by somebody who is known already (HTTP, command line); Allow needs the content revision seen.

        Refusals: not_found, not_entitled, not_asked, already_decided, expired, cancelled, changed, note_too_long.
        A repeat with the key of the decision that stands answers the same row again.
        """

        def judge(ledger: Ledger, current: Approval, person: Person, now: datetime) -> Approval | Refusal | None:
            if not current.pending:
                same = current.decision_key == key and current.decided_by == person.id
                return current if same else self._final(ledger, current, now)
            if changes.was_spent(ledger, current, key):
                return Refusal("already_decided", say("taken_back"))
            stale = content_revision != current.content_revision
            if stale and (verdict is Verdict.ALLOW or content_revision is not None):
                return Refusal("changed", say("changed_look_again"))
            if note is not None and len(note) > NOTE_LIMIT:
                return Refusal("note_too_long", say("note_too_long", limit=NOTE_LIMIT))
            given = changes.given(ledger, self.directory, current, verdict)
            if person.id in given and len(given) < current.needed:
                # Theirs is counted already; the same again is no other answer.
                return current
            said = Answer(person, verdict, key, via, None, storable(note or "").strip() or None, by_message,
                          ledger.show(shown, now) if shown else None)  # fmt: skip
            return changes.answer(ledger, current, said, now, given)

        return await self._answered(approval_id, person_id, via, judge)

    async def edit(
        self, approval_id: str, person_id: str, values: Mapping[str, Any], *, content_revision: int, via: str
    ) -> Approval | Refusal:
        """Change editable texts, by JSON pointer, to values of the same kind; who allows it looks at it anew.

        Refusals: not_found, not_entitled, own_request, already_decided, expired, cancelled, changed, bad_edit (says
        which pointer), unchanged.
        """

        def judge(ledger: Ledger, current: Approval, person: Person, now: datetime) -> Approval | Refusal | None:
            if not current.pending:
                return self._final(ledger, current, now)
            if content_revision != current.content_revision:
                return Refusal("changed", say("changed_look_again"))
            edit = edited_at(current, values)
            if isinstance(edit, Unchanged):
                return Refusal("unchanged", say("edit_unchanged"))
            if isinstance(edit, Wrong):
                return Refusal("bad_edit", say(edit.key, field=edit.label))
            effect = self.judge.reach_of(ledger, ledger.agent(current.agent), current, edit.arguments)
            if effect is None:
                return Refusal("bad_edit", say("edit_reaches_further", agent=current.agent))
            said = Answer(person, Verdict.ALLOW, "", via, note=", ".join(edit.pointers))
            return changes.edit(ledger, current, said, edit.arguments, edit.digest, effect, now)

        return await self._answered(approval_id, person_id, via, judge)

    async def _answered(self, approval_id: str, person_id: str, via: str, judge: _Judging) -> Approval | Refusal:
        """The row after what somebody wants of it, or why not; judged again as often as another was faster (None)."""

        def work(ledger: Ledger) -> tuple[Approval | Refusal, Approval | None]:
            while True:
                found = self._for_answer(ledger, approval_id, person_id, via)
                if isinstance(found, _Unanswerable):
                    return found.refusal, found.changed
                current, person, advanced = found
                done = judge(ledger, current, person, self.clock.now())
                if isinstance(done, Refusal) or done is current:
                    return done, advanced
                if done is not None:
                    return done, done

        answer, told = await self.store.write(work)
        if told is not None:
            self._tell(told)
        return answer

    def _for_answer(
        self, ledger: Ledger, approval_id: str, person_id: str, via: str
    ) -> tuple[Approval, Person, Approval | None] | _Unanswerable:
        """The row with the time applied, and the person, where the person may answer it; and the row if time changed
        it."""
        approval, person = ledger.approval(approval_id), ledger.person(person_id)
        if approval is None:
            return _Unanswerable(Refusal("not_found", say("unknown_card")))
        if person is None:
            return _Unanswerable(Refusal("not_entitled", say("not_linked", platform=via)))
        advanced = changes.advance(ledger, approval, self.clock.now())
        approval = advanced or approval
        if (why := self.directory.may_answer(ledger, approval, person)) is not None:
            return _Unanswerable(self.judge.refusal(ledger, approval, why), advanced)
        if self.judge.generation_over(approval, ledger.agent(approval.agent)):
            ended = self.judge.end_generation(ledger, approval, self.clock.now())
            over = Refusal("generation_over", say("generation_over", agent=approval.agent))
            return _Unanswerable(over, ended or advanced)
        return approval, person, advanced

    def _final(self, ledger: Ledger, approval: Approval, now: datetime) -> Refusal:
        code = {Status.EXPIRED: "expired", Status.CANCELLED: "cancelled"}.get(approval.status, "already_decided")
        return Refusal(code, self.judge.what_happened(ledger, approval, now))

    # The life of the row around the decision

    async def take(self, approval_id: str, run: str) -> Taken | None:
        """What a waiting run of the workflow finds when it wakes; an approved call is claimed for it in the same step.

        `run` is the run id of the workflow: the claim is given to one run only, again to the same one (its earlier
        answer may have been lost before the call was scheduled), and to no other. A row claimed by another run is
        `unknown` (design section 5, step 4).
        """

        def work(ledger: Ledger) -> tuple[Taken | None, Approval | None]:
            while True:
                approval = ledger.approval(approval_id)
                if approval is None:
                    return None, None
                agent, now = ledger.agent(approval.agent, "share"), self.clock.now()
                changed = changes.advance(ledger, approval, now)
                approval = changed or approval
                if approval.pending:
                    return Taken(approval, until=approval.look_again_at), changed
                if approval.runtime is Runtime.EXTERNAL:
                    return Taken(approval), changed
                runs = approval.status is Status.APPROVED and approval.run is not None
                if approval.claim_token is None and approval.outcome is Outcome.NONE:
                    if runs and self.judge.generation_over(approval, agent):
                        ended = self.judge.end_generation(ledger, approval, now)
                        if ended is None:
                            continue
                        return self._consumed(ledger, ended, now, touched), ended
                    if (until := _not_before(approval, agent, now)) is not None:
                        return Taken(approval, until=until), changed
                if not runs:
                    return self._consumed(ledger, approval, now, touched), changed
                if approval.claim_token is None and approval.outcome is Outcome.NONE:
                    claimed = changes.claim(ledger, approval, run, now)
                    if claimed is None or claimed.claim_token is None:
                        continue
                    return Taken(claimed, Claim(claimed, claimed.claim_token, claimed.final_arguments)), claimed
                if approval.outcome is Outcome.SENDING and approval.claim_token is not None:
                    if approval.claimed_by == run:
                        return Taken(approval, Claim(approval, approval.claim_token, approval.final_arguments)), None
                    broken = self._end(ledger, approval, Outcome.UNKNOWN, say("claimed_by_another_run"), now)
                    if broken is None:
                        continue
                    return Taken(broken), broken
                return self._consumed(ledger, approval, now, touched), changed

        touched: dict[str, int] = {}
        taken, told = await self.store.write(work)
        if told is not None:
            self._tell(told, ring=False)
        self.tell_touched(touched.items())
        return taken

    def _consumed(self, ledger: Ledger, approval: Approval, now: datetime, touched: dict[str, int]) -> Taken:
        """The answer that this run takes with it; a draft's card offers no Restore from here on."""
        consumed = changes.consume(ledger, self.directory, approval, now)
        if consumed is not approval and approval.restore_until is not None:
            touched[consumed.id] = consumed.revision
        return Taken(consumed)

    async def claim(self, approval_id: str, content_revision: int) -> Claim | Refusal:
        """The asker of an external call claims it, once, until `valid_until`.

        Refusals: not_found, not_external, not_approved, already_claimed, too_late, changed.
        """

        def work(ledger: Ledger) -> tuple[Claim | Refusal, Approval | None]:
            while True:
                approval = ledger.approval(approval_id)
                if approval is None:
                    return Refusal("not_found", say("unknown_card")), None
                # Before any row of it is changed.
                agent = ledger.agent(approval.agent, "share")
                now = self.clock.now()
                expired = changes.advance(ledger, approval, now)
                approval = expired or approval
                if approval.runtime is not Runtime.EXTERNAL:
                    return Refusal("not_external", say("not_external")), expired
                if self.judge.generation_over(approval, agent):
                    ended = self.judge.end_generation(ledger, approval, now)
                    return Refusal("generation_over", say("generation_over", agent=approval.agent)), ended
                if approval.status is not Status.APPROVED:
                    return Refusal("not_approved", say("not_approved")), expired
                if approval.claim_token is not None:
                    return Refusal("already_claimed", say("already_claimed")), None
                if approval.outcome is not Outcome.NONE:
                    return Refusal("too_late", say("claim_too_late")), None
                if agent is not None and agent.paused_at is not None:
                    return Refusal("paused", say("agent_is_paused", agent=approval.agent)), None
                if approval.valid_until is not None and approval.valid_until <= now:
                    ended = self._end(ledger, approval, Outcome.NOT_SENT, say("claim_too_late"), now)
                    if ended is None:
                        continue
                    return Refusal("too_late", say("claim_too_late")), ended
                if content_revision != approval.content_revision:
                    return Refusal("changed", say("changed_look_again")), None
                claimed = changes.claim(ledger, approval, "http", now, surface="http")
                if claimed is None or claimed.claim_token is None:
                    continue
                return Claim(claimed, claimed.claim_token, claimed.final_arguments), claimed

        claim, told = await self.store.write(work)
        if told is not None:
            self._tell(told, ring=False)
        return claim

    async def record(
        self, approval_id: str, claim_token: str, outcome: Outcome, error: str | None = None
    ) -> Approval | Refusal:
        """Store what became of a claimed call; the same again is no error. A late truth replaces `unknown`.

        Refusals: not_found, not_claimed (another token, or nothing claimed), already_recorded (another outcome).
        """

        def work(ledger: Ledger) -> tuple[Approval | Refusal, Approval | None]:
            while True:
                approval = ledger.approval(approval_id)
                if approval is None:
                    return Refusal("not_found", say("unknown_card")), None
                token = approval.claim_token
                if token is None or not secrets.compare_digest(token.encode(), claim_token.encode()):
                    return Refusal("not_claimed", say("not_claimed")), None
                if approval.outcome is outcome:
                    return approval, None
                if approval.outcome not in (Outcome.SENDING, Outcome.UNKNOWN):
                    return Refusal("already_recorded", say("already_recorded")), None
                note = None if error is None else storable(error)
                ended = self._end(ledger, approval, outcome, note, self.clock.now())
                if ended is not None:
                    return ended, ended

        answer, told = await self.store.write(work)
        if told is not None:
            self._tell(told, ring=False)
        return answer

    async def withdraw(self, approval_id: str, *, by: str, claimed_too: bool = False) -> Approval | Refusal:
        """The asker no longer wants it: pending becomes cancelled.

        With `claimed_too` (the waiting workflow was cancelled or has ended) what was approved and unclaimed becomes
        `not_sent`, and what was claimed `unknown`; without it a final row is refused (already_decided, expired).
        """

        def work(ledger: Ledger) -> tuple[Approval | Refusal, Approval | None]:
            while True:
                approval = ledger.approval(approval_id)
                if approval is None:
                    return Refusal("not_found", say("unknown_card")), None
                now = self.clock.now()
                changed = changes.advance(ledger, approval, now)
                approval = changed or approval
                if approval.pending:
                    ended = changes.cancel(ledger, self.directory, approval, by, now)
                    if ended is None:
                        continue
                    answer = changes.consume(ledger, self.directory, ended, now) if claimed_too else ended
                    return answer, ended
                if not claimed_too:
                    if approval.status is Status.CANCELLED:
                        return approval, None
                    return self._final(ledger, approval, now), changed
                if approval.status is Status.APPROVED and approval.run is not None:
                    if approval.outcome is Outcome.NONE:
                        ended = self._end(ledger, approval, Outcome.NOT_SENT, say("asker_left"), now)
                    elif approval.outcome is Outcome.SENDING:
                        ended = self._end(ledger, approval, Outcome.UNKNOWN, say("asker_left_running"), now)
                    else:
                        return changes.consume(ledger, self.directory, approval, now), changed
                    if ended is None:
                        continue
                    return changes.consume(ledger, self.directory, ended, now), ended
                return changes.consume(ledger, self.directory, approval, now), changed

        answer, told = await self.store.write(work)
        if told is not None:
            self._tell(told)
        return answer

    async def mark_undeliverable(self, approval_id: str, reason: str | None, *, unless_seen: bool = False) -> None:
        """Say on the row why no card of it can be seen, or that one can be now; it stays pending.

        `unless_seen`: nothing is said where some card stands, which is judged together with the change.
        """

        what = "undeliverable" if reason else "deliverable"

        def work(ledger: Ledger) -> Approval | None:
            while (approval := ledger.approval(approval_id)) is not None:
                if not approval.pending or approval.undeliverable == reason:
                    return None
                if unless_seen and any(card.message_id for card in ledger.posted_for(approval_id, Kind.CARD)):
                    return None
                # Two places that fail in turn, each for its own reason, would else write for as long as they do.
                if reason is not None and reason in _reasons_told(ledger.audit_of(approval_id)):
                    return None
                if (changed := ledger.change(approval, undeliverable=reason)) is not None:
                    ledger.audit(AuditLine(approval_id, self.clock.now(), what, changed.revision, note=reason))
                    return changed
            return None

        changed = await self.store.write(work)
        if changed is not None:
            log.log(logging.WARNING if reason else logging.INFO, what,
                    extra={"approval": approval_id, "reason": reason})  # fmt: skip
            self._later(self.feed.publish(changed.id, changed.revision))

    async def mark_reminded(self, approval_id: str) -> bool:
        """True for the one caller that may send the reminder: the row is pending, due for it, and was not reminded."""

        def work(ledger: Ledger) -> bool:
            while (approval := ledger.approval(approval_id)) is not None:
                now = self.clock.now()
                if not approval.pending or changes.due(approval, now) or approval.reminded_at is not None:
                    return False
                if (changed := ledger.change(approval, reminded_at=now)) is not None:
                    ledger.audit(AuditLine(approval_id, now, "reminded", changed.revision))
                    return True
            return False

        return await self.store.write(work)

    # What the sweep does again

    async def expire_due(self, limit: int = AT_ONCE) -> int:
        """Expire every pending row whose time has come; how many."""
        due = await self.store.read(lambda ledger: ledger.expiring(self.clock.now(), limit))
        for approval in due:
            await self._advance(approval.id)
        return len(due)

    async def _advance(self, approval_id: str) -> Approval | None:
        def work(ledger: Ledger) -> tuple[Approval | None, Approval | None]:
            approval = ledger.approval(approval_id)
            if approval is None:
                return None, None
            advanced = changes.advance(ledger, approval, self.clock.now())
            return advanced or approval, advanced

        approval, advanced = await self.store.write(work)
        if advanced is not None:
            self._tell(advanced)
        return approval

    async def settle_overdue(self, limit: int = AT_ONCE) -> int:
        """Calls `sending` for 30 min beyond their own time limit become unknown; unclaimed external ones not_sent."""

        def end(ledger: Ledger, approval: Approval) -> Approval | None:
            agent, now = ledger.agent(approval.agent, "share"), self.clock.now()
            if approval.outcome is Outcome.SENDING:
                return self._end(ledger, approval, Outcome.UNKNOWN, say("outcome_overdue"), now)
            if agent is not None and agent.paused_at is not None:
                # Nobody could claim it; it is valid anew when the agent goes on.
                return None
            return self._end(ledger, approval, Outcome.NOT_SENT, say("claim_too_late"), now)

        settled = 0
        before: datetime | None = self.clock.now()
        while before is not None:
            # Page after page: calls that may take long must not keep the others from being judged.
            rows = await self.store.read(lambda ledger, before=before: ledger.overdue(before, limit))  # type: ignore[misc]
            before = next((row.claimed_at for row in reversed(rows) if row.outcome is Outcome.SENDING), None)
            for row in rows:
                if not _overdue(row, self.clock.now()):
                    continue
                # One transaction each: who holds several rows may wait for one who waits for them.
                ended = await self.store.write(lambda ledger, row=row: end(ledger, row))  # type: ignore[misc]
                if ended is None:
                    continue
                self._tell(ended, ring=False)
                if ended.notify is not None:
                    # Whoever asked is told by a run of its own, unless the call's own run is there still.
                    self._later(self.bell.start(ended))
                settled += 1
        return settled

    async def ring_unconsumed(self, limit: int = AT_ONCE, after: timedelta = NUDGE_AFTER) -> int:
        """Ring again for every answer that nobody has consumed so long after it was given; how many."""
        return await self._ring_all(
            lambda ledger, before: ledger.unconsumed(before, limit),
            lambda approval: approval.decided_at,
            self.clock.now() - after,
        )

    def ring_soon(self) -> None:
        """An agent goes on, or was reset: ring what waited for that, off the caller's path."""
        self._later(self.ring_unconsumed(after=timedelta(0)))

    async def _ring_all(
        self, page: Callable[[Ledger, datetime], Sequence[Approval]], at: Callable[[Approval], datetime | None],
        before: datetime | None,
    ) -> int:  # fmt: skip
        """Ring page after page, newest first: what nobody can wake must not keep the rest asleep."""
        rung = 0
        while before is not None:
            rows = await self.store.read(lambda ledger, before=before: page(ledger, before))  # type: ignore[misc]
            for approval in rows:
                await self.bell.ring(approval)
            rung += len(rows)
            before = at(rows[-1]) if rows else None
        return rung

    def after_change_of_directory(self) -> None:
        """A link or an apply may have made somebody reachable: ring what nobody can see, off the caller's path."""
        self._later(self.ring_undeliverable())
        self._later(self._learn_languages())

    async def _learn_languages(self) -> None:
        with suppress(Unavailable):
            await self.store.read(self.spoken.learn)

    async def ring_undeliverable(self, limit: int = AT_ONCE) -> int:
        """Wake what waits with no card to be seen, so that it is posted where people can be reached now; how many."""
        return await self._ring_all(
            lambda ledger, before: ledger.unseen(before, limit), lambda approval: approval.created_at, self.clock.now()
        )

    async def start_missing(self, limit: int = AT_ONCE) -> int:
        """Start the workflow of every waiting row asked over HTTP that may have none; how many were looked at."""
        now = self.clock.now()
        rows = await self.store.read(lambda ledger: ledger.unstarted(now - NUDGE_AFTER, limit))
        for approval in rows:
            await self.bell.start(approval)

        def note(ledger: Ledger) -> None:
            for approval in rows:
                ledger.note_check(approval.id, now, approval.closed_rounds)

        if rows:
            await self.store.write(note)
        return len(rows)

    async def unsettled(self, limit: int = AT_ONCE) -> Sequence[Approval]:
        """Turn rows whose workflow is to be asked after, least recently checked first."""
        return await self.store.read(lambda ledger: ledger.unsettled(limit))

    async def note_closed(self, approval_id: str, closed: bool) -> None:
        """What the server said of a row's workflow; closed in two rounds settles the row as on cancel."""

        def work(ledger: Ledger) -> int:
            approval = ledger.approval(approval_id)
            if approval is None:
                return 0
            rounds = approval.closed_rounds + 1 if closed else 0
            ledger.note_check(approval_id, self.clock.now(), rounds)
            return rounds

        if await self.store.write(work) >= 2:
            log.warning("workflow closed", extra={"approval": approval_id})
            await self.withdraw(approval_id, by="sweep", claimed_too=True)

    # Inside a transaction

    def _end(
        self, ledger: Ledger, approval: Approval, outcome: Outcome, note: str | None, now: datetime
    ) -> Approval | None:
        return changes.end(ledger, self.directory, approval, outcome, note, now)

    # After a commit

    def tell_all(self, approvals: Iterable[Approval]) -> None:
        """Nudge and publish what a transaction changed that was written elsewhere."""
        for approval in approvals:
            self._tell(approval)

    def tell_touched(self, rows: Iterable[tuple[str, int]]) -> None:
        """Publish rows whose cards say something else now."""

        told = list(rows)

        async def publish() -> None:
            for approval_id, revision in told:
                await self.feed.publish(approval_id, revision)

        if told:
            self._later(publish())

    def _tell(
        self, approval: Approval, *, ring: bool = True, publish: bool = True, settled: bool = True, **more: object
    ) -> None:
        """Nudge and publish, off the caller's path; whatever is lost here, the sweep does again."""
        if ring and approval.claim_token is None:
            self._later(self.bell.ring(approval))
        if publish:
            self._later(self.feed.publish(approval.id, approval.revision))
        event = approval.outcome.value if approval.outcome is not Outcome.NONE else approval.status.value
        if approval.pending or not settled:
            # Whoever changed it is named by the line of the press, or of the request.
            log.info("changed", extra={"approval": approval.id, "revision": approval.revision, **more})
            return
        log.info(event, extra={"approval": approval.id, "by": approval.decided_by, "via": approval.decided_via,
                               "revision": approval.revision, **more})  # fmt: skip
        if approval.outcome not in (Outcome.NONE, Outcome.SENDING):
            self.meter.outcome(approval.outcome.value)
        elif approval.outcome is Outcome.NONE:
            self.meter.decision(approval.status.value, approval.decided_via or "none")

    def _later(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._telling.add(task)
        task.add_done_callback(self._told)

    def _told(self, task: asyncio.Task[object]) -> None:
        self._telling.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("telling failed", extra={"error": type(error).__name__}, exc_info=error)

    async def close(self) -> None:
        """Finish what is still being told, within a few seconds; what is left then, the sweep does again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                while self._telling:
                    await asyncio.wait(set(self._telling))
        for task in tuple(self._telling):
            task.cancel()
        await asyncio.gather(*self._telling, return_exceptions=True)


def _not_before(approval: Approval, agent: Agent | None, now: datetime) -> datetime | None:
    """When an answer may take effect that may not yet: while it can be taken back, and while its agent is paused."""
    for until in (approval.grace_until, approval.restore_until):
        if until is not None and until > now:
            return until
    if agent is not None and agent.paused_at is not None and approval.status is not Status.CANCELLED:
        return now + LOOK_AGAIN
    return None


def _remind_at(now: datetime, expires_at: datetime, before_s: int | None) -> datetime | None:
    if before_s is not None:
        at = expires_at - timedelta(seconds=before_s)
        return at if at > now else None
    return expires_at - REMIND_BEFORE if expires_at - now > REMIND_BEFORE else None


def _reasons_told(audit: Sequence[AuditLine]) -> set[str | None]:
    """Why no card could be seen, since one could last be seen."""
    since = max((at for at, line in enumerate(audit) if line.action == "deliverable"), default=-1)
    return {line.note for line in audit[since + 1 :] if line.action == "undeliverable"}


def _overdue(approval: Approval, now: datetime) -> bool:
    if approval.outcome is Outcome.SENDING and approval.claimed_at is not None:
        return approval.claimed_at + _time_limit(approval) + SENDING_GRACE <= now
    return approval.valid_until is not None and approval.valid_until <= now


def _time_limit(approval: Approval) -> timedelta:
    if approval.run is None:
        return timedelta(0)
    try:
        run = json.loads(approval.run)
        return timedelta(seconds=run["start_to_close_s"] + run["schedule_to_start_s"])
    except (ValueError, TypeError, KeyError):
        # Nobody can tell when it should have ended; one such row must not keep all others from being judged.
        return timedelta(0)
