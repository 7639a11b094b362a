"""The one door: everything that may happen to an approval happens here, committed before it is told."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from core.approvals import (
    Approval,
    AuditLine,
    Effect,
    Kind,
    Outcome,
    Person,
    Posted,
    Press,
    Reply,
    Runtime,
    Status,
    Tone,
    Verdict,
    Vote,
)
from core.asks import LIFETIME_DEFAULT_S, LIFETIME_MAX_S, LIFETIME_MIN_S, Asked, presentation_text, run_text
from core.beside import beside
from core.buttons import Verb
from core.canonical import digest_of
from core.identifiers import new_id
from core.languages import Spoken
from core.people import Directory, Place, Refusal, route_of, route_text
from core.ports import Bell, Clock, Feed, Gate, Ledger, Meter, Repeated, Store, Unavailable
from core.wording import is_affirmative, say, say_on, when_text

log = logging.getLogger("placet.approvals")

REMIND_BEFORE = timedelta(hours=24)
EXTERNAL_VALID = timedelta(hours=1)
SENDING_GRACE = timedelta(minutes=30)
NUDGE_AFTER = timedelta(seconds=5)
NOTE_LIMIT = 4000
AT_ONCE = 200
VERBS = frozenset(Verb)


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
    """The row as a waiting run finds it. `claim` is set when this run may run the call now, and only then."""

    approval: Approval
    claim: Claim | None = None


@dataclass(frozen=True, slots=True)
class _Judged:
    """What became of a press: the reply; the row it changed; the decided row that nobody may have been told of."""

    reply: Reply
    changed: Approval | None = None
    unheard: Approval | None = None


class Approvals:
    """Opens, judges and settles approvals over the ports it is given."""

    def __init__(
        self, *, store: Store, gate: Gate, bell: Bell, feed: Feed, clock: Clock, meter: Meter, directory: Directory
    ) -> None:
        self.store, self.gate, self.bell, self.feed = store, gate, bell, feed
        self.clock, self.meter, self.directory = clock, meter, directory
        self.spoken = Spoken(directory.default_language)
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
            self._later(self.feed.publish(approval.id, approval.revision))
            if approval.workflow_id is None:
                self._later(self.bell.start(approval))
        return opened

    def _open(self, ledger: Ledger, asked: Asked, origin: Origin, digest: str) -> Opened | Refusal:
        if (before := self._asked_before(ledger, origin)) is not None:
            if before.idempotency_hash != origin.idempotency_hash:
                return Refusal("idempotency_conflict", say("idempotency_conflict"))
            return Opened(before, created=False)
        ask, now = asked.ask, self.clock.now()
        agent = ledger.agent(ask.agent)
        # Every call is held, as one that reaches out, until the table of effects is built (design section 6).
        effect = max(Effect.SEND, ask.effect or Effect.SEND, key=lambda effect: effect.rank)
        route = self.directory.route(ledger, ask.agent, effect, ask.tool)
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
            workflow_id=origin.workflow_id, first_run_id=origin.first_run_id, asked_by=origin.asked_by,
            idempotency_key=origin.idempotency_key, idempotency_hash=origin.idempotency_hash,
            remind_at=_remind_at(now, expires_at, route.remind_s),
            undeliverable=self._unreachable(ledger, agent is not None, self.directory.places(ledger, route)),
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
        return Opened(approval, created=True)

    @staticmethod
    def _asked_before(ledger: Ledger, origin: Origin) -> Approval | None:
        if origin.workflow_id and origin.first_run_id:
            return ledger.approval_of_run(origin.workflow_id, origin.first_run_id)
        if origin.asked_by and origin.idempotency_key:
            return ledger.approval_of_key(origin.asked_by, origin.idempotency_key)
        return None

    @staticmethod
    def _unreachable(ledger: Ledger, known: bool, places: Sequence[Place]) -> str | None:
        if places:
            return None
        return say("undeliverable_nobody") if known else say("undeliverable_unknown_agent")

    # Reading

    async def get(self, approval_id: str) -> Approval | None:
        """The row as it stands now, expiry applied."""
        approval = await self.store.read(lambda ledger: ledger.approval(approval_id))
        if approval is None or not self._due(approval, self.clock.now()):
            return approval
        return await self._expire(approval_id)

    async def rows(
        self, *, status: Status | None = None, agent: str | None = None, limit: int = 100
    ) -> Sequence[Approval]:
        """Rows newest first, expiry applied, so that no list offers an answer that is too late."""
        while await self.expire_due(AT_ONCE) == AT_ONCE:
            pass
        return await self.store.read(lambda ledger: ledger.approvals(status=status, agent=agent, limit=limit))

    async def places(self, approval_id: str) -> Sequence[Place]:
        """Where the cards of this approval go, from its own snapshot of the route."""

        def find(ledger: Ledger) -> Sequence[Place]:
            approval = ledger.approval(approval_id)
            return self.directory.places(ledger, route_of(approval)) if approval else ()

        return await self.store.read(find)

    # Deciding

    async def press(self, press: Press) -> Reply:
        """Judge a press or a reply from a chat; what comes back is for the presser alone.

        Raises Unavailable when the database cannot be reached: nothing was decided and the press may come again.
        """
        started = time.perf_counter()
        admission = await self.gate.admit(press)
        if admission.answer is not None:
            self.meter.press(press.actor.platform, "repeated", time.perf_counter() - started)
            return admission.answer
        if admission.wait_s:
            self.meter.press(press.actor.platform, "too_fast", time.perf_counter() - started)
            return Reply(say("too_fast", seconds=admission.wait_s), Tone.ALERT, result="too_fast")
        try:
            judged = await self.store.write(lambda ledger: self._press(ledger, press))
        except Repeated:
            # One event of a platform decides one approval; this one has decided another.
            judged = _Judged(Reply(say("unknown_card"), Tone.ALERT, refused=True, result="unknown_card"))
        except Unavailable:
            self.meter.press(press.actor.platform, "unavailable", time.perf_counter() - started)
            raise
        if judged.reply.refused and admission.chat_empty:
            judged = replace(judged, reply=replace(judged.reply, text=say("refused_short")))
        self._later(self._after(press, judged, time.perf_counter() - started))
        return judged.reply

    async def _after(self, press: Press, judged: _Judged, seconds: float) -> None:
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
                self._tell(changed)
            elif judged.unheard is not None:
                self._later(self.bell.ring(judged.unheard))
            log.info("pressed", extra={"approval": reply.approval_id, "platform": press.actor.platform,
                                       "result": reply.result, **more})  # fmt: skip
        await self.gate.settle(press, reply)

    def _press(self, ledger: Ledger, press: Press) -> _Judged:
        if press.text is not None:
            # A form carries the token of the button that opened it: it may belong to a copy that a crash left behind.
            found = ledger.posted_at(press.message) or (ledger.posted_of_token(press.token) if press.token else None)
        else:
            found = ledger.posted_of_token(press.token) if press.verb in VERBS else None
        if found is None:
            return _Judged(Reply(say("unknown_card"), Tone.ALERT, refused=True, result="unknown_card"))
        posted, approval = found
        if not self._from_its_place(ledger, posted, press):
            return _Judged(Reply(say("wrong_place"), Tone.ALERT, refused=True, result="wrong_place"))
        person = ledger.person_of(press.actor)
        if person is None:
            text = say_on(press.actor.platform, "not_linked", platform=press.actor.platform)
            return _Judged(self._refused(approval, "not_linked", text))
        if (why := self.directory.may_answer(ledger, approval, person)) is not None:
            return _Judged(self._refused(approval, why, self._who_may(ledger, approval, why)))
        verdict = Verdict.ALLOW if press.verb == Verb.ALLOW else Verdict.DECLINE
        note = _storable(press.text).strip() if press.text is not None else None
        while True:
            now = self.clock.now()
            expired = self._expire_if_due(ledger, approval, now)
            current = expired or approval
            reply = self._before_deciding(ledger, current, posted, person, press, verdict, now)
            if reply is not None:
                # The process that committed this very press may have been killed before it could tell the workflow.
                same = current.decision_key == press.key and current.consumed_at is None
                return _Judged(reply, expired, unheard=current if same else None)
            # A form, or an answer to the prompt, is the note of a press; any other text came instead of one.
            unasked = note is not None and not press.token and posted.kind is not Kind.PROMPT
            decided = self._decide(
                ledger, current, person, verdict, note=note, by_message=unasked, key=press.key,
                via=press.actor.platform, identity=press.actor.id, shown_id=posted.shown_id, now=now,
            )  # fmt: skip
            if decided is not None:
                key = "declined_with_note" if note else "allowed" if verdict is Verdict.ALLOW else "declined"
                reply = Reply(say(key, agent=approval.agent, tool=approval.tool), Tone.GOOD, redraw=True,
                              approval_id=approval.id, result=decided.status.value)  # fmt: skip
                return _Judged(reply, decided)
            # The compare-and-swap was lost: judge again on what stands there now.
            again = ledger.approval(approval.id)
            if again is None:
                raise LookupError("an approval vanished while it was being decided")
            approval = again

    def _before_deciding(
        self, ledger: Ledger, approval: Approval, posted: Posted, person: Person, press: Press, verdict: Verdict,
        now: datetime,
    ) -> Reply | None:  # fmt: skip
        """What is said instead of deciding, or None when this press decides."""
        if not approval.pending:
            return self._too_late(ledger, approval, posted, person, press, verdict, now)
        if press.text is not None:
            if is_affirmative(press.text):
                return self._said(approval, "press_allow_instead", Tone.ALERT)
            if not _storable(press.text).strip():
                return self._said(approval, "note_empty", Tone.ALERT)
            if len(press.text) > NOTE_LIMIT:
                return self._said(approval, "note_too_long", Tone.ALERT, limit=NOTE_LIMIT)
            return None
        if press.content_revision != approval.content_revision:
            return replace(self._said(approval, "changed_look_again", Tone.ALERT), redraw=True)
        if press.verb == Verb.NOTE:
            return replace(self._said(approval, "note_prompt", Tone.QUIET, agent=approval.agent), ask_note=True)
        if verdict is Verdict.ALLOW and posted.attached_revision != approval.content_revision:
            return self._said(approval, "still_attaching", Tone.ALERT)
        return None

    def _too_late(
        self, ledger: Ledger, approval: Approval, posted: Posted, person: Person, press: Press, verdict: Verdict,
        now: datetime,
    ) -> Reply:  # fmt: skip
        mine = approval.decided_by == person.id and approval.decision_key is not None
        same = approval.status is (Status.APPROVED if verdict is Verdict.ALLOW else Status.DECLINED)
        # Another note goes to nobody, so it is not told that it did.
        same = same and (press.text is None or _storable(press.text).strip() == approval.note)
        redraw = posted.shown_revision != approval.revision or posted.message_id != press.message.id
        if mine and same:
            # The same person once more: the first answer again, so that a double press looks like one.
            key = "declined_with_note" if approval.note else "allowed" if verdict is Verdict.ALLOW else "declined"
            reply = self._said(approval, key, Tone.GOOD, agent=approval.agent, tool=approval.tool)
        else:
            reply = Reply(self._what_happened(ledger, approval, now), Tone.ALERT, approval_id=approval.id,
                          result="too_late")  # fmt: skip
        return replace(reply, redraw=redraw)

    @staticmethod
    def _what_happened(ledger: Ledger, approval: Approval, now: datetime) -> str:
        if approval.status is Status.EXPIRED:
            return say("already_expired", when=when_text(approval.decided_at or approval.expires_at, now))
        if approval.status is Status.CANCELLED:
            return say("already_cancelled", when=when_text(approval.decided_at or now, now))
        what = say("status_approved" if approval.status is Status.APPROVED else "status_declined")
        person = ledger.person(approval.decided_by) if approval.decided_by else None
        return say("already_decided", who=person.name if person else approval.decided_by or "", what=what,
                   when=when_text(approval.decided_at or now, now), where=approval.decided_via or "")  # fmt: skip

    @staticmethod
    def _said(approval: Approval, key: str, tone: Tone, **values: object) -> Reply:
        return Reply(say(key, locale="en", **values), tone, approval_id=approval.id, result=key)

    @staticmethod
    def _refused(approval: Approval, code: str, text: str) -> Reply:
        return Reply(text, Tone.ALERT, refused=True, approval_id=approval.id, result=code)

    def _who_may(self, ledger: Ledger, approval: Approval, why: str) -> str:
        who = ", ".join(person.name for person in self.directory.answerers(ledger, approval))
        return say(why, who=who or say("nobody"))

    @staticmethod
    def _from_its_place(ledger: Ledger, posted: Posted, press: Press) -> bool:
        """A token works only in the chat, before and after it moved, and through the account it was posted with."""
        here = press.message
        if here.platform != posted.platform:
            return False
        if posted.message_id is not None and here.account != posted.account:
            return False
        if here.chat == posted.chat:
            return True
        # A card stays behind in a chat that moved: pressed there, or where the chat is now, it is the same card.
        there, now = (ledger.moved_to(here.platform, here.account, chat) for chat in (here.chat, posted.chat))
        return there == now

    async def decide(
        self, approval_id: str, person_id: str, verdict: Verdict, *, content_revision: int | None, note: str | None,
        key: str, via: str, shown: str | None = None, by_message: bool = False,
    ) -> Approval | Refusal:  # fmt: skip
        """A decision by somebody who is known already (HTTP, command line); Allow needs the content revision seen.

        Refusals: not_found, not_entitled, not_asked, already_decided, expired, cancelled, changed, note_too_long.
        A repeat with the key of the decision that stands answers the same row again.
        """

        def work(ledger: Ledger) -> tuple[Approval | Refusal, Approval | None]:
            approval, person = ledger.approval(approval_id), ledger.person(person_id)
            if approval is None:
                return Refusal("not_found", say("unknown_card")), None
            if person is None:
                return Refusal("not_entitled", say("not_linked", platform=via)), None
            if (why := self.directory.may_answer(ledger, approval, person)) is not None:
                return Refusal("not_entitled", self._who_may(ledger, approval, why)), None
            while True:
                now = self.clock.now()
                expired = self._expire_if_due(ledger, approval, now)
                current = expired or approval
                if not current.pending:
                    if current.decision_key == key and current.decided_by == person.id:
                        return current, expired
                    code = {Status.EXPIRED: "expired", Status.CANCELLED: "cancelled"}.get(
                        current.status, "already_decided"
                    )
                    return Refusal(code, self._what_happened(ledger, current, now)), expired
                stale = content_revision != current.content_revision
                if stale and (verdict is Verdict.ALLOW or content_revision is not None):
                    return Refusal("changed", say("changed_look_again")), expired
                if note is not None and len(note) > NOTE_LIMIT:
                    return Refusal("note_too_long", say("note_too_long", limit=NOTE_LIMIT)), expired
                decided = self._decide(
                    ledger, current, person, verdict, note=_storable(note or "").strip() or None, by_message=by_message,
                    key=key, via=via, identity=None, shown_id=ledger.show(shown, now) if shown else None, now=now,
                )  # fmt: skip
                if decided is not None:
                    return decided, decided
                again = ledger.approval(approval_id)
                if again is None:
                    return Refusal("not_found", say("unknown_card")), None
                approval = again

        answer, told = await self.store.write(work)
        if told is not None:
            self._tell(told)
        return answer

    def _decide(
        self, ledger: Ledger, approval: Approval, person: Person, verdict: Verdict, *, note: str | None,
        by_message: bool, key: str, via: str, identity: str | None, shown_id: str | None, now: datetime,
    ) -> Approval | None:  # fmt: skip
        """The decision itself: compare-and-swap first, then vote and audit line; None when the swap was lost."""
        allow = verdict is Verdict.ALLOW
        columns: dict[str, Any] = {
            "status": Status.APPROVED if allow else Status.DECLINED,
            "decided_at": now,
            "decided_by": person.id,
            "decided_via": via,
            "decision_key": key,
            "note": note,
            "by_message": by_message,
            "valid_until": now + EXTERNAL_VALID if allow and approval.runtime is Runtime.EXTERNAL else None,
        }
        decided = ledger.change(approval, **columns)
        if decided is None:
            return None
        ledger.vote(approval.id, Vote(person.id, approval.content_revision, verdict.value, now))
        ledger.audit(AuditLine(approval.id, now, verdict.value, decided.revision, person=person.id,
                               identity=identity, surface=via, note=note, shown_id=shown_id))  # fmt: skip
        return decided

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
                now = self.clock.now()
                changed = self._expire_if_due(ledger, approval, now)
                approval = changed or approval
                if approval.pending or approval.runtime is Runtime.EXTERNAL:
                    return Taken(approval), changed
                runs = approval.status is Status.APPROVED and approval.run is not None
                if not runs:
                    return Taken(self._consume(ledger, approval, now)), changed
                if approval.claim_token is None and approval.outcome is Outcome.NONE:
                    token = secrets.token_urlsafe(16)
                    claimed = ledger.change(approval, outcome=Outcome.SENDING, claim_token=token, claimed_by=run,
                                            claimed_at=now, consumed_at=now)  # fmt: skip
                    if claimed is None:
                        continue
                    ledger.audit(AuditLine(approval.id, now, "claimed", claimed.revision, identity=run))
                    return Taken(claimed, Claim(claimed, token, claimed.final_arguments)), claimed
                if approval.outcome is Outcome.SENDING and approval.claim_token is not None:
                    if approval.claimed_by == run:
                        return Taken(approval, Claim(approval, approval.claim_token, approval.final_arguments)), None
                    broken = self._end(ledger, approval, Outcome.UNKNOWN, say("claimed_by_another_run"), now)
                    if broken is None:
                        continue
                    return Taken(broken), broken
                return Taken(approval), changed

        taken, told = await self.store.write(work)
        if told is not None:
            self._tell(told, ring=False)
        return taken

    @staticmethod
    def _consume(ledger: Ledger, approval: Approval, now: datetime) -> Approval:
        if approval.consumed_at is not None:
            return approval
        # A lost swap only means that somebody else changed the row; the sweep rings until it is consumed.
        return ledger.change(approval, consumed_at=now) or approval

    async def claim(self, approval_id: str, content_revision: int) -> Claim | Refusal:
        """The asker of an external call claims it, once, until `valid_until`.

        Refusals: not_found, not_external, not_approved, already_claimed, too_late, changed.
        """

        def work(ledger: Ledger) -> tuple[Claim | Refusal, Approval | None]:
            while True:
                approval = ledger.approval(approval_id)
                if approval is None:
                    return Refusal("not_found", say("unknown_card")), None
                now = self.clock.now()
                expired = self._expire_if_due(ledger, approval, now)
                approval = expired or approval
                if approval.runtime is not Runtime.EXTERNAL:
                    return Refusal("not_external", say("not_external")), expired
                if approval.status is not Status.APPROVED:
                    return Refusal("not_approved", say("not_approved")), expired
                if approval.claim_token is not None:
                    return Refusal("already_claimed", say("already_claimed")), None
                if approval.outcome is not Outcome.NONE:
                    return Refusal("too_late", say("claim_too_late")), None
                if approval.valid_until is not None and approval.valid_until <= now:
                    ended = self._end(ledger, approval, Outcome.NOT_SENT, say("claim_too_late"), now)
                    if ended is None:
                        continue
                    return Refusal("too_late", say("claim_too_late")), ended
                if content_revision != approval.content_revision:
                    return Refusal("changed", say("changed_look_again")), None
                token = secrets.token_urlsafe(16)
                claimed = ledger.change(approval, outcome=Outcome.SENDING, claim_token=token, claimed_by="http",
                                        claimed_at=now, consumed_at=now)  # fmt: skip
                if claimed is None:
                    continue
                ledger.audit(AuditLine(approval.id, now, "claimed", claimed.revision, surface="http"))
                return Claim(claimed, token, claimed.final_arguments), claimed

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
                note = None if error is None else _storable(error)
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
                changed = self._expire_if_due(ledger, approval, now)
                approval = changed or approval
                if approval.pending:
                    ended = ledger.change(approval, status=Status.CANCELLED, decided_at=now, decided_via=by,
                                          consumed_at=now)  # fmt: skip
                    if ended is None:
                        continue
                    ledger.audit(AuditLine(approval.id, now, "cancelled", ended.revision, identity=by))
                    return ended, ended
                if not claimed_too:
                    if approval.status is Status.CANCELLED:
                        return approval, None
                    code = "expired" if approval.status is Status.EXPIRED else "already_decided"
                    return Refusal(code, self._what_happened(ledger, approval, now)), changed
                if approval.status is Status.APPROVED and approval.run is not None:
                    if approval.outcome is Outcome.NONE:
                        ended = self._end(ledger, approval, Outcome.NOT_SENT, say("asker_left"), now)
                    elif approval.outcome is Outcome.SENDING:
                        ended = self._end(ledger, approval, Outcome.UNKNOWN, say("asker_left_running"), now)
                    else:
                        return approval, changed
                    if ended is None:
                        continue
                    return ended, ended
                return self._consume(ledger, approval, now), changed

        answer, told = await self.store.write(work)
        if told is not None:
            self._tell(told)
        return answer

    async def mark_undeliverable(self, approval_id: str, reason: str | None) -> None:
        """Say on the row why no card of it can be seen, or that one can be now; it stays pending."""

        def work(ledger: Ledger) -> Approval | None:
            while (approval := ledger.approval(approval_id)) is not None:
                if not approval.pending or approval.undeliverable == reason:
                    return None
                if (changed := ledger.change(approval, undeliverable=reason)) is not None:
                    return changed
            return None

        changed = await self.store.write(work)
        if changed is not None:
            log.log(logging.WARNING if reason else logging.INFO, "undeliverable" if reason else "deliverable",
                    extra={"approval": approval_id, "reason": reason})  # fmt: skip
            self._later(self.feed.publish(changed.id, changed.revision))

    async def mark_reminded(self, approval_id: str) -> bool:
        """True for the one caller that may send the reminder: the row is pending, due for it, and was not reminded."""

        def work(ledger: Ledger) -> bool:
            while (approval := ledger.approval(approval_id)) is not None:
                now = self.clock.now()
                if not approval.pending or self._due(approval, now) or approval.reminded_at is not None:
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
            await self._expire(approval.id)
        return len(due)

    async def _expire(self, approval_id: str) -> Approval | None:
        def work(ledger: Ledger) -> tuple[Approval | None, Approval | None]:
            approval = ledger.approval(approval_id)
            if approval is None:
                return None, None
            expired = self._expire_if_due(ledger, approval, self.clock.now())
            return expired or approval, expired

        approval, expired = await self.store.write(work)
        if expired is not None:
            self._tell(expired)
        return approval

    async def settle_overdue(self, limit: int = AT_ONCE) -> int:
        """Calls `sending` for 30 min beyond their own time limit become unknown; unclaimed external ones not_sent."""

        def work(ledger: Ledger, before: datetime) -> tuple[list[Approval], datetime | None]:
            now, ended, earliest = self.clock.now(), [], None
            for approval in ledger.overdue(before, limit):
                if approval.outcome is Outcome.SENDING and approval.claimed_at is not None:
                    earliest = approval.claimed_at
                    if approval.claimed_at + _time_limit(approval) + SENDING_GRACE <= now:
                        ended.append(self._end(ledger, approval, Outcome.UNKNOWN, say("outcome_overdue"), now))
                elif approval.valid_until is not None and approval.valid_until <= now:
                    ended.append(self._end(ledger, approval, Outcome.NOT_SENT, say("claim_too_late"), now))
            return [approval for approval in ended if approval is not None], earliest

        settled = 0
        before: datetime | None = self.clock.now()
        while before is not None:
            # Page after page: calls that may take long must not keep the others from being judged.
            ended, before = await self.store.write(lambda ledger, before=before: work(ledger, before))  # type: ignore[misc]
            for approval in ended:
                self._tell(approval, ring=False)
            settled += len(ended)
        return settled

    async def ring_unconsumed(self, limit: int = AT_ONCE) -> int:
        """Ring again for every answer that nobody has consumed 5 s after it was given; how many."""
        return await self._ring_all(
            lambda ledger, before: ledger.unconsumed(before, limit),
            lambda approval: approval.decided_at,
            self.clock.now() - NUDGE_AFTER,
        )

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

    @staticmethod
    def _due(approval: Approval, now: datetime) -> bool:
        return approval.pending and approval.expires_at <= now

    def _expire_if_due(self, ledger: Ledger, approval: Approval, now: datetime) -> Approval | None:
        """The expired row when its time had come and this call expired it; else None."""
        if not self._due(approval, now):
            return None
        expired = ledger.change(approval, status=Status.EXPIRED, decided_at=now)
        if expired is not None:
            ledger.audit(AuditLine(approval.id, now, "expired", expired.revision))
        return expired

    @staticmethod
    def _end(ledger: Ledger, approval: Approval, outcome: Outcome, note: str | None, now: datetime) -> Approval | None:
        ended = ledger.change(approval, outcome=outcome, outcome_note=note, outcome_at=now,
                              consumed_at=approval.consumed_at or now)  # fmt: skip
        if ended is not None:
            ledger.audit(AuditLine(approval.id, now, outcome.value, ended.revision))
        return ended

    # After a commit

    def _tell(self, approval: Approval, *, ring: bool = True, publish: bool = True, **more: object) -> None:
        """Nudge and publish, off the caller's path; whatever is lost here, the sweep does again."""
        if ring and approval.claim_token is None:
            self._later(self.bell.ring(approval))
        if publish:
            self._later(self.feed.publish(approval.id, approval.revision))
        event = approval.outcome.value if approval.outcome is not Outcome.NONE else approval.status.value
        log.info(event, extra={"approval": approval.id, "by": approval.decided_by, "via": approval.decided_via,
                               "revision": approval.revision, **more})  # fmt: skip
        if approval.outcome not in (Outcome.NONE, Outcome.SENDING):
            self.meter.outcome(approval.outcome.value)
        elif approval.outcome is Outcome.NONE and not approval.pending:
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
        """Finish what is still being told."""
        while self._telling:
            await asyncio.wait(set(self._telling))


def _storable(text: str) -> str:
    """A text without what no database holds: U+0000, and halves of surrogate pairs."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")


def _remind_at(now: datetime, expires_at: datetime, before_s: int | None) -> datetime | None:
    if before_s is not None:
        at = expires_at - timedelta(seconds=before_s)
        return at if at > now else None
    return expires_at - REMIND_BEFORE if expires_at - now > REMIND_BEFORE else None


def _time_limit(approval: Approval) -> timedelta:
    if approval.run is None:
        return timedelta(0)
    try:
        run = json.loads(approval.run)
        return timedelta(seconds=run["start_to_close_s"] + run["schedule_to_start_s"])
    except (ValueError, TypeError, KeyError):
        # Nobody can tell when it should have ended; one such row must not keep all others from being judged.
        return timedelta(0)
